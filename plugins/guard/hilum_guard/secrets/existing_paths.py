"""Find which paths of a long list exist, without asking for each path again before each command."""

from __future__ import annotations

import functools
import os
import time

from hilum_guard.secrets.secret_paths import SETTLED, FolderStamp, make_folder_stamp


class ExistingPaths:
    """A finder of existing paths; it remembers what unchanged folders do not contain.

    A folder's change time (ctime), which no program can set, changes when an entry is added. What a
    folder contains is looked up each time, because a link's target changes independently of the
    folder. Threads may use a finder at the same time.
    """

    def __init__(self) -> None:
        self._missing: dict[str, tuple[FolderStamp, set[str]]] = {}

    def find(
        self, paths: tuple[str, ...], looked: dict[str, FolderStamp | None] | None = None
    ) -> list[str]:
        """Return the paths that exist, in their order. Blocks.

        Args:
            paths: Absolute paths.
            looked: Receives the folders that were examined, each with its stamp from before; with
                ``None`` if the folder may change without another stamp. Links that lead nowhere
                are among them.
        """
        seen: dict[str, set[str] | None] = {}
        stamps: dict[str, FolderStamp | None] = {} if looked is None else looked
        found: list[tuple[int, str]] = []
        for folder, places in _group_by_folder(paths):
            missing = self._find_missing(folder, seen, stamps)
            if missing is None:
                continue
            for path in places.keys() - missing:
                if os.path.exists(path):
                    found.append((places[path], path))
                elif not os.path.lexists(path):
                    missing.add(path)
                else:
                    # The target of the link may appear without a change of this folder.
                    stamps[path] = None
        return [path for _, path in sorted(found)]

    def _find_missing(
        self,
        folder: str,
        seen: dict[str, set[str] | None],
        looked: dict[str, FolderStamp | None],
    ) -> set[str] | None:
        """Return the paths that a folder is known not to contain.

        Args:
            folder: The folder.
            seen: What this method has returned for other folders since the search began.
            looked: Receives the stamps of existing folders.

        Returns:
            The paths, to which the caller adds; ``None`` if the folder cannot be reached, so that
            nothing in it can be reached either.
        """
        if folder not in seen:
            seen[folder] = self._look(folder, seen, looked)
        return seen[folder]

    def _look(
        self,
        folder: str,
        seen: dict[str, set[str] | None],
        looked: dict[str, FolderStamp | None],
    ) -> set[str] | None:
        # Most folders of the list do not exist, and their parents have not changed.
        parent = _find_folder(folder)
        above = set[str]() if parent == folder else self._find_missing(parent, seen, looked)
        if above is None or folder in above:
            return None
        now = time.time_ns()
        try:
            status = os.stat(folder)
        except (OSError, ValueError):  # ValueError: NUL in a path
            if not os.path.lexists(folder):
                above.add(folder)
            else:
                looked[folder] = None
            return None
        # A folder that changed just now may change again without a new change time. A change time
        # in the future is no reason to trust the folder either.
        if now - status.st_ctime_ns <= SETTLED:
            looked[folder] = None
            return set()
        stamp = make_folder_stamp(status)
        # Of two looks, the earlier one counts.
        looked.setdefault(folder, stamp)
        known = self._missing.get(folder)
        if known is None or known[0] != stamp:
            known = (stamp, set())
            self._missing[folder] = known
        return known[1]


# The list of paths is the same for each command.
@functools.lru_cache(maxsize=16)
def _group_by_folder(paths: tuple[str, ...]) -> tuple[tuple[str, dict[str, int]], ...]:
    """Return the paths of each folder, with their positions in the list."""
    groups: dict[str, dict[str, int]] = {}
    for position, path in enumerate(paths):
        groups.setdefault(_find_folder(path), {}).setdefault(path, position)
    return tuple(groups.items())


_find_folder = functools.lru_cache(maxsize=4096)(os.path.dirname)
