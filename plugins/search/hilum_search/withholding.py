"""What a search leaves out because the guard would not let it be read without approval."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from hilum import ReadingPolicy

if TYPE_CHECKING:
    from hilum import Session

MAX_NAMED = 3
"""Files that are left out which are named to the model."""


def withheld_files(session: Session, base: str) -> Callable[[str], bool] | None:
    """Return what tells whether a file is left out; None where no guard judges this session.

    Blocks.

    Args:
        session: The session.
        base: The path that the search names, relative to the workspace.
    """
    policy = session.half(ReadingPolicy)  # type: ignore[type-abstract]
    if policy is None:
        return None
    return policy.withheld(base)


def revealing(
    session: Session, file: str = ""
) -> Callable[[list[str]], AbstractContextManager[None]] | None:
    """Return what lets a process see files that the sandbox hides. Blocks.

    Args:
        session: The session.
        file: A file that the call names, resolved: it was judged, and approved where need be.
            Without one, what rules keep from being read: only for a process that lists names, to
            count what is left out.
    """
    policy = session.half(ReadingPolicy)  # type: ignore[type-abstract]
    if policy is None:
        return None
    paths = (file,) if file else policy.denied_to_commands()
    return lambda argv: policy.reveal(argv, paths)


class LeftOut:
    """Counts the files of a listing that are searched, and those that are left out.

    Args:
        wanted: Whether the search means a file.
        withheld: Whether a file is left out.

    Attributes:
        searched: How many files were searched.
        count: How many files were left out.
        names: The first of them.
        complete: Whether all files were counted.
    """

    def __init__(
        self, wanted: Callable[[str], bool], withheld: Callable[[str], bool] | None
    ) -> None:
        self._wanted = wanted
        self._withheld = withheld
        self.searched = 0
        self.count = 0
        self.names: list[str] = []
        self.complete = False

    def take(self, paths: list[bytes]) -> bool:
        """Take paths of a listing; returns that more are wanted."""
        for raw in paths:
            path = raw.decode("utf-8", "surrogateescape")
            if not raw or not self._wanted(path):
                continue
            if self._withheld is not None and self._withheld(path):
                self.count += 1
                self.names.append(path)
            else:
                self.searched += 1
        return False

    def described(self) -> str:
        """Return a sentence about what was left out; empty for nothing."""
        if not self.complete:
            return "[Files that need approval to be read were left out; how many was not counted.]"
        if not self.count:
            return ""
        files = "1 file was" if self.count == 1 else f"{self.count:,} files were"
        names = ", ".join(
            path if path.isprintable() else repr(path) for path in sorted(self.names)[:MAX_NAMED]
        )
        more = ", …" if self.count > MAX_NAMED else ""
        return (
            f"[{files} left out: reading needs approval or is denied. To search, name one in path:"
            f" {names}{more}]"
        )
