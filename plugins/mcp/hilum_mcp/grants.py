"""Logging in without a user: a program's own credentials, or the user's identity at the
organisation's identity provider.

Imported with the SDK only, at the first server that needs it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hilum import UsageError, errors
from mcp.client.auth import OAuthFlowError
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider

from hilum_mcp.elsewhere import Apart, allow, proxied, reach_of, send
from hilum_mcp.expansion import read_small
from hilum_mcp.tokens import Kept

if TYPE_CHECKING:
    import httpx2
    from hilum_web import Reach

    from hilum_mcp.server import Server


class Credentials(Apart, ClientCredentialsOAuthProvider):
    """A program's own credentials: id and secret."""


class Signed(Apart, PrivateKeyJWTOAuthProvider):
    """A program's own credentials: id and private key."""


class Assertion(Apart, IdentityAssertionOAuthProvider):
    """The user's identity at the organisation's identity provider, in place of a log-in
    (SEP-990).
    """


def machine(server: Server, kept: Kept, hosts: frozenset[str] = frozenset()) -> httpx2.Auth | None:
    """Return what signs requests without a user, where the description says so (``oauth.grant``).

    ``None`` else.

    Raises:
        UsageError: Something is missing in the description.
    """
    oauth = server.oauth or {}
    grant = oauth.get("grant", "authorization_code")
    if grant == "authorization_code":
        return None
    provider: Any
    identity, secret, scope, issuer = (
        oauth.get(key) for key in ("client_id", "client_secret", "scope", "issuer")
    )
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
        _need(
            server,
            "client_id",
            "client_secret",
            "issuer",
            "idp_token_endpoint",
            "idp_client_id",
            "id_token",
        )
        fetch = _exchange(server, reach_of(server.url, hosts))
        provider = Assertion(
            server.url, kept, str(identity), str(secret), str(issuer), fetch, scope, method
        )
    else:
        known = "authorization_code, client_credentials and identity_assertion are known."
        raise _odd(server, f"oauth.grant is {grant!r}", known)
    provider.server_url = server.url
    provider.reach = reach_of(server.url, hosts)
    return provider  # type: ignore[no-any-return]


def _key(server: Server) -> str:
    oauth = server.oauth or {}
    given = oauth.get("private_key")
    if given:
        return given
    try:
        return read_small(Path(oauth["private_key_file"]).expanduser())
    except (OSError, ValueError, RuntimeError) as error:
        raise _odd(
            server, f"oauth.private_key_file cannot be read: {error}", "Name a file with the key."
        ) from None


def _exchange(server: Server, reach: Reach) -> Callable[[str, str], Awaitable[str]]:
    """Get an assertion for a server from the identity provider (RFC 8693, token exchange) by the
    user's ID token.
    """
    oauth = server.oauth or {}

    async def exchange(audience: str, resource: str) -> str:
        import httpx2

        data = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
            "subject_token": oauth["id_token"],
            "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
            "audience": audience,
            "resource": resource,
            "client_id": oauth["idp_client_id"],
        }
        request = httpx2.Request("POST", oauth["idp_token_endpoint"], data=data)
        await allow(str(request.url), server.url, reach)
        if proxied(str(request.url)):
            async with httpx2.AsyncClient(follow_redirects=False) as client:
                response = await client.send(request)
        else:
            response = await send(request, reach)
        try:
            token = response.json().get("access_token") if response.status_code == 200 else None
        except (ValueError, AttributeError):
            token = None
        if not isinstance(token, str):
            raise OAuthFlowError(
                f"The identity provider gave no assertion (HTTP {response.status_code})."
            )
        return token

    return exchange


def _need(server: Server, *keys: str) -> None:
    for key in keys:
        if not (server.oauth or {}).get(key):
            raise _odd(
                server,
                f"oauth.{key} is missing",
                "Add it; a variable keeps it out of the file: ${NAME}.",
            )


def _odd(server: Server, what: str, hint: str) -> UsageError:
    return UsageError(
        f"In the MCP server {server.name} {what}.", code=errors.E_NOT_CONFIGURED, hint=hint
    )
