"""Judge a command line by parsing it with the shell grammar.

Importing this module loads the shell grammar, so ``commands`` imports it when the first command is
judged.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

import attrs

from hilum_guard.commands.command_runners import FOLDER_ACTIONS
from hilum_guard.commands.destructive import (
    find_destruction,
    find_grave_effect,
    find_history_loss,
    find_mass_kill,
)
from hilum_guard.commands.harmless_commands import find_doubt
from hilum_guard.commands.path_checks import PathChecker
from hilum_guard.commands.project_scripts import Scripts, script_commands
from hilum_guard.commands.shell_commands import ParsedCommand
from hilum_guard.commands.shell_reader import ShellReader
from hilum_guard.commands.shell_words import CHANGED, UNKNOWN, Unreadable
from hilum_guard.commands.statements import split_statements
from hilum_guard.commands.verdicts import CommandVerdict, SimpleCommand, Unresolved

MAX_SOURCE = 200
"""Maximum length, in characters, of a command that is quoted in a reason."""


def judge(
    text: str, workspace: Path, folder: Path | None, extra_roots: Sequence[Path] = ()
) -> CommandVerdict:
    """Judge a command line for Bash (see ``commands.judge_command``)."""
    checker = PathChecker(
        os.path.realpath(workspace),
        os.path.realpath(os.path.expanduser("~")),
        extra_roots=tuple(map(os.path.realpath, extra_roots)),
    )
    start = os.path.abspath(folder or checker.workspace)
    reader = ShellReader(checker, start)
    unread = _read_text(reader, text)
    listed = [each for each in reader.commands if each.words or each.assigned or each.redirects]
    scripts, failure = _read_scripts(listed, checker)
    unread = unread or failure
    verdict = _describe(reader, listed, scripts, unread)
    why = _explain_ruin(reader)
    # Nobody wants an agent to run a destructive command, wherever the command is written.
    why = why or _explain_ruin_in_scripts(reader, scripts)
    if unread and not why:
        folders = dict.fromkeys((start, reader.state.cwds[-1] or start))
        why = _explain_ruin_in_statements(text, checker, folders)
    if why:
        return attrs.evolve(verdict, kind="block", reason=why)
    named = [each for each in reader.commands if not each.in_file]
    in_files = [each for each in reader.commands if each.in_file]
    serious = _explain_first(named, find_grave_effect)
    serious = serious or _explain_first((*in_files, *scripts.found), _find_grave_effect_in_script)
    if unread or serious:
        return attrs.evolve(verdict, reason=serious or unread, grave=serious)
    reason, writes = _explain_doubt(reader)
    if reason:
        return attrs.evolve(verdict, reason=reason)
    harmless = "It is harmless as written."
    return attrs.evolve(verdict, kind="auto", reason=harmless, writes=writes)


# The next two functions catch every exception: text that crashes the reader must not pass as
# harmless.


def _read_text(reader: ShellReader, text: str) -> str:
    """Read shell text; return why it is unreadable, or an empty string if it is readable."""
    try:
        reader.read(text)
    except Unreadable as error:
        return str(error)
    except Exception as error:
        return f"The command could not be read ({type(error).__name__})."
    return ""


def _read_scripts(listed: list[ParsedCommand], checker: PathChecker) -> tuple[Scripts, str]:
    """Return the scripts that commands run, and why these scripts cannot be read."""
    try:
        return script_commands(listed, checker), ""
    except Exception as error:
        name = type(error).__name__
        return Scripts(), f"The scripts that the command runs could not be read ({name})."


def _describe(
    reader: ShellReader, listed: list[ParsedCommand], scripts: Scripts, unread: str
) -> CommandVerdict:
    """Return the initial verdict, before the commands are judged."""
    written = [simple for simple in listed if not simple.implied]
    implied = [simple for simple in listed if simple.implied]
    unresolved = (*reader.unresolved, *scripts.unresolved)
    return CommandVerdict(
        "ask",
        unread,
        commands=tuple(map(_convert, written)),
        complete=not unread,
        implied=(*map(_convert, implied), *map(_convert_in_script, scripts.found)),
        unresolved=tuple(Unresolved(_convert(simple).words, why) for simple, why in unresolved),
        unread=scripts.unread,
    )


def _explain_ruin(reader: ShellReader) -> str:
    """Return why one of the commands is certainly destructive; empty if none is."""
    if reader.fork_bombs:
        return f"It starts processes endlessly (`{reader.fork_bombs[0]}` is a fork bomb)."
    named = [each for each in reader.commands if not each.in_file]
    why = find_history_loss(reader.commands) or find_mass_kill(named)
    return why or _explain_first(reader.commands, find_destruction)


def _explain_ruin_in_scripts(reader: ShellReader, scripts: Scripts) -> str:
    """Return why a command in a script is certainly destructive; empty if none is."""
    if scripts.fork_bombs:
        return f"It starts processes endlessly (`{scripts.fork_bombs[0]}` is a fork bomb)."
    # In a long script, a list of processes and a `kill` are usually unrelated, so
    # `find_mass_kill` does not apply.
    why = find_history_loss([*reader.commands, *scripts.found])
    return why or _explain_first(scripts.found, find_destruction)


def _find_grave_effect_in_script(command: ParsedCommand) -> str:
    return find_grave_effect(command, in_script=True)


def _explain_first(commands: Iterable[ParsedCommand], check: Callable[[ParsedCommand], str]) -> str:
    """Return a check's first objection to one of the commands, with that command."""
    for simple in commands:
        why = check(simple)
        if why:
            return f"{why} ({simple.source[:MAX_SOURCE]})"
    return ""


def _explain_ruin_in_statements(text: str, checker: PathChecker, folders: Iterable[str]) -> str:
    """Return why a statement in shell text that is unreadable as a whole is destructive.

    Padding must not hide a destructive statement, so each statement is read separately.

    Args:
        text: The text.
        checker: Checks paths.
        folders: The working folders at the start of the text and at the end of its readable part.
    """
    for statement in split_statements(text):
        for folder in folders:
            reader = ShellReader(checker, folder)
            with suppress(Unreadable, RecursionError, ValueError):
                reader.read(statement)
            why = _explain_ruin(reader)
            if why:
                return why
    return ""


def _explain_doubt(reader: ShellReader) -> tuple[str, tuple[str, ...]]:
    """Return why the shell text is not harmless, and the files that it writes."""
    writes: list[str] = []
    written = [simple for simple in reader.commands if not simple.implied]
    doubts = chain((find_doubt(simple, writes) for simple in written), reader.doubts)
    why = next(filter(None, doubts), "")
    if why:
        return why, ()
    if not reader.commands:
        return "It contains no command.", ()
    # An attacker could exploit a difference between the grammar and Bash. To pass this check, the
    # attacker must also deceive a second parser, which shares no code with the grammar.
    if not reader.source.matches_shlex([text for _, text in sorted(reader.literal_words)]):
        return "Two parsers disagree about the words in the command.", ()
    words = (word for simple in reader.commands for word in simple.words)
    # A glob pattern may match a file that the same text writes and whose name looks like an option.
    if writes and any(word.glob for word in words):
        return "It writes files and uses file name patterns.", ()
    return "", tuple(dict.fromkeys(writes))


# --- the commands for rules -----------------------------------------------------------------------


def _convert_in_script(simple: ParsedCommand) -> SimpleCommand:
    return attrs.evolve(_convert(simple), grave=_find_grave_effect_in_script(simple))


def _convert(simple: ParsedCommand) -> SimpleCommand:
    """Return a command as rules see it."""
    found: tuple[str, ...] = ()
    grave = find_grave_effect(simple, in_script=simple.in_file)
    finder = simple.finder if _shows_finder(simple) else None
    if finder:
        found = tuple(_show(word.placeholder or word.value) for word in simple.words)
    return SimpleCommand(
        words=tuple(_show(word.value) for word in simple.words),
        found=found,
        finder=tuple(_show(word.value) for word in finder.words) if finder else (),
        finder_at=finder.at if finder else 0,
        source=_show(simple.source.replace(CHANGED, UNKNOWN)),
        literal=all(word.plain for word in simple.words),
        assigned=simple.assigned,
        writes=tuple(_find_redirected(simple, ">")),
        wrapper=simple.wrapper,
        cwd=simple.cwd,
        cwds=simple.cwds,
        reads=tuple(_find_redirected(simple, "<")),
        stdin=None if simple.stdin is None else _show(simple.stdin),
        recipe=simple.recipe,
        damage=find_destruction(simple) or grave,
        grave=grave,
        runners=tuple(tuple(map(_show, words)) for words in simple.runners),
        environment=tuple((name, _show(value)) for name, value in simple.environment),
        loaded=simple.loaded,
        elsewhere=simple.checker.elsewhere,
    )


def _shows_finder(simple: ParsedCommand) -> bool:
    """Return whether a ``find`` runs a command for the files that it finds."""
    finder = simple.finder
    if not finder:
        return False
    if any(word.placeholder for word in simple.words):
        return True
    return finder.words[finder.at].value in FOLDER_ACTIONS


def _show(text: str) -> str:
    """Return text with each unknown part replaced by the character that rules use for it."""
    return text.replace(UNKNOWN, "…")


def _find_redirected(simple: ParsedCommand, sign: str) -> Iterator[str]:
    """Yield the files that a command's redirections write (`>`) or read (`<`)."""
    for redirect in simple.redirects:
        operator = redirect.operator
        fits = operator.startswith("<") if sign == "<" else sign in operator
        # `2>&1` does not name a file, but `> 1` does.
        copies = operator in (">&", "<&") and re.fullmatch(r"\d*-?", redirect.target.value)
        if fits and not copies:
            yield _show(redirect.target.value)
