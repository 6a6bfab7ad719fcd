"""The actions on agents' files: ``list``, ``info``, ``validate``, ``create`` and ``delete``."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path
from typing import TextIO

import attrs
import trio

from hilum_agents import agent_files, formatting
from hilum_agents.command_context import JSON, Action, CommandContext, argument
from hilum_agents.definitions.catalog import CatalogEntry
from hilum_agents.definitions.loading import load_definition

# Source of an agent whose file is not in any agent folder.
_NO_ENTRY = "a file"


async def _list(options: Namespace, context: CommandContext) -> int:
    catalog = await context.catalog()
    entries = catalog.in_scope(options.scope)
    if options.json:
        context.say_json([formatting.entry_summary(entry) for entry in entries])
        return 0
    for line in formatting.list_rows(entries, catalog.complaints):
        context.say(line)
    return 0


async def _info(options: Namespace, context: CommandContext) -> int:
    entry = await context.entry(options.name)
    tools = context.tools()
    if options.json:
        context.say_json(formatting.entry_data(entry, tools))
    else:
        context.say(formatting.entry_page(entry, tools, prompt=options.prompt))
    return 0


async def _validate(options: Namespace, context: CommandContext) -> int:
    entries = [await _named(name, context) for name in options.names]
    if not options.names:
        entries = list((await context.catalog()).entries)
    tools = context.tools()
    checked = [(entry, formatting.check_entry(entry, tools)) for entry in entries]
    if options.json:
        data = {}
        for entry, found in checked:
            data[str(entry.definition.path)] = [attrs.asdict(finding) for finding in found]
        context.say_json(data)
    else:
        for entry, found in checked:
            context.say("\n".join(formatting.finding_rows(entry, found)))
    marks = {finding.mark for _, found in checked for finding in found}
    return int("✗" in marks)


async def _named(name: str, context: CommandContext) -> CatalogEntry:
    if name.endswith((".md", ".toml")) or os.sep in name:
        path = context.workspace / Path(name)  # joining paths leaves an absolute path unchanged
        return CatalogEntry(await trio.to_thread.run_sync(load_definition, path), _NO_ENTRY)
    return await context.entry(name)


async def _create(options: Namespace, context: CommandContext) -> int:
    # Creating an agent takes long enough to run in the background only if the model writes the
    # prompt.
    if context.in_session is None or not options.about or options.prompt:
        await _create_and_check(options, context)
        return 0

    async def create_later(out: TextIO) -> None:
        await _create_and_check(options, attrs.evolve(context, out=out))

    context.in_session.run_in_background(create_later)
    context.say(
        "The model is writing the prompt. hilum will report when the agent has been created."
    )
    return 0


async def _create_and_check(options: Namespace, context: CommandContext) -> None:
    path = await agent_files.create_agent(options, context)
    entries = (await context.catalog()).entries
    entry = next((each for each in entries if each.definition.path == path), None)
    if entry is None:
        entry = CatalogEntry(load_definition(path), _NO_ENTRY)
    found = formatting.check_entry(entry, context.tools())
    context.say("\n".join(formatting.finding_rows(entry, found)))
    if entry.state == "untrusted":
        context.say("The agent is off until you trust the project with `hilum trust`.")


async def _delete(options: Namespace, context: CommandContext) -> int:
    await agent_files.delete_agent(options, context)
    return 0


_NAME = argument("name", metavar="NAME")
ACTIONS = {
    "list": Action(
        _list,
        "List all agents: name, title, description, model, scope.",
        (
            JSON,
            argument(
                "--scope",
                choices=("project", "user", "builtin"),
                default="",
                help="list only this scope",
            ),
        ),
    ),
    "info": Action(
        _info,
        "Show an agent: filtered tools, limits, permissions, file, dates.",
        (
            JSON,
            _NAME,
            argument("--prompt", action="store_true", help="also show the prompt"),
        ),
    ),
    "validate": Action(
        _validate,
        "Check agents: format, tools, servers, prompt.",
        (
            JSON,
            argument(
                "names",
                nargs="*",
                metavar="NAME|FILE",
                help="what to check; all agents by default",
            ),
        ),
    ),
    "create": Action(
        _create,
        "Create an agent's file. Asks for missing values; the model can write the prompt.",
        (
            argument("name", nargs="?", default="", metavar="NAME"),
            argument("--title", default="", help="title to show"),
            argument("--description", default="", help="its purpose and when to use it"),
            argument(
                "--model",
                default="",
                help="provider/name or a role; by default the session's model",
            ),
            argument(
                "--scope",
                choices=("project", "user", "global"),
                default="",
                help="where to create it; by default in the project",
            ),
            argument(
                "--tools",
                default="",
                help="names, separated by commas; by default all tools",
            ),
            argument("--prompt", default="", help="its instructions"),
            argument(
                "--about",
                default="",
                metavar="SENTENCE",
                help="what it should do; the model writes the prompt from this",
            ),
        ),
    ),
    "delete": Action(
        _delete,
        "Delete an agent's file after confirmation.",
        (
            _NAME,
            argument(
                "--scope",
                choices=("project", "user", "global"),
                default="",
                help="`user` deletes one of your own agents",
            ),
            argument("--yes", "-y", action="store_true", help="do not ask for confirmation"),
        ),
    ),
}
