"""The client of one guest: another agent, which hilum drives over the Agent Client Protocol.

What the guest asks of its client becomes calls of hilum's tools, so the same gates, rules and
approvals apply to them as to the calls of any agent::

    guest ── fs/read_text_file ──► a waiting call ──► the model's answer ──► the loop runs it
      ▲                                                                          │
      └───────────── response ◄── the call's result ◄── the next request ◄───────┘

The module knows nothing of how the guest's process is started.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import trio
from hilum.messages import ToolCall, ToolResult

from hilum_acp.guests.actions import (
    EDIT,
    MAX_ID,
    REPORT,
    WAIT,
    FileDiff,
    GuestAction,
    choose_option,
)
from hilum_acp.guests.file_requests import FileRequests, ServedFiles
from hilum_acp.guests.plans import read_todos
from hilum_acp.guests.requests import GuestRequest, RequestQueue
from hilum_acp.guests.served_files import REFUSED
from hilum_acp.guests.terminal_requests import TERMINAL, TerminalRequests
from hilum_acp.json_rpc import Connection, ConnectionLost, RpcError
from hilum_acp.messages import AUTHENTICATION_REQUIRED, PROTOCOL_VERSION

MAX_TEXT = 8_000_000
"""Characters of a guest's messages that wait for hilum; more is a flood."""
MAX_UPDATES = 500_000
"""Updates in one prompt; more is a flood."""
MAX_ACTIONS = 5_000
MAX_ACTION_TEXT = 64_000_000
"""Characters of the guest's own tool calls that hilum keeps; more is a flood."""
MAX_INVALID = 1_000
"""Lines of a guest's output that are no messages, such as warnings; more is a flood."""
_ANSWERS = (True, False)


class GuestFailed(Exception):
    """The guest cannot continue; the text is a sentence for the user."""


class GuestClient:
    """The conversation with one guest.

    Args:
        root: Root of the workspace.
        files: The files that the guest may read.
        tools: Names of the tools that the agent has.

    Attributes:
        changed: Set when there is something new.
        interrupted: Set when hilum has to run further calls for the guest, so that the calls that
            only show what the guest does have to end.
        failure: Why the guest cannot continue; empty while it can.
        stop_reason: How the guest ended its work on the prompt; empty while it works.
        actions: The guest's own tool calls, by the guest's id.
        requests: The requests of the guest that wait for calls of hilum.
        terminals: The terminals that the guest has opened.
        active_at: Time on trio's clock of the guest's last sign of life.
    """

    def __init__(self, root: str, files: ServedFiles, tools: Sequence[str] = ()) -> None:
        self.changed = trio.Event()
        self.interrupted = trio.Event()
        self.failure = ""
        self.stop_reason = ""
        self.actions: dict[str, GuestAction] = {}
        self.requests = RequestQueue(self._note_request)
        self.terminals = TerminalRequests(self.requests)
        self.active_at = trio.current_time()
        self._root = root
        self._files = FileRequests(root, files, self.requests)
        self._action_text = 0
        self._tools = frozenset(tools)
        self._connection: Connection | None = None
        self._session = ""
        self._capabilities: dict[str, Any] = {}
        self._output: list[tuple[str, list[str]]] = []
        # What the guest says after it has asked for a call belongs after that call.
        self._later_output: list[tuple[str, list[str]]] = []
        self._size = 0
        self._updates = 0
        self._plan: list[dict[str, str]] = []

    # --- the connection ---------------------------------------------------------------------------

    def connect(self, receive: trio.abc.ReceiveStream, send: trio.abc.SendStream) -> Connection:
        """Create the connection over the pipes of the guest's process."""
        self._connection = Connection(
            receive,
            send,
            requests={
                "session/request_permission": self._request_permission,
                **self._files.handlers,
                **self.terminals.handlers,
            },
            notifications={"session/update": self._apply_update},
            max_invalid=MAX_INVALID,
        )
        return self._connection

    async def open_session(self) -> None:
        """Introduce hilum to the guest and open a session in the workspace.

        Raises:
            GuestFailed: The guest speaks another protocol or refuses.
        """
        try:
            found = await self._request(
                "initialize",
                {
                    "protocolVersion": PROTOCOL_VERSION,
                    "clientCapabilities": {
                        "fs": {"readTextFile": True, "writeTextFile": True},
                        "terminal": True,
                    },
                    "clientInfo": {"name": "hilum", "title": "hilum", "version": "0.1.0"},
                },
            )
            version = found.get("protocolVersion")
            if version != PROTOCOL_VERSION:
                raise GuestFailed(
                    f"It speaks version {version} of the protocol; hilum speaks version"
                    f" {PROTOCOL_VERSION}."
                )
            self._capabilities = _as_dict(found.get("agentCapabilities"))
            opened = await self._open_session(found.get("authMethods"))
        except RpcError as error:
            raise GuestFailed(f"It refused to start: {_one_line(error.message)}") from None
        except ConnectionLost:
            reason = self.describe_flood() or "It ended before it was ready."
            raise GuestFailed(reason) from None
        session = opened.get("sessionId")
        if not isinstance(session, str) or not session:
            raise GuestFailed("It opened no session.")
        self._session = session

    def describe_flood(self) -> str:
        """Return that the guest wrote too much else to its output; empty if it did not."""
        if self._connection is None or not self._connection.has_flooded:
            return ""
        return f"It wrote more than {MAX_INVALID:,} lines that are no messages to its output."

    async def _open_session(self, methods: object) -> dict[str, Any]:
        params = {"cwd": self._root, "mcpServers": []}
        try:
            return await self._request("session/new", params)
        except RpcError as error:
            method = _find_key_method(methods)
            if error.code != AUTHENTICATION_REQUIRED or not method:
                raise
        # The variables of the environment contain what stands for a key.
        await self._request("authenticate", {"methodId": method})
        return await self._request("session/new", params)

    async def _request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        assert self._connection is not None
        return _as_dict(await self._connection.request(method, params))

    # --- prompts ----------------------------------------------------------------------------------

    def begin_prompt(self) -> None:
        """Prepare for the next prompt."""
        self.stop_reason = ""
        self._updates = 0
        self.active_at = trio.current_time()

    async def prompt(self, content: list[dict[str, Any]]) -> None:
        """Send a prompt and wait until the guest ends its work on it."""
        try:
            found = await self._request(
                "session/prompt", {"sessionId": self._session, "prompt": content}
            )
            self.stop_reason = str(found.get("stopReason") or "end_turn")
        except RpcError as error:
            self.fail(f"It failed: {_one_line(error.message)}")
        except ConnectionLost:
            # The task that waits for the process reports the reason.
            return
        self.interrupted.set()
        self.wake()

    async def cancel(self) -> None:
        """Ask the guest to end its work on the prompt."""
        if self._connection is None:
            return
        try:
            await self._connection.notify("session/cancel", {"sessionId": self._session})
        except ConnectionLost:
            # The guest has ended, which is what the request is for.
            pass

    @property
    def accepts_images(self) -> bool:
        """Whether prompts may contain images."""
        return bool(_as_dict(self._capabilities.get("promptCapabilities")).get("image"))

    # --- what the guest has for hilum -------------------------------------------------------------

    def wake(self) -> None:
        """Report that there is something new."""
        self.changed.set()

    def interrupt(self) -> None:
        """End the calls that only wait for the guest."""
        self.interrupted.set()
        self.wake()

    def fail(self, reason: str) -> None:
        """Record why the guest cannot continue; the first reason counts."""
        self.failure = self.failure or reason
        self.requests.refusal = self.failure
        self.interrupt()

    def take_output(self) -> list[tuple[str, str]]:
        """Return and remove the guest's new text: ``text`` or ``thinking``, each with the text."""
        taken = [(kind, "".join(pieces)) for kind, pieces in self._output]
        self._size -= sum(len(text) for _, text in taken)
        self._output = []
        return taken

    def take_calls(self) -> list[ToolCall]:
        """Return the calls that hilum has to run for the guest next."""
        taken = self.requests.take()
        for action in self.actions.values():
            if action.needs_report:
                action.is_shown = True
                report = action.to_report(self.requests.call_count)
                taken.append(self.requests.make_call(REPORT, report))
        self._output = self._later_output
        self._later_output = []
        self.interrupted = trio.Event()
        return taken

    def make_wait(self) -> ToolCall:
        """Return a call that waits until the guest has something new."""
        # The number keeps the loop from taking the call for a repetition without progress.
        return self.requests.make_call(WAIT, {"number": self.requests.call_count})

    def has_calls(self) -> bool:
        """Return whether hilum has to run calls for the guest."""
        return bool(self.requests) or any(each.needs_report for each in self.actions.values())

    def add_results(self, results: Sequence[ToolResult]) -> None:
        """Answer the guest's requests with the results of their calls."""
        for result in results:
            request = self.requests.add_result(result)
            if request is not None and request.call.name == TERMINAL and result.code:
                self.terminals.end(request.call, result.text)

    def was_announced(self, call: ToolCall) -> bool:
        """Return whether the user has approved exactly this call when the guest announced it."""
        request = self.requests.find(call.id)
        return request is not None and request.is_approved and request.call == call

    async def wait_for_end(self, ended: trio.Event) -> None:
        """Wait until something has ended, or until hilum has to do something else for the guest."""
        interrupted = self.interrupted
        if self.failure or self.stop_reason or ended.is_set():
            return
        async with trio.open_nursery() as nursery:

            async def wait(event: trio.Event) -> None:
                await event.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(wait, ended)
            nursery.start_soon(wait, interrupted)

    async def wait_for_action(self, action: GuestAction) -> None:
        """Wait while a tool call of the guest runs, and record how far it has been shown."""
        await self.wait_for_end(action.ended)
        is_over = action.ended.is_set() or bool(self.failure or self.stop_reason)
        is_asked = self.requests.will_ask_about(action)
        # A call that still runs is shown again after the other calls.
        action.is_shown = is_over or is_asked

    # --- updates ----------------------------------------------------------------------------------

    async def _apply_update(self, params: dict[str, Any]) -> None:
        update = params.get("update")
        # A guest that has failed is being ended; until then, nothing of it is kept any more.
        if not isinstance(update, dict) or self.failure:
            return
        self.active_at = trio.current_time()
        self._updates += 1
        if self._updates > MAX_UPDATES:
            self.fail(f"It sent more than {MAX_UPDATES:,} updates.")
            return
        kind = update.get("sessionUpdate")
        if kind == "agent_message_chunk":
            self._add_text("text", update)
        elif kind == "agent_thought_chunk":
            self._add_text("thinking", update)
        elif kind in ("tool_call", "tool_call_update"):
            action = self._update_action(update)
            if action is not None:
                self._drop_details(action)
        elif kind == "plan":
            self._update_plan(update.get("entries"))
        # Other updates are about the guest's own settings and its own count of tokens.
        self.wake()

    def _add_text(self, kind: str, update: dict[str, Any]) -> None:
        content = _as_dict(update.get("content"))
        text = content.get("text")
        if content.get("type") != "text" or not isinstance(text, str):
            return
        self._size += len(text)
        if self._size > MAX_TEXT:
            self.fail(f"It sent more than {MAX_TEXT:,} characters at once.")
            return
        output = self._later_output if self.has_calls() else self._output
        if output and output[-1][0] == kind:
            output[-1][1].append(text)
        else:
            output.append((kind, [text]))

    def _update_action(self, update: Mapping[str, Any]) -> GuestAction | None:
        identity = update.get("toolCallId")
        if not isinstance(identity, str) or len(identity) > MAX_ID:
            return None
        action = self.actions.get(identity)
        if action is None:
            if len(self.actions) >= MAX_ACTIONS:
                self.fail(f"It reported more than {MAX_ACTIONS:,} tool calls.")
                return None
            action = self.actions[identity] = GuestAction(identity)
        self._action_text -= action.size
        action.update(update)
        self._action_text += action.size
        if self._action_text > MAX_ACTION_TEXT:
            self.fail(f"Its tool calls have more than {MAX_ACTION_TEXT:,} characters.")
            return None
        if action.needs_report:
            self.interrupted.set()
        return action

    def _drop_details(self, action: GuestAction) -> None:
        self._action_text -= action.size
        action.drop_details()
        self._action_text += action.size

    def _update_plan(self, entries: object) -> None:
        todos = read_todos(entries) if "todo_write" in self._tools else []
        if todos and todos != self._plan:
            self._plan = todos
            # A newer plan replaces one that has not been shown yet.
            self.requests.drop_waiting("todo_write")
            self.requests.add("todo_write", {"todos": todos, "merge": False})

    # --- requests ---------------------------------------------------------------------------------

    def _note_request(self) -> None:
        self.active_at = trio.current_time()
        self.interrupt()

    async def _request_permission(self, params: dict[str, Any]) -> dict[str, Any]:
        action = self._update_action(_as_dict(params.get("toolCall")))
        if action is None:
            raise RpcError(REFUSED, "The request names no tool call.")
        options = {allowed: choose_option(params.get("options"), allowed) for allowed in _ANSWERS}
        # A request may wait for long, and a guest can send many with megabytes in other fields.
        params.clear()
        action.is_shown = True
        # What the user is asked about must not change while the question is open.
        diffs = list(action.diffs)
        try:
            question = attrs.evolve(action, diffs=diffs)
            tool, arguments = await trio.to_thread.run_sync(question.to_question, self._root)
        except ValueError as error:
            raise RpcError(REFUSED, str(error)) from None
        announced: dict[str, list[FileDiff]] = {}
        if tool == EDIT:
            announced = await trio.to_thread.run_sync(self._files.find_announced, diffs)
        self._drop_details(action)
        # The texts are not needed while the question is open.
        del diffs, question
        request = self.requests.add(tool, arguments, action)
        request.announced = announced
        await self.requests.wait(request)
        option = options[request.allowed]
        if not option:
            return {"outcome": {"outcome": "cancelled"}}
        return {"outcome": {"outcome": "selected", "optionId": option}}

    def approve(self, request: GuestRequest) -> None:
        """Allow what the guest has asked for, and what it has announced with it."""
        self._files.allow_announced(request.announced)
        request.allowed = True
        request.done.set()


def _as_dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _find_key_method(methods: object) -> str:
    """Return the id of the method to log in with a key from the environment; empty if none."""
    listed = methods if isinstance(methods, list) else []
    for method in listed:
        if isinstance(method, dict):
            text = f"{method.get('id')} {method.get('name')}".lower()
            if "key" in text:
                return str(method.get("id"))
    return ""


def _one_line(text: str) -> str:
    return " ".join(text.split())[:500]
