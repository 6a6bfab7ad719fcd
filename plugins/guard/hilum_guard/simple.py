"""What reading a text gives: simple commands with their redirections; and what it carries along."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from hilum_guard.places import Places
from hilum_guard.words import Word

if TYPE_CHECKING:
    from tree_sitter import Node

    from hilum_guard.grammar import Source


@attrs.frozen
class Redirect:
    """A redirection to or from a file."""

    operator: str
    target: Word


@attrs.frozen
class Finder:
    """The `find` for whose findings a command is run.

    Attributes:
        words: Its words.
        at: Where the action stands in them that runs the command; 0 where the command gets all that
            is printed, -1 for some of it.
    """

    words: tuple[Word, ...]
    at: int = 0


@attrs.frozen
class Simple:
    """One simple command as it would run.

    ``implied`` marks one that is not written in the text: what an alias, a script or an unread text
    stands for.
    """

    words: tuple[Word, ...]
    assigned: tuple[str, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    cwds: tuple[str | None, ...] = (None,)
    stdin: str | None = None
    source: str = ""
    wrapper: bool = False
    places: Places = Places("/", "/")
    finder: Finder | None = None
    implied: bool = False

    @property
    def cwd(self) -> str | None:
        """The folder it runs in, most likely."""
        return self.cwds[-1]


@attrs.define
class State:
    """What earlier commands of the text leave for later ones."""

    cwds: tuple[str | None, ...]
    variables: dict[str, tuple[str, ...]]
    functions: dict[str, tuple[Source, Node]]
    aliases: dict[str, str]
    positional: tuple[str, ...] = ()
    places: Places = Places("/", "/")
    finder: Finder | None = None
    listed: Finder | None = None

    def copy(self) -> State:
        """Return a state of its own to a subshell."""
        return attrs.evolve(
            self,
            variables=dict(self.variables),
            functions=dict(self.functions),
            aliases=dict(self.aliases),
        )
