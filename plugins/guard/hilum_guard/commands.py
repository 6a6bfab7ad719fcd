"""Judges command texts by reading them: certainly destructive, harmless, or the user's to
decide.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import attrs

if TYPE_CHECKING:
    from hilum_guard.places import Places
    from hilum_guard.reading import Reader
    from hilum_guard.simple import Simple

__all__ = ["CommandVerdict", "SimpleCommand", "judge_command"]


@attrs.frozen
class SimpleCommand:
    """One simple command of a text, for rules such as `git status:*` to be matched against.

    A rule that allows must fit every command that is not a `wrapper`, and be `literal`; a rule that
    denies need fit only one.

    Attributes:
        words: Program and arguments as the program gets them. What only the run would tell stands
            as `…`.
        source: How it stands in the text; for a command that another one runs, as it would be
            written alone.
        literal: Every word stands in the text as it is, but for quotes.
        assigned: Variables set for this command, or by it.
        writes: Files its redirections write to, as they are written there.
        wrapper: It runs the command that follows it in the list (`timeout 5 ls`).
        cwd: Folder it runs in, if the text tells.
        cwds: All folders it may run in, as far as the text tells: a `cd` may fail.
        reads: Files that are fed into it by redirection, as they are written there.
        stdin: The text that is fed into it, if the text tells.
        found: Its words with `{}` for what a `find` finds, if it is run for that.
        finder: The words of that `find`.
        finder_at: Where the action that runs it stands in them; 0 where it gets all that is
            printed, -1 for some of it.
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


@attrs.frozen
class Unresolved:
    """A command of which only the run would tell what it runs.

    Attributes:
        words: Program and arguments.
        reason: Why, a sentence without its full stop.
    """

    words: tuple[str, ...]
    reason: str


@attrs.frozen
class CommandVerdict:
    """What reading a command text says.

    Attributes:
        kind: `block` (certainly destructive), `auto` (harmless as it is written) or `ask`
            (everything else).
        reason: Why, one sentence for the user and the model.
        commands: Its simple commands, with those that others run; incomplete if the text could not
            be read.
        writes: Files in the workspace that an `auto` text writes by redirection, resolved: judge
            them as `write_file`.
        complete: Whether the text was read to its end, so that `commands` has all of them.
        grave: Why the user is asked whatever the policy, and whatever rule allows it but by its
            very text; mostly empty.
        implied: Commands that are not written in the text, but that it runs or may run: what an
            alias of Git, a script of the workspace or `python -m` stands for. For rules that ask or
            deny; rules that allow are about `commands`.
        unresolved: Commands of which only the run would tell what they run, such as an unknown
            sub-command of Git.
    """

    kind: Literal["block", "ask", "auto"]
    reason: str
    commands: tuple[SimpleCommand, ...] = ()
    writes: tuple[str, ...] = ()
    complete: bool = True
    grave: str = ""
    implied: tuple[SimpleCommand, ...] = ()
    unresolved: tuple[Unresolved, ...] = ()

    @property
    def all_commands(self) -> tuple[SimpleCommand, ...]:
        """The commands of the text and the implied ones."""
        return self.commands + self.implied


def judge_command(text: str, *, workspace: Path, folder: Path | None = None) -> CommandVerdict:
    """Judge a command line for Bash by reading it; nothing is run.

    Never raises for what stands in the text: what cannot be read is asked.

    Args:
        text: The command line.
        workspace: Root of the workspace.
        folder: Folder the command starts in; the workspace if not given.
    """
    from hilum_guard.grammar import Unreadable
    from hilum_guard.places import Places
    from hilum_guard.reading import Reader
    from hilum_guard.scripts import Scripts, script_commands

    if sys.platform == "win32":
        return CommandVerdict("ask", "Commands for PowerShell are not read.", complete=False)
    home = os.path.realpath(os.path.expanduser("~"))
    places = Places(os.path.realpath(workspace), home)
    reader = Reader(places, os.path.abspath(folder or places.workspace))
    unread = ""
    try:
        reader.read(text)
    except Unreadable as error:
        unread = str(error)
    except Exception as error:  # whatever a reader trips over is no reason to let a command pass
        unread = f"The command could not be read ({type(error).__name__})."
    listed = [
        simple for simple in reader.found if simple.words or simple.assigned or simple.redirects
    ]
    try:
        scripts = script_commands(listed, places)
    except Exception as error:  # as above
        scripts = Scripts()
        unread = (
            unread
            or f"The scripts that the command runs could not be read ({type(error).__name__})."
        )
    verdict = CommandVerdict(
        "ask",
        unread,
        commands=tuple(_shown(simple) for simple in listed if not simple.implied),
        complete=not unread,
        implied=tuple(
            _shown(simple) for simple in (*(s for s in listed if s.implied), *scripts.found)
        ),
        unresolved=tuple(
            Unresolved(_shown(simple).words, why)
            for simple, why in (*reader.unresolved, *scripts.unresolved)
        ),
    )
    why = _ruin(reader)
    if why:
        return attrs.evolve(verdict, kind="block", reason=why)
    if unread and (
        why := _ruin_in_pieces(
            text, places, reader.state.cwds[-1], os.path.abspath(folder or places.workspace)
        )
    ):
        return attrs.evolve(verdict, kind="block", reason=why)
    grave = _grave(reader)
    if unread or grave:
        return attrs.evolve(verdict, reason=grave or unread, grave=grave)
    doubt, writes = _doubt(reader)
    reason = doubt or "It is harmless as it is written."
    return attrs.evolve(verdict, kind="ask" if doubt else "auto", reason=reason, writes=writes)


def _ruin(reader: Reader) -> str:
    from hilum_guard.destructive import history_ruin, kills_all, ruin

    if reader.bombs:
        return f"It starts processes without end (`{reader.bombs[0]}` is a fork bomb)."
    why = history_ruin(reader.found) or kills_all(reader.found)
    if why:
        return why
    return next(
        (f"{why} ({simple.source[:200]})" for simple in reader.found if (why := ruin(simple))), ""
    )


def _grave(reader: Reader) -> str:
    from hilum_guard.destructive import grave

    return next(
        (f"{why} ({simple.source[:200]})" for simple in reader.found if (why := grave(simple))), ""
    )


def _ruin_in_pieces(text: str, places: Places, last: str | None, first: str) -> str:
    """Return why a part of a text that cannot be read as a whole is destructive: padding must hide
    nothing.

    Each statement is read alone, in the folder where the text begins and in the one that the part
    which was read ends in.
    """
    from hilum_guard.grammar import Unreadable
    from hilum_guard.pieces import statements
    from hilum_guard.reading import Reader

    for piece in statements(text):
        for cwd in dict.fromkeys((first, last or first)):
            reader = Reader(places, cwd)
            with suppress(Unreadable, RecursionError, ValueError):
                reader.read(piece)
            why = _ruin(reader)
            if why:
                return why
    return ""


def _doubt(reader: Reader) -> tuple[str, tuple[str, ...]]:
    """Return why a text is not harmless, and what it writes."""
    from hilum_guard.harmless import doubt

    writes: list[str] = []
    for simple in reader.found:
        if not simple.implied and (why := doubt(simple, writes)):
            return why, ()
    if reader.doubts:
        return reader.doubts[0], ()
    if not reader.found:
        return "There is no command in it.", ()
    if not reader.source.agrees([text for _, text in sorted(reader.literals)]):
        return "Two readers of the command do not agree on its words.", ()
    if writes and any(word.glob for simple in reader.found for word in simple.words):
        return "It writes files and uses patterns for names.", ()
    return "", tuple(dict.fromkeys(writes))


def _shown(simple: Simple) -> SimpleCommand:
    from hilum_guard.distant import BESIDE
    from hilum_guard.words import UNKNOWN

    finder = simple.finder
    if (
        finder
        and not any(word.found for word in simple.words)
        and finder.words[finder.at].value not in BESIDE
    ):
        finder = None
    return SimpleCommand(
        words=tuple(word.value.replace(UNKNOWN, "…") for word in simple.words),
        found=tuple((word.found or word.value).replace(UNKNOWN, "…") for word in simple.words)
        if finder
        else (),
        finder=tuple(word.value.replace(UNKNOWN, "…") for word in finder.words) if finder else (),
        finder_at=finder.at if finder else 0,
        source=simple.source.replace(UNKNOWN, "…"),
        literal=all(word.plain for word in simple.words),
        assigned=simple.assigned,
        writes=tuple(_redirected(simple, ">")),
        wrapper=simple.wrapper,
        cwd=simple.cwd,
        cwds=simple.cwds,
        reads=tuple(_redirected(simple, "<")),
        stdin=None if simple.stdin is None else simple.stdin.replace(UNKNOWN, "…"),
    )


def _redirected(simple: Simple, sign: str) -> Iterator[str]:
    """Yield the files that redirections write (`>`) or read (`<`).

    `2>&1` names no file, and `> 1` does.
    """
    from hilum_guard.words import UNKNOWN

    for redirect in simple.redirects:
        if sign == ">":
            fits = sign in redirect.operator
        else:
            fits = redirect.operator.startswith(sign)
        copies = redirect.operator in (">&", "<&") and re.fullmatch(r"\d*-?", redirect.target.value)
        if fits and not copies:
            yield redirect.target.value.replace(UNKNOWN, "…")
