"""Collect the marks for a tool call, and turn them into a few short phrases."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from enum import IntEnum

import attrs
from hilum import Danger
from hilum.command import escape_terminal

from hilum_guard.commands.shell_words import UNKNOWN_TEXT
from hilum_guard.commands.verdicts import SimpleCommand
from hilum_guard.effects.file_access import UNKNOWN

MAX_DANGERS = 5
MAX_NAMES = 3
"""Maximum number of files or commands in one phrase."""
MAX_NAME = 60
"""Maximum length, in characters, of a file name or command in a phrase."""


class Rank(IntEnum):
    """The importance of a mark; lower numbers come first.

    No lasting approval is offered for a call with a mark whose rank is ``LAST_GRAVE`` or lower.
    """

    DAMAGE = 1
    UNREADABLE = 2
    UNKNOWN_CODE = 3
    PRIVILEGES = 4
    LEAK = 5
    DELETION = 6
    HISTORY = 7
    EXECUTED = 8
    OUTSIDE = 9
    PUBLICATION = 10
    PERMISSIONS = 11
    DISGUISED_HOST = 12
    LAST_GRAVE = 12
    SECRET = 13
    HOST = 14
    CODE = 15
    OTHER = 16


@attrs.frozen
class Mark:
    """A description of one dangerous or notable effect of a call.

    Attributes:
        rank: Its importance.
        text: A phrase in which ``{}`` stands for the names of all marks with the same phrase.
        name: The file or command that the mark is about; empty if there is none.
    """

    rank: Rank
    text: str
    name: str = ""


def summarize(marks: Iterable[Mark]) -> tuple[Danger, ...]:
    """Return the most important marks as phrases for people."""
    names: dict[tuple[Rank, str], list[str]] = {}
    for mark in marks:
        found = names.setdefault((mark.rank, mark.text), [])
        if mark.name and mark.name not in found:
            found.append(mark.name)
    # Sorting is stable, so marks of equal rank remain in the order of their commands.
    groups = sorted(names.items(), key=lambda item: item[0][0])
    dangers = []
    for (rank, text), found in groups[:MAX_DANGERS]:
        dangers.append(Danger(_fill(text, found), grave=rank <= Rank.LAST_GRAVE))
    return tuple(dangers)


def _fill(text: str, names: Sequence[str]) -> str:
    # Only the last `{}` is a placeholder: a sentence about damage may contain a file name.
    before, placeholder, after = text.rpartition("{}")
    shown = [shorten(name) for name in names[:MAX_NAMES]]
    rest = len(names) - len(shown)
    if rest:
        shown.append(f"{rest} more")
    joined = shown[0] if shown else ""
    if len(shown) > 1:
        joined = f"{', '.join(shown[:-1])} and {shown[-1]}"
    return _one_line(f"{before}{joined}{after}" if placeholder else text)


def shorten(name: str) -> str:
    """Return a name on one line, without control characters, shortened in the middle."""
    plain = _one_line(name)
    if len(plain) <= MAX_NAME:
        return plain
    half = (MAX_NAME - 3) // 2
    return f"{plain[:half]}...{plain[-half:]}"


def _one_line(text: str) -> str:
    return escape_terminal(" ".join(text.split()))


def show_command(command: SimpleCommand) -> str:
    """Return a command in a form that the user recognises."""
    source = command.source.replace(UNKNOWN_TEXT, UNKNOWN)
    return source or " ".join(command.words)


def show_path(path: str) -> str:
    """Return an absolute path with ``~`` in place of the home folder."""
    home = os.path.realpath(os.path.expanduser("~"))
    if path == home or path.startswith(home.rstrip("/") + "/"):
        return "~" + path[len(home) :]
    return path


def make_phrase(sentence: str) -> str:
    """Return a sentence such as "It deletes …." as a phrase without a subject."""
    return sentence.removeprefix("It ").removesuffix(".")
