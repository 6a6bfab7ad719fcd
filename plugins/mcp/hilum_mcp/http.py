"""Servers that are reached by HTTP: streamable HTTP, and SSE of the first era, over the SDK."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from hilum_mcp.errors import reason_of
from hilum_mcp.stdio import Line

if TYPE_CHECKING:
    import httpx2

    from hilum_mcp.server import Server

CONNECT, READ = 15.0, 300.0
"""Seconds to reach a server, and between two signs of life on an open stream."""


@asynccontextmanager
async def http_transport(
    server: Server, line: Line, *, auth: httpx2.Auth | None = None, sse: bool = False
) -> AsyncIterator[tuple[Any, Any]]:
    """Reach a server and give the two streams that the SDK reads and writes.

    Redirects are followed on the server's own origin only, which is the SDK's rule.

    Args:
        server: Where, with variables filled in.
        line: Is told when it is over, and why requests fail.
        auth: What signs requests, if the user has logged in.
        sse: Whether to speak the HTTP of the first era.

    """
    import httpx2
    from mcp.client.sse import sse_client
    from mcp.client.streamable_http import streamable_http_client

    watch = _Watch(line, signed=auth is not None)
    timeout = httpx2.Timeout(CONNECT, read=READ)

    def client(
        headers: dict[str, str] | None = None, timeout: Any = timeout, auth: httpx2.Auth | None = auth
    ) -> httpx2.AsyncClient:
        hooks: dict[str, list[Callable[..., Any]]] = {"response": [watch]}
        return httpx2.AsyncClient(
            headers={**server.headers, **(headers or {})}, timeout=timeout, auth=auth, event_hooks=hooks
        )

    try:
        async with AsyncExitStack() as stack:
            if sse:
                made = sse_client(
                    server.url, timeout=CONNECT, sse_read_timeout=READ, httpx_client_factory=client, auth=auth
                )
            else:
                made = streamable_http_client(server.url, http_client=await stack.enter_async_context(client()))
            yield await stack.enter_async_context(made)
    except* httpx2.TransportError as group:
        line.lose(f"{server.url} cannot be reached. {reason_of(group)}")
        raise


class _Watch:
    """Looks at each response, whose status the SDK does not pass on."""

    def __init__(self, line: Line, signed: bool) -> None:
        self.line, self.signed = line, signed

    async def __call__(self, response: httpx2.Response) -> None:
        self.line.status = status = response.status_code
        if status == 401 and not self.signed:
            self.line.login = "It wants to know who asks (HTTP 401)."
            self.line.lose(self.line.login)
        elif status == 404 and "mcp-session-id" in response.request.headers:
            self.line.lose("It has forgotten the session, as after a restart.")
