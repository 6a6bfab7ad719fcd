"""Logs in to a server once, in the browser. Later sessions use the stored tokens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import trio
from hilum import HilumError, ToolError, UsageError, errors
from hilum.hooks import find_first_error

from hilum_mcp import lazy
from hilum_mcp.token_store import TokenStore, token_file

if TYPE_CHECKING:
    import httpx2
    from mcp.shared.auth import AuthorizationCodeResult

    from hilum_mcp.loopback import Loopback
    from hilum_mcp.server_config import ServerConfig

# Time limit, in seconds, for the browser's request to the redirect URI.
BROWSER_TIMEOUT = 300.0

MAX_PORT = 65_535


def load_auth(
    server: ServerConfig,
    client_metadata_url: str = "",
    hosts: frozenset[str] = frozenset(),
) -> httpx2.Auth | None:
    """Return the authentication for a session: a stored login or client credentials.

    No browser is opened. If the user must log in first, connecting raises ``LoginRequiredError``.
    Blocks.

    Args:
        server: The server's configuration, with variables expanded.
        client_metadata_url: The URL of a document that describes hilum as a client; empty if there
            is none.
        hosts: Hosts on the user's network that a server may specify for a login.

    Raises:
        UsageError: The configuration is incomplete.
    """
    if not accepts_login(server):
        return None
    store = TokenStore(token_file(server))
    if is_machine_login(server):
        return lazy.machine_login.make_auth(server, store, hosts)
    # A request without authentication shows whether the server requires a login at all.
    if not store.read().get("tokens"):
        return None
    _check_document(server, client_metadata_url)
    redirect = f"http://127.0.0.1:{callback_port(server)}/callback"
    store.client = lazy.oauth.registered_client(server, redirect)
    return lazy.oauth.OAuthProvider(
        server,
        store,
        redirect,
        client_metadata_url=client_metadata_url,
        hosts=hosts,
    )


def accepts_login(server: ServerConfig) -> bool:
    """Return whether a server uses OAuth: it has a URL, and no key is configured."""
    headers = {name.lower() for name in (*server.headers, *server.headers_from_env)}
    return server.kind != "stdio" and server.login_allowed and "authorization" not in headers


def is_machine_login(server: ServerConfig) -> bool:
    """Return whether hilum logs in with client credentials, which require no user."""
    return (server.oauth or {}).get("grant", "authorization_code") != "authorization_code"


def _check_document(server: ServerConfig, setting: str) -> None:
    """Check the configured URLs of the document that describes hilum as a client."""
    given = {
        str(server.file): (server.oauth or {}).get("client_metadata_url", ""),
        "the settings, [mcp]": setting,
    }
    for place, url in given.items():
        parts = urlsplit(url)
        # MCP, authorization, "Client ID Metadata Documents": the URL is the client ID, which must
        # use https and have a path.
        if url and (parts.scheme != "https" or parts.path in ("", "/")):
            raise UsageError(
                f"client_metadata_url is {url!r}.",
                code=errors.E_NOT_CONFIGURED,
                hint=f"It must begin with https:// and have a path. Change it in {place}.",
            )


def callback_port(server: ServerConfig) -> int:
    """Return the port for the redirect URI: the configured or last used port, or 0 for any."""
    configured = _configured_port(server)
    if configured:
        return configured
    # Some authorization servers compare the redirect URI with the registered URI, including the
    # port, so the port of the last login is reused.
    client = TokenStore(token_file(server)).read().get("client") or {}
    redirects = client.get("redirect_uris") if isinstance(client, dict) else None
    try:
        return urlsplit(str((redirects or [""])[0])).port or 0
    except ValueError:
        return 0


def _configured_port(server: ServerConfig) -> int:
    options = server.oauth or {}
    port = options.get("callbackport") or options.get("callback_port") or ""
    return int(port) if port.isdecimal() and int(port) <= MAX_PORT else 0


async def log_in(
    server: ServerConfig,
    connect: Callable[[httpx2.Auth], Awaitable[Any]],
    show: Callable[[str], Awaitable[Any]],
    read_input: Callable[[Callable[[str], bool]], Awaitable[None]] | None = None,
    client_metadata_url: str = "",
    hosts: frozenset[str] = frozenset(),
) -> None:
    """Log in to a server by connecting to it.

    Args:
        server: The server's configuration, with variables expanded.
        connect: A function that connects with the given authentication, and returns once connected.
        show: A function that shows the user the URL to open.
        read_input: A function that reads the user's input during the login. Its argument is a
            function that accepts a pasted redirect URL and returns whether the URL is the expected
            one.
        client_metadata_url: As in ``load_auth``.
        hosts: As in ``load_auth``.

    Raises:
        ToolError: The user did not log in within the time limit, or the server refused the login.
        UsageError: The configured port is in use.
    """
    _check_document(server, client_metadata_url)
    failure: BaseException | None = None
    required_by = server.name if _configured_port(server) else ""
    try:
        async with lazy.loopback.open_loopback(callback_port(server), required_by) as loopback:
            client = lazy.oauth.registered_client(server, loopback.url)
            browser = _Browser(server, loopback, show)
            provider = lazy.oauth.OAuthProvider(
                server,
                TokenStore(token_file(server), client),
                loopback.url,
                show=browser.open,
                wait=browser.wait,
                client_metadata_url=client_metadata_url,
                hosts=hosts,
            )
            async with trio.open_nursery() as nursery:
                if read_input is not None:
                    nursery.start_soon(read_input, browser.accept_address)
                await connect(provider)
                nursery.cancel_scope.cancel()
    except* HilumError as group:
        failure = find_first_error(group)
    # The error is raised outside the `except*` block, which would wrap the error in a group again.
    if failure is not None:
        raise failure


class _Browser:
    """A login in the user's browser, which is redirected back to hilum afterwards.

    Args:
        server: The server.
        loopback: The server that receives the browser's request to the redirect URI.
        show: A function that shows the user a URL.
    """

    def __init__(
        self,
        server: ServerConfig,
        loopback: Loopback,
        show: Callable[[str], Awaitable[Any]],
    ) -> None:
        self._server = server
        self._loopback = loopback
        self._show = show

    async def open(self, url: str) -> None:
        """Show the user the URL of the login page."""
        # hilum starts to wait for the redirect before it shows the URL, because the browser may be
        # redirected immediately.
        query = parse_qs(urlsplit(url).query)
        self._loopback.expect(query.get("state", [""])[0])
        await self._show(url)

    def accept_address(self, address: str) -> bool:
        """Accept a pasted redirect URL, and return whether it is the expected URL."""
        return self._loopback.accept(urlsplit(address.strip()).query)

    async def wait(self) -> AuthorizationCodeResult:
        """Wait for the browser's request, and return its authorization code.

        Raises:
            ToolError: The server refused the login, or nobody logged in within the time limit.
        """
        name = self._server.name
        with trio.move_on_after(BROWSER_TIMEOUT):
            answer = await self._loopback.wait()
            if answer.error or not answer.code:
                reason = answer.error or "the response contained no code"
                raise ToolError(f"{name} refused the login: {reason}.", code=errors.E_DENIED)
            return lazy.oauth.AuthorizationCodeResult(
                code=answer.code,
                state=answer.state,
                iss=answer.issuer or None,
            )
        raise ToolError(
            f"Nobody logged in within {BROWSER_TIMEOUT:g} seconds.",
            code=errors.E_TIMEOUT,
            hint=f"Run hilum mcp login {name} to try again.",
        )
