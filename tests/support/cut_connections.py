"""A proxy in front of a server that cuts connections, as a network does."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio

_GONE = (trio.BrokenResourceError, trio.ClosedResourceError)


class CutProxy:
    """A proxy for TCP connections.

    Attributes:
        port: Its port.
        target: The port to which it forwards.
        connections: Number of connections that were made so far.
        swallows: Function that returns whether the response to a request must be lost: it gets the
            first bytes of the request.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.target = 0
        self.connections = 0
        self.swallows: Callable[[bytes], bool] = lambda data: False
        self._scopes: set[trio.CancelScope] = set()

    def cut(self) -> int:
        """Cut all connections, and return how many there were."""
        count = len(self._scopes)
        for scope in self._scopes:
            scope.cancel()
        return count

    async def serve(self, client: trio.SocketStream) -> None:
        """Forward one connection until it ends or is cut."""
        self.connections += 1
        with trio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                await self._forward(client, scope)
            except (OSError, *_GONE):
                pass
            finally:
                self._scopes.discard(scope)
        await trio.aclose_forcefully(client)

    async def _forward(self, client: trio.SocketStream, scope: trio.CancelScope) -> None:
        async with await trio.open_tcp_stream("127.0.0.1", self.target) as server:
            swallowed = False

            async def copy_requests() -> None:
                nonlocal swallowed
                while data := await client.receive_some():
                    swallowed = swallowed or self.swallows(data)
                    await server.send_all(data)
                scope.cancel()

            async def copy_responses() -> None:
                while data := await server.receive_some():
                    if swallowed:
                        break
                    await client.send_all(data)
                scope.cancel()

            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(copy_requests)
                    nursery.start_soon(copy_responses)
            except* _GONE:
                pass


@asynccontextmanager
async def open_cut_proxy() -> AsyncIterator[CutProxy]:
    """Open a proxy on a free port; its target must be set before it is used."""
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        proxy = CutProxy(listener.socket.getsockname()[1])
        nursery.start_soon(trio.serve_listeners, proxy.serve, [listener])
        yield proxy
        nursery.cancel_scope.cancel()
