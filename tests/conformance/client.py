"""The client for the MCP conformance suite: hilum's own configuration, sessions, forms and login.

The suite passes the address as the last argument, the scenario in ``MCP_CONFORMANCE_SCENARIO`` and
further data in ``MCP_CONFORMANCE_CONTEXT``. The server is configured in a file as a user would do
it. If it requires no login, a scripted model in a whole session calls the tools; otherwise the
program connects like ``hilum mcp login``. It also does the part of the browser and the user: it
opens the address, and accepts the proposals of a form.
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


def make_config(url: str) -> dict[str, Any]:
    """Return the configuration that a user would write into mcp.json."""
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
            "issuer": find_issuer(url), "idp_token_endpoint": CONTEXT["idp_token_endpoint"],
            "idp_client_id": CONTEXT["idp_client_id"], "id_token": CONTEXT["idp_id_token"],
        }  # fmt: skip
    return {**server, "oauth": oauth} if oauth else server


def find_issuer(url: str) -> str:
    """Return the authorization server that an administrator would configure.

    Only the server's metadata names it.
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
    """Open an address and follow its redirects, as a browser does."""
    import httpx2

    async with httpx2.AsyncClient(follow_redirects=True) as browser:
        await browser.get(url)


async def agree(kit: Any) -> None:
    """Answer questions of servers with their proposals, or with the first choice."""
    from hilum_plan import Plan, question_asked

    async for event in kit.session.events(kit.session.journal.last):
        if (asked := question_asked(event)) is not None:
            kit.session.plugin(Plan).answer(asked.id, asked.options[0])


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
    """Wait until a condition holds."""
    for _ in range(3_000):
        if condition():
            return
        await trio.sleep(0.01)
    raise SystemExit("It took too long.")


async def in_a_session(url: str, folder: Path) -> None:
    """Open a session with the server, in which the model calls the tools."""
    import hilum_mcp
    import hilum_plan
    from hilum.testing import open_bench
    from hilum_mcp import SessionServers

    describe(folder / "config/mcp.json", url)
    async with (
        open_bench(hilum_mcp, hilum_plan, folder=folder) as kit,
        trio.open_nursery() as nursery,
    ):
        server = kit.session.plugin(SessionServers).clients["conformance"]
        nursery.start_soon(agree, kit)
        server.connection.request_start()
        await server.connection.wait_settled()
        await until(lambda: server.offer is not None or server.connection.state != "up")
        if server.offer is None:
            raise SystemExit(f"It did not come up: {server.connection.error}")
        await until(lambda: all(tool.name in kit.session.tools for tool in server.allowed_tools))
        schemas = {
            name.removeprefix("conformance__"): kit.session.tools[name].schema
            for name in (t.name for t in server.allowed_tools)
        }
        for name, arguments in calls(schemas):
            await kit.call(f"conformance__{name}", **arguments)
        nursery.cancel_scope.cancel()


def describe(file: Path, url: str) -> None:
    """Write the configuration of the server as a user would."""
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"mcpServers": {"conformance": make_config(url)}}))


async def call_one(client: Any) -> None:
    """Call one tool of a server that requires a login."""
    listed = await client.list_tools()
    for tool in listed.tools[:1]:
        await client.call_tool(tool.name, {})


async def with_a_log_in(url: str, folder: Path) -> None:
    """Connect like ``hilum mcp login``, or like ``hilum mcp test`` if no user is needed."""
    from hilum_mcp import login
    from hilum_mcp.commands import CommandContext
    from hilum_mcp.commands.probe import connect_once
    from hilum_mcp.connector import expand_server
    from hilum_mcp.paths import user_file

    describe(user_file(), url)
    with io.StringIO() as out:
        desk = CommandContext(folder, out)
        entry = await desk.find_entry("conformance")
        if login.is_machine_login(entry.server):
            await connect_once(desk, entry, call_one)
            return
        server = expand_server(entry.server, folder)
        await login.log_in(server, lambda auth: connect_once(desk, entry, call_one, auth), follow)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        os.environ["HOME"] = name
        for variable in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
            os.environ.pop(variable, None)
        main = with_a_log_in if SCENARIO.startswith("auth/") else in_a_session
        trio.run(main, sys.argv[-1], Path(name))
