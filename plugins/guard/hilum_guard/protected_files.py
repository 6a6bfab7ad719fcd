"""Recognise the files that tools may use only with approval, or never."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from hilum import config_folder, data_folder, list_user_commands

from hilum_guard.file_names import folded, resolve_links
from hilum_guard.foreign.files import find_restricted_agent
from hilum_guard.repositories import git_metadata
from hilum_guard.rules.patterns import UNKNOWN
from hilum_guard.secrets.secret_names import NOT_SECRET, SECRET_NAMES, matches, original_names
from hilum_guard.secrets.secret_paths import SecretFiles
from hilum_guard.watching import executed_files

RESTRICTING_FILE = "a file that restricts the agent"
"""The source of a verdict on the change of a file that restricts the agent itself."""
_SECRET_FOLDERS = frozenset({".ssh", ".aws", ".gnupg", ".kube", ".docker", ".azure", ".gcloud"})
# All sessions in this process share one finder, because it caches unchanged folders.
_FILES = SecretFiles()
_SOURCE = tuple(
    ".py .pyi .js .mjs .ts .tsx .jsx .go .rs .java .kt .c .h .cpp .cs .rb .php .swift .md .rst"
    " .html .css".split()
)


def own(path: Path) -> bool:
    """Return whether a resolved path is in hilum's folders for rules, trust, keys or sessions."""
    own_folders = map(resolve_links, (config_folder(), data_folder()))
    return any(path.is_relative_to(folder) for folder in own_folders)


def governing(path: str) -> str:
    """Return the program that executes a file or takes commands from it; empty if none does.

    Args:
        path: The file's path relative to the workspace; the file need not exist.
    """
    found = executed_files.find_path(path)
    if found is None:
        return ""
    part, row = found
    return f"{row.program} executes {part} or takes commands from it {row.when}"


def restricting(path: str) -> str:
    """Return why a file restricts the agent itself; empty if it does not.

    No lasting approval covers such a file: with a rule that the user stored for another purpose, the
    agent could remove what forbids it something.

    Args:
        path: The file's path relative to the workspace; the file need not exist.
    """
    parts = [folded(part) for part in path.split("/") if part]
    # The folders in `.hilum` contain agents, skills and commands, and the files what restricts.
    if ".hilum" in parts[-2:]:
        return "it contains settings and rules of hilum, so each change needs approval"
    agent = find_restricted_agent(path)
    if agent:
        return f"it may contain restrictions by {agent}, so each change needs approval"
    return ""


def metadata(place: str) -> str:
    """Return why the files next to a file make it Git metadata; empty if they do not.

    Args:
        place: The file's resolved path; the file need not exist.
    """
    folder = git_metadata.completed(place)
    if not folder:
        return ""
    return (
        f"with its neighbours, {os.path.basename(folder)} is a Git folder, from which git takes"
        " commands"
    )


def secret(path: str) -> str:
    """Return why a file looks like a secret; empty if it does not.

    Args:
        path: Relative to the workspace.
    """
    *folders, name = path.split("/")
    if any(folded(part) in _SECRET_FOLDERS for part in folders):
        return "files there contain keys and passwords"
    if any(map(_is_secret_name, original_names(name))):
        return f"{name} is a name for files with keys and passwords"
    return ""


def _is_secret_name(name: str) -> bool:
    low = folded(name)
    return (
        matches(name, SECRET_NAMES)
        and not re.fullmatch(NOT_SECRET, low)
        and not low.endswith(_SOURCE)
    )


def linked_secret(place: Path, path: str) -> str:
    """Return why a file is a secret if it is a hard link to a secret; otherwise empty. Blocks.

    Args:
        place: The file, resolved.
        path: The same path, relative to the workspace.
    """
    root = str(place).removesuffix(f"/{path}")
    try:
        # Most files have only one name, so the search for hard links is skipped for them.
        status = place.stat()
    except (OSError, ValueError):
        return ""
    if root == str(place) or status.st_nlink < 2:
        return ""
    if str(place) not in _FILES.links(root):
        return ""
    return "it is another name (a hard link) of a file with keys and passwords"


def hidden(place: Path, path: str) -> str:
    """Return why sending a file to a model needs approval; empty if it does not.

    Args:
        place: The file, resolved.
        path: The file's displayed path, relative to the workspace.
    """
    if own(place):
        return "it is in hilum's own folders"
    return secret(path) or linked_secret(place, path)


def governs_hilum(words: Sequence[str], cwd: str | None) -> str:
    """Return why a simple command may change hilum's own files; empty if it does not.

    Args:
        words: Program and arguments.
        cwd: The command's working folder, if known.
    """
    why = _explain_own_command(_find_own_arguments(words))
    if why:
        return why
    for word in words:
        # The path may be an option's value: `--output=path`.
        value = word.rpartition("=")[2]
        path = os.path.join(cwd or "/", os.path.expanduser(value))
        is_path = "/" in word or os.path.lexists(path)
        if is_path and own(Path(resolve_links(path))):
            return f"{word} is in hilum's own folders"
    return ""


def _find_own_arguments(words: Sequence[str]) -> list[str]:
    """Return the arguments of a command that runs hilum, without options; empty for others."""
    if not words:
        return []
    arguments = list(words[1:])
    name = os.path.basename(words[0])
    if name.startswith("python"):
        # `python -I -m hilum trust`
        for number, word in enumerate(arguments):
            if (
                word.endswith("m")
                and word.startswith("-")
                and arguments[number + 1 :][:1] == ["hilum"]
            ):
                name = "hilum"
                arguments = arguments[number + 2 :]
                break
    if name != "hilum":
        return []
    return [word for word in arguments if not word.startswith("-")]


def _explain_own_command(words: list[str]) -> str:
    """Return why only the user may run a hilum sub-command; empty if agents may also run it."""
    if not words:
        return ""
    for name in list_user_commands():
        command, *actions = name.split()
        # The value of an option may come before the action.
        if _may_be(words[0], command) and all(
            any(_may_be(word, action) for word in words[1:]) for action in actions
        ):
            return f"only the user may run hilum {name}"
    return ""


def _may_be(word: str, wanted: str) -> bool:
    """Return whether a word is the wanted one, or is known only when the command runs."""
    return word == wanted or UNKNOWN in word
