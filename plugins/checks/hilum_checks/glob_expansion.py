"""Expand path patterns as shells do, within limits.

A pattern such as ``/**`` does not search the whole machine.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator

from hilum_guard import resolve_links

MAX_NAMES = 20_000
"""Maximum number of names to examine for one pattern."""
MAX_FOUND = 500
_MAGIC = re.compile(r"[*?\[]")
# Folders that the operating system generates: reading them is slow, and some of them are endless.
_ENDLESS = ("/proc", "/sys", "/dev")


def expand_glob(pattern: str, root: str) -> tuple[list[str], bool]:
    """Return the paths that an absolute pattern matches, and whether the list is complete.

    Hidden names match too. The workspace is searched first. Links below ``**`` are not followed,
    because two links that lead to each other form an endless loop.

    Args:
        pattern: The pattern; ``**`` as a whole component matches any number of folders.
        root: The workspace, without links.
    """
    search = _Search()
    parts = [part for part in pattern.split("/") if part]
    base = "/"
    # The search begins below the leading folders without wildcards, which need not be listed.
    while parts and not _MAGIC.search(parts[0]):
        base = os.path.join(base, parts.pop(0))
    starts = [base]
    real_base = resolve_links(base).rstrip("/")
    if "**" in parts[:1] and f"{root}/".startswith(f"{real_base}/"):
        # The workspace is searched first, because the search might reach its limit before the
        # workspace.
        starts.insert(0, root)
    found: dict[str, None] = {}
    for start in starts:
        for path in search.matches(start, parts):
            found[path] = None
            if len(found) >= MAX_FOUND:
                return list(found), False
    # The caller treats unexamined names beyond the limit as possible matches.
    return list(found), search.left > 0


class _Search:
    """A search for matching paths that stops after examining ``MAX_NAMES`` names."""

    def __init__(self) -> None:
        self.left = MAX_NAMES

    def matches(self, folder: str, parts: list[str]) -> Iterator[str]:
        waiting = [(folder, parts)]
        while waiting and self.left > 0:
            current, rest = waiting.pop()
            if not rest:
                yield current
                continue
            part, *below = rest
            if part == "**":
                waiting.append((current, below))
                folders = [name for name, is_folder in self._names(current) if is_folder]
                waiting += [(os.path.join(current, name), rest) for name in folders]
            elif _MAGIC.search(part):
                pattern = re.compile(fnmatch.translate(part))
                names = [name for name, _ in self._names(current) if pattern.match(name)]
                waiting += [(os.path.join(current, name), below) for name in names]
            elif os.path.lexists(os.path.join(current, part)):
                waiting.append((os.path.join(current, part), below))

    def _names(self, folder: str) -> Iterator[tuple[str, bool]]:
        """Yield each name in a folder, and whether the entry is a folder and not a link."""
        if folder in _ENDLESS:
            return
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self.left -= 1
                    if self.left <= 0:
                        return
                    yield entry.name, entry.is_dir(follow_symlinks=False)
        except OSError:
            return
