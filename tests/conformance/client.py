"""The client that the MCP conformance suite drives: hilum's own configuration, sessions, forms,
log-in and connection.

The suite gives the address as the last argument, the scenario in ``MCP_CONFORMANCE_SCENARIO`` and
what it needs to know in ``MCP_CONFORMANCE_CONTEXT``. The server is described in a file as a user
would. Where it wants no log-in, a whole session is opened, whose model (a scripted one) calls the
tools; else it is reached as ``hilum mcp login`` reaches it. What the browser and the user would do
is done here: following the address, agreeing to what a form proposes.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
from collections.abc import Callable
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
    if SCENARIO in ("auth/cross-app-access-complete-flow", "auth/enterprise-managed-authorization"):
        oauth |= {
            "grant": "identity_assertion", "client_id": CONTEXT["client_id"], "client_secret": CONTEXT["client_secret"],
            "issuer": issuer(url), "idp_token_endpoint": CONTEXT["idp_token_endpoint"],
            "idp_client_id": CONTEXT["idp_client_id"], "id_token": CONTEXT["idp_id_token"],
        }  # fmt: skip
    return {**server, "oauth": oauth} if oauth else server


def issuer(url: str) -> str:
    """Give the authorization server that an administrator would name.

    The suite tells it by the server's metadata only.
    """
    import httpx2

    parts = httpx2.URL(url)
    for path in (
        f"/.well-known/oauth-protected-resource{parts.path}",
        "/.well-known/oauth-protected-resource",
    ):
        found = httpx2.get(parts.copy_with(path=path))
        if found.status_code == 200:
            return str(found.json()["authorization_servers"][0])
    return ""


async def follow(url: str) -> None:
    """Do what a browser does: open the address, and go where it leads."""
    import httpx2

    async with httpx2.AsyncClient(follow_redirects=True) as browser:
        await browser.get(url)


async def agree(kit: Any) -> None:
    """Answer questions of servers with what they propose, or the first choice."""
    from hilum_plan import Plan, question_asked

    async for event in kit.session.events(kit.session.journal.last):
        if (asked := question_asked(event)) is not None:
            kit.session.half(Plan).answer(asked.id, asked.options[0])


def calls(schemas: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Give the calls that the model makes: those that the suite names, or else one of each tool.

    Args:
        schemas: The tools of the server, and what they take.
    """
    if "toolCalls" in CONTEXT:
        return [(each["name"], each["arguments"]) for each in CONTEXT["toolCalls"]]
    if "json_schema_echo" in schemas:
        return [("json_schema_echo", {"schema": schemas["json_schema_2020_12_tool"]})]
    given = {"add_numbers": {"a": 5, "b": 3}}
    return [(name, given.get(name, {})) for name in schemas]


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something holds."""
    for _ in range(3_000):
        if condition():
            return
        await trio.sleep(0.01)
    raise SystemExit("It took too long.")


async def in_a_session(url: str, folder: Path) -> None:
    """Open a session that has the server, and have its model call the tools."""
    import hilum_mcp
    import hilum_plan
    from hilum.testing import open_bench
    from hilum_mcp import Mcp

    describe(folder / "config/mcp.json", url)
    async with (
        open_bench(hilum_mcp, hilum_plan, folder=folder) as kit,
        trio.open_nursery() as nursery,
    ):
        server = kit.session.half(Mcp).clients["conformance"]
        nursery.start_soon(agree, kit)
        server.connection.want()
        await server.connection.settled()
        await until(lambda: server.offer is not None or server.connection.state != "up")
        if server.offer is None:
            raise SystemExit(f"It did not come up: {server.connection.error}")
        await until(lambda: all(tool.name in kit.session.tools for tool in server.tools))
        schemas = {
            name.removeprefix("conformance__"): kit.session.tools[name].schema
            for name in (t.name for t in server.tools)
        }
        for name, arguments in calls(schemas):
            await kit.call(f"conformance__{name}", **arguments)
        nursery.cancel_scope.cancel()


def describe(file: Path, url: str) -> None:
    """Write the server down as a user would."""
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"mcpServers": {"conformance": described(url)}}))


async def call_one(client: Any) -> None:
    """Have a server that wants a log-in do something."""
    listed = await client.list_tools()
    for tool in listed.tools[:1]:
        await client.call_tool(tool.name, {})


async def with_a_log_in(url: str, folder: Path) -> None:
    """Reach a server as ``hilum mcp login`` does, or as ``hilum mcp test`` where it is logged in at
    without a user.
    """
    from hilum_mcp import login, reaching, sources
    from hilum_mcp.managing import Desk
    from hilum_mcp.opening import filled

    describe(sources.user_file(), url)
    with io.StringIO() as out:
        desk = Desk(folder, out)
        entry = await desk.entry("conformance")
        if login.by_itself(entry.server):
            await reaching.once(desk, entry, call_one)
            return
        server = filled(entry.server, folder)
        await login.log_in(server, lambda auth: reaching.once(desk, entry, call_one, auth), follow)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        os.environ["HOME"] = name
        for variable in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
            os.environ.pop(variable, None)
        main = with_a_log_in if SCENARIO.startswith("auth/") else in_a_session
        trio.run(main, sys.argv[-1], Path(name))
