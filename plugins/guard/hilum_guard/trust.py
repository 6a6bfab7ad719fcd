"""Trust in folders: nothing of a project that can execute is loaded before the user has said that it may.

Trust is bound to the folder's real path and to a digest of everything in its ``.hilum`` that can execute; after a change it
has to be given again. What is new there is taken for executable, unless it is known to be text or to narrow only.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import attrs
from hilum import HilumError, UsageError, config_folder, errors

FILE = "trust.toml"
TABLE = "folders"
MOST_FILES, MOST_BYTES = 2_000, 20_000_000
# They can only narrow what an agent may do, or are text for its prompt; everything else in the folder counts.
_HARMLESS_FILES = frozenset({"permissions.toml", "settings.toml", ".gitignore"})
_TEXT_FOLDERS = frozenset({"rules", "memory"})

State = Literal["trusted", "changed", "unknown"]


def trusted(workspace: str | os.PathLike[str]) -> bool:
    """Tell whether what a project brings along may be executed. Blocks. Whatever cannot be told is a no."""
    try:
        return Trust().state(workspace) == "trusted"
    except HilumError:
        return False


@attrs.frozen
class Trust:
    """The folders that the user trusts.

    Args:
        config: The user's folder of configuration.
    """

    config: Path = attrs.field(factory=config_folder)

    @property
    def file(self) -> Path:
        """Where it is written down."""
        return self.config / FILE

    def state(self, workspace: str | os.PathLike[str]) -> State:
        """Tell whether a folder is trusted, was trusted before something in it changed, or is unknown.

        Raises:
            UsageError: The folder's configuration, or the file of trusted folders, cannot be read.
        """
        root = os.path.realpath(workspace)
        known = self.folders().get(root)
        return "unknown" if known is None else "trusted" if known == digest(root) else "changed"

    def folders(self) -> dict[str, str]:
        """Give the digests of the trusted folders by real path.

        Raises:
            UsageError: The file cannot be read.
        """
        if not os.path.lexists(self.file):
            return {}
        import tomllib

        try:
            table = tomllib.loads(self.file.read_text(encoding="utf-8")).get(TABLE, {})
            if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
                raise ValueError(f"[{TABLE}] must have a digest for each folder")
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(f"{self.file} cannot be read: {error}.", hint="Mend or remove it.") from None
        return table

    def add(self, workspace: str | os.PathLike[str]) -> list[str]:
        """Trust a folder as it is now; gives the files that may execute.

        Raises:
            UsageError: There is no such folder, its configuration cannot be vouched for, or the file cannot be written.
        """
        root = os.path.realpath(workspace)
        if not os.path.isdir(root):
            raise UsageError(f"There is no folder {root}.", hint="Name an existing folder.")
        seen = digest(root)
        self._change(root, seen)
        return executable(root)

    def remove(self, workspace: str | os.PathLike[str]) -> bool:
        """Trust a folder no more; gives whether it was trusted."""
        root = os.path.realpath(workspace)
        known = root in self.folders()
        if known:
            self._change(root, None)
        return known

    def _change(self, root: str, value: str | None) -> None:
        from hilum_settings import ChangeError, change

        try:
            change(self.file, [TABLE, root], value)
        except ChangeError as error:
            raise UsageError(str(error), hint="Mend or remove the file.") from None


def executable(workspace: str | os.PathLike[str]) -> list[str]:
    """Give what a project brings along that can execute: paths in its ``.hilum``, relative to the project.

    Raises:
        UsageError: It cannot be vouched for: too much, unreadable, or no plain files and folders.
    """
    return [name for name, _ in _files(os.path.realpath(workspace))]


def digest(workspace: str | os.PathLike[str]) -> str:
    """Give the digest of what ``executable`` lists: names, modes and contents. Raises as that does."""
    total = hashlib.sha256()
    for name, path in _files(os.path.realpath(workspace)):
        status = os.stat(path)
        try:
            content = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        except OSError as error:
            raise _unsure(name, error.strerror or "it cannot be read") from None
        total.update(f"{len(os.fsencode(name))}:".encode() + os.fsencode(name))
        total.update(f"{bool(status.st_mode & 0o111):d}{content}".encode())
    return f"sha256:{total.hexdigest()}"


def _files(root: str) -> Iterator[tuple[str, str]]:
    """Give name and path of each file that counts, in order."""
    top = os.path.join(root, ".hilum")
    if not os.path.lexists(top):
        return
    if os.path.islink(top) or not os.path.isdir(top):
        raise _unsure(".hilum", "it is a link or a file, not a folder")
    found: list[tuple[str, str]] = []
    size = 0
    for folder, folders, files in os.walk(top, onerror=_unreadable):
        inside = os.path.relpath(folder, top)
        if inside == ".":
            folders[:] = [name for name in folders if name not in _TEXT_FOLDERS]
            files = [name for name in files if name not in _HARMLESS_FILES]
        for name in (*files, *(name for name in folders if os.path.islink(os.path.join(folder, name)))):
            path = os.path.join(folder, name)
            shown = os.path.relpath(path, root)
            if os.path.islink(path) or not os.path.isfile(path):
                raise _unsure(shown, "it is a link or no plain file, and may be another thing tomorrow")
            size += os.path.getsize(path)
            found.append((shown, path))
        if len(found) > MOST_FILES or size > MOST_BYTES:
            raise _unsure(".hilum", f"there are more than {MOST_FILES:,} files or {MOST_BYTES // 1_000_000} MB in it")
    yield from sorted(found)


def _unreadable(error: OSError) -> None:
    raise _unsure(str(error.filename), error.strerror or "it cannot be read")


def _unsure(name: str, why: str) -> UsageError:
    return UsageError(
        f"{name} cannot be vouched for: {why}.", code=errors.E_FAILED, hint="Put plain files in its place."
    )
