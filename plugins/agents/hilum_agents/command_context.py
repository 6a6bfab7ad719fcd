"""The context and the argument parsers of the actions of ``hilum agents`` and ``/agents``."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, redirect_stdout
from functools import partial
from pathlib import Path
from typing import NamedTuple, TextIO

import attrs
import trio
from hilum import Session, UsageError
from hilum.command import Parser, say, say_json
from hilum.errors import E_BAD_ARGS, unknown_name_error

from hilum_agents.agents import Agents
from hilum_agents.definitions.catalog import Catalog, CatalogEntry, find_agents
from hilum_agents.definitions.tools import KNOWN
from hilum_agents.settings import AgentsSettings

# A context manager that displays agents. It takes the session, the names of its agents, and the
# number of the event to begin after. The function that it yields ends the display early.
Watch = Callable[
    [Session, Sequence[str], int], AbstractAsyncContextManager[Callable[[], Awaitable[None]]]
]


@attrs.frozen
class CommandContext:
    """The context of an action: its workspace, its output, and how to ask the user.

    Attributes:
        workspace: The project.
        settings: The settings for that project.
        out: The output stream.
        ask: A function that asks the user a question and returns the answer; ``None`` if nobody can
            be asked.
        in_session: The agents of the session in which the action runs; ``None`` on the command
            line.
        watch: Displays the agents of a session while they run.
        asks: Whether ``watch`` asks the user to approve calls.
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
        """The command that the user types before the action."""
        return "hilum agents" if self.in_session is None else "/agents"

    def say(self, text: str) -> None:
        """Write a line, with terminal control characters escaped."""
        say(text, to=self.out)

    def say_json(self, data: object) -> None:
        """Write data as JSON."""
        with redirect_stdout(self.out):
            say_json(data)

    async def catalog(self) -> Catalog:
        """Return all agents that currently exist."""
        if self.in_session is not None:
            return await self.in_session.refresh()
        search = partial(find_agents, self.workspace, folders=self.settings.folders)
        return await trio.to_thread.run_sync(search)

    async def entry(self, name: str, scope: str = "") -> CatalogEntry:
        """Return the agent with a name.

        Raises:
            UsageError: There is no such agent.
        """
        catalog = await self.catalog()
        found = catalog.get(name, scope)
        if found is None:
            names = {entry.definition.name for entry in catalog.in_scope(scope)}
            raise unknown_name_error(
                "agent",
                name,
                names,
                hint=f"`{self.prog} list` shows all agents.",
            )
        return found

    def tools(self) -> list[tuple[str, str]]:
        """Return the permission category of each session tool, or of each standard tool."""
        if self.in_session is None:
            return list(KNOWN.items())
        return self.in_session.known_tools()


class Action(NamedTuple):
    """An action of ``hilum agents``.

    Attributes:
        run: A function that runs the action with its arguments and returns the exit code.
        about: One line of help.
    """

    run: Callable[[list[str], CommandContext], Awaitable[int]]
    about: str


class HelpShown(Exception):
    """Raised after ``--help`` has printed the help of an action."""


def make_parser(context: CommandContext, name: str, about: str, *, json: bool = True) -> Parser:
    """Create the parser of an action.

    Args:
        context: The context of the action.
        name: The action.
        about: Its help text, as one sentence.
        json: Whether the action accepts ``--json``.
    """
    parser = Parser(f"{context.prog} {name}", about)
    if json:
        parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def parse(parser: Parser, argv: list[str], context: CommandContext) -> argparse.Namespace:
    """Parse the arguments of an action.

    Raises:
        HelpShown: ``--help`` was given.
        UsageError: The arguments are invalid.
    """
    try:
        # argparse prints the help to standard output, but in a session it belongs in the reply.
        with redirect_stdout(context.out):
            return parser.parse_intermixed_args(argv)
    except SystemExit:
        raise HelpShown from None


def take_option(argv: Sequence[str], names: Sequence[str]) -> tuple[list[str], str]:
    """Remove an option, wherever it is in the arguments.

    Args:
        argv: The arguments.
        names: The spellings of the option.

    Returns:
        The other arguments, and the value of the option; empty if it was not given.

    Raises:
        UsageError: The option has no value.
    """
    rest: list[str] = []
    value = ""
    waiting = False
    for word in argv:
        name, equals, tail = word.partition("=")
        if waiting:
            value = word
            waiting = False
        elif name in names:
            value = tail
            waiting = not equals
        else:
            rest.append(word)
    if waiting:
        raise UsageError(
            f"{names[0]} needs a folder.",
            code=E_BAD_ARGS,
            hint=f"Write {names[0]} FOLDER.",
        )
    return rest, value
