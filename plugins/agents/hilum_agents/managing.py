"""What ``hilum agents`` and ``/agents`` do: list, info, validate, create, delete.

One implementation for both.
"""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import attrs
import trio
from hilum import UsageError
from hilum.errors import E_BAD_ARGS, unknown
from hilum_commandline import Parser, say, say_json

from hilum_agents import creating, shown
from hilum_agents.definitions.catalog import Catalog, Entry, look
from hilum_agents.definitions.loading import load_definition
from hilum_agents.definitions.tools import KNOWN
from hilum_agents.settings import AgentsSettings

if TYPE_CHECKING:
    from hilum import Session

    from hilum_agents.half import Agents

ABOUT = """\
Agents are Markdown files that say what an agent is for, which tools it may use and how far it may go. They stand in
.hilum/agents of a project (once you trust it), in agents beside your settings, and in the folders of Claude Code,
Gemini CLI, opencode, Copilot, Cursor and Codex. Five are built in.

"""


Watch = Callable[
    ["Session", Sequence[str], int], AbstractAsyncContextManager[Callable[[], Awaitable[None]]]
]
"""Shows agents, named by their names in the session, while it is entered, from the events after one
on. What it gives ends the showing before that."""


@attrs.frozen
class Desk:
    """Where an action works.

    Attributes:
        workspace: The project.
        settings: As they hold there.
        out: Where it writes.
        ask: Asks the user a question; ``None`` where nobody can be asked.
        in_session: The half of the session it runs in, ``None`` at the command line.
        watch: Shows agents of a session while they run; for the command line.
        asks: Whether ``watch`` asks the user about calls.
    """

    workspace: Path
    settings: AgentsSettings
    out: TextIO
    ask: Callable[[str], str] | None = None
    in_session: Agents | None = None
    watch: Watch | None = None
    asks: bool = False

    @property
    def prog(self) -> str:
        """What the user types before the action."""
        if self.in_session is None:
            return "hilum agents"
        return "/agents"

    def say(self, text: str) -> None:
        """Write a line; what a terminal would obey is escaped."""
        say(text, to=self.out)

    def say_json(self, data: object) -> None:
        """Write data as JSON."""
        with redirect_stdout(self.out):
            say_json(data)

    async def catalog(self) -> Catalog:
        """Return all agents as they are now."""
        if self.in_session is not None:
            return await self.in_session.refresh()
        return await trio.to_thread.run_sync(
            lambda: look(self.workspace, folders=self.settings.folders)
        )

    async def entry(self, name: str, scope: str = "") -> Entry:
        """Return the agent of a name.

        Raises:
            UsageError: There is none.
        """
        catalog = await self.catalog()
        found = catalog.get(name, scope)
        if found is None:
            names = {
                each.definition.name
                for each in catalog.entries
                if scope in ("", each.definition.scope)
            }
            raise unknown("agent", name, names, hint=f"{self.prog} list shows them all.")
        return found

    def tools(self) -> list[tuple[str, str]]:
        """Name and risk of the tools there are: the session's, else those of the standard set."""
        if self.in_session is None:
            return list(KNOWN.items())
        return self.in_session.known_tools()


Action = Callable[[list[str], Desk], Awaitable[int]]


def take_option(argv: Sequence[str], names: Sequence[str]) -> tuple[list[str], str]:
    """Take an option that may stand anywhere out of arguments.

    Gives the rest, and its value or nothing.

    Raises:
        UsageError: It has no value.
    """
    rest = list[str]()
    value = ""
    waiting = False
    for word in argv:
        head, equals, tail = word.partition("=")
        if waiting:
            value = word
            waiting = False
        elif head in names:
            value = tail
            waiting = not equals
        else:
            rest.append(word)
    if waiting:
        raise UsageError(f"{names[0]} takes a folder.", code=E_BAD_ARGS)
    return rest, value


async def run_line(line: str, desk: Desk) -> int:
    """Run an action as it was typed behind ``/agents``.

    Raises:
        UsageError: It is none, or it cannot be done.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(
            f"The command cannot be read: {error}.", hint="Close the quotes."
        ) from None
    return await run(words, desk)


async def run(argv: list[str], desk: Desk) -> int:
    """Run an action.

    Args:
        argv: Its name and arguments; without any the agents are listed.
        desk: Where it works.

    Returns:
        The exit code.

    Raises:
        UsageError: There is no such action, or it cannot be done.
    """
    import hilum_agents.runs.commands  # noqa: F401 - adds its actions

    name, rest = (argv[0], argv[1:]) if argv and not argv[0].startswith("-") else ("list", argv)
    if argv[:1] in (["-h"], ["--help"]):
        desk.say(
            ABOUT
            + "\n".join(f"  {desk.prog} {key:9} {about}" for key, (_, about) in ACTIONS.items())
        )
        return 0
    if name not in ACTIONS:
        raise unknown("action", name, ACTIONS, hint=f"{desk.prog} --help lists what it does.")
    try:
        return await ACTIONS[name][0](rest, desk)
    except _Help:
        return 0


class _Help(Exception):
    """The help was shown."""


def parse(parser: Parser, argv: list[str], desk: Desk) -> argparse.Namespace:
    """Read the arguments of an action; ``--help`` goes where the action writes, and ends it."""
    try:
        with redirect_stdout(desk.out):
            return parser.parse_intermixed_args(argv)
    except SystemExit:
        raise _Help from None


def make_parser(desk: Desk, action: str, *, json: bool = True) -> Parser:
    """Create the parser of an action."""
    parser = Parser(f"{desk.prog} {action}", ACTIONS[action][1].capitalize() + ".")
    if json:
        parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


# --- looking --------------------------------------------------------------------------------------


async def _list(argv: list[str], desk: Desk) -> int:
    parser = make_parser(desk, "list")
    parser.add_argument(
        "--scope", choices=("project", "user", "builtin"), default="", help="only these"
    )
    options = parse(parser, argv, desk)
    catalog = await desk.catalog()
    entries = [each for each in catalog.entries if options.scope in ("", each.definition.scope)]
    if options.json:
        desk.say_json([shown.row_data(each) for each in entries])
        return 0
    for line in shown.rows(entries, catalog.complaints):
        desk.say(line)
    return 0


async def _info(argv: list[str], desk: Desk) -> int:
    parser = make_parser(desk, "info")
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--prompt", action="store_true", help="with its prompt")
    options = parse(parser, argv, desk)
    entry = await desk.entry(options.name)
    if options.json:
        desk.say_json(shown.data(entry, desk.tools()))
    else:
        desk.say(shown.page(entry, desk.tools(), prompt=options.prompt))
    return 0


async def _validate(argv: list[str], desk: Desk) -> int:
    parser = make_parser(desk, "validate")
    parser.add_argument(
        "names", nargs="*", metavar="NAME|FILE", help="all agents, if none is named"
    )
    options = parse(parser, argv, desk)
    entries = [await _named(each, desk) for each in options.names] or list(
        (await desk.catalog()).entries
    )
    results = {str(entry.definition.path): shown.findings(entry, desk.tools()) for entry in entries}
    if options.json:
        desk.say_json(
            {path: [attrs.asdict(each) for each in found] for path, found in results.items()}
        )
    else:
        for entry, found in zip(entries, results.values(), strict=True):
            desk.say("\n".join(shown.finding_rows(entry, found)))
    return int(any(each.mark == "✗" for found in results.values() for each in found))


async def _named(name: str, desk: Desk) -> Entry:
    path = desk.workspace / Path(name)  # an absolute one stays as it is
    if name.endswith((".md", ".toml")) or os.sep in name:
        return Entry(await trio.to_thread.run_sync(load_definition, path), "a file")
    return await desk.entry(name)


# --- changing -------------------------------------------------------------------------------------


async def _create(argv: list[str], desk: Desk) -> int:
    parser = make_parser(desk, "create", json=False)
    parser.add_argument("name", nargs="?", default="", metavar="NAME")
    parser.add_argument("--title", default="", help="what it is shown as")
    parser.add_argument("--description", default="", help="what it does and when to use it")
    parser.add_argument(
        "--model", default="", help="provider/name or a role; the session's model if not given"
    )
    parser.add_argument(
        "--scope", choices=("project", "user", "global"), default="", help="project if not given"
    )
    parser.add_argument("--tools", default="", help="names, with commas; all tools if not given")
    parser.add_argument("--prompt", default="", help="its instructions")
    parser.add_argument(
        "--about",
        default="",
        metavar="SENTENCE",
        help="what it should do: the model writes its prompt",
    )
    options = parse(parser, argv, desk)
    if desk.in_session is not None and options.about and not options.prompt:
        desk.in_session.later(desk, lambda inner: _make(options, inner))
        desk.say("The model writes the prompt; you will be told when the agent is there.")
        return 0
    await _make(options, desk)
    return 0


async def _make(options: argparse.Namespace, desk: Desk) -> None:
    path = await creating.create(options, desk)
    desk.say(
        "\n".join(
            shown.finding_rows(
                entry := await _written(path, desk), shown.findings(entry, desk.tools())
            )
        )
    )
    if entry.state == "untrusted":
        desk.say("It is off until you trust the project: hilum trust.")


async def _written(path: Path, desk: Desk) -> Entry:
    entries = (await desk.catalog()).entries
    return next(
        (each for each in entries if each.definition.path == path),
        Entry(load_definition(path), "a file"),
    )


async def _delete(argv: list[str], desk: Desk) -> int:
    parser = make_parser(desk, "delete", json=False)
    parser.add_argument("name", metavar="NAME")
    parser.add_argument(
        "--scope",
        choices=("project", "user", "global"),
        default="",
        help="user for one of your own",
    )
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask")
    await creating.delete(parse(parser, argv, desk), desk)
    return 0


ACTIONS: dict[str, tuple[Action, str]] = {
    "list": (_list, "all agents: name, title, description, model, scope"),
    "info": (_info, "one agent: tools after filtering, limits, permissions, file, dates"),
    "validate": (_validate, "check agents: format, tools, servers, prompt"),
    "create": (
        _create,
        "write an agent's file; asks for what is missing, or lets the model write the prompt",
    ),
    "delete": (
        _delete,
        "delete an agent's file; asks first, and one of yours only with --scope user",
    ),
}
"""The actions by name: what each does, and a line about it.

Other parts of the plugin add theirs.
"""
