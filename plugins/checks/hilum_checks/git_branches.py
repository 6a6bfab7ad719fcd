"""Matches the branch that a Git command commits or pushes to against protected branches."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from hilum_guard import UNKNOWN, git_words, operands

from hilum_checks.code_texts import read_text

if TYPE_CHECKING:
    from hilum_checks.command_facts import CommandFacts
    from hilum_checks.path_matcher import Fit

_ALL_BRANCHES = frozenset(("--all", "--mirror", "--branches"))
_NEW_BRANCH = ("-b", "-B", "-c", "-C", "--create")


def match_branches(branches: Sequence[str], command: CommandFacts) -> Fit:
    """Return whether a commit or push changes one of the given branches.

    Args:
        branches: The names of the branches.
        command: The commit or push. Preceding commands may have switched branches.
    """
    words = git_words(command.words)
    is_push = words[1:2] == ("push",)
    # Options such as `--all` push every branch, including protected ones.
    if is_push and not _ALL_BRANCHES.isdisjoint(words):
        return "yes"
    # Of the short options of ``git push``, only ``-o`` takes a value; ``-u`` takes none.
    refspecs = operands(words[2:], "o")[1:] if is_push else []
    # Without a refspec, ``git push`` pushes the current branch by default.
    targets = [_target(refspec) for refspec in refspecs] or ["HEAD"]
    current = _find_current(command) if {"HEAD", "@"} & set(targets) else ""
    targets = [current if target in ("HEAD", "@") else target for target in targets]
    for target in targets:
        if any(_is_same(branch, target) for branch in branches):
            return "yes"
    return "maybe" if any(UNKNOWN in target for target in targets) else ""


def _is_same(branch: str, target: str) -> bool:
    """Return whether the name of a branch fits; either may contain wildcards."""
    return fnmatch.fnmatchcase(branch, target) or fnmatch.fnmatchcase(target, branch)


def _target(refspec: str) -> str:
    # "[+]SOURCE:TARGET"; without a colon, both have the same name (git-push(1)).
    return refspec.lstrip("+").rpartition(":")[2].removeprefix("refs/heads/")


def _find_current(command: CommandFacts) -> str:
    """Return the branch that is checked out when a command runs, or `…` if unknown."""
    # ``git switch main && git push`` pushes main although another branch is checked out now.
    earlier = command.previous
    while earlier is not None:
        branch = _switched_to(earlier) if earlier.effects.program == "git" else ""
        if branch:
            return branch
        earlier = earlier.previous
    folder = command.cwd or UNKNOWN
    options = command.words[: len(command.words) - len(git_words(command.words)) + 1]
    for number, word in enumerate(options):
        if word == "-C":
            folder = os.path.join(folder, command.words[number + 1])
    return UNKNOWN if UNKNOWN in folder else _read_head(folder)


def _switched_to(command: CommandFacts) -> str:
    """Return the branch to which a Git command switches, or an empty string if none."""
    words = git_words(command.words)
    if words[1:2] not in (("checkout",), ("switch",)) or "--" in words:
        return ""
    for option, value in pairwise(words):
        if option in _NEW_BRANCH:
            return value
    return "".join(operands(words[2:])[:1])


def _read_head(folder: str) -> str:
    """Return the branch that is checked out in the repository that contains a folder."""
    while True:
        git = os.path.join(folder, ".git")
        link = re.match(r"gitdir: (.+)", read_text(git)) if os.path.isfile(git) else None
        if link:  # `.git` is a file in a worktree or a submodule
            git = os.path.join(folder, link[1].strip())
        if os.path.isdir(git):
            # Read `HEAD` instead of starting Git, which would take milliseconds for each judged
            # call.
            head = read_text(os.path.join(git, "HEAD"))
            return head.strip().removeprefix("ref: refs/heads/")
        if folder == os.path.dirname(folder):
            return ""
        folder = os.path.dirname(folder)
