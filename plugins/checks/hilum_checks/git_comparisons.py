"""Finds Git commands that show only what differs between the last commit, the index and the files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hilum_guard import UNKNOWN, git_words

from hilum_checks import git_folders

if TYPE_CHECKING:
    from hilum_checks.command_facts import CommandFacts

_INDEX = frozenset(("--cached", "--staged"))
_COMMIT = frozenset(("HEAD", "@"))
# Options that show no other files. With `-C`, Git would show how files differ from unchanged ones.
_DIFF_OPTION = re.compile(
    r"--cached|--staged|--stat|--numstat|--shortstat|--summary|--name-only|--name-status|--check|-p|-u"
    r"|--patch|-U\d*|--unified=\d+|-w|-b|--ignore-(?:all-space|space-change|blank-lines|space-at-eol)"
    r"|--no-renames|--no-color|--color(?:=\w+)?|--no-ext-diff|--minimal|--patience|--histogram"
    r"|--word-diff(?:=\w+)?|--exit-code|--quiet|-q|--diff-filter=[A-Za-z]+|-R|--no-prefix"
)
_STATUS_OPTION = re.compile(r"-v|-vv|--verbose|-s|-sb|-b|--short|--branch|-u(?:no|normal|all)?")
_FRONT = frozenset(("--no-pager", "-P"))
# What changes neither the last commit nor, of a file that the sandbox hides, the index.
_KEEPS = frozenset("add branch diff fetch log ls-files rev-parse show stage status".split())
_INERT = frozenset("cd echo printf true : ls cat pwd head tail wc grep less".split())


def compares_files(command: CommandFacts) -> bool:
    """Return whether a command is `git diff` for all files of the working tree.

    To Git, the files that the sandbox hides look unchanged, so that this shows nothing of them.

    Args:
        command: The command.
    """
    words = git_words(command.words)
    return words[1:2] == ("diff",) and not any(
        word in (*_INDEX, "--merge-base", "--no-index") or not word.startswith("-")
        for word in words[2:]
    )


def compares_commit(command: CommandFacts, commands: Sequence[CommandFacts]) -> bool:
    """Return whether a command shows how the index or the files differ from the last commit.

    Of a file that the sandbox hides, it shows only what was staged before the call.

    Args:
        command: The command.
        commands: All commands of the call, one of which may stage other contents.
    """
    words = git_words(command.words)
    front = command.words[1 : len(command.words) - len(words) + 1]
    options = [word for word in words[2:] if word != "--"]
    if command.effects.program != "git" or not _FRONT.issuperset(front):
        return False
    if words[1:2] == ("diff",):
        named = [word for word in options if word in _COMMIT]
        is_meant = len(named) == 1 or (not named and not _INDEX.isdisjoint(options))
        options = [word for word in options if word not in _COMMIT]
        is_meant = is_meant and all(map(_DIFF_OPTION.fullmatch, options))
    else:
        is_meant = words[1:2] == ("status",) and all(map(_STATUS_OPTION.fullmatch, options))
    if not is_meant or git_folders.find_git_folder(command) in ("", UNKNOWN):
        return False
    return all(map(_keeps_index, commands))


def _keeps_index(command: CommandFacts) -> bool:
    """Return whether a command certainly stages nothing of files that the sandbox hides."""
    texts = (*command.command.assigned, *command.words)
    if any(text.startswith("GIT_") for text in texts) or command.command.wrapper:
        return False
    if any(".git" in access.path and access.kind != "read" for access in command.effects.files):
        return False
    if command.effects.program == "git":
        words = git_words(command.words)
        front = command.words[1 : len(command.words) - len(words) + 1]
        return _FRONT.issuperset(front) and not _KEEPS.isdisjoint(words[1:2])
    return command.effects.program in _INERT
