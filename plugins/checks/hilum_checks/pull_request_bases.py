"""Decide which branch a new pull request targets if its command names none."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hilum_guard import UNKNOWN

from hilum_checks.code_texts import read_text
from hilum_checks.forge_options import may_have_more_options, read_forge_command
from hilum_checks.git_folders import find_common, find_git_folder
from hilum_checks.model import Commands

if TYPE_CHECKING:
    from hilum_checks.command_facts import CommandFacts

_CREATE = ("gh", "pr", "create")
_ELSEWHERE = ("-B", "--base", "-R", "--repo", "-w", "--web", "--dry-run")
_HEAD = "ref: refs/remotes/origin/"


def targets_other_default(constraint: Commands, command: CommandFacts) -> bool:
    """Return whether a command opens a pull request against a default branch that is not allowed.

    `gh pr create` takes the default branch of the remote, which Git notes when it clones. If it is
    not noted, or if there are several remotes, the branch is unknown.

    Args:
        constraint: The constraint.
        command: The command.
    """
    allowed = {
        words[-1]
        for words in constraint.unless
        if words[:3] == _CREATE and words[3:4] == ("--base",)
    }
    if not allowed or (*_CREATE, "--base") not in constraint.patterns:
        return False
    request = read_forge_command(command.effects.program, command.words)
    is_opened = request is not None and request.verbs == _CREATE
    if request is None or not is_opened or may_have_more_options(request):
        return False
    is_help = not {"--help", "-h"}.isdisjoint(command.words)
    if is_help or request.find_last(*_ELSEWHERE) is not None:
        return False
    branch = _read_default_branch(command)
    return branch != "" and branch not in allowed


def _read_default_branch(command: CommandFacts) -> str:
    """Return the default branch of the only remote; empty if it is unknown."""
    git_folder = find_git_folder(command)
    if not git_folder or git_folder == UNKNOWN:
        return ""
    common = find_common(git_folder)
    remotes = os.path.join(common, "refs", "remotes")
    names = os.listdir(remotes) if os.path.isdir(remotes) else []
    head = read_text(os.path.join(remotes, "origin", "HEAD")).strip()
    return head.removeprefix(_HEAD) if names == ["origin"] and head.startswith(_HEAD) else ""
