"""Records changes to a text, so that they can be undone and redone."""

from __future__ import annotations

from typing import Literal

import attrs

Span = tuple[int, int]
Kind = Literal["typing", "backspace", "delete", "other"]
_MAX_CHANGES = 1000
# Maximum number of characters in all changes together, because texts from a file or the history can
# be large.
_MAX_SIZE = 20_000_000


@attrs.frozen
class Change:
    """A replacement of part of a text.

    Attributes:
        start: Position at which the replaced part begins.
        removed: The replaced part before the change.
        inserted: The replaced part after the change.
        cursor: Cursor position before the change.
        kind: Kind of edit. Consecutive changes of the same kind are undone together.
        pasted_before: The pasted parts of the text before the change.
        pasted_after: The pasted parts of the text after the change.
    """

    start: int
    removed: str
    inserted: str
    cursor: int
    kind: Kind = "other"
    pasted_before: tuple[Span, ...] = ()
    pasted_after: tuple[Span, ...] = ()


class UndoStack:
    """The changes to a text, oldest first."""

    def __init__(self) -> None:
        self._done: list[Change] = []
        self._undone: list[Change] = []
        self._size = 0
        self._open = False

    def add(self, change: Change) -> None:
        """Add a change; changes that were undone before can no longer be redone."""
        for undone in self._undone:
            self._size -= len(undone.removed) + len(undone.inserted)
        self._undone.clear()
        merged = _merge(self._done[-1], change) if self._open and self._done else None
        if merged is None:
            self._done.append(change)
        else:
            self._done[-1] = merged
        self._size += len(change.removed) + len(change.inserted)
        self._forget_old()
        self._open = change.kind != "other"

    def close_group(self) -> None:
        """End the current group, for example because the cursor was moved."""
        self._open = False

    def undo(self) -> Change | None:
        """Return the newest change, which the caller reverts; ``None`` if there is none."""
        return self._move(self._done, self._undone)

    def redo(self) -> Change | None:
        """Return the change that was undone last, which the caller reapplies."""
        return self._move(self._undone, self._done)

    def clear(self) -> None:
        """Discard all changes."""
        self._done.clear()
        self._undone.clear()
        self._size = 0
        self._open = False

    def _forget_old(self) -> None:
        """Discard the oldest changes if there are too many, but never the newest one."""
        while len(self._done) > 1 and (len(self._done) > _MAX_CHANGES or self._size > _MAX_SIZE):
            oldest = self._done.pop(0)
            self._size -= len(oldest.removed) + len(oldest.inserted)

    def _move(self, source: list[Change], target: list[Change]) -> Change | None:
        self._open = False
        if not source:
            return None
        change = source.pop()
        target.append(change)
        return change


def _merge(old: Change, new: Change) -> Change | None:
    """Merge two changes, or return ``None`` if they must be undone separately."""
    if old.kind != new.kind:
        return None
    pasted = new.pasted_after
    if new.kind == "typing":
        continues = (
            not old.removed and not new.removed and new.start == old.start + len(old.inserted)
        )
        # One undo removes one word and the spaces after it.
        starts_word = old.inserted[-1:].isspace() and not new.inserted[:1].isspace()
        if not continues or starts_word:
            return None
        return attrs.evolve(old, inserted=old.inserted + new.inserted, pasted_after=pasted)
    if old.inserted or new.inserted:
        return None
    if new.kind == "backspace" and new.start + len(new.removed) == old.start:
        removed = new.removed + old.removed
        return attrs.evolve(old, start=new.start, removed=removed, pasted_after=pasted)
    if new.kind == "delete" and new.start == old.start:
        return attrs.evolve(old, removed=old.removed + new.removed, pasted_after=pasted)
    return None
