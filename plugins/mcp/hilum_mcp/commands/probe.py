"""The action ``test``, and one-off connections to servers."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio
from hilum import HilumError, NeedsUser, Session, ToolError, UsageError, errors, open_kernel
from hilum.command import Parser
from hilum.hooks import find_first_error
from hilum.settings import load as load_settings
from hilum.store import MemoryStore
from hilum_web import WebSettings
from trio.to_thread import run_sync as in_thread

from hilum_mcp import lazy
from hilum_mcp.catalog import CatalogEntry
from hilum_mcp.commands.context import CommandContext
from hilum_mcp.errors import LoginRequiredError, describe_error
from hilum_mcp.formatting import redact
from hilum_mcp.launch import start_timeout
from hilum_mcp.offer import Offer, save_offer
from hilum_mcp.server_log import ServerLog
from hilum_mcp.settings import McpSettings
from hilum_mcp.text_cleaning import join_names
from hilum_mcp.transport_state import TransportState

if TYPE_CHECKING:
    import httpx2
    from mcp import Client

Job = Callable[["Client"], Awaitable[Any]]
MAX_LISTED = 30


@asynccontextmanager
async def open_command_session(
    context: CommandContext,
) -> AsyncIterator[tuple[Session, McpSettings]]:
    """Yield the session in which an action runs, and its settings.

    On the command line, the session is temporary and starts no servers itself.
    """
    if context.session is not None:
        yield context.session, context.session.settings(McpSettings)
        return
    settings, _ = await in_thread(read_settings, context)
    workspace = context.workspace
    async with (
        open_kernel(workspace=workspace, without=["mcp"], store=MemoryStore()) as kernel,
        kernel.open_session(workspace, kind="headless") as session,
    ):
        yield session, settings


def read_settings(context: CommandContext) -> tuple[McpSettings, WebSettings]:
    """Return the settings on the command line. Blocks."""
    loaded = load_settings([McpSettings, WebSettings], workspace=context.workspace, known=None)
    return loaded.get(McpSettings), loaded.get(WebSettings)


async def connect_once(
    context: CommandContext,
    entry: CatalogEntry,
    job: Job,
    auth: httpx2.Auth | None = None,
    time_limit: float = 0,
) -> Any:
    """Connect to a server, run a job with its client, and disconnect.

    Args:
        context: The context of the action.
        entry: The server.
        job: The job.
        auth: The authentication for requests; by default, the user's stored login.
        time_limit: The overall time limit in seconds; by default, the sum of the time limits for a
            start and a call.

    Raises:
        HilumError: The connection or the job failed; the error contains the reason.
    """
    server = entry.server
    state = TransportState()
    results: list[Any] = []
    failure: BaseException | None = None
    connector = await in_thread(lambda: lazy.connector)  # imports the SDK
    async with open_command_session(context) as (session, settings):
        log = ServerLog(server.prefix)
        requests = lazy.server_requests.ServerRequests(
            session,
            server.name,
            settings,
            log,
            claims_user=True,
        )
        connection = connector.Connector(session, server, settings, log, requests, auth)
        call_seconds = server.call_seconds or settings.call_seconds
        limit = time_limit or start_timeout(server, settings) + call_seconds
        with trio.move_on_after(limit) as scope:
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_cancel_when_lost, state, nursery.cancel_scope)
                    async with connection.connect(state) as client:
                        results.append(await job(client))
                    nursery.cancel_scope.cancel()
            except* Exception as group:  # a server can make the SDK raise any exception
                failure = find_first_error(group)
    if results:
        return results[0]
    if isinstance(failure, HilumError):
        raise failure
    if state.login_reason or isinstance(failure, LoginRequiredError):
        raise NeedsUser(
            f"{server.name} requires a login.",
            code=errors.E_SERVER,
            hint=f"hilum mcp login {server.name}",
        )
    reason = _explain_end(state, failure)
    if scope.cancelled_caught:
        reason = f"The server did not respond within {limit:g} seconds."
    hint = f"{context.prog} logs {server.name} shows its output."
    raise ToolError(reason, code=errors.E_SERVER, hint=hint)


def _explain_end(state: TransportState, failure: BaseException | None) -> str:
    if state.reason:
        return state.reason
    return "The connection ended." if failure is None else describe_error(failure)


async def _cancel_when_lost(state: TransportState, scope: trio.CancelScope) -> None:
    await state.lost.wait()
    scope.cancel()


def check_startable(entry: CatalogEntry) -> None:
    """Check that a server may be started at the user's request.

    Raises:
        UsageError: The server is not allowed to start.
    """
    if not _is_startable(entry):
        raise UsageError(
            f"The MCP server {entry.server.name} may not be started. {entry.reason}",
            code=errors.E_DENIED,
        )


def _is_startable(entry: CatalogEntry) -> bool:
    return entry.state == "on" or (entry.scope == "user" and entry.state == "off")


def add_test_options(parser: Parser) -> None:
    """Add the options of ``test``."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all that are on")
    parser.add_argument("--json", action="store_true", help="as JSON")


async def test_servers(options: Namespace, context: CommandContext) -> int:
    """Run ``test``."""
    entries = [await context.find_entry(name) for name in options.names]
    if not entries:
        catalog = await context.load_catalog()
        entries = [entry for entry in catalog.entries if entry.state == "on"]
    if options.json:
        results = [await _test_server(entry, context) for entry in entries]
        context.say_json(results)
    else:
        results = await _test_aloud(entries, context)
    return 0 if all(result["works"] for result in results) else 1


async def _test_aloud(entries: list[CatalogEntry], context: CommandContext) -> list[dict[str, Any]]:
    if not entries:
        context.say(f"No server is on. {context.prog} list shows all servers.")
    results = []
    for entry in entries:
        server = entry.server
        if _is_startable(entry):
            context.say(f"{server.name}: starts {redact(server, server.target)}")
        result = await _test_server(entry, context)
        results.append(result)
        for line in _format_result(result):
            context.say(line)
    return results


async def _test_server(entry: CatalogEntry, context: CommandContext) -> dict[str, Any]:
    server = entry.server
    result: dict[str, Any] = {"name": server.name, "works": False}
    try:
        check_startable(entry)
        await context.ask_inputs(server)
        began = trio.current_time()
        about, offer = await connect_once(context, entry, _fetch)
        # The offer is cached, so that the next session starts with the server's tools.
        await in_thread(save_offer, server.digest, offer)
    except HilumError as error:
        return {**result, "error": error.message, "code": error.code, "hint": error.hint}
    names = [tool.name for tool in offer.tools]
    return {
        **result,
        **about,
        "works": True,
        "seconds": round(trio.current_time() - began, 3),
        "tools": [name for name in names if server.offers(name)],
        "left_out": [name for name in names if not server.offers(name)],
        "prompts": [prompt.name for prompt in offer.prompts],
        "resources": offer.resources,
        "odd": list(offer.left_out),
    }


async def _fetch(client: Client) -> tuple[dict[str, Any], Offer]:
    info = client.server_info
    name = f"{info.name} {info.version}" if info else ""
    about = {"server": name, "protocol": client.protocol_version}
    return about, await lazy.discovery.fetch_offer(client)


def _format_result(result: dict[str, Any]) -> list[str]:
    name = result["name"]
    if not result["works"]:
        lines = [f"{name}: ✗ {result['code']}: {result['error']}"]
        if result["hint"]:
            lines.append(f"  {result['hint']}")
        return lines
    about = f"{result['server']}, protocol {result['protocol']}, in {result['seconds']:.1f} s"
    tools = result["tools"]
    listed = f"{len(tools)} tools: {join_names(tools, MAX_LISTED)}" if tools else "It has no tools."
    lines = [f"{name}: ✓ {about}", f"  {listed}"]
    if result["left_out"]:
        lines.append(f"  left out by its configuration: {', '.join(result['left_out'])}")
    if result["prompts"]:
        lines.append(f"  prompts: {', '.join(result['prompts'])}")
    if result["resources"]:
        lines.append("  It has resources.")
    return lines + [f"  ⚠ {sentence}" for sentence in result["odd"]]
