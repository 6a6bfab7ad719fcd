"""Logs in without asking the user.

Either hilum has client credentials, or an organization's identity provider authenticates the user.
This module imports the MCP SDK.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
from hilum import UsageError, errors
from mcp.client.auth import OAuthFlowError
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider

from hilum_mcp.address_check import uses_proxy
from hilum_mcp.auth_requests import (
    CheckedAuthFlow,
    allowed_reach,
    check_auth_address,
    send_checked,
)
from hilum_mcp.expansion import read_small_file
from hilum_mcp.token_store import TokenStore

if TYPE_CHECKING:
    from hilum_web import Reach

    from hilum_mcp.server_config import ServerConfig

_IDENTITY_OPTIONS = (
    "client_id",
    "client_secret",
    "issuer",
    "idp_token_endpoint",
    "idp_client_id",
    "id_token",
)


class SecretProvider(CheckedAuthFlow, ClientCredentialsOAuthProvider):
    """Authentication with client credentials: an ID and a secret."""


class SignedProvider(CheckedAuthFlow, PrivateKeyJWTOAuthProvider):
    """Authentication with client credentials: an ID and a private key."""


class IdentityProvider(CheckedAuthFlow, IdentityAssertionOAuthProvider):
    """Authentication by an organization's identity provider, in place of a login.

    Implements the MCP extension SEP-990.
    """


def make_auth(
    server: ServerConfig,
    store: TokenStore,
    hosts: frozenset[str] = frozenset(),
) -> httpx2.Auth:
    """Return the authentication that ``oauth.grant`` selects.

    Args:
        server: The server's configuration, with variables expanded.
        store: The store for the tokens.
        hosts: Hosts on the user's network that a server may refer to.

    Raises:
        UsageError: The configuration is incomplete.
    """
    options = server.oauth or {}
    grant = options.get("grant")
    reach = allowed_reach(server.url, hosts)
    provider: Any
    if grant == "client_credentials":
        has_key = "private_key" in options or "private_key_file" in options
        provider = _use_key(server, store) if has_key else _use_secret(server, store)
    elif grant == "identity_assertion":
        provider = _use_identity(server, store, reach)
    else:
        known = (
            "The supported values are authorization_code, client_credentials and "
            "identity_assertion."
        )
        raise _config_error(server, f"oauth.grant is {grant!r}", known)
    provider.server_url = server.url
    provider.reach = reach
    return provider  # type: ignore[no-any-return]


def _use_secret(server: ServerConfig, store: TokenStore) -> SecretProvider:
    options = _require(server, "client_id", "client_secret")
    return SecretProvider(
        server.url,
        store,
        options["client_id"],
        options["client_secret"],
        _auth_method(options),
        options.get("scope"),
        options.get("issuer"),
    )


def _use_key(server: ServerConfig, store: TokenStore) -> SignedProvider:
    options = _require(server, "client_id")
    identity = options["client_id"]
    # RFC 7523, section 3: the client is both the issuer and the subject of its assertion.
    parameters = SignedJWTParameters(
        issuer=identity,
        subject=identity,
        signing_key=_read_key(server),
        signing_algorithm=options.get("algorithm", "ES256"),
    )
    sign = parameters.create_assertion_provider()
    scope = options.get("scope")
    issuer = options.get("issuer")
    return SignedProvider(server.url, store, identity, sign, scope, issuer=issuer)


def _use_identity(server: ServerConfig, store: TokenStore, reach: Reach) -> IdentityProvider:
    options = _require(server, *_IDENTITY_OPTIONS)
    return IdentityProvider(
        server.url,
        store,
        options["client_id"],
        options["client_secret"],
        options["issuer"],
        _make_exchange(server, options, reach),
        options.get("scope"),
        _auth_method(options),
    )


def _auth_method(options: dict[str, str]) -> Any:
    # RFC 6749, section 2.3.1: every server that issues client secrets must support HTTP Basic.
    return options.get("token_endpoint_auth_method", "client_secret_basic")


def _read_key(server: ServerConfig) -> str:
    options = server.oauth or {}
    if options.get("private_key"):
        return options["private_key"]
    try:
        return read_small_file(Path(os.path.expanduser(options["private_key_file"])))
    except (OSError, ValueError, RuntimeError) as error:
        what = f"oauth.private_key_file cannot be read: {error}"
        raise _config_error(server, what, "Set it to a file that contains the key.") from None


def _make_exchange(
    server: ServerConfig,
    options: dict[str, str],
    reach: Reach,
) -> Callable[[str, str], Awaitable[str]]:
    """Return a function that exchanges the user's ID token for an assertion (RFC 8693)."""

    async def exchange(audience: str, resource: str) -> str:
        # RFC 8693, section 2.1, with the token type of
        # draft-ietf-oauth-identity-assertion-authz-grant.
        data = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
            "subject_token": options["id_token"],
            "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
            "audience": audience,
            "resource": resource,
            "client_id": options["idp_client_id"],
        }
        request = httpx2.Request("POST", options["idp_token_endpoint"], data=data)
        url = str(request.url)
        await check_auth_address(url, server.url, reach)
        # A proxy resolves names itself, so there is no socket whose address could be checked.
        if uses_proxy(url):
            async with httpx2.AsyncClient(follow_redirects=False) as client:
                response = await client.send(request)
        else:
            response = await send_checked(request, reach)
        return _read_assertion(response)

    return exchange


def _read_assertion(response: httpx2.Response) -> str:
    token = None
    if response.status_code == 200:
        try:
            token = response.json().get("access_token")
        except (ValueError, AttributeError):
            pass
    if not isinstance(token, str):
        raise OAuthFlowError(
            f"The identity provider returned no assertion (HTTP {response.status_code})."
        )
    return token


def _require(server: ServerConfig, *keys: str) -> dict[str, str]:
    """Return the OAuth options.

    Raises:
        UsageError: A required option is missing.
    """
    options = server.oauth or {}
    for key in keys:
        if not options.get(key):
            hint = "Add it. To keep its value out of the file, use a variable: ${NAME}."
            raise _config_error(server, f"oauth.{key} is missing", hint)
    return options


def _config_error(server: ServerConfig, what: str, hint: str) -> UsageError:
    return UsageError(
        f"In the MCP server {server.name} {what}.",
        code=errors.E_NOT_CONFIGURED,
        hint=hint,
    )
