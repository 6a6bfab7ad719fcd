"""Writes that the user has approved when the guest announced them, so that one question is enough."""

from __future__ import annotations

from collections.abc import Sequence

from hilum_acp.guests.actions import (
    MAX_COMPARED,
    MAX_DIFF,
    FileDiff,
    describe_changes,
    is_comparable,
)

MAX_FILES = 50
"""Files with announced changes that a guest has not made yet; the oldest are asked about again."""


class AnnouncedWrites:
    """The approved changes of a guest that it has not made yet.

    A write is covered only if it results in exactly the approved text, and only once.
    """

    def __init__(self) -> None:
        self._diffs: dict[str, list[FileDiff]] = {}

    def add(self, path: str, diffs: Sequence[FileDiff]) -> None:
        """Add the approved changes of a file, in place of earlier ones.

        Args:
            path: The resolved path.
            diffs: The changes, in order.
        """
        self._diffs.pop(path, None)
        self._diffs[path] = list(diffs)
        while len(self._diffs) > MAX_FILES:
            del self._diffs[next(iter(self._diffs))]

    def has(self, path: str) -> bool:
        """Return whether there are approved changes of a file."""
        return path in self._diffs

    def take(self, path: str, before: str, content: str) -> bool:
        """Return whether a write is exactly an approved change, which is then used up.

        Args:
            path: The resolved path.
            before: The text of the file; empty for a new file.
            content: The text to write.
        """
        diffs = self._diffs.get(path)
        if diffs is None or _apply(diffs, before) != content:
            return False
        del self._diffs[path]
        return True


def can_be_announced(diffs: Sequence[FileDiff], root: str) -> bool:
    """Return whether a question shows the changes completely. Blocks."""
    if sum(len(diff.old) + len(diff.new) for diff in diffs) > MAX_COMPARED:
        return False
    if not diffs or not all(is_comparable(diff) for diff in diffs):
        return False
    return len(describe_changes(diffs, root)) <= MAX_DIFF


def _apply(diffs: Sequence[FileDiff], text: str) -> str | None:
    """Return a text after changes; ``None`` if they do not fit."""
    for diff in diffs:
        if not diff.old:
            if text:
                return None
            text = diff.new
        elif text.count(diff.old) == 1:
            text = text.replace(diff.old, diff.new)
        else:
            return None
    return text
