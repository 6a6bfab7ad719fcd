"""Describe the effects of one simple command in a call, for all matchers."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import attrs
from hilum_guard import UNKNOWN

from hilum_checks import code_texts

if TYPE_CHECKING:
    from hilum_guard import CommandEffects, SimpleCommand


@attrs.define(slots=False)
class CommandFacts:
    """A simple command in a call.

    Attributes:
        command: The command.
        effects: The effects of the command.
        previous: The preceding command in the same call.
    """

    command: SimpleCommand
    effects: CommandEffects
    previous: CommandFacts | None

    @property
    def words(self) -> tuple[str, ...]:
        """The program and its arguments."""
        return self.command.words

    @property
    def source(self) -> str:
        """The text of the command."""
        return self.command.source

    @property
    def shown(self) -> str:
        """The text of the command; if it is known only at run time, of the one that runs it."""
        runners = self.command.runners
        is_unknown = not self.source.strip(f"'\"{UNKNOWN}")
        return " ".join(runners[0]) if is_unknown and runners else self.source

    @property
    def doubt(self) -> str:
        """Why the command may do anything, for a message."""
        return (
            f"what `{self.shown[:80]}` runs is known only at run time; a command that is written out"
            " needs no approval"
        )

    @property
    def cwd(self) -> str | None:
        """The folder in which the command runs, if known."""
        return self.command.cwd

    @property
    def cwds(self) -> tuple[str | None, ...]:
        """All folders in which the command may run."""
        return self.command.cwds or (self.command.cwd,)

    @cached_property
    def texts(self) -> list[str]:
        """The texts that the command may run as code, read only once for all rules."""
        return code_texts.read_texts(self.effects, self.cwd)

    @cached_property
    def loaded_texts(self) -> list[str]:
        """The texts of new files that the command loads without naming them."""
        return code_texts.read_loaded_texts(self.command.loaded)
