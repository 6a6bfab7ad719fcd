"""What ``hilum mcp`` and ``/mcp`` do. One implementation for both."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Awaitable, Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import attrs
import trio
from hilum import UsageError, errors
from hilum.errors import unknown
from hilum_commandline import Parser, say, say_json

from hilum_mcp import approving, shown, sources
from hilum_mcp.sources import Catalog, Entry

if TYPE_CHECKING:
    from hilum import Session

    from hilum_mcp.server import Input

ABOUT = """\
MCP servers give the agent more tools. Yours stand in mcp.json beside your settings; those of a project in its files, of
every client (.mcp.json, .cursor/mcp.json, .vscode/mcp.json …), and are off until you trust the project and approve them.

"""


@attrs.frozen
class Desk:
    """Where an action works.

    Attributes:
        workspace: The project.
        out: Where it writes.
        ask: Asks the user a question (text, secret); ``None`` where nobody can be asked.
        typed: Waits for a line that the user types meanwhile, empty at the end; ``None`` where
            nobody can.
        session: The session it runs in, ``None`` at the command line.
        rows: Gives how servers are that run in the session: name, state, error, tools.
    """

    workspace: Path
    out: TextIO
    ask: Callable[[str, bool], str] | None = None
    typed: Callable[[], Awaitable[str]] | None = None
    session: Session | None = None
    rows: Callable[[], list[tuple[str, str, str, tuple[str, ...]]]] = list

    @property
    def prog(self) -> str:
        """What the user types before the action."""
        return "hilum mcp" if self.session is None else "/mcp"

    @property
    def root(self) -> str:
        """The real path of the project."""
        return os.path.realpath(self.workspace)

    def say(self, text: str) -> None:
        """Write a line; what a terminal would obey is escaped."""
        say(text, to=self.out)
        self.out.flush()

    def say_json(self, data: object) -> None:
        """Write data as JSON."""
        with redirect_stdout(self.out):
            say_json(data)

    async def catalog(self) -> Catalog:
        """Return all servers as they are now."""
        return await trio.to_thread.run_sync(sources.look, self.workspace)

    async def entry(self, name: str) -> Entry:
        """Return the server of a name.

        Raises:
            UsageError: There is none.
        """
        catalog = await self.catalog()
        entry = catalog.get(name)
        if entry is None:
            names = [each.server.name for each in catalog.entries]
            told = next((each for each in catalog.complaints if f".{name}: " in each), "")
            if told:
                raise UsageError(
                    f"The MCP server {name} cannot be used. {told}", hint="Mend its description."
                )
            raise unknown("MCP server", name, names, hint=f"{self.prog} list shows them all.")
        return entry

    def ask_input(self, asked: Input) -> str:
        """Ask for a value that a server's description wants."""
        if self.ask is None:
            return ""
        options = f" ({', '.join(asked.options)})" if asked.options else ""
        default = f" [{asked.default}]" if asked.default else ""
        return self.ask(f"{asked.description or asked.id}{options}{default}:", asked.secret)

    def confirm(self, question: str) -> bool:
        """Ask for a yes; a no where nobody can be asked."""
        return self.ask is not None and self.ask(f"{question} [y/N]", False).lower() in ("y", "yes")


Action = Callable[[list[str], Desk], Awaitable[int]]


class Help(Exception):
    """The help was shown."""


async def run_line(line: str, desk: Desk) -> int:
    """Run an action as it was typed behind ``/mcp``.

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
        argv: Its name and arguments; without any the servers are listed.
        desk: Where it works.

    Returns:
        The exit code.

    Raises:
        HilumError: There is no such action, or it cannot be done.
    """
    from hilum_mcp import adding, reaching  # they add their actions

    actions = ACTIONS | adding.ACTIONS | reaching.ACTIONS
    name, rest = (argv[0], argv[1:]) if argv and not argv[0].startswith("-") else ("list", argv)
    if argv[:1] in (["-h"], ["--help"]):
        lines = [f"  {desk.prog} {key:9} {about}" for key, (_, about) in actions.items()]
        lines += [
            f"  {desk.prog} serve     offer hilum's tools, agents and sessions to other clients"
        ] * (not desk.session)
        desk.say(ABOUT + "\n".join(lines))
        return 0
    if name not in actions:
        raise unknown("action", name, actions, hint=f"{desk.prog} --help lists what it does.")
    try:
        return int(await actions[name][0](rest, desk))
    except Help:
        return 0


def make_parser(desk: Desk, action: str, about: str, epilog: str = "") -> Parser:
    """Create the parser of an action."""
    return Parser(f"{desk.prog} {action}", f"{about[:1].upper()}{about[1:]}.", epilog)


def parse(parser: Parser, argv: list[str], desk: Desk) -> argparse.Namespace:
    """Read the arguments of an action; ``--help`` goes where the action writes, and ends it."""
    try:
        with redirect_stdout(desk.out):
            return parser.parse_intermixed_args(argv)
    except SystemExit:
        raise Help from None


# --- actions --------------------------------------------------------------------------------------


async def _list(argv: list[str], desk: Desk) -> int:
    parser = make_parser(desk, "list", ACTIONS["list"][1])
    parser.add_argument("--json", action="store_true", help="as JSON")
    options = parse(parser, argv, desk)
    catalog = await desk.catalog()
    live = {row[0]: row for row in desk.rows()}
    if options.json:
        desk.say_json(
            {
                "servers": [
                    shown.data(each, live.get(each.server.name)) for each in catalog.entries
                ],
                "complaints": list(catalog.complaints),
            }
        )
        return 0
    for line in shown.rows(catalog, live, desk.prog):
        desk.say(line)
    return 0


async def _enable(argv: list[str], desk: Desk) -> int:
    return await _switch(argv, desk, "enable", True)


async def _disable(argv: list[str], desk: Desk) -> int:
    return await _switch(argv, desk, "disable", False)


async def _switch(argv: list[str], desk: Desk, action: str, on: bool) -> int:
    parser = make_parser(desk, action, ACTIONS[action][1])
    parser.add_argument("names", nargs="+", metavar="NAME")
    options = parse(parser, argv, desk)
    for name in options.names:
        entry = await desk.entry(name)
        root = desk.root if entry.scope == "project" else ""
        await trio.to_thread.run_sync(approving.switch, root, name, on)
        now = await desk.entry(name)
        if on and now.state != "on":
            desk.say(f"{name} is not switched off any more, and still {now.state}: {now.reason}")
        else:
            desk.say(
                f"{name} is"
                f" {'on' if on else 'off'}{'' if desk.session is None else ' from the next session on'}."
            )
    return 0


async def _approve(argv: list[str], desk: Desk) -> int:
    parser = make_parser(desk, "approve", ACTIONS["approve"][1])
    parser.add_argument("names", nargs="*", metavar="NAME", help="all that wait, if none is named")
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask")
    parser.add_argument("--revoke", action="store_true", help="take approvals back")
    options = parse(parser, argv, desk)
    entries = [await desk.entry(name) for name in options.names]
    if options.revoke:
        if not entries:
            raise UsageError(
                "Name the servers whose approval is taken back.", code=errors.E_BAD_ARGS
            )
        for entry in entries:
            there = await trio.to_thread.run_sync(approving.revoke, desk.root, entry.server.name)
            desk.say(f"{entry.server.name} is {'approved no more' if there else 'not approved'}.")
        return 0
    entries = entries or [
        each for each in (await desk.catalog()).entries if each.state == "unapproved"
    ]
    if not entries:
        desk.say("No server waits for an approval.")
    done = [await _approve_one(entry, desk, options.yes) for entry in entries]
    return 0 if all(done) else 1


async def _approve_one(entry: Entry, desk: Desk, yes: bool) -> bool:
    from hilum_guard import distrust

    server = entry.server
    if entry.scope == "user":
        desk.say(f"{server.name} is yours, and needs no approval.")
        return True
    why = await trio.to_thread.run_sync(distrust, desk.root)
    if why:
        raise UsageError(f"{server.name} cannot be approved. {why}", code=errors.E_DENIED)
    if entry.state == "on":
        desk.say(f"{server.name} is approved already.")
        return True
    for row in approving.described(server, desk.root).split("\n")[:-1]:
        desk.say(row)
    if not yes and not desk.confirm(f"Approve {server.name}?"):
        if desk.ask:
            hint = ""
        else:
            hint = (
                f" Nobody can be asked here: {desk.prog} approve {server.name} --yes approves it."
            )
        desk.say(f"{server.name} is not approved.{hint}")
        return False
    await trio.to_thread.run_sync(approving.approve, desk.root, server)
    left = await desk.entry(server.name)
    desk.say(
        f"{server.name} is approved."
        + (f" It is {left.state}: {left.reason}" if left.state != "on" else "")
    )
    return True


ACTIONS: dict[str, tuple[Action, str]] = {
    "list": (_list, "all servers: name, state, what is started or reached, who describes it"),
    "enable": (_enable, "switch servers on"),
    "disable": (_disable, "switch servers off"),
    "approve": (_approve, "look at what a project wants to start, and approve it"),
}
"""The actions by name: what each does, and a line about it."""
