"""Find repository settings that make Git run programs even when it only reads.

This module is separate from ``harmless_git``, because the content policy needs it in every session,
long before the first command.
"""

from __future__ import annotations

import os
import re
import struct

from hilum_guard.file_names import resolve_links
from hilum_guard.repositories.git_index import may_have_nested_repositories

MAX_SETTINGS = 100_000
"""Maximum number of characters in a settings file; a longer file counts as unreadable."""
# Repository settings that name programs, or include settings from elsewhere.
_RUNS = (
    r"(?i)fsmonitor|pager|sshcommand|editor|external|textconv|command|program|driver|hookspath|askpass"
    r"|helper|proxy|include|smudge|clean|process|showsignature|worktree\s*=|attributesfile"
    # To fetch missing objects from a promisor remote, Git runs `uploadpack`, or the program
    # `git-remote-NAME` that `vcs` names.
    r"|promisor|partialclone|uploadpack|receivepack|packobjects|vcs"
    # These settings make Git enter nested repositories, which have their own settings.
    r"|submodule\s*=|submodulesummary|recurse"
    # A different hash size changes the format of the index, which hilum must be able to read.
    r"|objectformat"
)


def is_bare_repository(folder: str) -> bool:
    """Return whether a folder is itself a Git folder. Reads the disk."""
    # HEAD may be a link to a branch that does not exist, and `commondir` may name another folder
    # that contains the objects.
    if not os.path.lexists(os.path.join(folder, "HEAD")):
        return False
    parts = (os.path.join(folder, name) for name in ("objects", "commondir"))
    return any(map(os.path.lexists, parts))


def repository_doubt(folder: str, *, enters_nested: bool = False) -> str:
    """Return why a repository's settings may make Git run programs even when it only reads.

    Args:
        folder: A folder in the repository.
        enters_nested: Whether the command enters nested repositories, as do commands that compare
            the working tree without ``--ignore-submodules=all``.

    Returns:
        A sentence; empty if the settings cannot run programs, or if the folder is not in a
        repository.
    """
    folder = resolve_links(folder)
    while True:
        # Git also reads settings from a bare repository, which an attacker may have added as data.
        if is_bare_repository(folder):
            return f"{folder} is a bare repository, whose settings may run programs."
        git = os.path.join(folder, ".git")
        if os.path.lexists(git):
            why = _find_settings_doubt(git, enters_nested)
            if why or _ends_search(git):
                return why
        if folder == "/":
            return ""
        folder = os.path.dirname(folder)


def _ends_search(git: str) -> bool:
    """Return whether it is certain that Git does not search above the folder of a `.git`.

    Git ignores a `.git` folder that is not a repository, and continues in the parent folder.
    """
    if os.path.isfile(git):
        return True
    head = os.path.join(git, "HEAD")
    if os.path.lexists(os.path.join(git, "commondir")) or os.path.islink(head):
        return False
    parts = [os.path.join(git, name) for name in ("objects", "refs")]
    if not all(os.access(part, os.X_OK) for part in parts):
        return False
    try:
        return re.match(_PLAIN_HEAD, _read_small(head)) is not None
    except (OSError, ValueError):
        return False


_PLAIN_HEAD = r"ref: refs/|[0-9a-f]{40}\n"


def _find_settings_doubt(git: str, enters_nested: bool) -> str:
    try:
        for folder in _find_git_folders(git):
            if enters_nested and may_have_nested_repositories(folder):
                return "Git enters nested repositories, whose settings may run programs."
            # Git updates the index even when it only reads files, and then runs this hook.
            if os.path.lexists(os.path.join(folder, "hooks", "post-index-change")):
                return "A repository hook runs a program."
            for name in ("config", "config.worktree"):
                path = os.path.join(folder, name)
                setting = _find_program_setting(path)
                if setting:
                    return (
                        f"The settings of the repository may run a program ({setting} in {path})."
                    )
    except (OSError, ValueError, IndexError, struct.error) as error:
        return f"The settings of the repository could not be read ({type(error).__name__})."
    return ""


def _find_git_folders(git: str) -> list[str]:
    """Return the Git folder that a `.git` refers to, and the one whose settings it uses."""
    if os.path.isfile(git):
        prefix, _, pointer = _read_small(git).partition(" ")
        if prefix != "gitdir:":
            raise ValueError("the file does not point to a folder")
        # Git removes only line endings: a trailing space belongs to the name.
        git = os.path.join(os.path.dirname(git), pointer.rstrip("\r\n"))
    common = os.path.join(git, "commondir")
    if not os.path.lexists(common):
        return [git]
    return [git, os.path.join(git, _read_small(common).rstrip("\r\n"))]


def _find_program_setting(path: str) -> str:
    """Return a setting in a file that may make Git run a program; empty if there is none."""
    if not os.path.lexists(path):
        return ""
    match = re.search(_RUNS, _remove_harmless_values(_read_small(path)))
    return match[0] if match else ""


def _read_small(path: str) -> str:
    """Return a settings file's text.

    Raises:
        ValueError: The file is not a regular file, is too long, or is not plain text. Reading only
            a part of the file would hide the rest.
    """
    if not os.path.isfile(path):
        raise ValueError("not a regular file")
    # Git ends lines only at `\n`.
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read(MAX_SETTINGS + 1)
    if len(text) > MAX_SETTINGS or "\0" in text:
        raise ValueError("too long, or not plain text")
    return text


def _remove_harmless_values(text: str) -> str:
    """Return settings without the values that may be any text: URLs, names and branches."""
    return re.sub(_HARMLESS_VALUES, "", text)


_HARMLESS_VALUES = (
    r"(?m)^\s*(url|pushurl|name|email|merge|remote|fetch|description)\s*=[^\\\n]*$"
    r"|^\s*\[(branch|remote) \"[^\"\\\n]*\"\]$"
)
