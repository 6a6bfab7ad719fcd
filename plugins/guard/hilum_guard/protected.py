"""Files that file tools may not touch by the way: what governs an agent or is run later, what holds
secrets, hilum's own.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from hilum import config_folder, data_folder

from hilum_guard import executed, repositories
from hilum_guard.names import folded
from hilum_guard.places import NOT_SECRET, SECRET_NAMES, matches
from hilum_guard.secret_names import original_names
from hilum_guard.secret_paths import SecretFiles

_SECRET_FOLDERS = frozenset({".ssh", ".aws", ".gnupg", ".kube", ".docker", ".azure", ".gcloud"})
_FILES = SecretFiles()  # it remembers folders that did not change
_SOURCE = tuple(
    ".py .pyi .js .mjs .ts .tsx .jsx .go .rs .java .kt .c .h .cpp .cs .rb .php .swift .md .rst"
    " .html .css".split()
)


def own(path: Path) -> bool:
    """Return whether a resolved path is in hilum's own folders, where rules, trust, keys and
    sessions are kept.
    """
    return any(
        path.is_relative_to(os.path.realpath(folder)) for folder in (config_folder(), data_folder())
    )


def governing(path: str) -> str:
    """Return why a file may be written with the user's yes only.

    Empty if it need not be asked for that.

    Args:
        path: Relative to the workspace, existing or not.
    """
    found = executed.find_path(path)
    if found is None:
        return ""
    part, row = found
    return f"{row.program} executes {part} or takes commands from it {row.when}"


def metadata(place: str) -> str:
    """Return why a file is Git's metadata by what is beside it, whatever its folder is called.

    Empty if it is not.

    Args:
        place: The file, resolved, existing or not.
    """
    folder = repositories.completed(place)
    if not folder:
        return ""
    return (
        f"with what is beside it {os.path.basename(folder)} is a Git folder, from which git takes"
        " commands"
    )


def secret(path: str) -> str:
    """Return why a file is read with the user's yes only; empty if it does not look like a secret.

    Args:
        path: Relative to the workspace.
    """
    *folders, name = path.split("/")
    if any(folded(part) in _SECRET_FOLDERS for part in folders):
        return "files there hold keys and passwords"
    if any(map(_is_secret_name, original_names(name))):
        return f"{name} is a name for files with keys and passwords"
    return ""


def _is_secret_name(name: str) -> bool:
    low = folded(name)
    return (
        matches(name, SECRET_NAMES) and not NOT_SECRET.fullmatch(low) and not low.endswith(_SOURCE)
    )


def linked_secret(place: Path, path: str) -> str:
    """Return why a file is read only after the user's approval: it is a hard link to a file of
    secrets. Blocks.

    Args:
        place: The file, resolved.
        path: The same relative to the workspace.
    """
    root = str(place).removesuffix(f"/{path}")
    try:
        status = place.stat()
    except (OSError, ValueError):
        return ""
    if root == str(place) or status.st_nlink < 2:
        return ""
    if str(place) not in _FILES.links(root):
        return ""
    return "it is another name (a hard link) of a file with keys and passwords"


def hidden(place: Path, path: str) -> str:
    """Return why the text of a file gets to no model unasked.

    Empty if nothing in its path speaks against it.

    Args:
        place: The file, resolved.
        path: The same as it is shown: relative to the workspace.
    """
    if own(place):
        return "it is in hilum's own folders"
    return secret(path) or linked_secret(place, path)


def governs_hilum(words: Sequence[str], cwd: str | None) -> str:
    """Return why a simple command changes what governs hilum.

    Empty if it does not by what can be read.

    Args:
        words: Program and arguments.
        cwd: Folder it runs in, if known.
    """
    program = os.path.basename(words[0]) if words else ""
    inner = [word for word in words[1:] if not word.startswith("-")]
    if program == "hilum" and inner[:1] and inner[0] in ("permissions", "trust", "plugins"):
        return f"hilum {inner[0]} is the user's"
    if (
        program == "hilum"
        and inner[:1] == ["skills"]
        and not {*inner[1:2]} <= {"list", "show", "validate"}
    ):
        return "what skills there are is the user's choice"
    for word in words:
        path = os.path.join(cwd or "/", os.path.expanduser(word.rpartition("=")[2]))
        if ("/" in word or os.path.lexists(path)) and own(Path(os.path.realpath(path))):
            return f"{word} is in hilum's own folders"
    return ""
