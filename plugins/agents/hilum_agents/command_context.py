"""The context, arguments and declarations of the actions of ``hilum agents`` and ``/agents``."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import attrs
import trio
from hilum import Session, UsageError
from hilum.command import say, say_json
from hilum.errors import E_BAD_ARGS, unknown_name_error

from hilum_agents.agents import Agents
from hilum_agents.definitions.catalog import Catalog, CatalogEntry, find_agents
from hilum_agents.definitions.tools import KNOWN
from hilum_agents.settings import AgentsSettings

# A function that returns a context manager, which displays agents. The arguments are the session,
# the names of the session's agents, and the number of the last event not to display. The context
# manager yields a function that ends the display early.
Watch = Callable[
    [Session, Sequence[str], int], AbstractAsyncContextManager[Callable[[], Awaitable[None]]]
]


@attrs.frozen
class CommandContext:
    """The context of an action: its workspace, its output, and how to ask the user.

    Attributes:
        workspace: The project.
        settings: The settings for the project.
        out: The output stream.
        ask: A function that asks the user a question and returns the answer; ``None`` if nobody can
            be asked.
        in_session: The agents of the session in which the action runs; ``None`` on the command
            line.
        watch: A function that displays the agents of a session while they run.
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
        """The command that precedes the action's name."""
        return "hilum agents" if self.in_session is None else "/agents"

    def say(self, text: str) -> None:
        """Write a line, with terminal control characters escaped."""
        say(text, to=self.out)

    def say_json(self, data: object) -> None:
        """Write data as JSON."""
        with redirect_stdout(self.out):
            say_json(data)

    async def catalog(self) -> Catalog:
        """Return all agents that currently exist, including those that cannot be called."""
        if self.in_session is not None:
            return await self.in_session.refresh()
        search = partial(find_agents, self.workspace, folders=self.settings.folders)
        return await trio.to_thread.run_sync(search)

    async def entry(self, name: str, scope: str = "") -> CatalogEntry:
        """Return the agent with the given name.

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
        """Return the name and permission category of each session tool or standard tool."""
        if self.in_session is None:
            return list(KNOWN.items())
        return self.in_session.known_tools()


class Argument(NamedTuple):
    """The parameters of ``ArgumentParser.add_argument`` that declare one argument."""

    names: tuple[str, ...]
    options: dict[str, Any]


class Action(NamedTuple):
    """An action of ``hilum agents``.

    Attributes:
        run: A function that runs the action with its parsed arguments and returns the exit code.
        about: One line of help.
        arguments: Its arguments.
    """

    run: Callable[[Namespace, CommandContext], Awaitable[int]]
    about: str
    arguments: tuple[Argument, ...]


def argument(*names: str, **options: Any) -> Argument:
    """Return an argument of an action; the parameters are those of ``add_argument``."""
    return Argument(names, options)


JSON = argument("--json", action="store_true", help="print JSON")


def take_option(argv: Sequence[str], names: Sequence[str]) -> tuple[list[str], str]:
    """Remove an option from any position in the arguments.

    Args:
        argv: The arguments.
        names: The spellings of the option.

    Returns:
        The other arguments, and the option's value, which is empty if the option was not given.

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
