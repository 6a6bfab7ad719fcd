"""One session of an editor: sends its updates, runs its prompts and asks its user.

One task follows the session's events, so that updates arrive in order and before the response to
the prompt that they belong to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import attrs
import trio
from hilum import HilumError, Plans, PromptDenied, Run, Session
from hilum import events as ev
from hilum.errors import E_CONTENT, E_OUTPUT_LIMIT, E_TURN_LIMIT, E_UNKNOWN
from hilum_view import Approval, Card, Question

from hilum_acp.approvals import ask_approval
from hilum_acp.client import Client
from hilum_acp.config_options import (
    describe_modes,
    describe_options,
    find_current_model,
    list_models,
    set_option,
)
from hilum_acp.editor_terminals import EditorTerminals
from hilum_acp.json_rpc import ConnectionLost, RpcError
from hilum_acp.prompts import ReadPrompt, read_prompt
from hilum_acp.questions import ask_about_plan, ask_question
from hilum_acp.rpc_errors import describe_failure, find_number, make_login_error, to_rpc_error
from hilum_acp.settings import read_settings
from hilum_acp.slash_commands import find_unknown_command, list_slash_commands
from hilum_acp.tool_calls import name_call
from hilum_acp.updates import Update, UpdateMaker, make_chunk

_logger = logging.getLogger("hilum.acp")
CONTINUE = "continue"
CANCELLED = {"stopReason": "cancelled"}
_INTERRUPTED = f"[The run was interrupted. `/{CONTINUE}` continues it; another prompt ends it.]"
STOP_SECONDS = 10.0
"""How long the end of a session waits for its runs to end."""
_STOP_REASONS = {
    "completed": "end_turn",
    "partial_success": "end_turn",
    "stopped": "cancelled",
    "interrupted": "cancelled",
}
_STOP_REASONS_BY_CODE = {
    E_TURN_LIMIT: "max_turn_requests",
    E_OUTPUT_LIMIT: "max_tokens",
    E_CONTENT: "refusal",
}


@attrs.define(eq=False)
class _RunningPrompt:
    """A prompt that has not been answered.

    Attributes:
        scope: Cancelled to end it.
        has_run: Set once the session has its run, or has refused it.
    """

    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    has_run: trio.Event = attrs.field(factory=trio.Event)


class EditorSession:
    """A session that an editor has open.

    Args:
        client: The editor.
        session: The session.
        shows_history: Whether the editor gets the events before the session was opened.
    """

    def __init__(self, client: Client, session: Session, *, shows_history: bool) -> None:
        self.session = session
        self._client = client
        self._shows_history = shows_history
        self._maker = UpdateMaker(
            session.workspace.root, client.abilities, trio.current_time, self._find_window
        )
        self._terminals = EditorTerminals(client, session, self._show_terminal)
        self._caught_up = trio.Event()
        # Number of the last end of a run whose updates were sent, and an event for the next one.
        self._shown_end = 0
        self._end_shown = trio.Event()
        self._sends_output = False
        self._prompts: set[_RunningPrompt] = set()
        # The questions about plans that are open.
        self._deciding: set[trio.CancelScope] = set()
        self._has_ended = False
        self._asking: dict[str, trio.CancelScope] = {}
        # Open in the log of an earlier process: nothing waits for their answers.
        self._stale: set[str] = set()
        self._models: Sequence[str] = ()
        self._cancels = 0
        self._replies = 0
        self._announced = trio.Event()
        self._is_used = session.began_at > 0

    # --- opening and closing ----------------------------------------------------------------------

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Send updates until the session closes or the editor leaves."""
        try:
            self._models = await list_models(self.session)
            current = await find_current_model(self.session)
            if current and current not in self._models:
                self._models = [current, *self._models]
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._follow, nursery)
                if read_settings(self.session).terminals:
                    nursery.start_soon(self._terminals.run)
                await self._caught_up.wait()
                task_status.started()
        finally:
            self._end_prompts()

    def _end_prompts(self) -> None:
        """End the prompts that wait, for example for updates that will never be sent."""
        self._has_ended = True
        for prompt in self._prompts:
            prompt.scope.cancel()

    def announce(self) -> None:
        """Start live updates, because the editor now knows the session's id."""
        self._announced.set()

    def discard_unused(self) -> None:
        """Delete the session when it closes, if it was never used."""
        if not self._is_used:
            self.session.discard()

    async def stop(self) -> None:
        """Stop all work, and wait for its end."""
        runs = dict(self.session.runs)
        self.cancel()
        with trio.move_on_after(STOP_SECONDS):
            # The session must not close while a prompt is about to begin a run.
            for prompt in list(self._prompts):
                if not prompt.has_run.is_set():
                    prompt.scope.cancel()
                await prompt.has_run.wait()
            runs |= self.session.runs
            for run in runs.values():
                try:
                    ended = await run.wait()
                except HilumError:
                    continue
                await self._wait_until_shown(ended)

    async def describe(self) -> dict[str, Any]:
        """Return what the editor must know of a session that was opened."""
        return {
            "modes": describe_modes(self.session),
            "configOptions": await self.describe_options(),
        }

    async def describe_options(self) -> list[dict[str, Any]]:
        """Return the session's options with their values."""
        return await describe_options(self.session, self._models)

    def set_option(self, option: str, value: object) -> None:
        """Change an option of the session.

        Raises:
            UsageError: The option or the value does not exist.
        """
        set_option(self.session, option, value, self._models)

    # --- prompts ----------------------------------------------------------------------------------

    def cancel(self) -> None:
        """Stop all runs, also the one of a prompt that is still being read."""
        self._cancels += 1
        self.session.stop()
        for scope in self._deciding:
            scope.cancel()

    def prompt(self, blocks: Sequence[Mapping[str, Any]]) -> Any:
        """Begin a prompt, and return a coroutine that ends with its run.

        The order of prompts and cancellations is that of the messages.
        """
        return self._prompt(blocks, self._cancels)

    async def _prompt(self, blocks: Sequence[Mapping[str, Any]], cancels: int) -> dict[str, Any]:
        given = read_prompt(blocks, self.session.workspace)
        self.announce()
        unknown = find_unknown_command(self.session, given.text, CONTINUE)
        if unknown:
            await self._say(unknown)
            return {"stopReason": "end_turn"}
        self._is_used = True
        if cancels != self._cancels or self._has_ended:
            return CANCELLED
        prompt = _RunningPrompt()
        self._prompts.add(prompt)
        with prompt.scope:
            try:
                run = await self._begin_run(given, prompt)
                return await self._answer(run, cancels)
            except PromptDenied as error:
                await self._say(str(error))
                return {"stopReason": "refusal"}
            except HilumError as error:
                if self.session.closing and self.session.journal.broken is None:
                    return CANCELLED
                # Of the names in a prompt, only that of the model may be unknown.
                is_model = error.code == E_UNKNOWN
                raise (make_login_error if is_model else to_rpc_error)(error) from None
            finally:
                self._prompts.discard(prompt)
        # The session was closed during the prompt, or its log can no longer be written.
        broken = self.session.journal.broken
        if broken is not None:
            raise to_rpc_error(broken)
        return CANCELLED

    async def _begin_run(self, given: ReadPrompt, prompt: _RunningPrompt) -> Run:
        try:
            if given.text.strip() == f"/{CONTINUE}":
                return await self._continue()
            return await self.session.prompt(
                given.text, state=given.state, attached=given.attached, images=given.images
            )
        finally:
            prompt.has_run.set()

    async def _answer(self, run: Run, cancels: int) -> dict[str, Any]:
        """Return the response to a prompt, once its run has ended."""
        if run.reply is not None:
            await self._say(run.reply)
            return {"stopReason": "end_turn"}
        if cancels != self._cancels:
            run.stop()
        self._maker.own_runs.add(run.id)
        try:
            return await self._finish(run, cancels)
        finally:
            self._maker.own_runs.discard(run.id)

    async def _continue(self) -> Run:
        """Continue the run that was interrupted or has failed."""
        resumed = self.session.resume()
        prompted = self._maker.prompted
        for run in resumed:
            if run.agent == prompted:
                return run
        return resumed[-1] if resumed else await self.session.retry(prompted)

    async def _finish(self, run: Run, cancels: int) -> dict[str, Any]:
        """Wait for the end of a run, and of those that follow if the user accepts its plan."""
        while True:
            ended = await self._wait_for_end(run)
            following = await self._ask_about_plan(ended)
            if following is None:
                # The user may have cancelled instead of deciding on a plan.
                return _make_response(ended) if cancels == self._cancels else CANCELLED
            run = following

    async def _wait_for_end(self, run: Run) -> ev.RunEnded:
        """Wait until a run has ended and its updates were sent; if cancelled, end the run."""
        try:
            ended = await run.wait()
            await self._wait_until_shown(ended)
        except trio.Cancelled:
            # If the editor has left, the run is interrupted and can be continued.
            if not self._client.has_left and not self._has_ended:
                run.stop()
            raise
        return ended

    async def _wait_until_shown(self, ended: ev.RunEnded) -> None:
        """Wait until the updates of a run were sent, because its response must follow them."""
        while self._shown_end < ended.seq:
            await self._end_shown.wait()

    async def _ask_about_plan(self, ended: ev.RunEnded) -> Run | None:
        plans = self.session.plugin(Plans)
        proposal = plans.proposal() if plans is not None else None
        if proposal is None or ended.state != "completed":
            return None
        with trio.CancelScope() as scope:
            self._deciding.add(scope)
            try:
                return await ask_about_plan(self._client, self.session, proposal)
            finally:
                self._deciding.discard(scope)
        return None

    async def _say(self, text: str) -> None:
        # Replies are not in the log, so their number is no number of an event.
        self._replies += 1
        message = f"reply-{self.session.journal.last}-{self._replies}"
        await self._client.update(self.session.id, make_chunk("agent_message_chunk", text, message))

    # --- updates ----------------------------------------------------------------------------------

    async def _follow(self, nursery: trio.Nursery) -> None:
        """Send the updates of all events, and ask the user what the session waits for."""
        began_at = self.session.began_at
        self._maker.is_replaying = began_at > 0
        if not self._maker.is_replaying:
            self._caught_up.set()
        try:
            async for item in self.session.events(deltas=True):
                event = item if isinstance(item, ev.Event) else None
                if event is not None and event.seq > began_at:
                    self._maker.is_replaying = False
                    # Nothing may arrive before the response that names the session.
                    if not self._announced.is_set():
                        await self._announce_state()
                await self._send_updates(partial(self._maker.make, item))
                self._send_held_output(nursery)
                if event is None:
                    continue
                if event.seq == began_at:
                    self._stale = {item.id for item in self._maker.view.waiting}
                    await self._end_history()
                    self._caught_up.set()
                elif not self._maker.is_replaying:
                    await self._react(event, nursery)
        except ConnectionLost:
            pass
        nursery.cancel_scope.cancel()

    async def _send_updates(self, make: Callable[[], Iterable[Update]]) -> None:
        """Send updates, unless they are part of a history that the editor has.

        Raises:
            ConnectionLost: The editor has left.
        """
        try:
            for update in make():
                if self._shows_history or not self._maker.is_replaying:
                    await self._client.update(self.session.id, update)
        except ConnectionLost:
            raise
        except Exception:
            # Models, commands and servers write what is shown. Without this, a call that cannot be
            # shown would end the updates, questions and prompts of the session, now and after each
            # reload.
            _logger.exception("A part of the session could not be shown.")

    async def _end_history(self) -> None:
        """Send what the history does not show: that an earlier process ended during a run."""
        if not self._shows_history:
            self._maker.forget_sent()
            return
        await self._send_updates(self._maker.interrupt_calls)
        if any(agent.conversation.pending for agent in self.session.agents.values()):
            message = f"interrupted-{self.session.began_at}"
            chunk = make_chunk("agent_message_chunk", f"\n{_INTERRUPTED}\n", message)
            await self._client.update(self.session.id, chunk)

    def _send_held_output(self, nursery: trio.Nursery) -> None:
        """Start a task that sends the output that came too soon after the last update."""
        if not self._sends_output and self._maker.find_next_output() is not None:
            self._sends_output = True
            nursery.start_soon(self._send_output)

    async def _send_output(self) -> None:
        while (due := self._maker.find_next_output()) is not None:
            await trio.sleep_until(due)
            try:
                await self._send_updates(self._maker.take_output)
            except ConnectionLost:
                return
        self._sends_output = False

    async def _show_terminal(self, agent: str, call: str, terminal: str) -> bool:
        """Show a terminal in a call, and return whether the call has not ended.

        Raises:
            ConnectionLost: The editor has left.
        """
        await self._send_updates(partial(self._maker.show_terminal, agent, call, terminal))
        return self._maker.has_terminal(agent, call)

    async def _announce_state(self) -> None:
        self._caught_up.set()
        await self._announced.wait()

    async def send_commands(self) -> None:
        """Send the list of commands that a prompt can begin with."""
        commands = []
        for command in list_slash_commands(self.session):
            commands.append(_describe_command(command.name, command.summary, command.arguments))
        summary = "Continue a run that was interrupted or has failed"
        commands.append(_describe_command(CONTINUE, summary, ""))
        update = {"sessionUpdate": "available_commands_update", "availableCommands": commands}
        try:
            await self._client.update(self.session.id, update)
        except ConnectionLost:
            pass

    async def _react(self, event: ev.Event, nursery: trio.Nursery) -> None:
        if isinstance(event, ev.SessionChanged):
            await self._send_options()
        if isinstance(event, ev.RunEnded):
            self._shown_end = event.seq
            self._end_shown.set()
            self._end_shown = trio.Event()
        waiting = {item.id: item for item in self._maker.view.waiting}
        for identity in self._asking.keys() - waiting.keys():
            self._asking.pop(identity).cancel()
        for identity, item in waiting.items():
            if identity not in self._asking and identity not in self._stale:
                scope = self._asking[identity] = trio.CancelScope()
                nursery.start_soon(self._ask, item, scope)

    async def _send_options(self) -> None:
        mode = {"sessionUpdate": "current_mode_update", "currentModeId": self.session.mode.name}
        await self._client.update(self.session.id, mode)
        options = await self.describe_options()
        update = {"sessionUpdate": "config_option_update", "configOptions": options}
        await self._client.update(self.session.id, update)

    async def _ask(self, item: Approval | Question, scope: trio.CancelScope) -> None:
        """Ask the user; the question ends early if something else ends it."""
        with scope:
            card = self._find_card(item)
            if isinstance(item, Approval):
                agent = self._maker.view.name_of(item.agent)
                await ask_approval(self._client, self.session, item, card, agent)
            else:
                call = name_call(card) if card is not None else ""
                await ask_question(self._client, self.session, item, call)

    def _find_card(self, item: Approval | Question) -> Card | None:
        for card in self._maker.view.open_cards:
            if card.agent == item.agent and card.call.id == item.call_id:
                return card
        return None

    def _find_window(self, model: str) -> int:
        try:
            return self.session.kernel.router.model(model).info.window
        except HilumError:
            return 0


def _describe_command(name: str, summary: str, arguments: str) -> dict[str, Any]:
    described: dict[str, Any] = {"name": name, "description": summary or name}
    if arguments:
        described["input"] = {"hint": arguments}
    return described


def _make_response(ended: ev.RunEnded) -> dict[str, Any]:
    """Return the response to a prompt.

    Raises:
        RpcError: The run failed.
    """
    reason = _STOP_REASONS_BY_CODE.get(ended.code) or _STOP_REASONS.get(ended.state)
    if reason is None:
        data = {"code": ended.code, "hint": ended.hint}
        raise RpcError(find_number(ended.code), describe_failure(ended), data)
    return {"stopReason": reason}
