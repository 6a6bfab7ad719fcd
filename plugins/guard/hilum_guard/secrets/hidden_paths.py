"""Find the paths with secrets in the user's home folders, again only if something may have changed.

Each command needs the list. To look for hundreds of names and to resolve what is found takes several
times as long as to see that the folders are as they were.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from functools import partial
from typing import NamedTuple

from hilum_guard.file_names import is_below, resolve_all
from hilum_guard.secrets.existing_paths import ExistingPaths
from hilum_guard.secrets.private_files import PrivateFiles
from hilum_guard.secrets.secret_paths import (
    FolderStamp,
    list_secret_paths,
    make_folder_stamp,
)


class _Found(NamedTuple):
    """The result of a search, with what it depends on.

    Attributes:
        paths: The paths that were found.
        folders: The folders that were examined, with their stamps.
        listed: The listed paths that exist.
        private: The paths that were found by their mode.
    """

    paths: tuple[str, ...]
    folders: tuple[tuple[str, FolderStamp], ...]
    listed: tuple[str, ...]
    private: tuple[str, ...]

    def is_current(self) -> bool:
        """Return whether another search would find the same listed paths. Blocks."""
        try:
            for folder, stamp in self.folders:
                if make_folder_stamp(os.stat(folder)) != stamp:
                    return False
        except OSError:
            return False
        return all(map(os.path.exists, self.listed))


class HiddenPaths:
    """A finder of existing paths with secrets; threads may use it at the same time.

    The list of names is ``list_secret_paths``. In addition, files are found by their mode.
    """

    def __init__(self) -> None:
        self._private = PrivateFiles()
        self._existing = ExistingPaths()
        self._known: dict[object, _Found] = {}

    def find(
        self,
        homes: tuple[str, ...],
        configs: tuple[str, ...],
        others: tuple[str, ...],
        shown: Collection[str] = (),
        *,
        is_early: bool = False,
    ) -> tuple[str, ...]:
        """Return the existing paths with secrets, without links. Blocks.

        Args:
            homes: The home folders, without links.
            configs: The folders of configurations.
            others: Further absolute paths.
            shown: Paths that commands may use, so that no folder with one of them is hidden because
                of the modes of what is in it.
            is_early: Whether a first search for files by their mode covers only the folders near a
                home folder.
        """
        key = (homes, configs, others, frozenset(shown))
        known = self._known.get(key)
        if known is not None and known.is_current():
            private = self._find_private(homes, known.listed, shown, is_early=is_early)
            if private == known.private:
                return known.paths
        looked: dict[str, FolderStamp | None] = {}
        named = self._existing.find(list_secret_paths(homes, configs), looked)
        named += self._existing.find(others, looked)
        private = self._find_private(homes, named, shown, is_early=is_early)
        paths = list(dict.fromkeys((*named, *private)))
        resolved = tuple(dict.fromkeys(resolve_all(paths)))
        folders = tuple(_select_relevant(looked, homes, configs, others))
        # Where a link leads may change without a change of these folders.
        has_links = resolved != tuple(paths)
        if has_links or None in dict(folders).values():
            self._known.pop(key, None)
        else:
            stamps = tuple((folder, stamp) for folder, stamp in folders if stamp is not None)
            self._known[key] = _Found(resolved, stamps, tuple(named), private)
        return resolved

    def _find_private(
        self,
        homes: tuple[str, ...],
        listed: Collection[str],
        shown: Collection[str],
        *,
        is_early: bool,
    ) -> tuple[str, ...]:
        """Return the paths in home folders that are secret because of their modes."""
        find = partial(self._private.find, listed=listed, shown=shown, is_early=is_early)
        found = map(find, homes)
        return tuple(path for paths in found for path in paths)


def _select_relevant(
    looked: dict[str, FolderStamp | None],
    homes: tuple[str, ...],
    configs: tuple[str, ...],
    others: tuple[str, ...],
) -> Iterator[tuple[str, FolderStamp | None]]:
    """Yield the folders, except those that only lead to a home folder, in which much changes.

    The caller has just resolved the home folders, so nothing above them leads elsewhere.
    """
    elsewhere = [path for path in (*configs, *others) if not is_below(path, homes)]
    for folder, stamp in looked.items():
        leads_home = any(is_below(home, [folder]) for home in homes)
        is_in_home = folder in homes or is_below(folder, homes)
        leads_elsewhere = any(path == folder or is_below(path, [folder]) for path in elsewhere)
        if is_in_home or leads_elsewhere or not leads_home:
            yield folder, stamp
