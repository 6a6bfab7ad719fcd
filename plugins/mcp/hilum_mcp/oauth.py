"""OAuth at servers: the SDK's flows, with what is kept between sessions, and with a check of every address they are sent to.

Imported with the SDK only, at the first server that needs it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import trio
from hilum import UsageError, errors
from hilum_web import AddressRefused, Reach, checked
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, ValidationError

from hilum_mcp.errors import NeedsLogin
from hilum_mcp.tokens import Kept

if TYPE_CHECKING:
    import httpx2

    from hilum_mcp.server import Server

LOOPBACK = Reach(loopback=True)
_METHODS = ("client_secret_basic", "client_secret_post", "none")


def origin(url: str) -> tuple[str, str, int]:
    """Give scheme, host and port of a URL."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or {"https": 443, "http": 80}.get(parts.scheme, 0)


async def allow(url: str, server: str) -> None:
    """Check an address that a server names: its own origin may be; else it must be public and https.

    A server on this machine may name others on this machine, as such servers are the user's own.

    Raises:
        OAuthFlowError: It may not be reached.
    """
    if origin(url) == origin(server):
        return
    local = urlsplit(server).hostname in ("127.0.0.1", "localhost", "::1")
    try:
        target = await checked(url, LOOPBACK if local else Reach())
    except AddressRefused as error:
        raise OAuthFlowError(f"The server names an address for logging in that is not reached. {error}") from None
    if target.scheme != "https" and target.host not in ("127.0.0.1", "localhost", "::1"):
        raise OAuthFlowError(f"The server names {target.host} for logging in without https, and it is not reached.")


class _Checked:
    """What all flows share: nothing that is not the request itself goes to an address that was not checked."""

    server_url = ""

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        flow = super()._auth_flow(request)  # type: ignore[misc]
        renewed = False
        try:
            sent = await flow.__anext__()
            while True:
                if sent is not request:
                    await allow(str(sent.url), self.server_url)
                response = yield sent
                if sent is request and response.status_code == 401 and not renewed:
                    renewed = True
                    if (attempt := await self._renewal()) is not None:
                        await allow(str(attempt.url), self.server_url)
                        answer = yield attempt
                        if await self._renewed(answer, request):
                            response = yield request
                sent = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    async def _renewal(self) -> httpx2.Request | None:
        """Give the request that renews a token which the server takes no more, where there is one."""
        return None

    async def _renewed(self, answer: httpx2.Response, request: httpx2.Request) -> bool:
        """Whether a token was renewed; then the request carries it."""
        return False


class Provider(_Checked, OAuthClientProvider):
    """Logging in by the browser (authorization code with PKCE), and renewing what that gave.

    Args:
        server: The server, variables filled in.
        kept: What is kept of it.
        redirect: Where the browser comes back to; several where the port is not known yet.
        show: Shows the user an address to open; ``None`` where nobody can log in: then ``NeedsLogin`` is raised.
        answer: Waits for what the browser brings.
        client_metadata_url: Where a document describes hilum as a client; empty for none.
    """

    def __init__(
        self,
        server: Server,
        kept: Kept,
        redirect: str,
        show: Callable[[str], Awaitable[None]] | None = None,
        answer: Callable[[], Awaitable[AuthorizationCodeResult]] | None = None,
        client_metadata_url: str = "",
    ) -> None:
        oauth = server.oauth or {}
        metadata = OAuthClientMetadata(
            client_name="hilum", redirect_uris=[AnyUrl(redirect)], scope=oauth.get("scope"),
            grant_types=["authorization_code", "refresh_token"], response_types=["code"],
        )  # fmt: skip
        document = oauth.get("client_metadata_url") or client_metadata_url or None
        super().__init__(server.url, metadata, kept, self._show, answer or self._nobody, document)
        self.server_url, self._kept, self._shown, self._scope = server.url, kept, show, oauth.get("scope")

    async def _initialize(self) -> None:
        """Load what is kept: the SDK itself keeps neither until when a token holds nor where it is renewed."""
        await super()._initialize()
        kept = await trio.to_thread.run_sync(self._kept.read)
        context = self.context
        if isinstance(kept.get("until"), int | float):
            context.token_expiry_time = kept["until"]
        try:
            if kept.get("metadata"):
                context.oauth_metadata = OAuthMetadata.model_validate(kept["metadata"])
            if kept.get("resource"):
                context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(kept["resource"])
        except ValidationError:
            pass  # they are asked for again
        redirects = [str(uri) for uri in (context.client_info.redirect_uris or ())] if context.client_info else []
        mine = "".join(map(str, (context.client_metadata.redirect_uris or ())[:1]))
        if self._shown and self._kept.client is None and context.client_info and redirects and mine not in redirects:
            context.client_info = None  # registered for another port: the server would refuse this one
        self._method()

    def _method(self) -> None:
        """Choose how a client that was registered beforehand proves who it is, by what the server says that it takes."""
        info, metadata = self.context.client_info, self.context.oauth_metadata
        if info is None or info is not self._kept.client or info.token_endpoint_auth_method or not info.client_secret:
            return
        if metadata is not None:
            known = metadata.token_endpoint_auth_methods_supported or ["client_secret_basic"]  # RFC 8414, section 2
            info.token_endpoint_auth_method = next((each for each in _METHODS if each in known), "client_secret_basic")

    async def _renewal(self) -> httpx2.Request | None:
        ready = self.context.can_refresh_token() and self.context.oauth_metadata is not None
        return await self._refresh_token() if ready else None

    async def _renewed(self, answer: httpx2.Response, request: httpx2.Request) -> bool:
        done = await self._handle_refresh_response(answer)
        if done:
            self._add_auth_header(request)
        return done

    async def _perform_authorization(self) -> httpx2.Request:
        self._method()
        if self._scope and not self.context.client_metadata.scope:
            self.context.client_metadata.scope = self._scope
        return await super()._perform_authorization()

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        await super()._handle_token_response(response)
        context = self.context
        found = {"metadata": context.oauth_metadata, "resource": context.protected_resource_metadata}
        data = {key: value and value.model_dump(mode="json", exclude_none=True) for key, value in found.items()}
        await trio.to_thread.run_sync(lambda: self._kept.update(**data))

    async def _show(self, url: str) -> None:
        if self._shown is None:
            raise NeedsLogin("It wants you to log in.")
        await allow(url, self.server_url)
        await self._shown(url)

    async def _nobody(self) -> AuthorizationCodeResult:
        raise NeedsLogin("It wants you to log in.")


class Credentials(_Checked, ClientCredentialsOAuthProvider):
    """A program's own credentials: id and secret."""


class Signed(_Checked, PrivateKeyJWTOAuthProvider):
    """A program's own credentials: id and private key."""


class Assertion(_Checked, IdentityAssertionOAuthProvider):
    """The user's identity at the organisation's identity provider, in place of a log-in (SEP-990)."""


def machine(server: Server, kept: Kept) -> httpx2.Auth | None:
    """Give what signs requests without a user, where the description says so (``oauth.grant``); ``None`` else.

    Raises:
        UsageError: Something is missing in the description.
    """
    oauth = server.oauth or {}
    grant = oauth.get("grant", "authorization_code")
    if grant == "authorization_code":
        return None
    provider: Any
    identity, secret, scope, issuer = (oauth.get(key) for key in ("client_id", "client_secret", "scope", "issuer"))
    method: Any = oauth.get("token_endpoint_auth_method", "client_secret_basic")
    if grant == "client_credentials" and ("private_key" in oauth or "private_key_file" in oauth):
        _need(server, "client_id")
        made = SignedJWTParameters(
            issuer=str(identity),
            subject=str(identity),
            signing_key=_key(server),
            signing_algorithm=oauth.get("algorithm", "ES256"),
        )
        signed = made.create_assertion_provider()
        provider = Signed(server.url, kept, str(identity), signed, scope, issuer=issuer)
    elif grant == "client_credentials":
        _need(server, "client_id", "client_secret")
        provider = Credentials(server.url, kept, str(identity), str(secret), method, scope, issuer)
    elif grant == "identity_assertion":
        _need(server, "client_id", "client_secret", "issuer", "idp_token_endpoint", "idp_client_id", "id_token")
        fetch = _exchange(server)
        provider = Assertion(server.url, kept, str(identity), str(secret), str(issuer), fetch, scope, method)
    else:
        known = "authorization_code, client_credentials and identity_assertion are known."
        raise _odd(server, f"oauth.grant is {grant!r}", known)
    provider.server_url = server.url
    return provider  # type: ignore[no-any-return]


def _key(server: Server) -> str:
    oauth = server.oauth or {}
    if given := oauth.get("private_key"):
        return given
    try:
        return Path(oauth["private_key_file"]).expanduser().read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise _odd(server, f"oauth.private_key_file cannot be read: {error}", "Name a file with the key.") from None


def _exchange(server: Server) -> Callable[[str, str], Awaitable[str]]:
    """Get an assertion for a server from the identity provider (RFC 8693, token exchange) by the user's ID token."""
    oauth = server.oauth or {}

    async def exchange(audience: str, resource: str) -> str:
        import httpx2

        await allow(oauth["idp_token_endpoint"], server.url)
        data = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
            "subject_token": oauth["id_token"], "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
            "audience": audience, "resource": resource, "client_id": oauth["idp_client_id"],
        }  # fmt: skip
        async with httpx2.AsyncClient(follow_redirects=False) as client:
            response = await client.post(oauth["idp_token_endpoint"], data=data)
        token = response.json().get("access_token") if response.status_code == 200 else None
        if not isinstance(token, str):
            raise OAuthFlowError(f"The identity provider gave no assertion (HTTP {response.status_code}).")
        return token

    return exchange


def registered(server: Server, redirect: str) -> OAuthClientInformationFull | None:
    """Give the client that was registered beforehand, where the description names one."""
    oauth = server.oauth or {}
    if not oauth.get("client_id"):
        return None
    return OAuthClientInformationFull(
        client_id=oauth["client_id"], client_secret=oauth.get("client_secret"), redirect_uris=[AnyUrl(redirect)],
        token_endpoint_auth_method=oauth.get("token_endpoint_auth_method"),
    )  # fmt: skip


def _need(server: Server, *keys: str) -> None:
    for key in keys:
        if not (server.oauth or {}).get(key):
            raise _odd(server, f"oauth.{key} is missing", "Add it; a variable keeps it out of the file: ${NAME}.")


def _odd(server: Server, what: str, hint: str) -> UsageError:
    return UsageError(f"In the MCP server {server.name} {what}.", code=errors.E_NOT_CONFIGURED, hint=hint)
