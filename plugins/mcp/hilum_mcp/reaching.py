"""Servers tried, logged in at, and listened to: what of ``hilum mcp`` talks to a server, or shows
what one said.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio
from hilum import HilumError, NeedsUser, Session, ToolError, UsageError, errors

from hilum_mcp import asked, offer, tokens
from hilum_mcp.errors import NeedsLogin, reason_of, single
from hilum_mcp.log import log_file
from hilum_mcp.login import by_itself, log_in, takes_login
from hilum_mcp.managing import Action, Desk, make_parser, parse
from hilum_mcp.settings import McpSettings
from hilum_mcp.shown import plain
from hilum_mcp.sources import Entry

if TYPE_CHECKING:
    import httpx2
    from hilum_web import WebSettings

    from hilum_mcp.server import Server

LINES = 40
MOST_TOOLS = 30
Job = Callable[[Any], Awaitable[Any]]


@asynccontextmanager
async def session_of(desk: Desk) -> AsyncIterator[tuple[Session, McpSettings]]:
    """Return the session that an action runs in.

    At the command line one that is not kept and has no servers of its own.
    """
    if desk.session is not None:
        yield desk.session, desk.session.settings(McpSettings)
        return
    from hilum import open_kernel
    from hilum.store import MemoryStore

    settings, _ = await trio.to_thread.run_sync(_settings, desk)
    async with (
        open_kernel(workspace=desk.workspace, without=["mcp"], store=MemoryStore()) as kernel,
        kernel.open_session(desk.workspace, kind="headless") as session,
    ):
        yield session, settings


def _settings(desk: Desk) -> tuple[McpSettings, WebSettings]:
    """Read the settings that hold at the command line. Blocks."""
    from hilum import SettingsError
    from hilum_settings import App
    from hilum_web import WebSettings

    app = App(
        "hilum",
        error=SettingsError,
        hint="hilum config shows all settings and where they come from.",
    )
    loaded = app.load([McpSettings, WebSettings], workspace=desk.workspace, known=None)
    return loaded.get(McpSettings), loaded.get(WebSettings)


async def once(
    desk: Desk, entry: Entry, job: Job, auth: httpx2.Auth | None = None, limit: float = 0
) -> Any:
    """Connect to a server, run a job with its client, and end it.

    Args:
        desk: Where.
        entry: The server.
        job: What is done.
        auth: What signs requests; by default what is kept of the user's log-in.
        limit: Seconds all of it may take; by default the server's times to start and to answer.

    Raises:
        HilumError: It does not work; says why.
    """
    from hilum_mcp.log import Log
    from hilum_mcp.opening import Opening, start_seconds
    from hilum_mcp.requests import Requests
    from hilum_mcp.stdio import Line

    server, line, log = entry.server, Line(), Log(entry.server.prefix)
    result: list[Any] = []
    failure: BaseException | None = None
    async with session_of(desk) as (session, settings):
        requests = Requests(session, server.name, settings, log, able=True)
        opening = Opening(session, server, settings, log, requests, auth)
        usual = start_seconds(server, settings) + (server.call_seconds or settings.call_seconds)
        with trio.move_on_after(limit or usual) as patience:
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_until_lost, line, nursery.cancel_scope)
                    async with opening(line) as client:
                        result.append(await job(client))
                    nursery.cancel_scope.cancel()
            except* Exception as group:  # whatever a server can make the SDK raise
                failure = single(group)
    if result:
        return result[0]
    if isinstance(failure, HilumError):
        raise failure
    if line.login or isinstance(failure, NeedsLogin):
        hint = f"hilum mcp login {server.name}"
        raise NeedsUser(f"{server.name} wants you to log in.", code=errors.E_SERVER, hint=hint)
    if patience.cancelled_caught:
        slow = f"It did not answer within {limit or usual:g} seconds."
    else:
        slow = ""
    why = slow or line.why or (reason_of(failure) if failure else "The connection ended.")
    raise ToolError(
        why, code=errors.E_SERVER, hint=f"{desk.prog} logs {server.name} shows what it wrote."
    )


async def _until_lost(line: Any, scope: trio.CancelScope) -> None:
    await line.lost.wait()
    scope.cancel()


def may_start(entry: Entry) -> None:
    """Raise unless a server may be started because the user asks for it now.

    Raises:
        UsageError: It may not.
    """
    if not _startable(entry):
        raise UsageError(
            f"The MCP server {entry.server.name} may not be started. {entry.reason}",
            code=errors.E_DENIED,
        )


def _startable(entry: Entry) -> bool:
    return entry.state == "on" or (entry.scope == "user" and entry.state == "off")


async def _test(argv: list[str], desk: Desk) -> int:
    parser = make_parser(desk, "test", ACTIONS["test"][1])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="all that are on, if none is named"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    options = parse(parser, argv, desk)
    catalog = await desk.catalog()
    entries = [await desk.entry(name) for name in options.names] or [
        each for each in catalog.entries if each.state == "on"
    ]
    if not entries and not options.json:
        desk.say(f"No server is on. {desk.prog} list shows them all.")
    results = []
    for entry in entries:
        if not options.json and _startable(entry):
            desk.say(f"{entry.server.name}: starts {plain(entry.server, entry.server.shown())}")
        result = await _try(entry, desk)
        results.append(result)
        if not options.json:
            for line in _lines(result):
                desk.say(line)
    if options.json:
        desk.say_json(results)
    return 0 if all(result["works"] for result in results) else 1


async def _try(entry: Entry, desk: Desk) -> dict[str, Any]:
    from hilum_mcp import listing

    server = entry.server
    result: dict[str, Any] = {"name": server.name, "works": False}
    try:
        may_start(entry)
        inputs = (await desk.catalog()).inputs.get(str(server.file), {})
        await trio.to_thread.run_sync(
            asked.ask, server, inputs, desk.ask_input if desk.ask else None
        )
        began = trio.current_time()
        about, offered = await once(desk, entry, lambda client: _look(client, listing))
        await trio.to_thread.run_sync(
            offer.keep, server.digest, offered
        )  # so the next session begins with its tools
        result |= about | {
            "works": True,
            "seconds": round(trio.current_time() - began, 3),
            "tools": [tool.name for tool in offered.tools if server.offers(tool.name)],
            "left_out": [tool.name for tool in offered.tools if not server.offers(tool.name)],
            "prompts": [prompt.name for prompt in offered.prompts],
            "resources": offered.resources,
            "odd": list(offered.left_out),
        }
    except HilumError as error:
        result |= {"error": error.message, "code": error.code, "hint": error.hint}
    return result


async def _look(client: Any, listing: Any) -> tuple[dict[str, Any], Any]:
    info = client.server_info
    about = {
        "server": f"{info.name} {info.version}" if info else "",
        "protocol": client.protocol_version,
    }
    return about, await listing.ask(client)


def _lines(result: dict[str, Any]) -> list[str]:
    name = result["name"]
    if not result["works"]:
        return [
            f"{name}: ✗ {result['code']}: {result['error']}",
            *([f"  {result['hint']}"] if result["hint"] else []),
        ]
    tools = result["tools"]
    more = f" and {len(tools) - MOST_TOOLS} more" if len(tools) > MOST_TOOLS else ""
    lines = [
        f"{name}: ✓ {result['server']}, protocol {result['protocol']}, in {result['seconds']:.1f} s"
    ]
    lines.append(
        f"  {len(tools)} tools: {', '.join(tools[:MOST_TOOLS])}{more}"
        if tools
        else "  It has no tools."
    )
    if result["left_out"]:
        lines.append(f"  left out by its description: {', '.join(result['left_out'])}")
    if result["prompts"]:
        lines.append(f"  prompts: {', '.join(result['prompts'])}")
    return (
        lines
        + ["  It has resources."] * bool(result["resources"])
        + [f"  ⚠ {each}" for each in result["odd"]]
    )


# --- logging in -----------------------------------------------------------------------------------


async def _login(argv: list[str], desk: Desk) -> int:
    parser = make_parser(desk, "login", ACTIONS["login"][1])
    parser.add_argument("name", metavar="NAME")
    parser.add_argument(
        "--no-browser", action="store_true", help="print the address and open nothing"
    )
    options = parse(parser, argv, desk)
    entry = await desk.entry(options.name)
    may_start(entry)
    if desk.session is not None:
        raise UsageError(
            "Logging in needs a terminal of its own.", hint=f"hilum mcp login {options.name}"
        )
    why = _no_login(entry.server)
    if why:
        raise UsageError(
            f"{options.name} {why}, so there is nothing to log in at.", code=errors.E_FAILED
        )
    from hilum_mcp.opening import filled

    inputs = (await desk.catalog()).inputs.get(str(entry.server.file), {})
    await trio.to_thread.run_sync(
        asked.ask, entry.server, inputs, desk.ask_input if desk.ask else None
    )
    server = await trio.to_thread.run_sync(filled, entry.server, desk.workspace)
    before = await trio.to_thread.run_sync(tokens.Kept(tokens.file_of(server)).read)

    async def show(url: str) -> None:
        desk.say(f"Open this address and log in:\n  {url}")
        if not options.no_browser and desk.ask is not None:
            import webbrowser

            # It belongs to the user and outlives hilum, so it is no child of the warden. No shell
            # is involved.
            if not await trio.to_thread.run_sync(webbrowser.open, url):
                desk.say("No browser could be started.")
        if desk.typed is not None:
            desk.say(
                "If it ends at a page that cannot be shown, paste the address of that page here."
            )
        desk.say("Waiting for you …")

    async def connect(auth: httpx2.Auth) -> None:
        from hilum_mcp import listing

        offered = await once(desk, entry, lambda client: listing.ask(client), auth, limit=3_600)
        desk.say(f"{server.name} lets you in: {len(offered.tools)} tools.")

    async def typed(take: Callable[[str], bool]) -> None:
        while desk.typed is not None and (text := await desk.typed()):
            desk.say(
                "Thank you."
                if take(text)
                else "That is not the address at which this log-in ends. Waiting …"
            )

    mine, web = await trio.to_thread.run_sync(_settings, desk)
    await log_in(server, connect, show, typed, mine.client_metadata_url, frozenset(web.hosts))
    after = await trio.to_thread.run_sync(tokens.Kept(tokens.file_of(server)).read)
    if not after.get("tokens"):
        desk.say("It asked for no log-in.")
    elif after == before:
        desk.say("You were logged in already.")
    return 0


def _no_login(server: Server) -> str:
    """Return why a user cannot log in at a server; empty where he can."""
    if not takes_login(server):
        if server.kind == "stdio":
            return "is a program"
        if server.login:
            return "has a key in its description"
        return "has logging in switched off in its description"
    if by_itself(server):
        return "is logged in at by itself, with the credentials of its description"
    return ""


async def _logout(argv: list[str], desk: Desk) -> int:
    parser = make_parser(desk, "logout", ACTIONS["logout"][1])
    parser.add_argument("name", metavar="NAME")
    options = parse(parser, argv, desk)
    entry = await desk.entry(options.name)
    from hilum_mcp.opening import filled

    server = await trio.to_thread.run_sync(filled, entry.server, desk.workspace)
    there = await trio.to_thread.run_sync(tokens.forget, server)
    desk.say(
        f"{options.name}: what was kept of your log-in is removed."
        if there
        else f"You are not logged in at {options.name}."
    )
    return 0


# --- logs -----------------------------------------------------------------------------------------


async def _logs(argv: list[str], desk: Desk) -> int:
    parser = make_parser(desk, "logs", ACTIONS["logs"][1])
    parser.add_argument("name", metavar="NAME")
    parser.add_argument(
        "--lines", "-n", type=int, default=LINES, metavar="N", help=f"the last N lines ({LINES})"
    )
    parser.add_argument("--path", action="store_true", help="only where the log stands")
    options = parse(parser, argv, desk)
    entry = await desk.entry(options.name)
    path = log_file(entry.server.prefix)
    if options.path:
        desk.say(str(path))
        return 0
    lines = await trio.to_thread.run_sync(_last, path, max(options.lines, 1))
    if not lines:
        desk.say(f"{options.name} has said nothing yet ({path}).")
    for line in lines:
        desk.say(line)
    return 0


def _last(path: Any, most: int) -> list[str]:
    text = ""
    for file in (path.with_suffix(".log.1"), path):
        try:
            text += file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
    return text.splitlines()[-most:]


ACTIONS: dict[str, tuple[Action, str]] = {
    "test": (_test, "start servers and show what they offer"),
    "login": (_login, "log in at a server that wants it, in the browser"),
    "logout": (_logout, "forget a log-in"),
    "logs": (_logs, "show what a server wrote beside the protocol"),
}
