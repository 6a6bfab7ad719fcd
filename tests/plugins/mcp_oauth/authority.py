"""A test server that requires a login, and its authorization server, on 127.0.0.1."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlencode

import trio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

TOOLS = [
    {"name": "look", "inputSchema": {"type": "object"}},
    {"name": "change", "inputSchema": {"type": "object"}},
]


class Authority:
    """What both know. The attributes are what a test changes.

    Attributes:
        seen: Requests so far: path and form or query.
        expires: Seconds that a token holds.
        refusal: Status and error with which a renewal is refused.
        issuer: What the browser brings as ``iss``; ``None`` for the right one.
        metadata: Entries of the authorization server's metadata, over the usual ones; ``None``
            leaves one out.
        resource: Entries of the resource's metadata, over the usual ones.
        pointer: Where the server of tools says that its metadata stands; empty for the right place.
        moved: Where the authorization server sends requests for its metadata and tokens on to;
            empty for nowhere.
    """

    def __init__(self) -> None:
        self.url = self.login = ""
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.expires: int | None = 3_600
        self.refusal: tuple[int, str] | None = None
        self.issuer: str | None = None
        self.metadata: dict[str, Any] = {}
        self.resource: dict[str, Any] = {}
        self.pointer = self.moved = ""
        self.access: dict[str, str] = {}
        self.renewing: dict[str, str] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.count = 0

    def of(self, path: str) -> list[dict[str, str]]:
        """Return the requests to a path."""
        return [data for each, data in self.seen if each == path]

    # --- the server of tools ----------------------------------------------------------------------

    async def mcp(self, request: Request) -> Response:
        """Answer as an MCP server of 2025-11-25 to requests with a token."""
        if request.method != "POST":
            return Response(status_code=405)
        message = await request.json()
        method, number = message.get("method"), message.get("id")
        scope = self.access.get(request.headers.get("authorization", "").removeprefix("Bearer "))
        self.seen.append((f"mcp {method}", {"scope": scope or ""}))
        place = f'resource_metadata="{self.pointer or f"{self.url}/.well-known/oauth-protected-resource/mcp"}"'
        if scope is None:
            return Response(
                status_code=401, headers={"www-authenticate": f'Bearer {place}, scope="look"'}
            )
        if number is None:
            return Response(status_code=202)
        result: dict[str, Any]
        if method == "initialize":
            info = {"name": "tests", "version": "1"}
            result = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": info,
            }
        elif method == "tools/list":
            result = {"tools": TOOLS}
        elif method == "tools/call":
            if message["params"]["name"] == "change" and "change" not in scope.split():
                wants = f'Bearer error="insufficient_scope", scope="change", {place}'
                return Response(status_code=403, headers={"www-authenticate": wants})
            result = {"content": [{"type": "text", "text": scope}]}
        else:
            return JSONResponse(
                {"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "no"}}, 400
            )
        return JSONResponse({"jsonrpc": "2.0", "id": number, "result": result})

    async def protected(self, request: Request) -> Response:
        """Return the metadata that names the authorization server."""
        self.seen.append((request.url.path, {}))
        found = {
            "resource": f"{self.url}/mcp",
            "authorization_servers": [self.login],
            "scopes_supported": ["look"],
        }
        return JSONResponse(found | self.resource)

    # --- the server that logs in ------------------------------------------------------------------

    async def about(self, request: Request) -> Response:
        """Return the metadata of RFC 8414."""
        self.seen.append((request.url.path, {}))
        if self.moved and request.query_params.get("moved") is None:
            return RedirectResponse(self.moved, 307)
        found = {
            "issuer": self.login, "authorization_endpoint": f"{self.login}/authorize",
            "token_endpoint": f"{self.login}/token", "registration_endpoint": f"{self.login}/register",
            "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"], "authorization_response_iss_parameter_supported": True,
        }  # fmt: skip
        return JSONResponse(
            {key: value for key, value in (found | self.metadata).items() if value is not None}
        )

    async def register(self, request: Request) -> Response:
        """Register a client (RFC 7591)."""
        data = await request.json()
        self.count += 1
        self.seen.append(("register", {"redirect": data["redirect_uris"][0]}))
        return JSONResponse(
            {**data, "client_id": f"client-{self.count}", "token_endpoint_auth_method": "none"}, 201
        )

    async def authorize(self, request: Request) -> Response:
        """Accept the user at once, and redirect the browser back."""
        given = dict(request.query_params)
        self.seen.append(("authorize", given))
        code = f"code-{len(self.codes)}"
        self.codes[code] = given
        issuer = self.login if self.issuer is None else self.issuer
        back = {"code": code, "state": given["state"]} | ({"iss": issuer} if issuer else {})
        return RedirectResponse(f"{given['redirect_uri']}?{urlencode(back)}", 302)

    async def token(self, request: Request) -> Response:
        """Return tokens for a code with its proof, or once for a refresh token."""
        form = {key: values[0] for key, values in parse_qs((await request.body()).decode()).items()}
        self.seen.append(("token", form))
        if form["grant_type"] == "refresh_token":
            if self.refusal:
                return JSONResponse({"error": self.refusal[1]}, self.refusal[0])
            scope = self.renewing.pop(form["refresh_token"], None)
            if scope is None:
                return JSONResponse({"error": "invalid_grant"}, 400)
            return self._give(scope)
        asked = self.codes[form["code"]]
        proof = (
            base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest())
            .rstrip(b"=")
            .decode()
        )
        if asked["code_challenge"] != proof or asked["resource"] != form["resource"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        return self._give(asked.get("scope", ""))

    def _give(self, scope: str) -> Response:
        self.count += 1
        access, renewing = f"access-{self.count}", f"renewing-{self.count}"
        self.access[access], self.renewing[renewing] = scope, scope
        found = {
            "access_token": access,
            "token_type": "Bearer",
            "refresh_token": renewing,
            "expires_in": self.expires,
        }
        return JSONResponse({key: value for key, value in found.items() if value is not None})

    def forget_access(self) -> None:
        """Reject all access tokens issued so far; they may be renewed."""
        self.access.clear()


@asynccontextmanager
async def open_authority() -> AsyncIterator[Authority]:
    """Serve both while the block runs."""
    import hypercorn.trio
    from hypercorn.config import Config

    it = Authority()
    app = Starlette(
        routes=[
            Route("/mcp", it.mcp, methods=["GET", "POST", "DELETE"]),
            Route("/.well-known/oauth-protected-resource/mcp", it.protected),
            Route("/.well-known/oauth-authorization-server", it.about),
            Route("/authorize", it.authorize),
            Route("/register", it.register, methods=["POST"]),
            Route("/token", it.token, methods=["POST"]),
        ]
    )
    config = Config()
    config.bind, config.graceful_timeout = ["127.0.0.1:0", "127.0.0.1:0"], 0.1
    config.accesslog = config.errorlog = None
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        serve = partial(hypercorn.trio.serve, app, config, shutdown_trigger=stop.wait)
        it.url, it.login = await nursery.start(serve)
        try:
            yield it
        finally:
            stop.set()


def described(it: Authority, **oauth: Any) -> str:
    """Return the configuration that a user would write."""
    server: dict[str, Any] = {"type": "http", "url": f"{it.url}/mcp"}
    return json.dumps({"mcpServers": {"docs": server | ({"oauth": oauth} if oauth else {})}})
