"""The folders that the user trusts, and the check whether they have changed since then.

Trust is bound to the folder's real path and to a digest of its files (see ``hash_files``). After a
change, the user must trust the folder again. A list of the files is stored next to the digest, so
that hilum can name the changed files. The list has no effect on trust.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Literal

import attrs

from hilum import settings
from hilum.errors import HilumError, UsageError
from hilum.private_folders import make_private_folder
from hilum.settings import config_folder
from hilum.store import spell_folder, unspell_folder
from hilum.trust.files import combine_hashes, hash_files

FILE = "trust.toml"
TABLE = "folders"
LISTS_FOLDER = "trust"
MAX_SHOWN = 8

State = Literal["trusted", "changed", "unknown"]


def is_trusted(workspace: str | os.PathLike[str]) -> bool:
    """Return whether the files of a project may be executed. Blocks.

    A folder whose state cannot be determined is not trusted.
    """
    try:
        return TrustedFolders().state(workspace) == "trusted"
    except HilumError:
        return False


def explain_distrust(workspace: str | os.PathLike[str]) -> str:
    """Return why the files of a project must not be executed, and what to do about it. Blocks.

    The text is empty if the folder is trusted.
    """
    folders = TrustedFolders()
    try:
        state = folders.state(workspace)
        if state == "trusted":
            return ""
        if state == "unknown":
            return "You do not trust this project yet. `hilum trust` trusts it."
        changes = folders.changes(workspace)
    except HilumError as error:
        return str(error)
    shown = ", ".join(changes[:MAX_SHOWN])
    if len(changes) > MAX_SHOWN:
        shown += f" and {len(changes) - MAX_SHOWN} more"
    listed = f": {shown}" if shown else ""
    return (
        f"Files of this project changed since you trusted it{listed}. Review them; `hilum trust`"
        " trusts the project again."
    )


@attrs.frozen
class TrustedFolders:
    """The folders that the user trusts.

    Args:
        config: The user's configuration folder.
    """

    config: Path = attrs.field(factory=config_folder)

    @property
    def file(self) -> Path:
        """The path of the file with the digests of the trusted folders."""
        return self.config / FILE

    def state(self, workspace: str | os.PathLike[str]) -> State:
        """Return whether a folder is trusted, has changed since it was trusted, or is unknown.

        Raises:
            UsageError: A file of the project, or the file of trusted folders, cannot be read.
        """
        root = _resolve(workspace)
        known = self.folders().get(spell_folder(root))
        if known is None:
            return "unknown"
        if known == combine_hashes(hash_files(root)):
            return "trusted"
        return "changed"

    def changes(self, workspace: str | os.PathLike[str]) -> list[str]:
        """Return which files were added, changed or deleted since a folder was trusted.

        The list is empty if the files at the time of trusting are no longer known.

        Raises:
            UsageError: See ``state``.
        """
        root = _resolve(workspace)
        old = self._read_list(root)
        if old is None:
            return []
        new = hash_files(root)
        words = {name: "gone" for name in old if name not in new}
        for name, value in new.items():
            if name not in old:
                words[name] = "new"
            elif value != old[name]:
                words[name] = "changed"
        return [f"{word} {name}" for name, word in sorted(words.items())]

    def folders(self) -> dict[str, str]:
        """Return the digests of the trusted folders, by real path in the form of ``spell_folder``.

        Raises:
            UsageError: The file of trusted folders cannot be read.
        """
        if not os.path.lexists(self.file):
            return {}
        import tomllib  # takes 7 ms, needed only by users who have this file

        try:
            table = tomllib.loads(self.file.read_text(encoding="utf-8")).get(TABLE, {})
            if not isinstance(table, dict) or not all(
                isinstance(value, str) for value in table.values()
            ):
                raise ValueError(f"[{TABLE}] must have a digest for each folder")
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(
                f"{self.file} cannot be read: {error}.", hint="Correct or remove it."
            ) from None
        return table

    def add(self, workspace: str | os.PathLike[str]) -> list[str]:
        """Trust a folder as it is now, and return those of its files that may now be executed.

        Raises:
            UsageError: The folder does not exist, one of its files cannot be trusted, or the file
                of trusted folders cannot be written.
        """
        root = _resolve(workspace)
        if not os.path.isdir(root):
            raise UsageError(
                f"There is no folder {spell_folder(root)}.", hint="Name an existing folder."
            )
        hashes = hash_files(root)
        self._change(root, combine_hashes(hashes))
        # The list of files is written after the digest, which alone decides about trust. If hilum
        # ends in between, only the names of changed files are unknown.
        self._write_list(root, hashes)
        return list(hashes)

    def add_if_only_changed(self, workspace: str | os.PathLike[str], path: Path) -> None:
        """Trust a folder again if only one file, which hilum itself changed, differs.

        Args:
            workspace: The folder, which must have been trusted before the change.
            path: The file.
        """
        changed = [change.partition(" ")[2] for change in self.changes(workspace)]
        if changed == [os.path.relpath(path, workspace)]:
            self.add(workspace)

    def remove(self, workspace: str | os.PathLike[str]) -> bool:
        """Stop trusting a folder, and return whether it was in the list of trusted folders."""
        root = _resolve(workspace)
        is_known = spell_folder(root) in self.folders()
        if is_known:
            self._change(root, None)
            self._list_file(root).unlink(missing_ok=True)
        return is_known

    def _list_file(self, root: str) -> Path:
        name = hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
        return self.config / LISTS_FOLDER / f"{name}.json"

    def _read_list(self, root: str) -> dict[str, str] | None:
        """Return the hashes of the files at the time of trusting; None if they are not known.

        A list that does not match the digest is damaged or out of date.
        """
        try:
            hashes: dict[str, str] = json.loads(self._list_file(root).read_bytes())
            known = self.folders().get(spell_folder(root))
            return hashes if combine_hashes(hashes) == known else None
        except (OSError, ValueError, TypeError, AttributeError, RecursionError):
            return None

    def _write_list(self, root: str, hashes: dict[str, str]) -> None:
        path = self._list_file(root)
        try:
            make_private_folder(path.parent)
            new = path.with_suffix(f".{os.urandom(4).hex()}")
            new.write_text(json.dumps(hashes))
            # The list is replaced atomically, because another process may be reading it.
            new.replace(path)
        except OSError:  # the list only serves to name changed files
            path.unlink(missing_ok=True)

    def _change(self, root: str, value: str | None) -> None:
        try:
            settings.change(self.file, [TABLE, spell_folder(root)], value)
        except settings.ChangeError as error:
            raise UsageError(str(error), hint="Correct or remove the file.") from None


def _resolve(workspace: str | os.PathLike[str]) -> str:
    """Return the real path of a folder, whose path may have the form of ``spell_folder``."""
    return os.path.realpath(unspell_folder(os.fspath(workspace)))
