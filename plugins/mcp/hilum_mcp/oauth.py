"""Logging in by the browser: the SDK's flow, and what it does not do: tokens kept and renewed
across sessions, and checks.

Imported with the SDK only, at the first server that needs it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING

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
from pydantic import AnyUrl, ValidationError

from hilum_mcp.elsewhere import Apart, allow, origin, reach_of
from hilum_mcp.errors import NeedsLogin

if TYPE_CHECKING:
    import httpx2

    from hilum_mcp.server import Server
    from hilum_mcp.tokens import Kept

_METHODS = ("client_secret_basic", "client_secret_post", "none")
_REFUSED = (400, 401, 403)
WELL_KNOWN = "/.well-known/oauth-authorization-server"


class Provider(Apart, OAuthClientProvider):
    """Logging in by the browser (authorization code with PKCE), and renewing what that gave.

    Args:
        server: The server, variables filled in.
        kept: What is kept of it.
        redirect: Where the browser comes back to.
        show: Shows the user an address to open; ``None`` where nobody can log in: then
            ``NeedsLogin`` is raised.
        answer: Waits for what the browser brings.
        client_metadata_url: Where a document describes hilum as a client; empty for none.
        hosts: Hosts of the user's network that a server may name.
    """

    def __init__(
        self,
        server: Server,
        kept: Kept,
        redirect: str,
        show: Callable[[str], Awaitable[None]] | None = None,
        answer: Callable[[], Awaitable[AuthorizationCodeResult]] | None = None,
        client_metadata_url: str = "",
        hosts: frozenset[str] = frozenset(),
    ) -> None:
        oauth = server.oauth or {}
        metadata = OAuthClientMetadata(
            client_name="hilum",
            redirect_uris=[AnyUrl(redirect)],
            scope=oauth.get("scope"),
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
        )
        document = oauth.get("client_metadata_url") or client_metadata_url or None
        super().__init__(server.url, metadata, kept, self._show, answer or self._nobody, document)
        self.server_url = server.url
        self.reach = reach_of(server.url, hosts)
        self._kept = kept
        self._shown = show
        self._scope = oauth.get("scope")
        self._named = oauth.get("issuer", "")
        self._name = server.name
        self._file = server.file
        self._assumed = oauth.get("assume_pkce", "").lower() == "true"
        self._legacy = self._wanted = ""
        self._loading = trio.Lock()
        self._loaded = False

    # --- what is kept -----------------------------------------------------------------------------

    async def _load_once(self) -> None:
        """Load what is kept at the first request.

        Requests that begin at once wait for one load. A second load could overwrite tokens that
        another request has just renewed with the time limit of the old ones, so that they would be
        renewed again.
        """
        async with self._loading:
            if not self._loaded:
                await self._initialize()
                self._loaded = True

    async def _initialize(self) -> None:
        """Load what is kept: the SDK itself keeps neither until when a token holds nor where it is
        renewed.
        """
        await super()._initialize()
        context = self.context
        kept = await trio.to_thread.run_sync(self._kept.read)
        context.token_expiry_time = _number(kept.get("until"))
        try:
            if kept.get("metadata"):
                context.oauth_metadata = OAuthMetadata.model_validate(kept["metadata"])
            if kept.get("resource"):
                context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(
                    kept["resource"]
                )
        except ValidationError:
            pass  # they are asked for again
        if self._shown is not None:
            self._begin(str(kept.get("wanted") or ""))
        self._method()

    def _begin(self, wanted: str) -> None:
        """Make ready for the user to log in: for more than before, if a server wanted more.

        From the port that there is.
        """
        context = self.context
        if wanted:
            context.clear_tokens()
            self._wanted = wanted
        info = context.client_info
        redirects = [str(uri) for uri in info.redirect_uris or ()] if info else []
        mine = "".join(map(str, (context.client_metadata.redirect_uris or ())[:1]))
        if self._kept.client is None and redirects and mine not in redirects:
            context.client_info = (
                None  # registered for another port: the server would refuse this one
            )

    def _method(self) -> None:
        """Choose how a client that was registered beforehand proves who it is, by what the server
        says that it takes.
        """
        info = self.context.client_info
        metadata = self.context.oauth_metadata
        if (
            info is None
            or info is not self._kept.client
            or info.token_endpoint_auth_method
            or not info.client_secret
        ):
            return
        if metadata is not None:
            known = metadata.token_endpoint_auth_methods_supported or [
                "client_secret_basic"
            ]  # RFC 8414, section 2
            info.token_endpoint_auth_method = next(
                (each for each in _METHODS if each in known), "client_secret_basic"
            )

    # --- the requests -----------------------------------------------------------------------------

    async def _steps(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        await self._load_once()
        had = self.context.current_tokens
        if (
            had is not None
            and not self.context.is_token_valid()
            and self.context.can_refresh_token()
        ):
            async with self._kept.alone():
                attempt = await self._renewal(had.access_token)
                if attempt is not None:
                    await self._renewed((yield attempt))
        flow = super()._steps(request)
        renewed = False
        try:
            sent = await flow.__anext__()
            while True:
                used = request.headers.get("authorization", "")
                response = yield sent
                if (
                    sent is request
                    and response.status_code == 401
                    and not renewed
                    and self.context.can_refresh_token()
                ):
                    renewed = True
                    async with self._kept.alone():
                        attempt = await self._renewal(used.removeprefix("Bearer "))
                        if attempt is not None:
                            await self._renewed((yield attempt))
                    self._add_auth_header(request)
                    if request.headers.get("authorization", "") != used:
                        response = yield request
                if sent is request and response.status_code == 403:
                    self._wanted = (
                        union_scopes(self._wanted, extract_scope_from_www_auth(response)) or ""
                    )
                    if (
                        self._shown is None and self._wanted
                    ):  # the log-in that follows asks for it; this call alone fails
                        await trio.to_thread.run_sync(
                            lambda: self._kept.update(wanted=self._wanted)
                        )
                        return
                legacy = await self._legacy_issuer(sent, response)
                try:
                    sent = await flow.asend(response)
                except OAuthFlowError:
                    if not legacy or self._legacy:
                        raise
                    self._legacy = legacy
                    await flow.aclose()
                    flow = super()._steps(request)
                    sent = await flow.__anext__()
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    async def _renewal(self, used: str) -> httpx2.Request | None:
        """Return the request that renews the tokens.

        ``None`` where another request or session has renewed them meanwhile.

        A server may take each renewing token once only, and end the whole log-in when it comes a
        second time.

        Args:
            used: The token that holds no more.
        """
        context = self.context
        tokens = await self._kept.get_tokens()
        if tokens is not None and tokens.access_token != used:
            context.current_tokens = tokens
            context.token_expiry_time = _number(
                (await trio.to_thread.run_sync(self._kept.read)).get("until")
            )
            if context.is_token_valid():
                return None
        if context.can_refresh_token():
            return await self._refresh_token()
        return None

    async def _renewed(self, answer: httpx2.Response) -> None:
        """Take what a renewal gave.

        What is refused for good is forgotten, so that the user is asked to log in again.

        Raises:
            OAuthTokenError: There was no answer that says either; it may be tried again.
        """
        if answer.status_code == 200:
            await self._handle_refresh_response(answer)
            return
        if answer.status_code not in _REFUSED:
            raise OAuthTokenError(f"The log-in could not be renewed (HTTP {answer.status_code}).")
        body = await answer.aread()
        unknown = b"invalid_client" in body and self._kept.client is None
        gone = {"tokens": None, "until": None} | ({"client": None} if unknown else {})
        await trio.to_thread.run_sync(lambda: self._kept.update(**gone))
        self.context.clear_tokens()
        if unknown:
            self.context.client_info = None

    async def _legacy_issuer(self, sent: httpx2.Request, response: httpx2.Response) -> str:
        """Return the issuer of metadata as servers of 2025-03-26 have them: at the root, for an
        issuer with a path.

        RFC 8414, section 3.3, wants the issuer to be the address that was asked. This lets the path
        differ, where the server has no metadata of its own and all that is named is on its own
        origin, whose owner speaks at its root anyhow.
        """
        context = self.context
        if context.auth_server_url or sent.url.path != WELL_KNOWN or response.status_code != 200:
            return ""
        try:
            data = json.loads(await response.aread())
            named = [
                data["issuer"],
                *(
                    data.get(f"{each}_endpoint")
                    for each in ("authorization", "token", "registration")
                ),
            ]
            own = origin(self.server_url)
            return (
                data["issuer"] if all(each is None or origin(each) == own for each in named) else ""
            )
        except (ValueError, LookupError, TypeError, AttributeError):
            return ""

    def _expected_issuer(self) -> str:
        if self._legacy and not self.context.auth_server_url:
            return self._legacy
        return super()._expected_issuer()

    def _select_authorization_server(self, advertised: list[str]) -> str:
        if not self._named:
            return super()._select_authorization_server(advertised)
        found = next(
            (each for each in advertised if each.rstrip("/") == self._named.rstrip("/")), None
        )
        if found is None:
            raise OAuthFlowError(
                f"The server does not name {self._named}, which its description wants for"
                " logging in."
            )
        return found

    # --- the user ---------------------------------------------------------------------------------

    async def _perform_authorization(self) -> httpx2.Request:
        self._method()
        self._check_pkce()
        context = self.context
        context.client_metadata.scope = union_scopes(
            self._scope or context.client_metadata.scope, self._wanted
        )
        return await super()._perform_authorization()

    def _check_pkce(self) -> None:
        """Refuse to log in where nobody says that a stolen code is worth nothing (PKCE with S256).

        MCP 2026-07-28, authorization, "Authorization Code Protection": metadata that says nothing
        of it means no. A server of 2025-03-26 may have no metadata at all, and no other way to say
        it.

        Raises:
            OAuthFlowError: It is not said.
        """
        metadata = self.context.oauth_metadata
        named = self.context.auth_server_url
        if metadata is None and not named:
            return
        methods = metadata.code_challenge_methods_supported if metadata else None
        if "S256" in (methods or ()) or (methods is None and self._assumed):
            return
        who = f"{str(metadata.issuer) if metadata else named}, where {self._name} has you log in,"
        why = "without which a stolen code is enough to get in."
        if methods is None:
            raise OAuthFlowError(
                f"{who} does not say whether it takes PKCE with S256, {why} If you know that it"
                " does, write"
                f' "assume_pkce": true into oauth of {self._name} in {self._file}.'
            )
        hint = "Ask its operator for it, or use a key (headers) instead of logging in."
        raise OAuthFlowError(f"{who} takes no PKCE with S256, {why} {hint}")

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        await super()._handle_token_response(response)
        context = self.context
        found = {
            "metadata": context.oauth_metadata,
            "resource": context.protected_resource_metadata,
        }
        data = {
            key: value and value.model_dump(mode="json", exclude_none=True)
            for key, value in found.items()
        }
        await trio.to_thread.run_sync(lambda: self._kept.update(**data, wanted=None))

    async def _show(self, url: str) -> None:
        if self._shown is None:
            wanted = self.context.client_metadata.scope if self._wanted else ""
            if wanted:  # the log-in that follows asks for it
                await trio.to_thread.run_sync(lambda: self._kept.update(wanted=wanted))
            raise NeedsLogin(
                f"It wants you to log in for more: {wanted}."
                if wanted
                else "It wants you to log in."
            )
        await allow(url, self.server_url, self.reach)
        await self._shown(url)

    async def _nobody(self) -> AuthorizationCodeResult:
        raise NeedsLogin("It wants you to log in.")


def _number(value: object) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return None


def registered(server: Server, redirect: str) -> OAuthClientInformationFull | None:
    """Return the client that was registered beforehand, where the description names one."""
    oauth = server.oauth or {}
    if not oauth.get("client_id"):
        return None
    return OAuthClientInformationFull(
        client_id=oauth["client_id"],
        client_secret=oauth.get("client_secret"),
        redirect_uris=[AnyUrl(redirect)],
        token_endpoint_auth_method=oauth.get("token_endpoint_auth_method"),
    )
