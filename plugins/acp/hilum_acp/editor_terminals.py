"""Shows running commands in terminals of the editor.

hilum runs each command itself, in its sandbox. In the editor's terminal runs only a viewer, which
prints the output that hilum sends to it. The command never waits for the editor: it runs as if
nobody watched, and its call is shown as text until a viewer has connected. If one ends before the
command, the user has closed the terminal or stopped the program in it, and hilum stops the call.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio
from hilum import Session
from hilum import events as ev
from hilum.errors import E_CMD_FAIL, E_STOPPED, E_TIMEOUT, EXITS
from hilum.hooks import find_first_error
from hilum.messages import ToolCall, ToolResult
from hilum_view import parse_arguments, unwrap_call

from hilum_acp import terminal_viewer
from hilum_acp.client import Client
from hilum_acp.json_rpc import ConnectionLost, RpcError
from hilum_acp.terminal_output import OutputQueue
from hilum_acp.viewer_sockets import ViewerSocket, has_sockets, open_viewer_socket

START_SECONDS = 0.2
"""How long a command runs before it gets a terminal. Most of an agent's commands are quicker, and
their whole output is in their result."""
CREATE_SECONDS = 5.0
"""How long the editor may take to create a terminal."""
CONNECT_SECONDS = 5.0
"""How long the viewer in a new terminal may take to connect."""
CONFIRM_SECONDS = 1.0
"""How long the editor may take to report the end of a viewer. If the editor itself has ended, the
report never arrives."""
LEAVE_SECONDS = 0.2
"""How long an editor that ends may take to close the connection after the end of its terminals."""
DRAIN_SECONDS = 10.0
"""How long the terminal of an ended command may take to print the rest of its output."""
RELEASE_SECONDS = 5.0
"""How long hilum waits for the response to the release of a terminal."""
FILTER_SHARE = 0.2
"""Largest share of the time in which hilum filters the output of one command."""
COMMAND_TOOL = "run_terminal_cmd"
OUTPUT_LIMIT = 2_000_000
"""Number of bytes of output that the editor keeps of a terminal."""
SIGNAL_EXIT = 128
"""Added to the number of the signal that ended a command, as shells do it for the exit code."""

# Shows a terminal in a call, by agent, id of the call and id of the terminal; returns whether the
# call has not ended.
Show = Callable[[str, str, str], Awaitable[bool]]

_logger = logging.getLogger("hilum.acp")


@attrs.define(eq=False)
class _ShownCommand:
    """A command that may be shown in a terminal.

    Attributes:
        agent: Name of the agent that runs it.
        call: Id of its call.
        output: The output that the viewer has not got.
        exit_code: The exit code of the viewer; ``None`` while the call runs.
        ended: Set when the call has ended.
        connected: Set when the viewer has connected.
        gone: Set when the viewer has disconnected.
        exited: Set when the editor has reported the end of the viewer.
        changed: Set, and then replaced, when one of the other events is set.
    """

    agent: str
    call: str
    output: OutputQueue = attrs.field(factory=OutputQueue)
    exit_code: int | None = None
    ended: trio.Event = attrs.field(factory=trio.Event)
    connected: trio.Event = attrs.field(factory=trio.Event)
    gone: trio.Event = attrs.field(factory=trio.Event)
    exited: trio.Event = attrs.field(factory=trio.Event)
    changed: trio.Event = attrs.field(factory=trio.Event)
    _news: trio.Event = attrs.field(factory=trio.Event)

    def print(self, text: str) -> None:
        """Add output for the viewer, without waiting for it."""
        self.output.add(text)
        self._wake_writer()

    def end(self, result: ToolResult) -> None:
        """End the viewer once it has printed everything."""
        notice = _make_notice(result)
        if notice:
            self.output.add_notice(notice)
        self.exit_code = _find_exit_code(result)
        self._wake_writer()
        self.set(self.ended)

    def set(self, event: trio.Event) -> None:
        """Set one of the events, and wake the task that waits for any of them."""
        event.set()
        self.changed.set()
        self.changed = trio.Event()

    async def wait_for_any(self, *events: trio.Event) -> None:
        """Wait until one of the events is set."""
        while not any(event.is_set() for event in events):
            await self.changed.wait()

    def _wake_writer(self) -> None:
        self._news.set()
        self._news = trio.Event()

    async def serve(self, stream: trio.SocketStream) -> None:
        """Send the output to the viewer, until it disconnects."""
        self.set(self.connected)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send_output, stream)
                # A viewer sends nothing more; only the end of the connection matters.
                while await stream.receive_some(1024):
                    pass
                nursery.cancel_scope.cancel()
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self.set(self.gone)

    async def _send_output(self, stream: trio.SocketStream) -> None:
        while True:
            if not self.output.is_empty:
                began = time.thread_time()
                data = self.output.take()
                spent = time.thread_time() - began
                if data:
                    await stream.send_all(_make_message(terminal_viewer.OUTPUT, data))
                # Meanwhile, the queue leaves out the oldest output, so the rest of hilum does not
                # wait for a command that prints more than can be filtered.
                await trio.sleep(spent * (1 / FILTER_SHARE - 1))
            elif self.exit_code is not None:
                data = bytes([self.exit_code])
                await stream.send_all(_make_message(terminal_viewer.END, data))
                return
            else:
                await self._news.wait()


class EditorTerminals:
    """The terminals of one session in the editor.

    Args:
        client: The editor.
        session: The session.
        show: Shows a terminal in its call.
    """

    def __init__(self, client: Client, session: Session, show: Show) -> None:
        self._client = client
        self._session = session
        self._show = show
        self._after = session.journal.last
        # By the number of the event with which the call has started.
        self._running: dict[int, _ShownCommand] = {}
        self._is_off = False

    async def run(self) -> None:
        """Show the commands of the session in terminals until it closes, if that is possible."""
        if not self._client.abilities.terminal or not has_sockets():
            return
        try:
            async with open_viewer_socket(self._session.kernel.environ) as viewers:
                await self._follow(viewers)
        except* OSError as group:
            self._turn_off(f"{find_first_error(group)}.")
        except* Exception as group:
            # A mistake here must not end the session.
            _logger.error("Commands are no longer shown in terminals.", exc_info=group)

    async def _follow(self, viewers: ViewerSocket) -> None:
        """Pass the output of commands on to their terminals.

        This reader of the session never waits for the editor, so it misses no output.
        """
        async with trio.open_nursery() as nursery:
            async for item in self._session.events(self._after, deltas=True):
                if isinstance(item, ev.Delta):
                    command = self._running.get(item.seq)
                    if command is not None and item.kind == "output":
                        command.print(item.text)
                elif isinstance(item, ev.CallStarted) and self._is_shown(item.call):
                    command = _ShownCommand(item.agent, item.call.id)
                    self._running[item.seq] = command
                    nursery.start_soon(self._serve, viewers, command)
                elif isinstance(item, ev.CallDone):
                    self._end(item)
            nursery.cancel_scope.cancel()

    def _is_shown(self, call: ToolCall) -> bool:
        name, text = unwrap_call(call.name, call.arguments)
        if self._is_off or name != COMMAND_TOOL:
            return False
        # The output of a background command is not in its call.
        return not (parse_arguments(text) or {}).get("background")

    def _end(self, done: ev.CallDone) -> None:
        for seq, command in list(self._running.items()):
            if (command.agent, command.call) == (done.agent, done.result.call_id):
                del self._running[seq]
                command.end(done.result)

    def _turn_off(self, reason: str) -> None:
        """Show the commands that start from now on as text."""
        self._is_off = True
        _logger.warning("Commands are not shown in terminals of the editor: %s", reason)

    async def _serve(self, viewers: ViewerSocket, command: _ShownCommand) -> None:
        """Show a command in a terminal until it has ended."""
        with trio.move_on_after(START_SECONDS):
            await command.ended.wait()
        if command.ended.is_set() or self._is_off:
            return
        with viewers.expect(command.serve) as token:
            try:
                async with self._create_terminal(str(viewers.path), token) as terminal:
                    if terminal:
                        await self._show_output(command, terminal)
            except* ConnectionLost:
                # The session is closed next.
                pass

    async def _show_output(self, command: _ShownCommand, terminal: str) -> None:
        """Show a command in a terminal that was created for it.

        Raises:
            ConnectionLost: The editor has left.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_exit, command, terminal)
            with trio.move_on_after(CONNECT_SECONDS):
                await command.wait_for_any(command.connected, command.exited, command.ended)
            # The output of a command that ends before is in its result.
            if command.connected.is_set():
                await self._follow_viewer(command, terminal)
            elif not command.ended.is_set():
                self._turn_off("a viewer in a new terminal did not connect to hilum.")
            nursery.cancel_scope.cancel()

    async def _follow_viewer(self, command: _ShownCommand, terminal: str) -> None:
        """Show the terminal of a connected viewer in the call, until both have ended."""
        if command.ended.is_set():
            return
        if not await self._show(command.agent, command.call, terminal):
            return
        await command.wait_for_any(command.gone, command.ended)
        if not command.ended.is_set():
            await self._stop(command)
        await self._wait_until_printed(command)

    async def _stop(self, command: _ShownCommand) -> None:
        """Stop the call of a command whose viewer has ended."""
        with trio.move_on_after(CONFIRM_SECONDS):
            await command.wait_for_any(command.exited, command.ended)
        # An editor that ends takes its terminals with it. The run is then interrupted and can be
        # continued, so its call must not count as stopped by the user.
        with trio.move_on_after(LEAVE_SECONDS):
            await self._client.connection.closed.wait()
        # Ids of calls may repeat, and another call must not be stopped in place of an ended one.
        if not self._client.has_left and not command.ended.is_set():
            self._session.stop_call(command.call, agent=command.agent)

    async def _wait_until_printed(self, command: _ShownCommand) -> None:
        """Wait until the viewer has printed all output and the editor knows its exit code."""
        await command.ended.wait()
        with trio.move_on_after(DRAIN_SECONDS):
            await command.gone.wait()
            with trio.move_on_after(CONFIRM_SECONDS):
                await command.exited.wait()

    async def _watch_exit(self, command: _ShownCommand, terminal: str) -> None:
        """Set ``exited`` when the viewer has ended, as far as the editor reports it."""
        params = {"sessionId": self._session.id, "terminalId": terminal}
        try:
            await self._client.connection.request("terminal/wait_for_exit", params)
        except (RpcError, ConnectionLost):
            return
        command.set(command.exited)

    # --- requests ---------------------------------------------------------------------------------

    @asynccontextmanager
    async def _create_terminal(self, path: str, token: str) -> AsyncIterator[str]:
        """Create a terminal with a viewer in the editor, and release it with the block.

        Yields:
            The id of the terminal; empty if the editor does not create it.

        Raises:
            ConnectionLost: The editor has left.
        """
        terminal = ""
        try:
            with trio.fail_after(CREATE_SECONDS):
                result = await self._client.connection.request(
                    "terminal/create",
                    self._make_terminal_request(path, token),
                    on_late=self._release_late,
                )
            terminal = _read_terminal(result)
            if not terminal:
                self._turn_off("its response to terminal/create has no terminal.")
        except trio.TooSlowError:
            self._turn_off(f"it did not create one within {CREATE_SECONDS:g} seconds.")
        except RpcError as error:
            self._turn_off(error.message)
        is_released = not terminal
        try:
            yield terminal
            if terminal:
                params = {"sessionId": self._session.id, "terminalId": terminal}
                is_released = True
                await self._release(params)
        finally:
            if not is_released:
                self._release_late({"terminalId": terminal})

    def _make_terminal_request(self, path: str, token: str) -> dict[str, Any]:
        # Other users can read the arguments of a process, but not its environment.
        variables = {terminal_viewer.SOCKET: path, terminal_viewer.TOKEN: token}
        return {
            "sessionId": self._session.id,
            "command": sys.executable,
            "args": ["-I", "-S", str(Path(terminal_viewer.__file__).resolve())],
            "env": [{"name": name, "value": value} for name, value in variables.items()],
            "cwd": str(self._session.workspace.root),
            "outputByteLimit": OUTPUT_LIMIT,
        }

    async def _release(self, params: dict[str, Any]) -> None:
        try:
            with trio.move_on_after(RELEASE_SECONDS):
                await self._client.connection.request("terminal/release", params)
        except RpcError as error:
            _logger.warning("The editor could not release a terminal: %s", error.message)

    def _release_late(self, result: Any) -> None:
        """Release a terminal that nobody waits for, without waiting for the response."""
        terminal = _read_terminal(result)
        if terminal:
            params = {"sessionId": self._session.id, "terminalId": terminal}
            self._client.connection.post("terminal/release", params)


def _read_terminal(result: Any) -> str:
    """Return the id in a response to ``terminal/create``; empty if there is none."""
    terminal = result.get("terminalId") if isinstance(result, dict) else None
    return terminal if isinstance(terminal, str) else ""


def _make_message(kind: bytes, data: bytes) -> bytes:
    return terminal_viewer.HEADER.pack(kind, len(data)) + data


def _find_exit_code(result: ToolResult) -> int:
    """Return the exit code with which the viewer of a command ends."""
    code = result.data.get("exit_code")
    if isinstance(code, int):
        return (code if code >= 0 else SIGNAL_EXIT - code) % 256
    # A command that continues in the background has not failed.
    return EXITS.get(result.code, 1) if result.code else 0


def _make_notice(result: ToolResult) -> str:
    """Return what the terminal says about the end of a command; empty if it ended by itself."""
    if result.code == E_STOPPED:
        return "The command was stopped."
    if result.code == E_TIMEOUT:
        return "The command took too long and was ended."
    if result.code and result.code != E_CMD_FAIL:
        return f"The call failed: {result.code}"
    if result.data.get("service") and result.data.get("exit_code") is None:
        return "The command continues in the background."
    return ""
