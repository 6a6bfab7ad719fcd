"""Patterns of paths written out as a shell does it, within bounds: the whole machine is not looked
through for `/**`.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator

MAX_NAMES = 20_000
"""Names that are looked at for one pattern."""
MAX_FOUND = 500
_MAGIC = re.compile(r"[*?\[]")
_ENDLESS = ("/proc", "/sys", "/dev")


def expand(pattern: str, root: str) -> tuple[list[str], bool]:
    """Return the paths that an absolute pattern means, hidden ones too, and whether these are all
    of them.

    What is in the workspace is looked at first. Below ``**`` no link is followed: two that lead to
    each other never end.

    Args:
        pattern: The pattern; ``**`` as a whole part is any number of folders.
        root: The workspace, without links.
    """
    walk = _Walk()
    parts = [part for part in pattern.split("/") if part]
    base = "/"
    while parts and not _MAGIC.search(parts[0]):
        base = os.path.join(base, parts.pop(0))
    found: dict[str, None] = {}
    starts = [base]
    if "**" in parts[:1] and f"{root}/".startswith(f"{os.path.realpath(base).rstrip('/')}/"):
        starts.insert(0, root)
    for start in starts:
        for path in walk.matches(start, parts):
            found[path] = None
            if len(found) >= MAX_FOUND:
                return list(found), False
    return list(found), walk.left > 0


class _Walk:
    """Looks for names, as long as there are any left to look at."""

    def __init__(self) -> None:
        self.left = MAX_NAMES

    def matches(self, folder: str, parts: list[str]) -> Iterator[str]:
        waiting = [(folder, parts)]
        while waiting and self.left > 0:
            here, rest = waiting.pop()
            if not rest:
                yield here
            elif rest[0] == "**":
                waiting.append((here, rest[1:]))
                waiting += (
                    (os.path.join(here, name), rest) for name, inner in self.names(here) if inner
                )
            elif not _MAGIC.search(rest[0]):
                if os.path.lexists(path := os.path.join(here, rest[0])):
                    waiting.append((path, rest[1:]))
            else:
                kept = re.compile(fnmatch.translate(rest[0]))
                waiting += (
                    (os.path.join(here, name), rest[1:])
                    for name, _ in self.names(here)
                    if kept.match(name)
                )

    def names(self, folder: str) -> Iterator[tuple[str, bool]]:
        """Yield what is in a folder, each with whether it is a folder and no link."""
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
