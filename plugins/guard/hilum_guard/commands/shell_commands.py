"""Data classes for parsed shell text: its simple commands, and the shell state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from hilum_guard.commands.path_checks import PathChecker
from hilum_guard.commands.shell_words import Word

if TYPE_CHECKING:
    from tree_sitter import Node

    from hilum_guard.commands.shell_grammar import Source


@attrs.frozen
class Redirect:
    """A redirection to or from a file."""

    operator: str
    target: Word


@attrs.frozen
class FindAction:
    """A `find` action that runs a command for the found files.

    Attributes:
        words: The words of the `find`.
        at: The position of the action in the words; 0 if the command receives everything that the
            `find` prints, -1 if it receives only a part.
    """

    words: tuple[Word, ...]
    at: int = 0


@attrs.frozen
class ParsedCommand:
    """One simple command as the shell would run it.

    Attributes:
        words: Program and arguments.
        assigned: Variables that are set for the command.
        redirects: The command's redirections.
        cwds: The folders that the command may run in; None for an unknown folder.
        stdin: The text that is piped into the command, or None if unknown.
        source: The command's text.
        wrapper: Whether the command only runs the one that follows it in the list (`timeout 5 ls`).
        checker: Checks paths on the machine or in the container that the command runs in.
        finder: The `find` that runs the command.
        implied: Whether the command does not appear in the text, but results from an alias, a
            script or unknown text.
        recipe: Whether the command is part of a recipe or npm script, in which the program that
            runs it may substitute more than a shell does.
        runners: The words of the commands that run this one, innermost first.
        environment: The variables that the text sets for the command, and that decide what Git,
            editors, interpreters or `make` run, with their values.
        loaded: The new files that the command loads without naming them.
        in_file: Whether the command is in a file that a program loads.
    """

    words: tuple[Word, ...]
    assigned: tuple[str, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    cwds: tuple[str | None, ...] = (None,)
    stdin: str | None = None
    source: str = ""
    wrapper: bool = False
    checker: PathChecker = PathChecker("/", "/")
    finder: FindAction | None = None
    implied: bool = False
    recipe: bool = False
    runners: tuple[tuple[str, ...], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    loaded: tuple[str, ...] = ()
    in_file: bool = False

    @property
    def cwd(self) -> str | None:
        """The folder that the command most likely runs in."""
        return self.cwds[-1]

    @property
    def arguments(self) -> list[str]:
        """The values of the words after the program."""
        return [word.value for word in self.words[1:]]


@attrs.define
class ShellState:
    """The state that earlier commands in shell text leave to later ones.

    Attributes:
        cwds: The folders that the next command may run in.
        variables: The values of variables; more than one for an array.
        functions: Functions by name, with the source and nodes of each body.
        aliases: Aliases by name, with their text.
        positional: The positional parameters.
        checker: Checks paths on the machine or in the container.
        finder: The `find` that runs the command being read.
        listed: The `find` whose results are piped into the next command.
        fed: Whether the text connects the standard input of the next command to something else.
    """

    cwds: tuple[str | None, ...]
    variables: dict[str, tuple[str, ...]]
    functions: dict[str, tuple[Source, Node]] = attrs.field(factory=dict)
    aliases: dict[str, str] = attrs.field(factory=dict)
    positional: tuple[str, ...] = ()
    checker: PathChecker = PathChecker("/", "/")
    finder: FindAction | None = None
    listed: FindAction | None = None
    fed: bool = False

    def copy(self) -> ShellState:
        """Return a separate state for a subshell."""
        return attrs.evolve(
            self,
            variables=dict(self.variables),
            functions=dict(self.functions),
            aliases=dict(self.aliases),
        )
