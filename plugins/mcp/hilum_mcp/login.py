"""Logging in at a server: in the browser, once; what it gave signs the requests of later sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import trio
from hilum import ToolError, errors

from hilum_mcp import tokens

if TYPE_CHECKING:
    import httpx2

    from hilum_mcp.server import Server

SECONDS = 300.0
"""How long the browser is waited for."""


def auth_of(server: Server, client_metadata_url: str = "") -> httpx2.Auth | None:
    """Give what signs the requests to a server in a session: what is kept of a log-in, or a program's own credentials.

    No browser is opened; where only that would help, ``NeedsLogin`` is raised while connecting. Blocks for a small file.

    Args:
        server: The server, variables filled in.
        client_metadata_url: Where a document describes hilum as a client; empty for none.

    Raises:
        UsageError: Its description lacks something.
    """
    if not takes_login(server):
        return None
    own = (server.oauth or {}).get("grant", "authorization_code") != "authorization_code"
    if not own and not tokens.file_of(server).exists():
        return None
    from hilum_mcp import oauth

    kept = tokens.Kept(tokens.file_of(server), oauth.registered(server, _default(server)))
    return oauth.machine(server, kept) or oauth.Provider(
        server, kept, _default(server), None, None, client_metadata_url
    )


def takes_login(server: Server) -> bool:
    """Whether OAuth is the way into a server: it is reached by HTTP, and its file gives no key of its own."""
    given = {name.lower() for name in (*server.headers, *server.header_names)}
    return server.kind != "stdio" and server.login and "authorization" not in given


def _default(server: Server) -> str:
    return f"http://127.0.0.1:{port_of(server)}/callback"


def port_of(server: Server) -> int:
    """Give the port that the browser comes back to: the one of the description, or of the last time; 0 for any."""
    given = (server.oauth or {}).get("callbackport") or (server.oauth or {}).get("callback_port") or ""
    if given.isdecimal() and int(given) < 65_536:
        return int(given)
    kept = tokens.Kept(tokens.file_of(server)).read().get("client") or {}
    redirects = kept.get("redirect_uris") if isinstance(kept, dict) else None
    try:
        return urlsplit(str((redirects or [""])[0])).port or 0
    except ValueError:
        return 0


async def log_in(
    server: Server, connect: Callable[[httpx2.Auth], Any], show: Callable[[str], Any], client_metadata_url: str = ""
) -> None:
    """Log in at a server, by connecting to it.

    Args:
        server: The server, variables filled in.
        connect: Connects with what signs requests, and returns when that worked.
        show: Shows the user the address to open.
        client_metadata_url: Where a document describes hilum as a client; empty for none.

    Raises:
        ToolError: The user did not log in in time, or was refused.
    """
    from mcp.shared.auth import AuthorizationCodeResult

    from hilum_mcp import oauth
    from hilum_mcp.loopback import open_loopback

    async with open_loopback(port_of(server)) as loopback:

        async def shown(url: str) -> None:
            loopback.state = parse_qs(urlsplit(url).query).get("state", [""])[0]
            await show(url)

        async def answer() -> AuthorizationCodeResult:
            with trio.move_on_after(SECONDS):
                came = await loopback.wait()
                if came.error or not came.code:
                    why = came.error or "no code came with the answer"
                    raise ToolError(f"{server.name} did not let you in: {why}.", code=errors.E_DENIED)
                return AuthorizationCodeResult(code=came.code, state=came.state, iss=came.issuer or None)
            hint = f"hilum mcp login {server.name} starts anew."
            raise ToolError(f"Nobody logged in within {SECONDS:g} seconds.", code=errors.E_TIMEOUT, hint=hint)

        kept = tokens.Kept(tokens.file_of(server), oauth.registered(server, loopback.url))
        provider = oauth.Provider(server, kept, loopback.url, shown, answer, client_metadata_url)
        await connect(provider)
