"""A transport for servers that are programs, which run under the warden.

::

    server ── stdout ──► lines ──► messages ──► the SDK       other lines go to the log
       ▲ └─── stderr ──► the log
       └───── stdin ◄── messages ◄──────────── the SDK

The SDK's own transport is not used, because it starts the program without the sandbox, and the
program's child processes would survive a SIGKILL of hilum.

At the end, hilum stops writing, closes the server's standard input, and gives the server a moment
to exit. The server then receives SIGTERM and finally SIGKILL.
"""

from __future__ import annotations

import math
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import trio
from hilum import HilumError, home_folder
from hilum import environment as kernel_environment
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from hilum_mcp.errors import MAX_MESSAGE, TOO_LARGE, ServerProtocolError
from hilum_mcp.server_log import ServerLog
from hilum_mcp.transport_state import TransportState

if TYPE_CHECKING:
    from hilum import Process

CHUNK = 1 << 16

# Maximum number of lines per start that are not messages. A server that writes more such lines does
# not use the protocol.
MAX_INVALID_LINES = 10_000

# Maximum number of unread messages for a server that keeps writing without reading.
MAX_UNREAD = 10_000

# Time limit, in seconds, for writing pending messages when the transport closes.
FLUSH_TIMEOUT = 0.2

# Seconds that a server has to exit after its standard input is closed.
EXIT_TIMEOUT = 1.0

# Seconds between SIGTERM and SIGKILL.
TERM_TIMEOUT = 1.0

# Seconds to wait for the exit code of a server that closed its standard output.
STATUS_TIMEOUT = 1.0

# Variables that move the folders of uvx and other programs into this server's cache. The sandbox
# does not let these programs write to their usual folders.
_PROGRAM_FOLDERS = {
    "UV_TOOL_DIR": "uv-tools",
    "DENO_DIR": "deno",
    "BUN_INSTALL_CACHE_DIR": "bun",
    "XDG_CACHE_HOME": "cache",
}

# Variables that contain the paths of large downloads in the user's own cache, from which the server
# reads.
_DOWNLOAD_FOLDERS = {
    "PLAYWRIGHT_BROWSERS_PATH": "ms-playwright",
    "HF_HOME": "huggingface",
    "TORCH_HOME": "torch",
}

OpenProcess = Callable[[], AbstractAsyncContextManager["Process"]]


@asynccontextmanager
async def stdio_transport(
    open_process: OpenProcess,
    log: ServerLog,
    state: TransportState,
) -> AsyncIterator[tuple[Any, Any]]:
    """Start a server and yield the two streams that the SDK reads and writes.

    Args:
        open_process: A function that starts the server's process with a pipe as standard input.
        log: The log for standard error, and for lines on standard output that are not messages.
        state: The transport's state, which is updated when the transport is lost.

    Raises:
        ToolError: The server cannot be started.
    """
    async with open_process() as process, trio.open_nursery() as nursery:
        into, read = anyio.create_memory_object_stream[Any](0)
        # The buffer has no limit: to send a cancellation, the SDK would otherwise wait up to 5 s
        # for space, and nothing may wait for a server. MAX_UNREAD limits the buffer instead.
        write, out = anyio.create_memory_object_stream[Any](math.inf)
        pipes = _Pipes(process, log, state, into, out)
        for pump in (pipes.read, pipes.write, pipes.read_errors):
            nursery.start_soon(pipes.run_shielded, pump)
        try:
            yield read, write
        finally:
            # The flag is set first, so that the end of the output is not reported as a failure.
            pipes.closing = True
            # Closing is shielded from cancellation, so that the servers of a cancelled session can
            # also exit properly.
            with trio.CancelScope(shield=True):
                read.close()
                write.close()
                await pipes.close()
            for scope in pipes.scopes:
                scope.cancel()
            into.close()
            out.close()


class _Pipes:
    """The three pipes of a server.

    Attributes:
        scopes: The cancel scopes of the tasks that transfer data.
        closing: Whether hilum is ending the server.
    """

    def __init__(
        self,
        process: Process,
        log: ServerLog,
        state: TransportState,
        into: Any,
        out: Any,
    ) -> None:
        self.scopes: list[trio.CancelScope] = []
        self.closing = False
        self._process = process
        self._log = log
        self._state = state
        self._into = into
        self._out = out
        self._partial_line = bytearray()
        self._written = trio.Event()
        self._invalid_lines = 0
        self._answered = False

    async def run_shielded(self, pump: Callable[[], Awaitable[None]]) -> None:
        """Run a transfer task until ``close`` has ended, even if the outer scope is cancelled.

        A server that cannot write its output cannot exit.
        """
        with trio.CancelScope(shield=True) as scope:
            self.scopes.append(scope)
            await pump()

    async def read(self) -> None:
        """Forward messages until the transport ends, and discard further output.

        A server whose output nobody reads would hang.
        """
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async with self._into:
                await self._read_messages()
            while await self._process.stdout.receive_some(CHUNK):
                pass

    async def _read_messages(self) -> None:
        try:
            while chunk := await self._process.stdout.receive_some(CHUNK):
                for line in self._complete_lines(bytes(chunk)):
                    message = self._parse(line)
                    if message is not None:
                        self._answered = True
                        await self._into.send(message)
                if self._out.statistics().current_buffer_used > MAX_UNREAD:
                    raise ServerProtocolError("It does not read its standard input.")
            if not self.closing:
                self._state.fail(await self._describe_end())
        except ServerProtocolError as error:
            self._state.fail(str(error))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass

    def _complete_lines(self, chunk: bytes) -> list[bytes]:
        """Return the lines that are now complete, and keep the incomplete rest."""
        *lines, rest = chunk.split(b"\n")
        if lines:
            lines[0] = bytes(self._partial_line) + lines[0]
            self._partial_line.clear()
        # Extending a bytearray does not copy it, so a large message in many chunks takes linear
        # time.
        self._partial_line += rest
        if len(self._partial_line) > MAX_MESSAGE:
            raise ServerProtocolError(TOO_LARGE)
        return lines

    def _parse(self, line: bytes) -> SessionMessage | None:
        line = line.strip()
        if not line:
            return None
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError:
            self._invalid_lines += 1
            if self._invalid_lines > MAX_INVALID_LINES:
                raise ServerProtocolError(
                    "It writes lines to its standard output that are not protocol messages."
                ) from None
            self._log.add(b"[stdout, not a message] " + line[:500] + b"\n")
            return None

    async def _describe_end(self) -> str:
        """Return a description of how a server ended after it closed its standard output."""
        code: int | None = None
        with trio.move_on_after(STATUS_TIMEOUT), suppress(HilumError):
            code = await self._process.wait()
        end = _describe_code(code)
        if not self._answered:
            end = f"{end} before it responded"
        last = self._log.last_lines()
        if not last:
            return f"{end}."
        hint = ""
        if "read-only file system" in last.lower():
            hint = " The setting mcp.sandbox determines to which folders it may write."
        return f"{end}; its last output: {last}{hint}"

    async def write(self) -> None:
        """Write messages until the stream ends."""
        stdin = self._process.stdin
        assert stdin is not None
        try:
            async with self._out:
                async for message in self._out:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await stdin.send_all(text.encode(errors="replace") + b"\n")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._state.fail("It no longer reads its standard input.")
        finally:
            self._written.set()

    async def read_errors(self) -> None:
        """Write standard error to the log."""
        stderr = self._process.stderr
        assert stderr is not None
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while chunk := await stderr.receive_some(CHUNK):
                self._log.add(bytes(chunk))
                await self._log.flush()

    async def close(self) -> None:
        """Close standard input and give the server time to exit.

        A server that has never responded gets no extra time. The caller, which opened the process,
        ends it afterwards.
        """
        assert self._process.stdin is not None
        if self._answered:
            with trio.move_on_after(FLUSH_TIMEOUT):
                await self._written.wait()
        self._process.stdin.close()
        if self._answered:
            with trio.move_on_after(EXIT_TIMEOUT), suppress(HilumError):
                await self._process.wait()
        await self._log.flush()


def _describe_code(code: int | None) -> str:
    if code is None:
        return "It closed its standard output"
    if code < 0:
        with suppress(ValueError):
            return f"It was ended by {signal.Signals(-code).name}"
    return f"It exited with code {code}"


def make_environment(given: Mapping[str, str], cache: Path | None = None) -> dict[str, str]:
    """Return the environment variables of a server.

    Args:
        given: The environment variables in the server's configuration.
        cache: The folder in which uvx and other tools store programs; ``None`` for their default
            folders.
    """
    # Standard error is written to a log file, in which colours and update notices would be noise.
    variables = {"NO_COLOR": "1", "npm_config_update_notifier": "false"}
    if cache is not None:
        environment = kernel_environment()
        user_cache = Path(environment.get("XDG_CACHE_HOME") or home_folder() / ".cache")
        for name, folder in _PROGRAM_FOLDERS.items():
            variables[name] = str(cache / folder)
        for name, folder in _DOWNLOAD_FOLDERS.items():
            if (user_cache / folder).is_dir():
                variables[name] = environment.get(name, str(user_cache / folder))
    return {**variables, **given}
