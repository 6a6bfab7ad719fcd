"""Decides whether a command skips Git's hooks without the option `--no-verify`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from hilum_guard import UNKNOWN, git_words

from hilum_checks.message_changes import find_settings
from hilum_checks.path_matcher import Fit, stronger_fit

if TYPE_CHECKING:
    from hilum_checks.command_facts import CommandFacts

# Variables with which managers of hooks run none, or leave some out.
_VARIABLE = re.compile(
    r"(?:^|\s)(?:HUSKY=['\"]?0|HUSKY_SKIP_HOOKS=|LEFTHOOK=['\"]?(?:0|false)|LEFTHOOK_EXCLUDE=|SKIP="
    r"|OVERCOMMIT_DISABLE=|SKIP_SIMPLE_GIT_HOOKS=|PRE_COMMIT_ALLOW_NO_CONFIG=)"
)
_RUNS_HOOKS = frozenset(
    "commit merge push rebase am cherry-pick revert pull checkout switch gc".split()
)
_HOOK_FOLDER = re.compile(r"(?:.*/)?(?:\.git(?:/modules/.+)?/hooks|\.husky)(?:/.*)?/*", re.DOTALL)
_HOOK_NAME = re.compile(r"(?:pre|post|commit|prepare|applypatch|update|reference|push)[\w-]*")
_READS = re.compile(r"--get.*|--list|-l|get|list")
_REMOVES_SETTING = re.compile(r"--unset.*|unset")


def match_skipped_hooks(command: CommandFacts) -> Fit:
    """Return whether a command makes Git run other hooks than those of the project, or none.

    Args:
        command: The command.
    """
    program = command.effects.program
    if program == "export" and any(map(_VARIABLE.match, command.words[1:])):
        return "yes"
    if program == "git":
        return _match_git(command)
    if _removes_hook(command):
        return "yes"
    return ""


def _match_git(command: CommandFacts) -> Fit:
    words = git_words(command.words)[1:]
    verb = words[0] if words else ""
    if verb == "config":
        if any(map(_READS.fullmatch, words[1:])):
            return ""
        if any(map(_REMOVES_SETTING.fullmatch, words[1:])):
            return "yes" if any(map(_is_hooks_path, words)) else ""
        return _judge_folders(command, (pair for pair in pairwise(words)))
    if verb not in _RUNS_HOOKS:
        return ""
    front = command.words[: len(command.words) - len(words)]
    best = _judge_folders(command, find_settings(front, dict(command.command.environment)))
    # Only the text of the command, or of the one that wraps it, contains the variables.
    texts = [command.source, *(" ".join(runner) for runner in command.command.runners)]
    return "yes" if any(map(_VARIABLE.search, texts)) else best


def _is_hooks_path(name: str) -> bool:
    return name.lower() == "core.hookspath"


def _judge_folders(command: CommandFacts, settings: Iterator[tuple[str, str]]) -> Fit:
    """Return whether settings make Git look for hooks in a folder without any."""
    best: Fit = ""
    for name, folder in settings:
        if not _is_hooks_path(name):
            continue
        path = os.path.join(command.cwd or "/", os.path.expanduser(folder))
        if UNKNOWN in path:
            best = stronger_fit(best, "maybe")
        elif not _has_hooks(path):
            best = "yes"
    return best


def _has_hooks(folder: str) -> bool:
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    return any(map(_HOOK_NAME.fullmatch, names))


def _removes_hook(command: CommandFacts) -> bool:
    """Return whether a command deletes a hook, or takes away the right to run it."""
    is_disabling = command.effects.program == "chmod" and any(
        re.fullmatch(r"[augo]*-\w*x\w*|0?[0246]+", word) for word in command.words[1:]
    )
    for access in command.effects.files:
        is_meant = access.kind == "delete" or (is_disabling and access.kind == "write")
        is_hook = _HOOK_FOLDER.fullmatch(os.path.join(command.cwd or "/", access.path))
        if is_meant and is_hook and not access.path.endswith(".sample"):
            return True
    return False
