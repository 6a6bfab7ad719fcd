"""Servers that are programs: a transport over the warden, so that whole process trees are held and
ended.

::

    server ── stdout ──► lines ──► messages ──► the SDK          what is no message goes to the log and is skipped
       ▲ └─── stderr ──► the log
       └───── stdin ◄── messages ◄──────────── the SDK

The end: nothing more is written, standard input closes, the server has a moment to go by itself,
then SIGTERM, then SIGKILL.
"""

from __future__ import annotations

import math
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import trio
from hilum import HilumError, home_folder
from hilum import environment as kernel_environment

from hilum_mcp.errors import TOO_LARGE
from hilum_mcp.log import Log

if TYPE_CHECKING:
    from hilum import Process

LONGEST_LINE = 32 << 20
"""Bytes of one message: a large image fits."""

MOST_GARBAGE = 10_000
"""Lines that are no messages, from one start of a server.

One that writes more is not speaking the protocol.
"""

MOST_UNREAD = 10_000
"""Messages that wait for a server that does not read, while it goes on writing."""

FLUSH, LEAVE, TERM = 0.2, 1.0, 1.0
"""Seconds to write what is pending, to go by itself at the end of input, and between SIGTERM and
SIGKILL.
"""


PROGRAMS = {
    "UV_TOOL_DIR": "uv-tools",
    "DENO_DIR": "deno",
    "BUN_INSTALL_CACHE_DIR": "bun",
    "XDG_CACHE_HOME": "cache",
}
"""Where uvx and its like keep programs, and others what they like, which the sandbox does not let
them write to: the variable that moves it."""

FETCHED = {
    "PLAYWRIGHT_BROWSERS_PATH": "ms-playwright",
    "HF_HOME": "huggingface",
    "TORCH_HOME": "torch",
}
"""What was fetched before and is large: read where it stands in the user's own cache, by the
variable that names it.
"""


class Broken(Exception):
    """A server cannot be gone on with; says why."""


@attrs.define(eq=False)
class Line:
    """What is known of a server's line.

    Attributes:
        lost: Set when nothing more can come.
        why: Why, a sentence; empty while it is not known.
        status: Of a server that is reached by HTTP: the last status.
        refused: What it refused last, a sentence; empty for nothing.
        forgotten: Whether a server that is reached by HTTP no more knows the session.
        login: Why the user has to log in first; empty where that is not so.
    """

    lost: trio.Event = attrs.Factory(trio.Event)
    why: str = ""
    status: int = 0
    refused: str = ""
    forgotten: bool = False
    login: str = ""

    def lose(self, why: str) -> None:
        """Note the end; the first reason stays."""
        self.why = self.why or why
        self.lost.set()


Opener = Callable[[], AbstractAsyncContextManager["Process"]]


@asynccontextmanager
async def stdio_transport(
    open_process: Opener, log: Log, line: Line
) -> AsyncIterator[tuple[Any, Any]]:
    """Start a server and give the two streams that the SDK reads and writes.

    Args:
        open_process: Starts it, with a standard input.
        log: Takes its standard error, and what on its standard output is no message.
        line: Is told when it is over.

    Raises:
        ToolError: It cannot be started.
    """
    import anyio

    async with open_process() as process, trio.open_nursery() as nursery:
        into, read = anyio.create_memory_object_stream[Any](0)
        # Without end: the SDK waits up to 5 s for room to say that a call is cancelled, and nothing
        # may wait for a server.
        write, out = anyio.create_memory_object_stream[Any](math.inf)
        pipes = _Pipes(process, log, line, into, out)
        nursery.start_soon(pipes.shielded, pipes.read)
        nursery.start_soon(pipes.shielded, pipes.write)
        nursery.start_soon(pipes.shielded, pipes.listen)
        try:
            yield read, write
        finally:
            pipes.leaving = True
            with trio.CancelScope(shield=True):
                read.close()
                write.close()
                await pipes.leave()
            for scope in pipes.scopes:
                scope.cancel()
            into.close()
            out.close()


class _Pipes:
    """The three pipes of a server."""

    def __init__(self, process: Process, log: Log, line: Line, into: Any, out: Any) -> None:
        self.process = process
        self.log = log
        self.line = line
        self.into = into
        self.out = out
        self.scopes: list[trio.CancelScope] = []
        self.held = bytearray()
        self.written = trio.Event()
        self.garbage = 0
        self.heard = False
        self.leaving = False

    async def shielded(self, pump: Callable[[], Awaitable[None]]) -> None:
        """Run a pump until ``leave`` is over, whatever is cancelled around: a server that cannot
        write cannot go.
        """
        with trio.CancelScope(shield=True) as scope:
            self.scopes.append(scope)
            await pump()

    async def read(self) -> None:
        """Pass on messages until the end; then take what comes, so that the server is not stuck."""
        import anyio

        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async with self.into:
                try:
                    while chunk := await self.process.stdout.receive_some(1 << 16):
                        for data in self._lines(bytes(chunk)):
                            message = self._message(data)
                            if message is not None:
                                self.heard = True
                                await self.into.send(message)
                        if self.out.statistics().current_buffer_used > MOST_UNREAD:
                            raise Broken("It does not read what it is sent.")
                    if not self.leaving:
                        self.line.lose(await self._ending())
                except Broken as error:
                    self.line.lose(str(error))
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    pass
            while await self.process.stdout.receive_some(1 << 16):
                pass

    def _lines(self, chunk: bytes) -> list[bytes]:
        """Return the lines that are whole now."""
        *whole, rest = chunk.split(b"\n")
        if whole:
            whole[0] = bytes(self.held) + whole[0]
            self.held.clear()
        self.held += rest
        if len(self.held) > LONGEST_LINE:
            raise Broken(TOO_LARGE.format(LONGEST_LINE >> 20))
        return whole

    def _message(self, data: bytes) -> Any:
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        data = data.strip()
        if not data:
            return None
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(data, by_name=False))
        except ValueError:
            self.garbage += 1
            if self.garbage > MOST_GARBAGE:
                raise Broken(
                    "It writes to its standard output what is no message of the protocol."
                ) from None
            self.log.add(b"[stdout, no message] " + data[:500] + b"\n")
            return None

    async def _ending(self) -> str:
        """Return how a server ended that closed its standard output."""
        code: int | None = None
        with trio.move_on_after(1.0), suppress(HilumError):
            code = await self.process.wait()
        last = self.log.last()
        if code is None:
            how = "It closed its standard output"
        else:
            how = f"It exited with code {code}"
        if code is not None and code < 0:
            with suppress(ValueError):
                how = f"It was ended by {signal.Signals(-code).name}"
        how += "" if self.heard else " before it answered"
        if "read-only file system" in last.lower():
            held = " What it may write to is said by mcp.sandbox."
        else:
            held = ""
        if last:
            return f"{how}; its last words: {last}{held}"
        return f"{how}."

    async def write(self) -> None:
        """Write messages until the end."""
        stdin = self.process.stdin
        assert stdin is not None
        try:
            async with self.out:
                async for message in self.out:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await stdin.send_all(text.encode(errors="replace") + b"\n")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.line.lose("It reads no more from its standard input.")
        finally:
            self.written.set()

    async def listen(self) -> None:
        """Write what it says on standard error to the log."""
        stderr = self.process.stderr
        assert stderr is not None
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while chunk := await stderr.receive_some(1 << 16):
                self.log.add(bytes(chunk))
                await self.log.flush()

    async def leave(self) -> None:
        """Let the server go by itself.

        What does not go is ended by who started it, and so is what never said a word.
        """
        assert self.process.stdin is not None
        if self.heard:
            with trio.move_on_after(FLUSH):
                await self.written.wait()
        self.process.stdin.close()
        if self.heard:
            with trio.move_on_after(LEAVE), suppress(HilumError):
                await self.process.wait()
        await self.log.flush()


def environment(given: Mapping[str, str], cache: Path | None = None) -> dict[str, str]:
    """Return the variables of a server: what was written for it, and that nobody watches it on a
    terminal.

    Args:
        given: What was written for it.
        cache: A folder that it may write to, where what starts servers keeps programs; ``None``
            leaves them their own.
    """
    if cache is None:
        folders = {}
    else:
        folders = {name: str(cache / folder) for name, folder in PROGRAMS.items()}
    own = Path(kernel_environment().get("XDG_CACHE_HOME") or home_folder() / ".cache")
    known = {
        name: str(own / folder)
        for name, folder in FETCHED.items()
        if cache is not None and (own / folder).is_dir()
    }
    known = {name: kernel_environment().get(name, folder) for name, folder in known.items()}
    return {"NO_COLOR": "1", "npm_config_update_notifier": "false", **folders, **known, **given}
