"""The client of one guest: another agent, which hilum drives over the Agent Client Protocol.

What the guest asks of its client becomes calls of hilum's tools, so the same gates, rules and
approvals apply to them as to the calls of any agent::

    guest ── fs/read_text_file ──► a waiting call ──► the model's answer ──► the loop runs it
      ▲                                                                          │
      └───────────── response ◄── the call's result ◄── the next request ◄───────┘

The module knows nothing of how the guest's process is started.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import attrs
import msgspec
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
from hilum_acp.guests.announced_writes import AnnouncedWrites, can_be_announced
from hilum_acp.guests.served_files import REFUSED
from hilum_acp.guests.terminals import MAX_COMMAND, Terminal
from hilum_acp.json_rpc import INVALID_PARAMS, Connection, ConnectionLost, RpcError
from hilum_acp.messages import AUTHENTICATION_REQUIRED, PROTOCOL_VERSION, RESOURCE_NOT_FOUND

MAX_TEXT = 8_000_000
"""Characters of a guest's messages that wait for hilum; more is a flood."""
MAX_UPDATES = 500_000
"""Updates in one prompt; more is a flood."""
MAX_ACTIONS = 5_000
MAX_ACTION_TEXT = 64_000_000
"""Characters of the guest's own tool calls that hilum keeps; more is a flood."""
MAX_TERMINALS = 32
"""Terminals in which commands run; as many that have ended are kept until the guest releases them."""
MAX_SERVED = 10_000
"""Files of which hilum knows that the guest has read them; others are read again before a write."""
MAX_WRITTEN_TEXT = 64_000_000
"""Characters that wait to be written to files."""
MAX_INVALID = 1_000
"""Lines of a guest's output that are no messages, such as warnings; more is a flood."""
MAX_WAITING = 256
"""Requests of a guest that wait for their calls."""
TERMINAL = "guest_terminal"
_ANSWERS = (True, False)
_TODO_STATES = ("pending", "in_progress", "completed")


class GuestFailed(Exception):
    """The guest cannot continue; the text is a sentence for the user."""


@attrs.define(eq=False)
class GuestRequest:
    """A request of the guest that hilum answers with the result of a tool call.

    Attributes:
        call: The call.
        done: Set when the guest can be answered.
        allowed: Whether the call may run; it is known when the call begins.
        result: The call's result, once it has ended.
        action: The guest's own tool call that the request is about, if there is one.
        announced: The changes that the user approves with the call, by resolved path.
        is_approved: Whether the user has approved the call when the guest announced it.
    """

    call: ToolCall
    done: trio.Event = attrs.field(factory=trio.Event)
    allowed: bool = False
    result: ToolResult | None = None
    action: GuestAction | None = None
    announced: dict[str, list[FileDiff]] = attrs.field(factory=dict)
    is_approved: bool = False


class ServedFiles(Protocol):
    """The files that a guest may read through hilum."""

    def resolve(self, path: str) -> str:
        """Return a path without links; a path that cannot be used is returned as it is."""

    async def read_text(self, path: str) -> str:
        """Return the text of the file at a resolved path."""


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
        terminals: The terminals that the guest has opened, by id.
        active_at: Time on trio's clock of the guest's last sign of life.
    """

    def __init__(self, root: str, files: ServedFiles, tools: Sequence[str] = ()) -> None:
        self.changed = trio.Event()
        self.interrupted = trio.Event()
        self.failure = ""
        self.stop_reason = ""
        self.actions: dict[str, GuestAction] = {}
        self.terminals: dict[str, Terminal] = {}
        self.active_at = trio.current_time()
        self._root = root
        self._files = files
        self._announced = AnnouncedWrites()
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
        self._waiting: list[GuestRequest] = []
        self._asked: dict[str, GuestRequest] = {}
        self._count = 0
        self._plan: list[dict[str, str]] = []
        self._served: set[str] = set()
        self._terminal_count = 0
        self._written_text = 0

    # --- the connection ---------------------------------------------------------------------------

    def connect(self, receive: trio.abc.ReceiveStream, send: trio.abc.SendStream) -> Connection:
        """Create the connection over the pipes of the guest's process."""
        self._connection = Connection(
            receive,
            send,
            requests={
                "session/request_permission": self._request_permission,
                "fs/read_text_file": self._read_file,
                "fs/write_text_file": self._write_file,
                "terminal/create": self._create_terminal,
                "terminal/output": self._read_terminal,
                "terminal/wait_for_exit": self._wait_for_terminal,
                "terminal/kill": self._kill_terminal,
                "terminal/release": self._release_terminal,
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
            self.failure = f"It failed: {_one_line(error.message)}"
        except ConnectionLost:
            # Who follows the process knows why, and reports it.
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
        self.interrupt()

    def take_output(self) -> list[tuple[str, str]]:
        """Return and remove the guest's new text: ``text`` or ``thinking``, each with the text."""
        taken = [(kind, "".join(pieces)) for kind, pieces in self._output]
        self._size -= sum(len(text) for _, text in taken)
        self._output = []
        return taken

    def take_calls(self) -> list[ToolCall]:
        """Return the calls that hilum has to run for the guest next."""
        taken = [request.call for request in self._waiting]
        self._asked.update({request.call.id: request for request in self._waiting})
        self._waiting = []
        for action in self.actions.values():
            if action.shown or action.reported or not action.has_started:
                continue
            action.shown = True
            taken.append(self._make_call(REPORT, action.to_report(self._count)))
        self._output = self._later_output
        self._later_output = []
        self.interrupted = trio.Event()
        return taken

    def make_wait(self) -> ToolCall:
        """Return a call that waits until the guest has something new."""
        # The number keeps the loop from taking the call for a repetition without progress.
        return self._make_call(WAIT, {"number": self._count})

    def has_calls(self) -> bool:
        """Return whether hilum has to run calls for the guest."""
        if self._waiting:
            return True
        return any(
            each.has_started and not each.shown and not each.reported
            for each in self.actions.values()
        )

    def settle(self, results: Sequence[ToolResult]) -> None:
        """Answer the guest's requests with the results of their calls."""
        for result in results:
            request = self._asked.pop(result.call_id, None)
            if request is None:
                continue
            if request.call.name == TERMINAL and result.code:
                self._refuse_terminal(request.call, result.text)
            if not request.done.is_set():
                request.result = result
                request.allowed = request.allowed or not result.code
                request.done.set()

    def was_announced(self, call: ToolCall) -> bool:
        """Return whether the user has approved exactly this call when the guest announced it."""
        request = self._asked.get(call.id)
        return request is not None and request.is_approved and request.call == call

    def find_request(self, call_id: str) -> GuestRequest | None:
        """Return the request for which a call runs."""
        return self._asked.get(call_id)

    async def watch(self, ended: trio.Event) -> None:
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

    async def watch_action(self, action: GuestAction) -> None:
        """Wait while a tool call of the guest runs, and record how far it has been shown."""
        await self.watch(action.ended)
        is_over = action.ended.is_set() or bool(self.failure or self.stop_reason)
        is_asked = any(request.action is action for request in self._waiting)
        action.reported = is_over
        # A call that still runs is shown again after the other calls.
        action.shown = is_over or is_asked

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
        if action.has_started and not action.shown and not action.reported:
            self.interrupted.set()
        return action

    def _drop_details(self, action: GuestAction) -> None:
        self._action_text -= action.size
        action.drop_details()
        self._action_text += action.size

    def _update_plan(self, entries: object) -> None:
        if "todo_write" not in self._tools or not isinstance(entries, list):
            return
        todos = []
        for number, entry in enumerate(entries[:50], 1):
            if isinstance(entry, dict) and isinstance(entry.get("content"), str):
                status = entry.get("status")
                status = status if status in _TODO_STATES else "pending"
                content = " ".join(entry["content"].split())[:200] or "…"
                todos.append({"id": str(number), "content": content, "status": status})
        if todos and todos != self._plan:
            self._plan = todos
            # A newer plan replaces one that has not been shown yet.
            self._waiting = [each for each in self._waiting if each.call.name != "todo_write"]
            self._queue("todo_write", {"todos": todos, "merge": False})

    # --- requests ---------------------------------------------------------------------------------

    def _make_call(self, tool: str, arguments: Mapping[str, Any]) -> ToolCall:
        self._count += 1
        return ToolCall(
            f"guest-{self._count}-{os.urandom(3).hex()}",
            tool,
            msgspec.json.encode(arguments).decode(),
        )

    def _queue(
        self, tool: str, arguments: Mapping[str, Any], action: GuestAction | None = None
    ) -> GuestRequest:
        if self.failure:
            raise RpcError(REFUSED, self.failure)
        if len(self._waiting) >= MAX_WAITING:
            raise RpcError(REFUSED, f"{MAX_WAITING} requests already wait.")
        request = GuestRequest(self._make_call(tool, arguments), action=action)
        self._waiting.append(request)
        self.active_at = trio.current_time()
        self.interrupted.set()
        self.wake()
        return request

    async def _ask(
        self, tool: str, arguments: Mapping[str, Any], *, is_approved: bool = False
    ) -> ToolResult:
        """Run a call of hilum's for the guest and return its result.

        Raises:
            RpcError: The call was refused or failed.
        """
        request = self._queue(tool, arguments)
        request.is_approved = is_approved
        await request.done.wait()
        assert request.result is not None
        if request.result.code:
            code = RESOURCE_NOT_FOUND if request.result.code == "E_FILE_NOT_FOUND" else REFUSED
            raise RpcError(code, request.result.text)
        return request.result

    async def _request_permission(self, params: dict[str, Any]) -> dict[str, Any]:
        action = self._update_action(_as_dict(params.get("toolCall")))
        if action is None:
            raise RpcError(REFUSED, "The request names no tool call.")
        options = {allowed: choose_option(params.get("options"), allowed) for allowed in _ANSWERS}
        # A request may wait for long, and a guest can send many with megabytes in other fields.
        params.clear()
        action.shown = True
        # What the user is asked about must not change while the question is open.
        diffs = list(action.diffs)
        try:
            question = attrs.evolve(action, diffs=diffs)
            tool, arguments = await trio.to_thread.run_sync(question.to_question, self._root)
        except ValueError as error:
            raise RpcError(REFUSED, str(error)) from None
        announced: dict[str, list[FileDiff]] = {}
        if tool == EDIT:
            announced = await trio.to_thread.run_sync(self._find_announced, diffs)
        self._drop_details(action)
        # The texts are not needed while the question is open.
        del diffs, question
        request = self._queue(tool, arguments, action)
        request.announced = announced
        await request.done.wait()
        option = options[request.allowed]
        if not option:
            return {"outcome": {"outcome": "cancelled"}}
        return {"outcome": {"outcome": "selected", "optionId": option}}

    def _find_announced(self, diffs: Sequence[FileDiff]) -> dict[str, list[FileDiff]]:
        """Return the changes that a question shows completely, by resolved path. Blocks."""
        found: dict[str, list[FileDiff]] = {}
        if can_be_announced(diffs, self._root):
            for diff in diffs:
                shown = os.path.normpath(os.path.join(self._root, diff.path))
                # The user does not see where a link leads.
                if self._files.resolve(shown) == shown:
                    found.setdefault(shown, []).append(diff)
        return found

    def approve(self, request: GuestRequest) -> None:
        """Let the guest do what it has asked for, and what it has announced with it."""
        for path, diffs in request.announced.items():
            self._announced.add(path, diffs)
        request.allowed = True
        request.done.set()

    async def _read_file(self, params: dict[str, Any]) -> dict[str, Any]:
        path = self._files.resolve(_get_path(params))
        start = _get_number(params.get("line"))
        limit = _get_number(params.get("limit"))
        params.clear()
        await self._ask("read_file", {"path": path})
        text = await self._files.read_text(path)
        self._add_served(path)
        if start is not None or limit is not None:
            lines = text.splitlines(keepends=True)
            first = max((start or 1) - 1, 0)
            last = len(lines) if limit is None else first + limit
            text = "".join(lines[first:last])
        return {"content": text}

    async def _write_file(self, params: dict[str, Any]) -> None:
        path = self._files.resolve(_get_path(params))
        content = params.get("content")
        if not isinstance(content, str):
            raise RpcError(INVALID_PARAMS, "The request has no content.")
        params.clear()
        if self._written_text + len(content) > MAX_WRITTEN_TEXT:
            raise RpcError(REFUSED, "Too much text waits to be written.")
        self._written_text += len(content)
        try:
            await self._write_text(path, content)
        finally:
            self._written_text -= len(content)

    async def _write_text(self, path: str, content: str) -> None:
        exists = await trio.Path(path).exists()
        # A guest may have read the file itself. What hilum served it must not have changed since,
        # which the tool checks: it refuses to replace a content that the agent has not read.
        if path not in self._served and exists:
            await self._ask("read_file", {"path": path})
        is_approved = False
        if self._announced.has(path):
            before = await self._files.read_text(path) if exists else ""
            is_approved = self._announced.take(path, before, content)
        arguments = {"path": path, "content": content}
        await self._ask("write_file", arguments, is_approved=is_approved)
        self._add_served(path)

    def _add_served(self, path: str) -> None:
        if len(self._served) < MAX_SERVED:
            self._served.add(path)

    # --- terminals --------------------------------------------------------------------------------

    async def _create_terminal(self, params: dict[str, Any]) -> dict[str, Any]:
        running = [each for each in self.terminals.values() if not each.ended.is_set()]
        if len(running) >= MAX_TERMINALS:
            raise RpcError(REFUSED, f"{MAX_TERMINALS} terminals are already open.")
        self._terminal_count += 1
        terminal = Terminal(f"terminal-{self._terminal_count}-{os.urandom(3).hex()}", params)
        if not terminal.command.strip():
            raise RpcError(INVALID_PARAMS, "The request has no command.")
        if len(terminal.command) + len(terminal.folder) > MAX_COMMAND:
            raise RpcError(INVALID_PARAMS, f"The command has more than {MAX_COMMAND:,} characters.")
        arguments = {"terminal": terminal.id, "command": terminal.command}
        if terminal.folder:
            arguments["working_directory"] = terminal.folder
        # A terminal whose call does not wait would never end.
        self._queue(TERMINAL, arguments)
        self.terminals[terminal.id] = terminal
        self._drop_ended_terminals()
        return {"terminalId": terminal.id}

    def _drop_ended_terminals(self) -> None:
        ended = [each.id for each in self.terminals.values() if each.ended.is_set()]
        for name in ended[: max(len(ended) - MAX_TERMINALS, 0)]:
            del self.terminals[name]

    def _refuse_terminal(self, call: ToolCall, reason: str) -> None:
        terminal = self.terminals.get(msgspec.json.decode(call.arguments)["terminal"])
        if terminal is not None and not terminal.started:
            terminal.refuse(reason)

    def _find_terminal(self, params: dict[str, Any]) -> Terminal:
        terminal = self.terminals.get(str(params.get("terminalId")))
        if terminal is None:
            raise RpcError(RESOURCE_NOT_FOUND, "There is no such terminal.")
        return terminal

    async def _read_terminal(self, params: dict[str, Any]) -> dict[str, Any]:
        return self._find_terminal(params).describe()

    async def _wait_for_terminal(self, params: dict[str, Any]) -> dict[str, Any]:
        terminal = self._find_terminal(params)
        params.clear()
        await terminal.ended.wait()
        return terminal.exit_status

    async def _kill_terminal(self, params: dict[str, Any]) -> dict[str, Any]:
        self._find_terminal(params).kill()
        return {}

    async def _release_terminal(self, params: dict[str, Any]) -> dict[str, Any]:
        terminal = self._find_terminal(params)
        terminal.kill()
        del self.terminals[terminal.id]
        return {}


def _as_dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _get_path(params: Mapping[str, Any]) -> str:
    path = params.get("path")
    if not isinstance(path, str) or not os.path.isabs(path):
        raise RpcError(INVALID_PARAMS, "The request has no absolute path.")
    return os.path.normpath(path)


def _get_number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


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
