"""Defines the context of an action: its workspace, its output, and how it asks the user."""

from __future__ import annotations

import argparse
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO

import attrs
from hilum import UsageError
from hilum.command import Parser, say, say_json
from hilum.errors import unknown_name_error
from trio.to_thread import run_sync as in_thread

from hilum_mcp.catalog import CatalogEntry, ServerCatalog, load_catalog
from hilum_mcp.editor_servers import find_offered
from hilum_mcp.inputs import ask_inputs
from hilum_mcp.server_config import ConfigInput, ServerConfig

if TYPE_CHECKING:
    from hilum import Session

    from hilum_mcp.session_servers import ServerStatus

Ask = Callable[[str, bool], str]


@attrs.frozen
class CommandContext:
    """The context in which an action runs.

    Attributes:
        workspace: The project.
        out: The stream for the output.
        err: The stream for error messages; ``None`` if they go to ``out``.
        ask: A function that asks the user a question (text, secret); ``None`` if nobody can be
            asked.
        read_line: A function that waits for a line from the user, and returns an empty string at
            end-of-file; ``None`` if the user cannot type anything.
        session: The session in which the action runs; ``None`` on the command line.
        statuses: The servers that run in the session, by name.
    """

    workspace: Path
    out: TextIO
    ask: Ask | None = None
    read_line: Callable[[], Awaitable[str]] | None = None
    session: Session | None = None
    statuses: Mapping[str, ServerStatus] = attrs.field(factory=dict)
    err: TextIO | None = None

    @property
    def prog(self) -> str:
        """The command that precedes the action's name."""
        return "hilum mcp" if self.session is None else "/mcp"

    @property
    def root(self) -> str:
        """The real path of the project."""
        return os.path.realpath(self.workspace)

    def say(self, text: str) -> None:
        """Write a line; control characters are escaped."""
        say(text, to=self.out)
        self.out.flush()

    def complain(self, text: str) -> None:
        """Write an error message; on the command line, to standard error."""
        say(text, to=self.err or self.out)

    def say_json(self, data: object) -> None:
        """Write data as JSON."""
        with redirect_stdout(self.out):
            say_json(data)

    async def load_catalog(self) -> ServerCatalog:
        """Return the servers that are currently configured, and those of the session's editor."""
        offered = find_offered(self.session) if self.session is not None else {}
        return await in_thread(load_catalog, self.workspace, offered)

    async def find_entry(self, name: str) -> CatalogEntry:
        """Return the server with the given name.

        Raises:
            UsageError: There is no such server, or its configuration is unusable.
        """
        catalog = await self.load_catalog()
        entry = catalog.get(name)
        if entry is not None:
            return entry
        mistakes = [str(each) for each in catalog.mistakes if each.server == name]
        if mistakes:
            raise UsageError(
                f"The MCP server {name} cannot be used. {' '.join(mistakes)}",
                hint="Correct the server's configuration.",
            )
        names = [entry.server.name for entry in catalog.entries]
        raise unknown_name_error(
            "MCP server",
            name,
            names,
            hint=f"{self.prog} list shows all servers.",
        )

    async def ask_inputs(self, server: ServerConfig) -> None:
        """Ask for the values that a server's configuration requires, and store the values.

        Raises:
            UsageError: Nobody can be asked, or the answer is not allowed.
        """
        inputs = (await self.load_catalog()).inputs.get(str(server.file), {})
        ask = self._ask_input if self.ask else None
        await in_thread(ask_inputs, server, inputs, ask)

    def _ask_input(self, wanted: ConfigInput) -> str:
        assert self.ask is not None
        options = f" ({', '.join(wanted.options)})" if wanted.options else ""
        default = f" [{wanted.default}]" if wanted.default else ""
        question = f"{wanted.description or wanted.id}{options}{default}:"
        return self.ask(question, wanted.secret)

    def confirm(self, question: str) -> bool:
        """Ask a yes-or-no question; return False if nobody can be asked."""
        if self.ask is None:
            return False
        return self.ask(f"{question} [y/N]", False).lower() in ("y", "yes")

    def parse(self, parser: Parser, argv: list[str]) -> argparse.Namespace | None:
        """Parse the arguments of an action, or return ``None`` after showing its help."""
        try:
            with redirect_stdout(self.out):
                return parser.parse_intermixed_args(argv)
        except SystemExit:
            return None


class Action(NamedTuple):
    """An action of ``hilum mcp``.

    Attributes:
        run: A function that runs the action with its options and returns the exit code.
        about: A one-line description of the action, in lower case.
        add_options: A function that adds the action's options to a parser.
        takes_command: Whether ``--`` may be followed by a command, which becomes the option
            ``command``.
    """

    run: Callable[[argparse.Namespace, CommandContext], Awaitable[int]]
    about: str
    add_options: Callable[[Parser], object]
    takes_command: bool = False


def add_name(parser: Parser) -> None:
    """Add the argument of actions that apply to one server."""
    parser.add_argument("name", metavar="NAME")
