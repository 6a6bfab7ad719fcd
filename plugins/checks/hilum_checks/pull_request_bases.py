"""Decide which branch a new pull request targets if its command names none."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hilum_guard import UNKNOWN

from hilum_checks.code_texts import read_text
from hilum_checks.forge_options import may_have_more_options, read_forge_command
from hilum_checks.git_folders import find_common, find_git_folder
from hilum_checks.model import Commands, Words

if TYPE_CHECKING:
    from hilum_checks.command_facts import CommandFacts

# The commands that open a pull request, with the option that names its base, and the options with
# which it goes to another repository, or is not opened here.
_OPENING: dict[Words, tuple[str, Words]] = {
    ("gh", "pr", "create"): (
        "--base",
        ("-B", "--base", "-R", "--repo", "-w", "--web", "--dry-run"),
    ),
    ("glab", "mr", "create"): (
        "--target-branch",
        ("-b", "--target-branch", "-R", "--repo", "--target-project", "-w", "--web"),
    ),
}
_HEAD = "ref: refs/remotes/origin/"


def may_target_other(constraint: Commands, command: CommandFacts) -> bool:
    """Return whether a command opens a pull request that names no base, and may have a wrong one.

    `gh pr create` takes the default branch of the remote, which Git notes when it clones. If it is
    not noted, or if there are several remotes, the branch is unknown. To name the base costs
    nothing, so that nobody needs to be asked.

    Args:
        constraint: The constraint.
        command: The command.
    """
    request = read_forge_command(command.effects.program, command.words)
    if request is None or request.verbs not in _OPENING:
        return False
    option, elsewhere = _OPENING[request.verbs]
    naming = (*request.verbs, option)
    allowed = {words[-1] for words in constraint.unless if words[:-1] == naming}
    if not allowed or naming not in constraint.patterns or may_have_more_options(request):
        return False
    is_help = not {"--help", "-h"}.isdisjoint(command.words)
    if is_help or request.find_last(*elsewhere) is not None:
        return False
    return _read_default_branch(command) not in allowed


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
