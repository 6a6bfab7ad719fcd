"""What a project brings along that widens what an agent can do there: the files, and what each
holds.

All of ``.hilum`` but what is known to be text or to narrow only, and the folders from which skills
and agents of other programs are read: what stands there can name tools, give instructions and carry
scripts.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator

from hilum import UsageError, errors

OWN = ".hilum"
FOLDERS = (
    OWN,
    ".agents/skills",
    ".claude/agents",
    ".claude/skills",
    ".codex/agents",
    ".cursor/agents",
    ".gemini/agents",
    ".github/agents",
    ".github/chatmodes",
    ".opencode/agent",
    ".opencode/agents",
)
MOST_FILES = 2_000
MOST_BYTES = 20_000_000
DEEPEST = 40
# They can only narrow what an agent may do, or are text for its prompt; everything else in the
# folder counts.
_HARMLESS_FILES = frozenset({"permissions.toml", "settings.toml", ".gitignore"})
_TEXT_FOLDERS = frozenset({"rules", "memory"})
# A file whose status changed less than this ago may change once more without its times showing it.
_SETTLED = 2_000_000_000
_hashes: dict[str, tuple[tuple[int, ...], str]] = {}


def brought(root: str) -> dict[str, str]:
    """Return each file by path relative to the project, with a word that changes when its mode,
    content or link does. Blocks.

    Args:
        root: The project, resolved.

    Raises:
        UsageError: It cannot be vouched for: too much, unreadable, a link out of the project, or no
            plain file.
    """
    found: dict[str, str] = {}
    size = 0
    for folder in FOLDERS:
        for name, path in _files(root, folder):
            if path is None:
                found[name] = "link"
                continue
            found[name], length = _word(name, path)
            size += length
            if len(found) > MOST_FILES or size > MOST_BYTES:
                why = (
                    f"there are more than {MOST_FILES:,} files or {MOST_BYTES // 1_000_000} MB"
                    " in it"
                )
                raise _unsure(folder, why)
    return dict(sorted(found.items()))


def _files(root: str, folder: str) -> Iterator[tuple[str, str | None]]:
    """Yield name and path of each file that counts.

    No path for a folder that is a link out of the project: none reads it.
    """
    top = os.path.join(root, folder)
    if not os.path.lexists(top):
        return
    if folder == OWN and (os.path.islink(top) or not os.path.isdir(top)):
        raise _unsure(folder, "it is a link or a file, not a folder")
    if not _inside(top, root):
        yield folder, None
    elif os.path.isdir(top):
        yield from _walk(root, top, set())


def _walk(root: str, folder: str, above: set[str]) -> Iterator[tuple[str, str]]:
    real = os.path.realpath(folder)
    if real in above or len(above) == DEEPEST:
        raise _unsure(
            os.path.relpath(folder, root), "it is too deep, or a link to a folder above it"
        )
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise _unsure(
            os.path.relpath(folder, root), error.strerror or "it cannot be read"
        ) from None
    own = folder == os.path.join(root, OWN)
    for name in names:
        path = os.path.join(folder, name)
        shown = path[len(os.path.join(root, "")) :]
        is_folder = os.path.isdir(path)
        if own and name in (_TEXT_FOLDERS if is_folder else _HARMLESS_FILES):
            continue
        if os.path.islink(path) and not _inside(path, root):
            raise _unsure(
                shown, "it is a link out of the project, and may be another thing tomorrow"
            )
        if is_folder:
            yield from _walk(root, path, above | {real})
        elif os.path.isfile(path):
            yield shown, path
        else:
            raise _unsure(
                shown, "it is a link to nothing or no plain file, and may be another thing tomorrow"
            )


def _inside(path: str, root: str) -> bool:
    return os.path.realpath(path).startswith(os.path.join(root, ""))


def _word(name: str, path: str) -> tuple[str, int]:
    """Return the word for a file, and its size.

    Its content is read again only when its status says that it changed.
    """
    try:
        status = os.stat(path)
        stamp = (
            status.st_dev,
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
        )
        known = _hashes.get(path)
        if known is None or known[0] != stamp:
            if status.st_size > MOST_BYTES:
                raise _unsure(name, f"it has more than {MOST_BYTES // 1_000_000} MB")
            with open(path, "rb") as file:
                known = stamp, hashlib.sha256(file.read()).hexdigest()
            # Windows has no time of the last change of a status: there the times can be set back.
            if os.name != "nt" and time.time_ns() - status.st_ctime_ns > _SETTLED:
                _hashes[path] = known
    except OSError as error:
        raise _unsure(name, error.strerror or "it cannot be read") from None
    return f"{bool(status.st_mode & 0o111):d}{known[1]}", status.st_size


def digest(files: dict[str, str]) -> str:
    """Return one digest of what ``brought`` gives."""
    total = hashlib.sha256()
    for name, word in files.items():
        total.update(f"{len(os.fsencode(name))}:".encode() + os.fsencode(name) + word.encode())
    return f"sha256:{total.hexdigest()}"


def _unsure(name: str, why: str) -> UsageError:
    return UsageError(
        f"{name} cannot be vouched for: {why}.",
        code=errors.E_FAILED,
        hint="Put plain files in its place.",
    )
