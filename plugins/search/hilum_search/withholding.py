"""Excludes files from a search if the guard requires approval to read them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from hilum import ReadingPolicy

from hilum_search.targets import show

if TYPE_CHECKING:
    from hilum import Session

    from hilum_search.ripgrep import Reveal

MAX_NAMED = 3
"""Maximum number of left-out files to name to the model."""


def withheld_files(session: Session, base: str) -> Callable[[str], bool] | None:
    """Return a function that checks whether a file is left out of the search. Blocks.

    Args:
        session: The session.
        base: The path to search, relative to the workspace.

    Returns:
        The function, or ``None`` if this session has no guard.
    """
    policy = session.plugin(ReadingPolicy)
    if policy is None:
        return None
    return policy.withheld(base)


def revealing(session: Session, file: str = "") -> Reveal | None:
    """Return a function that lets a process read files that the sandbox hides. Blocks.

    Args:
        session: The session.
        file: The resolved path of a file named in the call, which was checked, and approved if
            necessary. Empty for all files that rules hide; pass an empty path only for a process
            that lists names in order to count the left-out files.
    """
    policy = session.plugin(ReadingPolicy)
    if policy is None:
        return None
    paths = (file,) if file else policy.denied_to_commands()
    return lambda argv: policy.reveal(argv, paths)


class FileCounter:
    """A counter of the searched and the left-out files in a listing.

    Args:
        wanted: A function that returns whether a file belongs to the search.
        is_withheld: A function that returns whether a file is left out; ``None`` if no file is left
            out.

    Attributes:
        searched: Number of searched files.
        withheld: Number of left-out files.
        complete: Whether all files were counted.
    """

    def __init__(
        self, wanted: Callable[[str], bool], is_withheld: Callable[[str], bool] | None
    ) -> None:
        self._wanted = wanted
        self._is_withheld = is_withheld
        self._names: list[str] = []
        self.searched = 0
        self.withheld = 0
        self.complete = False

    def take(self, paths: list[bytes]) -> bool:
        """Count the paths in a listing, and return ``False`` to request further paths."""
        for raw in paths:
            path = os.fsdecode(raw)
            if not raw or not self._wanted(path):
                continue
            if self._is_withheld and self._is_withheld(path):
                self.withheld += 1
                self._names.append(path)
            else:
                self.searched += 1
        return False

    def note(self) -> str:
        """Return a notice about the left-out files, or an empty string if there are none."""
        if not self.complete:
            return "[Files that need approval to be read were left out and not counted.]"
        if not self.withheld:
            return ""
        files = "1 file was" if self.withheld == 1 else f"{self.withheld:,} files were"
        shown = sorted(self._names)[:MAX_NAMED]
        names = ", ".join(map(show, shown))
        more = ", …" if self.withheld > MAX_NAMED else ""
        return (
            f"[{files} left out: reading needs approval or is denied. To search, name one in path:"
            f" {names}{more}]"
        )
