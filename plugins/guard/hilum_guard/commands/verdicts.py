"""Data classes for the verdict on a command line: destructive, harmless, or in need of approval."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal

import attrs


@attrs.frozen
class SimpleCommand:
    """One simple command in a command line, for rules such as ``run_terminal_cmd(git status *)``.

    An allow rule must match every command that is not a ``wrapper``, and each of these commands
    must be ``literal``. A deny rule needs to match only one command.

    Attributes:
        words: The program and its arguments, as the program receives them. ``…`` stands for each
            part that is known only at run time.
        source: The command as written in the text. A command that another command runs is shown as
            it would be written alone.
        literal: Whether every word appears literally in the text, apart from quotes.
        assigned: Variables that are set for this command or by it.
        writes: Files that the command's redirections write to, as written in the text.
        wrapper: Whether the command runs the next one in ``CommandVerdict.commands``, as
            ``timeout 5`` does in ``timeout 5 ls``.
        cwd: The folder that the command runs in, if known.
        cwds: All known folders that the command may run in. There may be several, because a ``cd``
            may fail.
        reads: Files that the command's redirections read, as written in the text.
        stdin: The command's standard input, if known.
        found: If a ``find`` runs the command, the command's words with ``{}`` for each found file.
        finder: The words of the ``find`` that runs the command.
        finder_at: The position in ``finder`` of the action that runs the command; 0 if the command
            receives everything that the ``find`` prints, -1 if it receives only a part.
        recipe: Whether the command is in a recipe or an npm script. The program that runs the
            command may expand more in it than a shell does.
        damage: What the command certainly destroys for good, as a sentence; empty if nothing.
        grave: Why the command needs approval under every policy; usually empty.
        runners: The words of the commands that run this one, innermost first: ``uv run pytest``
            runs ``pytest``.
        environment: The variables that the text sets for the command, and that decide what Git,
            editors, interpreters or `make` run, with their values.
        loaded: The new files that the command loads without naming them, as `python -m` does.
        elsewhere: Whether the command runs in a container or on another machine.
    """

    words: tuple[str, ...]
    source: str
    literal: bool
    assigned: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    wrapper: bool = False
    cwd: str | None = None
    cwds: tuple[str | None, ...] = ()
    reads: tuple[str, ...] = ()
    stdin: str | None = None
    found: tuple[str, ...] = ()
    finder: tuple[str, ...] = ()
    finder_at: int = 0
    recipe: bool = False
    damage: str = ""
    grave: str = ""
    runners: tuple[tuple[str, ...], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    loaded: tuple[str, ...] = ()
    elsewhere: bool = False

    @property
    def program(self) -> str:
        """The name of the command's program, case-folded; empty if it has none."""
        return program_name(self.words)


def program_name(words: Sequence[str]) -> str:
    """Return the case-folded name of the program in a command's words; empty without words."""
    if not words:
        return ""
    return os.path.basename(words[0].rstrip("/")).casefold().removesuffix(".exe")


@attrs.frozen
class Unresolved:
    """A command that may run something unknown.

    Attributes:
        words: Program and arguments.
        reason: Why the command may run something unknown, as a sentence without a full stop.
    """

    words: tuple[str, ...]
    reason: str


@attrs.frozen
class CommandVerdict:
    """The verdict on a command line, with the commands found in it.

    Attributes:
        kind: ``block`` (certainly destructive), ``auto`` (harmless as written) or ``ask``
            (everything else).
        reason: The reason for the verdict, as one sentence for the user and the model.
        commands: The simple commands in the text, including those that other commands run;
            incomplete if the text could not be read.
        writes: The resolved workspace files that an ``auto`` command line writes by redirection;
            these writes are judged like ``write_file`` calls.
        complete: Whether the whole text was read, so that ``commands`` contains all commands.
        grave: Why approval is needed under every policy, unless rules allow the exact text of each
            such command; usually empty.
        implied: Commands that the text runs or may run without naming them, for example those of a
            Git alias, a workspace script or ``python -m``. Ask and deny rules apply to these
            commands; allow rules apply to ``commands``.
        unresolved: Commands that may run something unknown, such as an unknown sub-command of Git.
        unread: A text for each script that the text runs and that could not be read completely; the
            text changes if the script does.
    """

    kind: Literal["block", "ask", "auto"]
    reason: str
    commands: tuple[SimpleCommand, ...] = ()
    writes: tuple[str, ...] = ()
    complete: bool = True
    grave: str = ""
    implied: tuple[SimpleCommand, ...] = ()
    unresolved: tuple[Unresolved, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def all_commands(self) -> tuple[SimpleCommand, ...]:
        """The commands in the text and the implied commands."""
        return self.commands + self.implied
