"""The client that the MCP conformance suite drives: hilum's own configuration, log-in and connection, with no user.

The suite gives the address as the last argument, the scenario in ``MCP_CONFORMANCE_SCENARIO`` and what it needs to know in
``MCP_CONFORMANCE_CONTEXT``. The server is described in a file as a user would, and reached as ``hilum mcp test`` and
``hilum mcp login`` reach it. What the browser and the user would do is done here: following the address, filling in a form.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import trio

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "initialize")
CONTEXT: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
DOCUMENT = "https://conformance-test.local/client-metadata.json"


def described(url: str) -> dict[str, Any]:
    """Describe the server as a user would have it in mcp.json."""
    server: dict[str, Any] = {"url": url}
    oauth: dict[str, Any] = {}
    if SCENARIO == "auth/basic-cimd":
        oauth["client_metadata_url"] = DOCUMENT
    if SCENARIO == "auth/pre-registration":
        oauth |= {key: CONTEXT[key] for key in ("client_id", "client_secret")}
    if SCENARIO == "auth/client-credentials-basic":
        oauth |= {
            "grant": "client_credentials",
            "client_id": CONTEXT["client_id"],
            "client_secret": CONTEXT["client_secret"],
        }
    if SCENARIO == "auth/client-credentials-jwt":
        oauth |= {
            "grant": "client_credentials", "client_id": CONTEXT["client_id"], "private_key": CONTEXT["private_key_pem"],
            "algorithm": CONTEXT.get("signing_algorithm", "ES256"),
        }  # fmt: skip
    if SCENARIO.startswith("auth/cross-app-access"):
        oauth |= {
            "grant": "identity_assertion", "client_id": CONTEXT["client_id"], "client_secret": CONTEXT["client_secret"],
            "issuer": issuer(url), "idp_token_endpoint": CONTEXT["idp_token_endpoint"],
            "idp_client_id": CONTEXT["idp_client_id"], "id_token": CONTEXT["idp_id_token"],
        }  # fmt: skip
    return {**server, "oauth": oauth} if oauth else server


def issuer(url: str) -> str:
    """Give the authorization server that an administrator would name; the suite tells it by the server's metadata only."""
    import httpx2

    parts = httpx2.URL(url)
    for path in (f"/.well-known/oauth-protected-resource{parts.path}", "/.well-known/oauth-protected-resource"):
        found = httpx2.get(parts.copy_with(path=path))
        if found.status_code == 200:
            return str(found.json()["authorization_servers"][0])
    return ""


async def follow(url: str) -> None:
    """Do what a browser does: open the address, and go where it leads."""
    import httpx2

    async with httpx2.AsyncClient(follow_redirects=True) as browser:
        await browser.get(url)


async def work(client: Any) -> None:
    """Do what the scenario asks for."""
    listed = await client.list_tools()
    names = {tool.name for tool in listed.tools}
    if SCENARIO == "tools_call":
        await client.call_tool("add_numbers", {"a": 5, "b": 3})
    elif "elicitation" in SCENARIO:
        await client.call_tool("test_client_elicitation_defaults", {})
    elif SCENARIO == "sse-retry":
        await client.call_tool("test_reconnection", {})
    elif SCENARIO.startswith("auth/") and names:
        await client.call_tool(sorted(names)[0], {})


async def main(url: str, folder: Path) -> None:
    """Run the scenario."""
    from hilum_mcp import login, reaching, sources
    from hilum_mcp.managing import Desk
    from hilum_mcp.opening import filled

    file = sources.user_file()
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"mcpServers": {"conformance": described(url)}}))
    with io.StringIO() as out:
        desk = Desk(folder, out)
        entry = await desk.entry("conformance")
        if not SCENARIO.startswith("auth/") or (entry.server.oauth or {}).get("grant"):
            await reaching.once(desk, entry, work)
            return
        server = filled(entry.server, folder)
        await login.log_in(server, lambda auth: reaching.once(desk, entry, work, auth), follow)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        os.environ["HOME"] = name
        for variable in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
            os.environ.pop(variable, None)
        trio.run(main, sys.argv[-1], Path(name))
