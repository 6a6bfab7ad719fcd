"""The socket to which the viewers in an editor's terminals connect.

It is next to the sockets with which terminals join a session: in a folder that only the user can
open, and that the sandbox hides from commands.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import trio
from hilum.settings import use_environment
from hilum.sharing.sockets import explain_refusal, find_socket, has_sockets, listen

TOKEN_BYTES = 32
TOKEN_SECONDS = 5.0
"""How long a process that has connected may take to say which command it shows."""

Handler = Callable[[trio.SocketStream], Awaitable[None]]

__all__ = ["ViewerSocket", "has_sockets", "open_viewer_socket"]


@attrs.define(eq=False)
class ViewerSocket:
    """A socket for viewers.

    Attributes:
        path: Its file.
    """

    path: Path
    _expected: dict[str, Handler] = attrs.field(factory=dict)

    @contextlib.contextmanager
    def expect(self, handler: Handler) -> Iterator[str]:
        """Accept one viewer while the block runs.

        Args:
            handler: Called with the connection; it returns when the connection may be closed.

        Yields:
            The token that the viewer must send, which works once.
        """
        token = secrets.token_hex(TOKEN_BYTES)
        self._expected[token] = handler
        try:
            yield token
        finally:
            self._expected.pop(token, None)

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection until it ends."""
        async with stream:
            try:
                # Whoever connects can end a command. A command in a sandbox cannot find the socket,
                # and one without a sandbox is refused here.
                if explain_refusal(stream):
                    return
                handler = await self._receive_token(stream)
            except (OSError, trio.BrokenResourceError):
                return
            if handler is not None:
                await handler(stream)

    async def _receive_token(self, stream: trio.SocketStream) -> Handler | None:
        received = b""
        with trio.move_on_after(TOKEN_SECONDS):
            while len(received) < 2 * TOKEN_BYTES:
                data = await stream.receive_some(2 * TOKEN_BYTES - len(received))
                if not data:
                    return None
                received += data
        return self._expected.pop(received.decode(errors="replace"), None)


@asynccontextmanager
async def open_viewer_socket(environ: Mapping[str, str]) -> AsyncIterator[ViewerSocket]:
    """Open a socket for viewers.

    Args:
        environ: The environment that says where the user's data is.

    Raises:
        OSError: The socket cannot be created.
    """
    with use_environment(environ):
        path = find_socket(f"viewers-{secrets.token_hex(16)}")
    listener = listen(path)
    opened = ViewerSocket(path)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, opened.serve, [listener])
            yield opened
            nursery.cancel_scope.cancel()
    finally:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
