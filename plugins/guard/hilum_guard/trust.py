"""Trust in folders: nothing of a project that can execute is loaded before the user has said that
it may.

Trust is bound to the folder's real path and to a digest of what it brings along (see ``brought``);
after a change it has to be given again. Beside the digest a list of the files is kept, so that the
user can be told what changed; it decides nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Literal

import attrs
from hilum import HilumError, UsageError, config_folder
from hilum.store import spell_folder, unspell_folder

from hilum_guard.brought import brought, digest

FILE = "trust.toml"
TABLE = "folders"
LISTS = "trust"
TOLD = 8

State = Literal["trusted", "changed", "unknown"]


def trusted(workspace: str | os.PathLike[str]) -> bool:
    """Return whether what a project brings along may be executed.

    Blocks. Whatever cannot be told is a no.
    """
    try:
        return Trust().state(workspace) == "trusted"
    except HilumError:
        return False


def distrust(workspace: str | os.PathLike[str]) -> str:
    """Return why what a project brings along is off, and what to do, as sentences.

    Empty if it is trusted. Blocks.
    """
    trust = Trust()
    try:
        state = trust.state(workspace)
        if state == "trusted":
            return ""
        if state == "unknown":
            return "You do not trust this project yet. `hilum trust` trusts it."
        changes = trust.changes(workspace)
    except HilumError as error:
        return str(error)
    more = f" and {len(changes) - TOLD} more" if len(changes) > TOLD else ""
    listed = f": {', '.join(changes[:TOLD])}{more}" if changes else ""
    return (
        f"What this project brings along changed since you trusted it{listed}. Look at it; `hilum"
        " trust` trusts it again."
    )


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
        """Return whether a folder is trusted, was trusted before something in it changed, or is
        unknown.

        Raises:
            UsageError: The folder's configuration, or the file of trusted folders, cannot be read.
        """
        root = _real(workspace)
        known = self.folders().get(spell_folder(root))
        if known is None:
            return "unknown"
        if known == digest(brought(root)):
            return "trusted"
        return "changed"

    def changes(self, workspace: str | os.PathLike[str]) -> list[str]:
        """Return what is new, changed or gone since a folder was trusted.

        Nothing where it is not known any more.

        Raises:
            UsageError: As ``state`` does.
        """
        root = _real(workspace)
        try:
            old = json.loads(self._list(root).read_bytes())
            if digest(old) != self.folders().get(
                spell_folder(root)
            ):  # of an earlier time, or damaged
                return []
        except (OSError, ValueError, TypeError, AttributeError, RecursionError):
            return []
        now = brought(root)
        words = {
            name: "new" if name not in old else "changed"
            for name in now
            if now[name] != old.get(name)
        }
        words |= {name: "gone" for name in old if name not in now}
        return [f"{word} {name}" for name, word in sorted(words.items())]

    def folders(self) -> dict[str, str]:
        """Return the digests of the trusted folders by real path, spelled as ``spell_folder`` does.

        Raises:
            UsageError: The file cannot be read.
        """
        if not os.path.lexists(self.file):
            return {}
        import tomllib

        try:
            table = tomllib.loads(self.file.read_text(encoding="utf-8")).get(TABLE, {})
            if not isinstance(table, dict) or not all(
                isinstance(value, str) for value in table.values()
            ):
                raise ValueError(f"[{TABLE}] must have a digest for each folder")
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(
                f"{self.file} cannot be read: {error}.", hint="Mend or remove it."
            ) from None
        return table

    def add(self, workspace: str | os.PathLike[str]) -> list[str]:
        """Trust a folder as it is now; gives the files that may execute.

        Raises:
            UsageError: There is no such folder, its configuration cannot be vouched for, or the
                file cannot be written.
        """
        root = _real(workspace)
        if not os.path.isdir(root):
            raise UsageError(
                f"There is no folder {spell_folder(root)}.", hint="Name an existing folder."
            )
        seen = brought(root)
        self._change(root, digest(seen))
        self._keep_list(root, seen)
        return list(seen)

    def remove(self, workspace: str | os.PathLike[str]) -> bool:
        """Trust a folder no more; gives whether it was trusted."""
        root = _real(workspace)
        known = spell_folder(root) in self.folders()
        if known:
            self._change(root, None)
            self._list(root).unlink(missing_ok=True)
        return known

    def _list(self, root: str) -> Path:
        return self.config / LISTS / f"{hashlib.sha256(os.fsencode(root)).hexdigest()[:32]}.json"

    def _keep_list(self, root: str, seen: dict[str, str]) -> None:
        path = self._list(root)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            new = path.with_suffix(f".{os.urandom(4).hex()}")
            new.write_text(json.dumps(seen))
            new.replace(path)
        except OSError:  # then the next question names no files
            path.unlink(missing_ok=True)

    def _change(self, root: str, value: str | None) -> None:
        from hilum_settings import ChangeError, change

        try:
            change(self.file, [TABLE, spell_folder(root)], value)
        except ChangeError as error:
            raise UsageError(str(error), hint="Mend or remove the file.") from None


def _real(workspace: str | os.PathLike[str]) -> str:
    """Return the real path of a folder, which may be spelled as the file of trusted folders does
    it.
    """
    return os.path.realpath(unspell_folder(os.fspath(workspace)))


def executable(workspace: str | os.PathLike[str]) -> list[str]:
    """Return what a project brings along that widens what can be done there: paths relative to the
    project.

    Raises:
        UsageError: It cannot be vouched for: too much, unreadable, a link out of the project, or no
            plain file.
    """
    return list(brought(os.path.realpath(workspace)))
