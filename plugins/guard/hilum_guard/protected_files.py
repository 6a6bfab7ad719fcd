"""Recognise the files that tools may use only with approval, or never."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from hilum import config_folder, data_folder

from hilum_guard.file_names import folded, resolve_links
from hilum_guard.repositories import git_metadata
from hilum_guard.secrets.secret_names import NOT_SECRET, SECRET_NAMES, matches, original_names
from hilum_guard.secrets.secret_paths import SecretFiles
from hilum_guard.watching import executed_files

_SECRET_FOLDERS = frozenset({".ssh", ".aws", ".gnupg", ".kube", ".docker", ".azure", ".gcloud"})
# All sessions in this process share one finder, because it caches unchanged folders.
_FILES = SecretFiles()
# With these commands, a model could give itself permissions or make hilum load other code.
_USER_COMMANDS = ("permissions", "trust", "plugins", "import")
_READING_SKILLS = ("list", "show", "validate")
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
    if words and os.path.basename(words[0]) == "hilum":
        why = _explain_own_command([word for word in words[1:] if not word.startswith("-")])
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


def _explain_own_command(words: list[str]) -> str:
    """Return why only the user may run a hilum sub-command; empty if agents may also run it."""
    if words[:1] == ["skills"]:
        if words[1:2] and words[1] not in _READING_SKILLS:
            return "only the user chooses which skills are installed"
    elif words[:2] == ["rules", "compile"]:
        return "only the user signs checks"
    elif words and words[0] in _USER_COMMANDS:
        return f"only the user may run hilum {words[0]}"
    return ""
