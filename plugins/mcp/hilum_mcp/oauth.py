"""Logs in with the browser, using the SDK's OAuth flow with additional features.

The SDK neither stores nor renews tokens across sessions, and it does not perform all checks that
the protocol requires. This module imports the MCP SDK.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import trio
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthTokenError
from mcp.client.auth.utils import extract_scope_from_www_auth, union_scopes
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, BaseModel
from trio.to_thread import run_sync as in_thread

from hilum_mcp.auth_requests import (
    CheckedAuthFlow,
    allowed_reach,
    check_auth_address,
    origin_of,
)
from hilum_mcp.errors import LoginRequiredError
from hilum_mcp.oauth_models import parse_stored

if TYPE_CHECKING:
    import httpx2

    from hilum_mcp.server_config import ServerConfig
    from hilum_mcp.token_store import TokenStore

__all__ = ["AuthorizationCodeResult", "OAuthProvider", "registered_client"]

_AUTH_METHODS = ("client_secret_basic", "client_secret_post", "none")
# Other statuses, such as 429 and 503, are temporary, so the login is kept.
_REFUSED_STATUSES = (400, 401, 403)
WELL_KNOWN = "/.well-known/oauth-authorization-server"

Flow = AsyncGenerator["httpx2.Request", "httpx2.Response"]


class OAuthProvider(CheckedAuthFlow, OAuthClientProvider):
    """Authentication by a login in the browser (authorization code with PKCE); renews tokens.

    Args:
        server: The server's configuration, with variables expanded.
        store: The store for the login.
        redirect: The redirect URI, which the browser opens after the login.
        show: A function that shows the user a URL to open. Without this function, nobody can log
            in, and ``LoginRequiredError`` is raised instead.
        wait: A function that waits for the browser's request.
        client_metadata_url: The URL of a document that describes hilum as a client; empty if there
            is none.
        hosts: Hosts on the user's network that a server may refer to.
    """

    def __init__(
        self,
        server: ServerConfig,
        store: TokenStore,
        redirect: str,
        *,
        show: Callable[[str], Awaitable[None]] | None = None,
        wait: Callable[[], Awaitable[AuthorizationCodeResult]] | None = None,
        client_metadata_url: str = "",
        hosts: frozenset[str] = frozenset(),
    ) -> None:
        options = server.oauth or {}
        metadata = OAuthClientMetadata(
            client_name="hilum",
            redirect_uris=[AnyUrl(redirect)],
            scope=options.get("scope"),
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
        )
        document = options.get("client_metadata_url") or client_metadata_url or None
        super().__init__(
            server.url,
            metadata,
            store,
            self._show_address,
            wait or self._wait_for_nobody,
            document,
        )
        self.server_url = server.url
        self.reach = allowed_reach(server.url, hosts)
        self._store = store
        self._show = show
        self._name = server.name
        self._file = server.file
        self._scope = options.get("scope")
        self._required_issuer = options.get("issuer", "")
        self._assumes_pkce = options.get("assume_pkce", "").lower() == "true"
        self._legacy_issuer = ""
        self._wanted_scope = ""
        self._loading = trio.Lock()
        self._is_loaded = False

    # --- what is stored ---------------------------------------------------------------------------

    async def _load_once(self) -> None:
        """Load the stored login on the first request.

        Concurrent requests wait for a single load. A second load could assign the old expiry time
        to tokens that another request has just renewed, so that they would be renewed again.
        """
        async with self._loading:
            if not self._is_loaded:
                await self._initialize()
                self._is_loaded = True

    async def _initialize(self) -> None:
        """Load the stored login, including the expiry time and metadata that the SDK ignores."""
        await super()._initialize()
        context = self.context
        stored = await in_thread(self._store.read)
        context.token_expiry_time = _parse_time(stored.get("until"))
        context.oauth_metadata = parse_stored(OAuthMetadata, stored.get("metadata"))
        context.protected_resource_metadata = parse_stored(
            ProtectedResourceMetadata, stored.get("resource")
        )
        if self._show is not None:
            self._prepare_login(str(stored.get("wanted") or ""))
        self._choose_auth_method()

    def _prepare_login(self, wanted_scope: str) -> None:
        """Prepare a login by the user.

        The login requests a wider scope if the server requires one, and its redirect URI contains
        the port that is currently open.
        """
        context = self.context
        # With valid tokens, the SDK would not log in at all.
        if wanted_scope:
            context.clear_tokens()
            self._wanted_scope = wanted_scope
        if self._store.client is not None or context.client_info is None:
            return
        registered = [str(uri) for uri in context.client_info.redirect_uris or ()]
        redirects = context.client_metadata.redirect_uris or []
        redirect = str(redirects[0]) if redirects else ""
        if registered and redirect not in registered:
            # The client was registered with another port, so the server would refuse this port.
            context.client_info = None

    def _choose_auth_method(self) -> None:
        """Choose the authentication method of a client that the user registered.

        The server's metadata must list the method.
        """
        info = self.context.client_info
        metadata = self.context.oauth_metadata
        if info is None or metadata is None or info is not self._store.client:
            return
        if info.token_endpoint_auth_method or not info.client_secret:
            return
        listed = metadata.token_endpoint_auth_methods_supported
        supported = listed or ["client_secret_basic"]  # the default in RFC 8414, section 2
        for method in _AUTH_METHODS:
            if method in supported:
                info.token_endpoint_auth_method = method
                return
        info.token_endpoint_auth_method = "client_secret_basic"

    # --- the requests -----------------------------------------------------------------------------

    async def _run_flow(self, request: httpx2.Request) -> Flow:
        """Yield a request, and the requests for a login or a token renewal that it requires."""
        await self._load_once()
        if self._is_expired():
            # The token is read before the lock is acquired, because the lock's previous holder may
            # have renewed it.
            expired = self._access_token()
            async with self._store.renewal_lock():
                renewal = await self._make_renewal(expired)
                if renewal is not None:
                    await self._apply_renewal((yield renewal))
        has_renewed = False
        async with aclosing(self._run_login(request)) as flow:
            step = await anext(flow)
            while True:
                used = request.headers.get("authorization", "")
                response = yield step
                status = response.status_code if step is request else 0
                # A server may revoke a token before its stated expiry time. If the server refuses
                # the renewed token as well, the SDK's flow logs in again.
                if status == 401 and not has_renewed and self.context.can_refresh_token():
                    has_renewed = True
                    async with self._store.renewal_lock():
                        renewal = await self._make_renewal(used.removeprefix("Bearer "))
                        if renewal is not None:
                            await self._apply_renewal((yield renewal))
                    self._add_auth_header(request)
                    if request.headers.get("authorization", "") != used:
                        response = yield request
                        status = response.status_code
                if status == 403 and await self._note_missing_scope(response):
                    return
                try:
                    step = await flow.asend(response)
                except StopAsyncIteration:
                    return

    async def _run_login(self, request: httpx2.Request) -> Flow:
        """Yield the requests of the SDK's flow; repeat it if the server uses MCP 2025-03-26."""
        flow = super()._run_flow(request)
        try:
            step = await anext(flow)
            while True:
                response = yield step
                legacy_issuer = await self._find_legacy_issuer(step, response)
                try:
                    step = await flow.asend(response)
                except OAuthFlowError:
                    if not legacy_issuer or self._legacy_issuer:
                        raise
                    self._legacy_issuer = legacy_issuer
                    await flow.aclose()
                    flow = super()._run_flow(request)
                    step = await anext(flow)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    def _access_token(self) -> str:
        tokens = self.context.current_tokens
        return tokens.access_token if tokens else ""

    def _is_expired(self) -> bool:
        context = self.context
        if context.current_tokens is None or context.is_token_valid():
            return False
        return context.can_refresh_token()

    async def _note_missing_scope(self, response: httpx2.Response) -> bool:
        """Store the scope that the server requires, and return whether only a new login can help.

        The next login requests that scope; until then, other calls continue to work.
        """
        missing = extract_scope_from_www_auth(response)
        self._wanted_scope = union_scopes(self._wanted_scope, missing) or ""
        if self._show is not None or not self._wanted_scope:
            return False
        await self._store_values(wanted=self._wanted_scope)
        return True

    async def _store_values(self, **values: Any) -> None:
        await in_thread(lambda: self._store.update(**values))

    async def _make_renewal(self, used: str) -> httpx2.Request | None:
        """Return the request that renews the tokens, or ``None`` if they are already renewed.

        Another request or session may have renewed the tokens. A server may accept each refresh
        token only once, and may revoke the whole login if a token is used a second time.

        Args:
            used: The access token that is no longer valid.
        """
        context = self.context
        tokens = await self._store.get_tokens()
        if tokens is not None and tokens.access_token != used:
            stored = await in_thread(self._store.read)
            context.current_tokens = tokens
            context.token_expiry_time = _parse_time(stored.get("until"))
            if context.is_token_valid():
                return None
        if context.can_refresh_token():
            return await self._refresh_token()
        return None

    async def _apply_renewal(self, answer: httpx2.Response) -> None:
        """Process the response to a renewal request.

        If the refusal is permanent, the login is removed, so that the user logs in again.

        Raises:
            OAuthTokenError: The server neither renewed the tokens nor refused to renew them, so
                another attempt may succeed.
        """
        if answer.status_code == 200:
            await self._handle_refresh_response(answer)
            return
        if answer.status_code not in _REFUSED_STATUSES:
            raise OAuthTokenError(f"The login could not be renewed (HTTP {answer.status_code}).")
        body = await answer.aread()
        await self._store_values(tokens=None, until=None)
        self.context.clear_tokens()
        # RFC 6749, section 5.2: the server no longer knows the client, so the client must register
        # again. A client that the user configured cannot register again.
        if b"invalid_client" in body and self._store.client is None:
            await self._store_values(client=None)
            self.context.client_info = None

    async def _find_legacy_issuer(self, step: httpx2.Request, response: httpx2.Response) -> str:
        """Return the issuer in the metadata at the root of a server that uses MCP 2025-03-26.

        RFC 8414, section 3.3, requires the issuer to be the requested URL. This method accepts a
        different path if the server has no other metadata and every URL is on the server's own
        origin, because whoever controls the root also controls the path.
        """
        has_metadata = self.context.auth_server_url or step.url.path != WELL_KNOWN
        if has_metadata or response.status_code != 200:
            return ""
        try:
            data = json.loads(await response.aread())
            issuer = data["issuer"]
            endpoints = ("authorization", "token", "registration")
            named = [issuer, *(data.get(f"{name}_endpoint") for name in endpoints)]
            origins = {origin_of(address) for address in named if address is not None}
            is_own = origins == {origin_of(self.server_url)}
        except (ValueError, LookupError, TypeError, AttributeError):
            return ""
        return str(issuer) if is_own else ""

    def _expected_issuer(self) -> str:
        if self._legacy_issuer and not self.context.auth_server_url:
            return self._legacy_issuer
        return super()._expected_issuer()

    def _select_authorization_server(self, advertised: list[str]) -> str:
        if not self._required_issuer:
            return super()._select_authorization_server(advertised)
        # Pydantic adds a slash to a URL without a path.
        for issuer in advertised:
            if issuer.rstrip("/") == self._required_issuer.rstrip("/"):
                return issuer
        raise OAuthFlowError(
            f"The server does not name {self._required_issuer}, the only issuer that its"
            " configuration allows."
        )

    # --- the user ---------------------------------------------------------------------------------

    async def _perform_authorization(self) -> httpx2.Request:
        self._choose_auth_method()
        self._check_pkce()
        metadata = self.context.client_metadata
        metadata.scope = union_scopes(self._scope or metadata.scope, self._wanted_scope)
        return await super()._perform_authorization()

    def _check_pkce(self) -> None:
        """Refuse a login that is not protected against a stolen code (PKCE with S256).

        MCP 2026-07-28, authorization, "Authorization Code Protection": if the metadata does not
        mention PKCE, it is not supported. A server that uses MCP 2025-03-26 may have no metadata at
        all, and thus no way to declare support.

        Raises:
            OAuthFlowError: The authorization server does not declare support for PKCE.
        """
        metadata = self.context.oauth_metadata
        named = self.context.auth_server_url
        if metadata is None and not named:
            return
        methods = metadata.code_challenge_methods_supported if metadata else None
        if "S256" in (methods or ()) or (methods is None and self._assumes_pkce):
            return
        issuer = str(metadata.issuer) if metadata else named
        log_in_server = f"{issuer}, the login server of {self._name},"
        risk = "Without PKCE, anyone who steals the code can log in."
        if methods is None:
            raise OAuthFlowError(
                f"{log_in_server} does not state whether it supports PKCE with S256. {risk} If you"
                ' know that it does, write "assume_pkce": true'
                f" into oauth of {self._name} in {self._file}."
            )
        hint = "Ask its operator to support PKCE, or configure a key (headers) instead."
        raise OAuthFlowError(f"{log_in_server} does not support PKCE with S256. {risk} {hint}")

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        await super()._handle_token_response(response)
        # The wider scope was part of this login, so the next login need not request it.
        await self._store_values(
            metadata=_encode_model(self.context.oauth_metadata),
            resource=_encode_model(self.context.protected_resource_metadata),
            wanted=None,
        )

    async def _show_address(self, url: str) -> None:
        if self._show is not None:
            # The server chooses the page, which must not be on the user's network.
            await check_auth_address(url, self.server_url, self.reach)
            await self._show(url)
            return
        wanted = self.context.client_metadata.scope if self._wanted_scope else ""
        if not wanted:
            raise LoginRequiredError("It requires a login.")
        await self._store_values(wanted=wanted)  # the next login requests the missing scope
        raise LoginRequiredError(f"It requires a login with a wider scope: {wanted}.")

    async def _wait_for_nobody(self) -> AuthorizationCodeResult:
        raise LoginRequiredError("It requires a login.")


def _encode_model(model: BaseModel | None) -> dict[str, Any] | None:
    return None if model is None else model.model_dump(mode="json", exclude_none=True)


def _parse_time(value: object) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return None


def registered_client(server: ServerConfig, redirect: str) -> OAuthClientInformationFull | None:
    """Return the client that the user registered and configured, or ``None`` if there is none."""
    options = server.oauth or {}
    if not options.get("client_id"):
        return None
    return OAuthClientInformationFull(
        client_id=options["client_id"],
        client_secret=options.get("client_secret"),
        redirect_uris=[AnyUrl(redirect)],
        token_endpoint_auth_method=options.get("token_endpoint_auth_method"),
    )
