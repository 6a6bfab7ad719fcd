"""Logging in at a server: in the browser, once.

What it gave signs the requests of later sessions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import trio
from hilum import HilumError, ToolError, UsageError, errors

from hilum_mcp import tokens
from hilum_mcp.errors import single

if TYPE_CHECKING:
    import httpx2

    from hilum_mcp.loopback import Loopback
    from hilum_mcp.server import Server

SECONDS = 300.0
"""How long the browser is waited for."""


def auth_of(
    server: Server, client_metadata_url: str = "", hosts: frozenset[str] = frozenset()
) -> httpx2.Auth | None:
    """Return what signs the requests to a server in a session: what is kept of a log-in, or a
    program's own credentials.

    No browser is opened; where only that would help, ``NeedsLogin`` is raised while connecting.
    Blocks for a small file.

    Args:
        server: The server, variables filled in.
        client_metadata_url: Where a document describes hilum as a client; empty for none.
        hosts: Hosts of the user's network that a server may name for logging in.

    Raises:
        UsageError: Its description lacks something.
    """
    if not takes_login(server):
        return None
    kept = tokens.Kept(tokens.file_of(server))
    if by_itself(server):
        from hilum_mcp import grants

        return grants.machine(server, kept, hosts)
    if not kept.read().get("tokens"):
        return None
    from hilum_mcp import oauth

    _document(server, client_metadata_url)
    kept.client = oauth.registered(server, _default(server))
    return oauth.Provider(server, kept, _default(server), None, None, client_metadata_url, hosts)


def takes_login(server: Server) -> bool:
    """Return whether OAuth is the way into a server: it is reached by HTTP, and its file gives no
    key of its own.
    """
    given = {name.lower() for name in (*server.headers, *server.header_names)}
    return server.kind != "stdio" and server.login and "authorization" not in given


def by_itself(server: Server) -> bool:
    """Return whether a server is logged in at with a program's own credentials, which needs no
    user.
    """
    return (server.oauth or {}).get("grant", "authorization_code") != "authorization_code"


def _document(server: Server, setting: str) -> None:
    """Check the addresses at which a document describes hilum as a client."""
    given = {
        str(server.file): (server.oauth or {}).get("client_metadata_url", ""),
        "the settings, [mcp]": setting,
    }
    for where, url in given.items():
        parts = urlsplit(url)
        if url and (parts.scheme != "https" or parts.path in ("", "/")):
            hint = f"It must begin with https:// and have a path. It stands in {where}."
            raise UsageError(
                f"client_metadata_url is {url!r}.", code=errors.E_NOT_CONFIGURED, hint=hint
            )


def _default(server: Server) -> str:
    return f"http://127.0.0.1:{port_of(server)}/callback"


def port_of(server: Server) -> int:
    """Return the port that the browser comes back to: the one of the description, or of the last
    time; 0 for any.
    """
    given = _given_port(server)
    if given:
        return given
    kept = tokens.Kept(tokens.file_of(server)).read().get("client") or {}
    redirects = kept.get("redirect_uris") if isinstance(kept, dict) else None
    try:
        return urlsplit(str((redirects or [""])[0])).port or 0
    except ValueError:
        return 0


def _given_port(server: Server) -> int:
    given = (
        (server.oauth or {}).get("callbackport") or (server.oauth or {}).get("callback_port") or ""
    )
    if given.isdecimal() and int(given) < 65_536:
        return int(given)
    return 0


async def log_in(
    server: Server,
    connect: Callable[[httpx2.Auth], Awaitable[Any]],
    show: Callable[[str], Awaitable[Any]],
    typed: Callable[[Callable[[str], bool]], Awaitable[None]] | None = None,
    client_metadata_url: str = "",
    hosts: frozenset[str] = frozenset(),
) -> None:
    """Log in at a server, by connecting to it.

    Args:
        server: The server, variables filled in.
        connect: Connects with what signs requests, and returns when that worked.
        show: Shows the user the address to open.
        typed: Reads what the user types meanwhile; what it is given takes the address at which the
            browser ended, and gives whether it is right.
        client_metadata_url: Where a document describes hilum as a client; empty for none.
        hosts: Hosts of the user's network that a server may name.

    Raises:
        ToolError: The user did not log in in time, or was refused.
        UsageError: The port that the description wants is taken.
    """
    from hilum_mcp import oauth
    from hilum_mcp.loopback import open_loopback

    _document(server, client_metadata_url)

    failure: BaseException | None = None
    try:
        async with open_loopback(
            port_of(server), server.name if _given_port(server) else ""
        ) as loopback:
            kept = tokens.Kept(tokens.file_of(server), oauth.registered(server, loopback.url))
            provider = oauth.Provider(
                server,
                kept,
                loopback.url,
                *_by_browser(server, loopback, show),
                client_metadata_url,
                hosts,
            )
            async with trio.open_nursery() as nursery:
                if typed is not None:
                    nursery.start_soon(
                        typed, lambda text: loopback.take(urlsplit(text.strip()).query)
                    )
                await connect(provider)
                nursery.cancel_scope.cancel()
    except* HilumError as group:
        failure = single(group)
    if failure is not None:
        raise failure


def _by_browser(
    server: Server, loopback: Loopback, show: Callable[[str], Awaitable[Any]]
) -> tuple[Any, Any]:
    """Return what shows the user an address, and what waits for the browser to come back from
    it.
    """
    from mcp.shared.auth import AuthorizationCodeResult

    async def shown(url: str) -> None:
        loopback.expect(parse_qs(urlsplit(url).query).get("state", [""])[0])
        await show(url)

    async def answer() -> AuthorizationCodeResult:
        with trio.move_on_after(SECONDS):
            came = await loopback.wait()
            if came.error or not came.code:
                why = came.error or "no code came with the answer"
                raise ToolError(f"{server.name} did not let you in: {why}.", code=errors.E_DENIED)
            return AuthorizationCodeResult(
                code=came.code, state=came.state, iss=came.issuer or None
            )
        hint = f"hilum mcp login {server.name} starts anew."
        raise ToolError(
            f"Nobody logged in within {SECONDS:g} seconds.", code=errors.E_TIMEOUT, hint=hint
        )

    return shown, answer
