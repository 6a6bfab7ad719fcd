"""Find the Git folder that a Git command uses, and read its branches without starting Git."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hilum_guard import UNKNOWN, git_words, resolve_links

from hilum_checks.code_texts import read_text

if TYPE_CHECKING:
    from hilum_checks.command_facts import CommandFacts

MAX_PACKED = 8_000_000
"""Maximum number of characters to read of the packed references."""
MAX_LINKS = 5
"""Maximum number of symbolic references to follow."""
# Variables that determine the repository, whatever the working folder is.
_FOLDER_VARIABLES = frozenset(("GIT_DIR", "GIT_COMMON_DIR"))
_FOLDER_ASSIGNMENT = re.compile(r"(?:GIT_DIR|GIT_COMMON_DIR)=")


def list_commands(command: CommandFacts) -> Iterator[CommandFacts]:
    """Yield a command and the preceding commands of its call, latest first."""
    current: CommandFacts | None = command
    while current is not None:
        yield current
        current = current.previous


def sets_git_folder(command: CommandFacts) -> bool:
    """Return whether a command sets a variable that determines the repository."""
    if not _FOLDER_VARIABLES.isdisjoint(command.command.assigned):
        return True
    return any(_FOLDER_ASSIGNMENT.match(word) for word in command.words)


def find_folder(command: CommandFacts) -> str:
    """Return the folder in which a Git command runs; it contains `…` if it is unknown."""
    folder = command.cwd or UNKNOWN
    front = _front(command)
    for number, word in enumerate(front):
        if word == "-C":
            folder = os.path.join(folder, "".join(front[number + 1 : number + 2]))
    return os.path.normpath(os.path.expanduser(folder))


def find_git_folder(command: CommandFacts) -> str:
    """Return the Git folder of a command's working tree.

    Returns:
        The folder, resolved; empty if there is no repository, and `…` if it is unknown.
    """
    if any(map(sets_git_folder, list_commands(command))):
        return UNKNOWN
    folder = find_folder(command)
    front = _front(command)
    for number, word in enumerate(front):
        name, equals, value = word.partition("=")
        if name == "--git-dir":
            chosen = value if equals else "".join(front[number + 1 : number + 2])
            folder = os.path.join(folder, os.path.expanduser(chosen))
            if UNKNOWN not in folder:
                return _follow(folder) or UNKNOWN
    return UNKNOWN if UNKNOWN in folder else find_containing(folder)


def _front(command: CommandFacts) -> tuple[str, ...]:
    """Return the words before the sub-command of Git."""
    return command.words[1 : len(command.words) - len(git_words(command.words)) + 1]


def find_containing(folder: str) -> str:
    """Return the Git folder of the working tree that contains a folder; empty if there is none."""
    while True:
        found = _follow(os.path.join(folder, ".git"))
        if not found and _is_git_folder(folder):
            found = resolve_links(folder)
        if found or folder == os.path.dirname(folder):
            return found
        folder = os.path.dirname(folder)


def _is_git_folder(folder: str) -> bool:
    """Return whether a folder is a Git folder, in which Git commands may run, too."""
    names = ("objects", "commondir")
    has_data = any(os.path.lexists(os.path.join(folder, name)) for name in names)
    return has_data and os.path.isfile(os.path.join(folder, "HEAD"))


def _follow(path: str) -> str:
    """Return the Git folder that a path is or points to; empty if it does neither."""
    if os.path.isfile(path):  # in a worktree or a submodule
        link = re.match(r"gitdir: (.+)", read_text(path))
        if link is None:
            return ""
        path = os.path.join(os.path.dirname(path), link[1].strip())
    return resolve_links(path) if os.path.isfile(os.path.join(path, "HEAD")) else ""


def find_common(git_folder: str) -> str:
    """Return the Git folder that contains the branches of a Git folder."""
    common = read_text(os.path.join(git_folder, "commondir")).strip()
    return resolve_links(os.path.join(git_folder, common)) if common else git_folder


def read_head(git_folder: str) -> str:
    """Return the branch that is checked out, the commit if none is, or `…` if unknown."""
    # Read `HEAD` instead of starting Git, which would take milliseconds for each judged call.
    head = read_text(os.path.join(git_folder, "HEAD")).strip()
    if head.endswith("/.invalid"):  # the references are in a database (reftable)
        return UNKNOWN
    common = find_common(git_folder)
    for _ in range(MAX_LINKS):
        target = head.removeprefix("ref: ")
        # A branch may be a symbolic reference to another branch, which a commit then changes.
        inner = read_text(os.path.join(common, target)).strip() if target != head else ""
        if not inner.startswith("ref: "):
            break
        head = inner
    return head.removeprefix("ref: ").removeprefix("refs/heads/")


def has_reference(git_folder: str, reference: str) -> bool:
    """Return whether a repository has a reference with a full name, such as `refs/heads/main`."""
    common = find_common(git_folder)
    if os.path.isfile(os.path.join(common, reference)):
        return True
    packed = read_text(os.path.join(common, "packed-refs"), MAX_PACKED)
    return f" {reference}\n" in f"{packed}\n"


def has_remote_branch(git_folder: str, name: str) -> bool:
    """Return whether a remote has a branch with a name, which a checkout would create locally."""
    common = find_common(git_folder)
    remotes = os.path.join(common, "refs", "remotes")
    found = os.listdir(remotes) if os.path.isdir(remotes) else []
    if any(os.path.isfile(os.path.join(remotes, each, name)) for each in found):
        return True
    packed = read_text(os.path.join(common, "packed-refs"), MAX_PACKED)
    return re.search(rf" refs/remotes/[^/\n]+/{re.escape(name)}$", packed, re.MULTILINE) is not None
