"""Find which paths of a long list exist, without asking for each path again before each command."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Iterable, Iterator

from hilum_guard.secrets.secret_paths import SETTLED

_Stamp = tuple[int, int, int, int]
# The list of paths is the same for each command.
_find_folder = functools.lru_cache(maxsize=4096)(os.path.dirname)


class ExistingPaths:
    """A finder of existing paths; it remembers what unchanged folders do not contain.

    A folder's change time (ctime), which no program can set, changes when an entry is added. What a
    folder contains is looked up each time, because a link's target changes independently of the
    folder. Threads may use a finder at the same time.
    """

    def __init__(self) -> None:
        self._missing: dict[str, tuple[_Stamp, set[str]]] = {}

    def find(self, paths: Iterable[str]) -> Iterator[str]:
        """Yield the paths that exist, in their order. Blocks.

        Args:
            paths: Absolute paths.
        """
        folders: dict[str, set[str] | None] = {}
        for path in paths:
            folder = _find_folder(path)
            if folder not in folders:
                folders[folder] = self._find_missing(folder)
            missing = folders[folder]
            if missing is None or path in missing:
                continue
            if os.path.exists(path):
                yield path
            elif not os.path.lexists(path):
                missing.add(path)

    def _find_missing(self, folder: str) -> set[str] | None:
        """Return the paths that a folder is known not to contain.

        Returns:
            The paths, to which the caller adds; ``None`` if the folder cannot be reached, so that
            nothing in it can be reached either.
        """
        now = time.time_ns()
        try:
            status = os.stat(folder)
        except (OSError, ValueError):  # ValueError: NUL in a path
            return None
        # A folder that changed just now may change again without a new change time. A change time
        # in the future is no reason to trust the folder either.
        if now - status.st_ctime_ns <= SETTLED:
            return set()
        stamp = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
        known = self._missing.get(folder)
        if known is None or known[0] != stamp:
            known = (stamp, set())
            self._missing[folder] = known
        return known[1]
