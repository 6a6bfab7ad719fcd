"""Decide whether a command skips Git's hooks without the option `--no-verify`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING

from hilum_guard import UNKNOWN, find_git_top, git_words

from hilum_checks.git_folders import find_folder
from hilum_checks.message_changes import find_settings
from hilum_checks.path_matcher import Fit, stronger_fit

if TYPE_CHECKING:
    from hilum_checks.command_facts import CommandFacts

# Variables with which managers of hooks run none, or leave some out, and the values that do so.
_VARIABLES = {
    "HUSKY": re.compile(r"0.*"),
    "HUSKY_SKIP_HOOKS": re.compile(r".*"),
    "LEFTHOOK": re.compile(r"0|false"),
    "LEFTHOOK_EXCLUDE": re.compile(r".*"),
    "SKIP": re.compile(r".*"),
    "OVERCOMMIT_DISABLE": re.compile(r".*"),
    "SKIP_SIMPLE_GIT_HOOKS": re.compile(r".*"),
    "PRE_COMMIT_ALLOW_NO_CONFIG": re.compile(r".*"),
}
_RUNS_HOOKS = frozenset(
    "commit merge push rebase am cherry-pick revert pull checkout switch gc".split()
)
_HOOK_FOLDER = re.compile(r"(?:.*/)?(?:\.git(?:/modules/.+)?/hooks|\.husky)(?:/.*)?/*", re.DOTALL)
# The hooks that Git runs on the machine of a developer (githooks(5)).
_HOOKS = frozenset(
    """
    applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg
    commit-msg post-commit pre-rebase post-checkout post-merge pre-push reference-transaction
    push-to-checkout pre-auto-gc post-rewrite sendemail-validate post-index-change
    """.split()
)
# The only hooks that concern a sub-command; one of all hooks concerns the others.
_HOOKS_OF = {
    "commit": frozenset("pre-commit prepare-commit-msg commit-msg post-commit".split()),
    "push": frozenset(("pre-push",)),
}
_READS = re.compile(r"--get.*|--list|-l|get|list")
_REMOVES_SETTING = re.compile(r"--unset.*|unset")
_REMOVES_SECTION = re.compile(r"(?:--)?(?:remove|rename)-section")


def match_skipped_hooks(command: CommandFacts) -> Fit:
    """Return whether a command makes Git run other hooks than those of the project, or none.

    Args:
        command: The command.
    """
    program = command.effects.program
    if program == "git":
        return _match_git(command)
    if program in _SETS_VARIABLES:
        return _match_variables(command)
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
        if any(map(_REMOVES_SECTION.fullmatch, words[1:])) and "core" in map(str.lower, words):
            return "yes"
        return _judge_folders(command, pairwise(words), _HOOKS)
    if verb not in _RUNS_HOOKS:
        return ""
    front = command.words[: len(command.words) - len(words)]
    settings = find_settings(front, dict(command.command.environment))
    best = _judge_folders(command, settings, _HOOKS_OF.get(verb, _HOOKS))
    return stronger_fit(best, _match_variables(command))


# The commands of a shell that set variables for later commands.
_SETS_VARIABLES = frozenset("export declare typeset".split())


def _match_variables(command: CommandFacts) -> Fit:
    """Return whether a variable makes a manager of hooks skip some when a command runs."""
    best: Fit = ""
    for name, value in command.command.environment:
        pattern = _VARIABLES.get(name)
        if pattern is None:
            continue
        if pattern.fullmatch(value):
            best = "yes"
        elif UNKNOWN in value:
            best = stronger_fit(best, "maybe")
    return best


def _is_hooks_path(name: str) -> bool:
    return name.lower() == "core.hookspath"


def _judge_folders(
    command: CommandFacts, settings: Iterable[tuple[str, str]], hooks: frozenset[str]
) -> Fit:
    """Return whether settings make Git look for hooks in a folder without any.

    Args:
        command: A Git command.
        settings: The settings.
        hooks: The hooks of which the folder must have one.
    """
    best: Fit = ""
    for name, folder in settings:
        if not _is_hooks_path(name):
            continue
        # Git runs its hooks in the top folder of the working tree.
        start = find_folder(command)
        top = "" if UNKNOWN in start else find_git_top(start)
        path = os.path.join(top or start or "/", os.path.expanduser(folder))
        if UNKNOWN in path:
            best = stronger_fit(best, "maybe")
        elif not _has_hooks(path, hooks):
            best = "yes"
    return best


def _has_hooks(folder: str, hooks: frozenset[str]) -> bool:
    """Return whether a folder contains a hook that Git would run: a file that is executable."""
    paths = (os.path.join(folder, name) for name in hooks)
    return any(os.path.isfile(path) and os.access(path, os.X_OK) for path in paths)


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
