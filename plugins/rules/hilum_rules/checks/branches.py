"""Which branch a Git command commits to or pushes to."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hilum_rules.checks.effects import git_words, name_of, operands, text_of
from hilum_rules.checks.touches import UNKNOWN, Fit

if TYPE_CHECKING:
    from hilum_guard import SimpleCommand


def fit(branches: Sequence[str], command: SimpleCommand, before: Sequence[SimpleCommand]) -> Fit:
    """Return whether a commit or a push goes to one of some branches.

    Args:
        branches: Their names.
        command: The commit or push.
        before: The commands that run before it in the same text: they may have switched branches.
    """
    words, at = git_words(command.words)
    given = [word.lstrip("+") for word in operands(words[2:], "mFCcotu")]
    if words[1:2] == ("push",) and ({"--all", "--mirror", "--branches"} & set(words)):
        return "yes"
    if words[1:2] == ("push",) and len(given) > 1:
        targets = [each.rpartition(":")[2].removeprefix("refs/heads/") for each in given[1:]]
        current = _current(command, at, before)
        targets = [current if each in ("HEAD", "@") else each for each in targets]
        if any(fnmatch.fnmatchcase(branch, each) for each in targets for branch in branches):
            return "yes"
        if any(UNKNOWN in each for each in targets):
            return "maybe"
        return ""
    current = _current(command, at, before)
    if UNKNOWN in current:
        return "maybe"
    return "yes" if current in branches else ""


def _current(command: SimpleCommand, at: int, before: Sequence[SimpleCommand]) -> str:
    """Return the branch that is checked out when a command runs; `…` if only the run would tell."""
    for earlier in reversed(before):
        words = git_words(earlier.words)[0] if name_of(earlier) == "git" else ()
        if words[1:2] in (("checkout",), ("switch",)) and "--" not in words:
            given = operands(words[2:])
            made = [
                words[n + 1]
                for n, word in enumerate(words[:-1])
                if word in ("-b", "-B", "-c", "-C", "--create")
            ]
            if made or given:
                return (made or given)[0]
    folder = command.cwd or UNKNOWN
    for number, word in enumerate(command.words[:at]):
        if word == "-C":
            folder = os.path.join(folder, command.words[number + 1])
    return UNKNOWN if UNKNOWN in folder else _head(folder)


def _head(folder: str) -> str:
    while True:
        git = os.path.join(folder, ".git")
        if os.path.isfile(git) and (found := re.match(r"gitdir: (.+)", text_of(git))):
            git = os.path.join(folder, found[1].strip())
        if os.path.isdir(git):
            return text_of(os.path.join(git, "HEAD")).strip().removeprefix("ref: refs/heads/")
        if folder == os.path.dirname(folder):
            return ""
        folder = os.path.dirname(folder)
