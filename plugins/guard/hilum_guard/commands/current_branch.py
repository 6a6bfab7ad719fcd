"""Predict what Git commands that name the current branch print.

`git push origin "$(git branch --show-current)"` must be judged by the branch that it pushes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from hilum_guard.commands.shell_commands import ParsedCommand
from hilum_guard.commands.shell_words import UNKNOWN
from hilum_guard.effects.git_effects import git_words
from hilum_guard.programs.program_names import SHELLS, get_program_name
from hilum_guard.repositories.git_metadata import common_folder, pointed
from hilum_guard.small_files import read_small_file

MAX_PACKED = 8_000_000
"""Maximum size of the packed references, in bytes."""
_PREFIX = "refs/heads/"
# The commands that print the current branch, with what they print before its name.
_PRINTED = {
    "branch --show-current": "",
    "rev-parse --abbrev-ref HEAD": "",
    "rev-parse --abbrev-ref @": "",
    "rev-parse --symbolic-full-name HEAD": _PREFIX,
    "symbolic-ref --short HEAD": "",
    "symbolic-ref --short -q HEAD": "",
    "symbolic-ref -q --short HEAD": "",
    "symbolic-ref HEAD": _PREFIX,
    "symbolic-ref -q HEAD": _PREFIX,
}
# Sub-commands after which the same branch is checked out.
_KEEPS_BRANCH = frozenset(
    "add am apply blame cat-file cherry-pick commit describe diff fetch for-each-ref grep log ls-files ls-remote"
    " ls-tree merge merge-base mv pull push remote reset restore rev-list rev-parse revert rm shortlog"
    " show status tag var".split()
)
_LISTS_BRANCHES = re.compile(
    r"-(?:a|r|v|vv|d|D)|--(?:all|list|remotes|show-current|verbose|delete)"
)
_BRANCH_NAME = re.compile(r"[A-Za-z0-9][\w./+-]*")
# Words of other programs that may check out a branch, or change what Git reads.
_MAY_SWITCH = re.compile(
    r"checkout|switch|worktree|rebase|symbolic-ref|\bclone\b|\.git(?:/|\Z)|\bHEAD\b", re.IGNORECASE
)


def predict_branch(command: ParsedCommand, earlier: Iterable[ParsedCommand]) -> str | None:
    """Return what a Git command prints if it prints the current branch, or None. Reads the disk.

    Args:
        command: The command.
        earlier: The commands that run before it.
    """
    words = [word.value for word in command.words]
    before = _PRINTED.get(" ".join(words[1:])) if words[0] == "git" else None
    if before is None or command.checker.elsewhere or not all(word.known for word in command.words):
        return None
    # A variable may name another repository.
    if command.assigned or any(name.startswith("GIT_") for name, _ in command.environment):
        return None
    if len(set(command.cwds)) != 1 or command.cwd is None:
        return None
    git_folder = _find_git_folder(command.cwd)
    branch = _read_branch(git_folder) if git_folder else ""
    for each in earlier:
        branch = _find_branch_after(each, branch, git_folder) if branch else ""
    return f"{before}{branch}\n" if branch else None


def _find_git_folder(folder: str) -> str:
    """Return the Git folder of the working tree that contains a folder; empty if unknown."""
    while True:
        path = os.path.join(folder, ".git")
        if os.path.isdir(path):
            return path
        if os.path.lexists(path):
            return pointed(path)
        if folder == os.path.dirname(folder):
            return ""
        folder = os.path.dirname(folder)


def _read_branch(git_folder: str) -> str:
    """Return the branch that is checked out; empty if there is none, or if it is unknown."""
    head = os.fsdecode(read_small_file(os.path.join(git_folder, "HEAD"), 4096) or b"").strip()
    name = head.removeprefix(f"ref: {_PREFIX}")
    # With references in a database (reftable), the file does not contain the branch.
    if name == head or name == ".invalid" or not _BRANCH_NAME.fullmatch(name):
        return ""
    return "" if _is_symbolic(git_folder, name) else name


def _is_symbolic(git_folder: str, branch: str) -> bool:
    """Return whether a branch is only another name of a branch."""
    path = os.path.join(common_folder(git_folder) or git_folder, _PREFIX, branch)
    return (read_small_file(path, 4096) or b"").startswith(b"ref:")


def _has_branch(git_folder: str, branch: str) -> bool:
    common = common_folder(git_folder) or git_folder
    if os.path.isfile(os.path.join(common, _PREFIX, branch)):
        return True
    packed = read_small_file(os.path.join(common, "packed-refs"), MAX_PACKED) or b""
    return f" {_PREFIX}{branch}\n" in f"{os.fsdecode(packed)}\n"


def _find_branch_after(command: ParsedCommand, branch: str, git_folder: str) -> str:
    """Return the branch that is checked out after a command; empty if unknown.

    Args:
        command: The command.
        branch: The branch before it.
        git_folder: The Git folder.
    """
    values = tuple(word.value for word in command.words)
    targets = [redirect.target.value for redirect in command.redirects]
    if any(_MAY_SWITCH.search(target) or UNKNOWN in target for target in targets):
        return ""
    if not values:
        return branch
    if not command.words[0].known:
        return ""
    if values[0] != "git":
        # What a shell is given as text is read as commands of their own.
        is_read = get_program_name(command.words[0]) in SHELLS and values[1:2] != ()
        return branch if is_read or not any(map(_MAY_SWITCH.search, values)) else ""
    _, verb, *rest = (*git_words(values), "")
    if verb in _KEEPS_BRANCH or " ".join(values[1:]) in _PRINTED:
        return branch
    rest = rest[:-1]
    if verb == "branch":
        return branch if _LISTS_BRANCHES.fullmatch("".join(rest[:1])) else ""
    if verb == "stash":
        return "" if rest[:1] == ["branch"] else branch
    if verb == "rebase":
        # `git rebase UPSTREAM BRANCH` switches to the branch first.
        operands = [word for word in rest if not word.startswith("-") or UNKNOWN in word]
        return branch if len(operands) < 2 and UNKNOWN not in "".join(operands) else ""
    if verb not in ("checkout", "switch") or values[1] != verb:
        return ""
    if "--" in rest[:-1]:
        return branch  # it takes files
    return _find_switched(rest, git_folder)


def _find_switched(words: list[str], git_folder: str) -> str:
    """Return the branch after `git checkout` or `git switch` with some words; empty if unknown."""
    words = [word for word in words if word not in ("-q", "--quiet")]
    if words[:1] and words[0] in ("-b", "-c", "-B", "-C", "--create"):
        name = "".join(words[1:2])
        # Git refuses to create a branch that exists, so that the other one stays checked out.
        is_new = words[0] in ("-B", "-C") or not _has_branch(git_folder, name)
        is_plain = len(words) < 4 and not any(word.startswith("-") for word in words[1:])
        return name if is_new and is_plain and _BRANCH_NAME.fullmatch(name) else ""
    name = "".join(words[:1])
    is_switch = len(words) == 1 and _BRANCH_NAME.fullmatch(name) and _has_branch(git_folder, name)
    return name if is_switch else ""
