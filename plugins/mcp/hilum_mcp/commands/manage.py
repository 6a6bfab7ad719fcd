"""The actions ``list``, ``enable``, ``disable`` and ``approve``."""

from __future__ import annotations

from argparse import Namespace

from hilum import UsageError, errors
from hilum.command import Parser
from hilum.trust import explain_distrust
from trio.to_thread import run_sync as in_thread

from hilum_mcp import approvals, formatting
from hilum_mcp.catalog import CatalogEntry
from hilum_mcp.commands.context import CommandContext
from hilum_mcp.session_servers import SessionServers


def add_list_options(parser: Parser) -> None:
    """Add the options of ``list``."""
    parser.add_argument("--json", action="store_true", help="as JSON")


async def list_servers(options: Namespace, context: CommandContext) -> int:
    """Run ``list``. The exit code is 1 if a configuration file has a mistake."""
    catalog = await context.load_catalog()
    code = 1 if catalog.errors else 0
    if not options.json:
        for line in formatting.format_catalog(catalog, context.statuses, context.prog):
            context.say(line)
        for mistake in catalog.errors:
            context.complain(f"✗ {mistake}")
        return code
    servers = [
        formatting.encode_entry(entry, context.statuses.get(entry.server.name))
        for entry in catalog.entries
    ]
    mistakes = [str(mistake) for mistake in catalog.errors]
    warnings = [str(warning) for warning in catalog.warnings]
    context.say_json({"servers": servers, "mistakes": mistakes, "warnings": warnings})
    return code


def add_names(parser: Parser) -> None:
    """Add the argument of actions that apply to one or more servers."""
    parser.add_argument("names", nargs="+", metavar="NAME")


async def enable(options: Namespace, context: CommandContext) -> int:
    """Run ``enable``."""
    return await _switch(options.names, context, True)


async def disable(options: Namespace, context: CommandContext) -> int:
    """Run ``disable``."""
    return await _switch(options.names, context, False)


async def _switch(names: list[str], context: CommandContext, enabled: bool) -> int:
    when = "" if context.session is None else " from the next session on"
    for name in names:
        entry = await context.find_entry(name)
        root = context.root if entry.scope == "project" else ""
        await in_thread(approvals.switch, root, name, enabled)
        now = await context.find_entry(name)
        if enabled and now.state != "on":
            context.say(f"{name} is enabled, but its state is still {now.state}: {now.reason}")
        else:
            context.say(f"{name} is {'on' if enabled else 'off'}{when}.")
    return 0


def add_approve_options(parser: Parser) -> None:
    """Add the options of ``approve``."""
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="default: all that wait for approval"
    )
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask")
    parser.add_argument("--revoke", action="store_true", help="revoke approvals")


async def approve(options: Namespace, context: CommandContext) -> int:
    """Run ``approve``."""
    entries = [await context.find_entry(name) for name in options.names]
    if options.revoke:
        return await _revoke(entries, context)
    if not entries:
        catalog = await context.load_catalog()
        entries = [entry for entry in catalog.entries if entry.state == "unapproved"]
    if not entries:
        context.say("No server is waiting for approval.")
    results = [await _approve_one(entry, context, options.yes) for entry in entries]
    return 0 if all(results) else 1


async def _revoke(entries: list[CatalogEntry], context: CommandContext) -> int:
    if not entries:
        raise UsageError(
            "Name the servers whose approval you want to revoke.", code=errors.E_BAD_ARGS
        )
    for entry in entries:
        name = entry.server.name
        was_approved = await in_thread(approvals.revoke, context.root, name)
        context.say(f"{name} is {'no longer' if was_approved else 'not'} approved.")
    return 0


async def _approve_one(entry: CatalogEntry, context: CommandContext, yes: bool) -> bool:
    """Show a server and approve it if the user agrees; return whether it may be used."""
    server = entry.server
    if entry.scope == "user":
        context.say(f"{server.name} is your own server and needs no approval.")
        return True
    reason = await in_thread(explain_distrust, context.root)
    if reason:
        raise UsageError(f"{server.name} cannot be approved. {reason}", code=errors.E_DENIED)
    if entry.state == "on":
        context.say(f"{server.name} is already approved.")
        return True
    request = approvals.describe_request(server, context.root)
    # The last row, a question, is omitted, because `confirm` asks the question in other words.
    for row in request.split("\n")[:-1]:
        context.say(row)
    if not yes and not context.confirm(f"Approve {server.name}?"):
        hint = ""
        if context.ask is None:
            command = f"{context.prog} approve {server.name} --yes"
            hint = f" Nobody can be asked here. To approve it, run {command}."
        context.say(f"{server.name} is not approved.{hint}")
        return False
    await in_thread(approvals.approve, context.root, server)
    now = await context.find_entry(server.name)
    rest = "" if now.state == "on" else f" It is {now.state}: {now.reason}"
    servers = context.session.plugin(SessionServers) if context.session is not None else None
    if not rest and servers is not None and await servers.start_approved(server):
        rest = " It is starting."
    context.say(f"{server.name} is approved.{rest}")
    return True
