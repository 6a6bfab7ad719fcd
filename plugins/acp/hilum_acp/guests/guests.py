"""The session plugin that runs guests: other agents that work as agents of the session."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal

import attrs
import msgspec
import trio
from hilum import (
    Agent,
    Call,
    HilumError,
    ModelError,
    Output,
    Tool,
    UsageError,
    Verdict,
    deny,
    hookimpl,
    tool,
)
from hilum.events import ApprovalAsked, CallDone, RunEnded, SessionChanged
from hilum.hooks import current_plugin
from hilum.messages import (
    AssistantMessage,
    Image,
    Message,
    NoteMessage,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hilum.models import Chunk, Done, KeepAlive, Request, TextChunk, ThinkingChunk
from hilum_agents import Agents
from hilum_agents.guest_models import MODEL_PROVIDER

from hilum_acp.guests.guest_model import GuestProvider

if TYPE_CHECKING:
    from hilum import Session
    from hilum_agents.definitions.definition import Definition

    from hilum_acp.guests.guest import Guest
    from hilum_acp.guests.requests import GuestRequest

QUIET_TIMEOUT = 10.0
"""Seconds without news after which hilum waits in a call, for which time passes without limit."""
IDLE_TIMEOUT = 300.0
"""Seconds without any sign of life after which a guest counts as hanging."""
WAIT_TIMEOUT = 3_600.0  # seconds
KEEP_ALIVE_SECONDS = 2.0
MAX_ANSWER = 3_000_000
"""Characters that a guest may say without a pause; the loop ends longer answers of any model."""
NO_ANSWER = "The program has ended its work without an answer."
WITHDRAWN = "The program has withdrawn its request."
MAX_TRANSCRIPT = 40_000
"""Characters of an earlier conversation that a new process receives."""
_STOPS: Mapping[str, Literal["refusal", "length"]] = {"refusal": "refusal", "max_tokens": "length"}


def _serves_guest(agent: Agent) -> bool:
    return agent.profile.model.startswith(f"{MODEL_PROVIDER}/")


class Guests:
    """The guests of a session. Implements ``hilum.AnnouncedCalls``.

    Args:
        session: The session.
        nursery: The nursery for the guests.
    """

    def __init__(self, session: Session, nursery: trio.Nursery) -> None:
        self.session = session
        # The tasks of guests are started by the loop, which belongs to no plugin.
        self._plugin = current_plugin()
        self._nursery = nursery
        self._running: dict[str, Guest] = {}

    # --- as a model -------------------------------------------------------------------------------

    async def answer(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Pass results and new texts to the guest, and yield what it says and asks.

        Raises:
            ModelError: The guest cannot start or cannot continue.
        """
        agent = self.session.agents.get(request.agent)
        if agent is None:
            raise ModelError("A guest runs only as an agent of a session.", kind="request")
        guest = self._running.get(agent.name)
        if guest is None or guest.ended.is_set():
            guest = await self._create(agent)
            async with aclosing(self._start(guest)) as keep_alives:
                async for keep_alive in keep_alives:
                    yield keep_alive
            self._begin_conversation(guest, request.messages)
        else:
            new = [
                each
                for each in _find_recent(request.messages)
                if id(each) not in guest.passed_messages
            ]
            self._continue_conversation(guest, new)
        # A request that is sent again contains the same messages.
        guest.passed_messages = {id(each): each for each in request.messages}
        parts: list[Text | Thinking] = []
        async with aclosing(self._listen(guest, parts)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _listen(
        self, guest: Guest, parts: list[Text | Thinking]
    ) -> AsyncGenerator[Chunk, None]:
        """Yield what the guest says, until hilum has to do something or the guest is done."""
        client = guest.client
        model = f"{MODEL_PROVIDER}/{guest.definition.name}"
        quiet_timeout = min(QUIET_TIMEOUT, self.session.options.silence / 2)
        size = 0
        while True:
            client.changed = trio.Event()
            for kind, text in client.take_output():
                size += len(text)
                if size > MAX_ANSWER:
                    client.fail(f"It said more than {MAX_ANSWER:,} characters without a pause.")
                    break
                if kind == "text":
                    guest.last_text = text if text.strip() else guest.last_text
                    yield TextChunk(text)
                    parts.append(Text(text, "model"))
                else:
                    yield ThinkingChunk(text)
                    parts.append(Thinking(text))
            if client.failure:
                raise _failed(guest)
            if guest.budget.denied is not None and not parts:
                raise guest.budget.denied
            if guest.budget.denied is not None or guest.budget.exhausted:
                # What the guest has said is kept. The loop reports which limit is reached, or the
                # next request ends the run.
                yield Done(AssistantMessage(tuple(parts), model, "length"))
                return
            if client.has_calls():
                calls = tuple(client.take_calls())
                yield Done(AssistantMessage((*parts, *calls), model, "calls"))
                return
            if client.stop_reason:
                stop = await self._end_prompt(guest, parts)
                if stop:
                    yield Done(AssistantMessage(tuple(parts), model, stop))
                    return
                continue
            with trio.move_on_after(quiet_timeout) as quiet:
                await client.changed.wait()
            if quiet.cancelled_caught:
                yield Done(AssistantMessage((*parts, client.make_wait()), model, "calls"))
                return

    async def _end_prompt(
        self, guest: Guest, parts: list[Text | Thinking]
    ) -> Literal["", "end", "refusal", "length"]:
        """Return how the guest's work on a prompt ended; empty if a message begins other work.

        Args:
            guest: The guest.
            parts: What the guest has said; receives an answer if there is none.
        """
        guest.is_prompting = False
        await guest.record_changes()
        if guest.queued_texts:
            guest.start_prompt(_to_content(guest.queued_texts))
            guest.queued_texts = []
            return ""
        await guest.settle_models()
        if not any(isinstance(part, Text) and part.text.strip() for part in parts):
            # Its last act was a call, so its answer came before.
            parts.append(Text(guest.last_text or NO_ANSWER, "model"))
        return _STOPS.get(guest.client.stop_reason, "end")

    async def _create(self, agent: Agent) -> Guest:
        from hilum_acp.guests.guest import Guest  # with the first guest, for a fast start of hilum

        return Guest(agent, await self._find_definition(agent), self._plugin)

    async def _start(self, guest: Guest) -> AsyncGenerator[Chunk, None]:
        """Start a guest, and yield signs of life until it is ready.

        Raises:
            ModelError: The guest cannot start.
        """
        # The process can end, and the session can change, before the guest is ready.
        self._running[guest.agent.name] = guest
        is_ready = trio.Event()
        is_usable = False
        problems: list[HilumError] = []

        async def start() -> None:
            try:
                await self._nursery.start(guest.run)
            except HilumError as error:
                problems.append(error)
            is_ready.set()

        self._nursery.start_soon(start)
        try:
            while not is_ready.is_set():
                with trio.move_on_after(KEEP_ALIVE_SECONDS):
                    await is_ready.wait()
                # Some programs download themselves first, and a model must not seem silent.
                yield KeepAlive()
            if problems:
                error = problems[0]
                raise ModelError(error.message, kind="request", hint=error.hint) from error
            is_usable = True
        finally:
            # The request can also be closed after the guest has become ready, at the last sign.
            if not is_usable:
                guest.abort()
                # If the request is sent again, it must not reach a guest that is being ended.
                if self._running.get(guest.agent.name) is guest:
                    del self._running[guest.agent.name]

    async def _find_definition(self, agent: Agent) -> Definition:
        """Return the file of an agent, as the user trusted it when the run began."""
        agents = self.session.plugin(Agents)
        definition = await agents.definition_of(agent) if agents is not None else None
        if definition is None or definition.runner is None:
            # A log does not contain the command: only a file that the user trusts now can name it.
            name = agent.profile.model.removeprefix(f"{MODEL_PROVIDER}/")
            try:
                definition = await agents.find(name) if agents is not None else None
            except HilumError as error:
                raise ModelError(error.message, kind="request", hint=error.hint) from error
        if definition is None or definition.runner is None:
            raise ModelError(
                f"The file of the agent {agent.name} names no program.",
                kind="request",
                hint="Add the key runner to the agent's file.",
            )
        return definition

    # --- conversations ----------------------------------------------------------------------------

    def _begin_conversation(self, guest: Guest, messages: Sequence[Message]) -> None:
        """Send the first prompt of a process."""
        last = max(
            (index for index, each in enumerate(messages) if isinstance(each, UserMessage)),
            default=0,
        )
        texts = [guest.definition.instructions] if guest.definition.instructions else []
        earlier = _make_transcript(messages[:last])
        if earlier:
            texts.append(earlier)
        texts += _list_texts(messages[last:])
        images = _list_images(messages[last:]) if guest.client.accepts_images else []
        guest.start_prompt([*_to_content(texts), *images])

    def _continue_conversation(self, guest: Guest, messages: Sequence[Message]) -> None:
        """Pass on the results of calls, and what the user and hilum have written since."""
        for message in messages:
            if isinstance(message, ToolMessage):
                guest.client.add_results(message.results)
        if guest.is_prompting:
            # The protocol has no way to add to a prompt on which an agent works. Notes are about
            # the calls of a model, and a guest has its own.
            written = [each for each in messages if isinstance(each, UserMessage)]
            guest.queued_texts += _list_texts(written)
        else:
            texts = _list_texts(messages)
            images = _list_images(messages) if guest.client.accepts_images else []
            guest.start_prompt([*_to_content(texts or ["Continue."]), *images])

    def was_announced(self, call: ToolCall) -> bool:
        """Return whether the user has approved exactly this call when a guest announced it."""
        return any(guest.client.was_announced(call) for guest in self._running.values())

    async def follow_events(self) -> None:
        """Answer guests as soon as a call has ended, and end the guests whose run has ended."""
        kinds = (CallDone, ApprovalAsked, SessionChanged, RunEnded)
        async for event in self.session.events(self.session.journal.last, kinds=kinds):
            if isinstance(event, CallDone):
                # The round may contain calls that wait for the guest, so its end is too late.
                guest = self._running.get(event.agent)
                if guest is not None:
                    guest.client.add_results([event.result])
            elif isinstance(event, ApprovalAsked):
                guest = self._running.get(event.agent)
                request = guest.client.requests.find(event.call.id) if guest is not None else None
                if request is not None:
                    self._nursery.start_soon(self._close_question, request, event.id)
            elif isinstance(event, SessionChanged):
                for guest in self._running.values():
                    guest.check_access()
            elif isinstance(event, RunEnded):
                guest = self._running.get(event.agent)
                # The agent's next run may already have a guest of its own.
                if guest is not None and guest.budget.run == event.run:
                    del self._running[event.agent]
                    self._nursery.start_soon(guest.stop)

    async def _close_question(self, request: GuestRequest, approval: str) -> None:
        """Close the question about a request when the guest withdraws the request."""
        await request.done.wait()
        if request.is_withdrawn:
            # The user may have answered at the same time.
            with suppress(UsageError):
                self.session.answer(approval, False, reason=WITHDRAWN, by="headless")

    @hookimpl
    def on_tool_call(self, agent: Agent, call: ToolCall, tool: Tool) -> Verdict | None:
        """Deny a call for a request that the guest has withdrawn since the call was made."""
        guest = self._running.get(agent.name)
        request = guest.client.requests.find(call.id) if guest is not None else None
        if request is not None and request.is_withdrawn:
            return deny(WITHDRAWN)
        return None

    # --- tools ------------------------------------------------------------------------------------

    @hookimpl
    def provide_tools(self) -> Sequence[Tool]:
        """Return the tools that show what guests do and ask."""
        tools = (
            self.guest_report,
            self.guest_wait,
            self.guest_run,
            self.guest_edit,
            self.guest_read,
            self.guest_fetch,
            self.guest_other,
            self.guest_terminal,
        )
        return [attrs.evolve(each, serves=_serves_guest) for each in tools]

    @tool(risk="read", effect="idempotent", timeout=WAIT_TIMEOUT)
    async def guest_report(
        self, call: Call, action: str, title: str, kind: str = "other", number: int = 0
    ) -> Output:
        """Show what the program does by itself, as far as it reports it."""
        return await self._show(call, action)

    @tool(risk="read", effect="idempotent", timeout=WAIT_TIMEOUT)
    async def guest_wait(self, call: Call, number: int = 0) -> Output:
        """Wait until the program says or does something."""
        client = self._find(call).client
        while True:
            with trio.move_on_after(QUIET_TIMEOUT) as quiet:
                await client.changed.wait()
            if not quiet.cancelled_caught:
                return Output("The program continues.")
            self._check_idle(call)

    @tool(risk="execute", effect="once", timeout=WAIT_TIMEOUT)
    async def guest_run(self, call: Call, action: str, title: str, command: str) -> Output:
        """Let the program run a command itself, in its sandbox."""
        return await self._allow(call, action)

    @tool(risk="write", effect="once", timeout=WAIT_TIMEOUT, writes="paths")
    async def guest_edit(
        self, call: Call, action: str, title: str, paths: list[str], change: str = ""
    ) -> Output:
        """Let the program change files."""
        return await self._allow(call, action)

    @tool(risk="read", effect="once", timeout=WAIT_TIMEOUT, reads="paths")
    async def guest_read(self, call: Call, action: str, title: str, paths: list[str]) -> Output:
        """Let the program read files."""
        return await self._allow(call, action)

    @tool(risk="network", effect="once", timeout=WAIT_TIMEOUT)
    async def guest_fetch(self, call: Call, action: str, title: str, url: str) -> Output:
        """Let the program fetch an address itself, if its sandbox has a network."""
        return await self._allow(call, action)

    @tool(risk="execute", effect="once", timeout=WAIT_TIMEOUT)
    async def guest_other(self, call: Call, action: str, title: str, details: str = "") -> Output:
        """Let the program do something else itself, in its sandbox."""
        return await self._allow(call, action)

    @tool(risk="execute", effect="once", timeout=WAIT_TIMEOUT)
    async def guest_terminal(
        self, call: Call, terminal: str, command: str, working_directory: str = "."
    ) -> Output:
        """Run a command for the program in a terminal of hilum."""
        guest = self._find(call)
        folder = call.workspace.resolve(working_directory)
        guest.start_terminal(terminal, command, str(folder))
        found = guest.client.terminals.opened[terminal]
        found.show = call.emit
        await guest.client.wait_for_end(found.ended)
        if not found.ended.is_set():
            return Output(f"{found.output}\n[The command is still running.]".lstrip())
        return Output(found.output, data={"exit_code": found.exit_code})

    def _find(self, call: Call) -> Guest:
        guest = self._running.get(call.agent.name)
        if guest is None:
            raise ModelError("The program has ended.", kind="request")
        return guest

    async def _show(self, call: Call, action: str) -> Output:
        """Show a tool call of the guest until it ends, or until hilum has something else to do."""
        guest = self._find(call)
        found = guest.client.actions.get(action)
        if found is None:
            return Output("The program reports nothing about this.")
        while True:
            with trio.move_on_after(QUIET_TIMEOUT) as quiet:
                await guest.client.wait_for_action(found)
            if not quiet.cancelled_caught:
                break
            self._check_idle(call)
        code = "E_FAILED" if found.status == "failed" else ""
        return Output(found.describe_result(), code=code)

    async def _allow(self, call: Call, action: str) -> Output:
        """Allow what the guest has asked for, and show it."""
        client = self._find(call).client
        request = client.requests.find(call.id)
        if request is not None:
            if not _has_asked_arguments(call, request.call):
                # The user approved something else than what the guest will write.
                request.announced = {}
            client.approve(request)
        return await self._show(call, action)

    def _check_idle(self, call: Call) -> None:
        """End a guest that hangs."""
        guest = self._find(call)
        if guest.is_busy:
            return
        if trio.current_time() - guest.client.active_at > IDLE_TIMEOUT:
            guest.client.fail(f"It has done nothing for {IDLE_TIMEOUT:g} seconds.")


def _has_asked_arguments(call: Call, asked: ToolCall) -> bool:
    """Return whether a call runs with the arguments that hilum made, which a user can change."""
    arguments = msgspec.json.decode(asked.arguments)
    return all(call.arguments.get(name) == value for name, value in arguments.items())


def _failed(guest: Guest) -> ModelError:
    return ModelError(
        f"The program of the agent {guest.definition.name} cannot continue. {guest.client.failure}",
        kind="request",
        hint="Start the agent again, or do the work without it.",
    )


def _find_recent(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages since the last answer, which a compaction does not remove."""
    for index in range(len(messages) - 1, -1, -1):
        if isinstance(messages[index], AssistantMessage):
            return messages[index + 1 :]
    return messages


def _list_texts(messages: Sequence[Message]) -> list[str]:
    texts: list[str] = []
    for message in messages:
        if isinstance(message, UserMessage) and message.request:
            texts.append(message.request)
        elif isinstance(message, NoteMessage):
            texts.append(message.text)
    return texts


def _list_images(messages: Sequence[Message]) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for message in messages:
        if not isinstance(message, UserMessage):
            continue
        for part in message.parts:
            if isinstance(part, Image) and part.data:
                data = b64encode(part.data).decode()
                blocks.append({"type": "image", "mimeType": part.media_type, "data": data})
    return blocks


def _to_content(texts: Sequence[str]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": "\n\n".join(texts)}] if texts else []


def _make_transcript(messages: Sequence[Message]) -> str:
    """Return an earlier conversation as text, its end if it is long; empty if there is none.

    A process keeps its conversation in memory, so a new process does not know it.
    """
    lines: list[str] = []
    for message in messages:
        if isinstance(message, UserMessage) and message.request:
            lines.append(f"User: {message.request}")
        elif isinstance(message, AssistantMessage) and message.text:
            lines.append(f"You: {message.text}")
    if not lines:
        return ""
    return "The conversation so far:\n" + "\n".join(lines)[-MAX_TRANSCRIPT:]


@asynccontextmanager
async def open_guests(session: Session) -> AsyncIterator[Guests]:
    """Yield the session plugin; on exit, end the processes of all guests."""
    provider = session.kernel.router.providers.get(MODEL_PROVIDER)
    async with trio.open_nursery() as nursery:
        guests = Guests(session, nursery)
        if isinstance(provider, GuestProvider):
            provider.sessions[session.id] = guests
        nursery.start_soon(guests.follow_events)
        try:
            yield guests
        finally:
            if isinstance(provider, GuestProvider):
                provider.sessions.pop(session.id, None)
            nursery.cancel_scope.cancel()
