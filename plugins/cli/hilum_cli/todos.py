"""A todo list on a screen: what has changed in it, in a few words."""

from __future__ import annotations

from typing import Any

import msgspec

from hilum_cli.terminal import line

MARKS = {
    "pending": "○",
    "in_progress": "▸",
    "completed": "✓",
    "failed": "✗",
    "blocked": "!",
    "skipped": "–",
    "cancelled": "–",
}
MOST = 8
"""Items that are named at once."""


class _Item(msgspec.Struct):
    id: str
    content: str = ""
    status: str = "pending"


class _Progress(msgspec.Struct):
    completed: int = 0
    total: int = 0


class _Told(msgspec.Struct):
    items: tuple[_Item, ...] = ()
    progress: _Progress = msgspec.field(default_factory=_Progress)


class Todos:
    """The list as the events ``plan.todos`` tell it.

    Attributes:
        done: How far it is, as ``2/5``; empty without a list.
        current: The item that is in progress, empty for none.
        changed: The items that the last event has changed, each with its mark.
        first: Whether the last event made the list.
    """

    def __init__(self) -> None:
        self.done = self.current = ""
        self.changed: list[str] = []
        self.first = False
        self._known: dict[str, tuple[str, str]] = {}

    def apply(self, data: dict[str, Any]) -> None:
        """Fold the data of an event."""
        try:
            told = msgspec.convert(data, _Told)
        except msgspec.ValidationError:  # any plugin may write an event of this name
            return
        found = {item.id: (item.status, item.content) for item in told.items}
        self.first = not set(self._known) & set(found)
        self.changed = [
            f"{MARKS.get(status, '·')} {line(content, 200)}"
            for key, (status, content) in found.items()
            if self._known.get(key) != (status, content)
        ]
        self._known = found
        if told.progress.total:
            self.done = f"{told.progress.completed}/{told.progress.total}"
        else:
            self.done = ""
        self.current = next(
            (line(text, 200) for status, text in found.values() if status == "in_progress"), ""
        )

    def rows(self) -> list[str]:
        """What has changed: a list that is new one item a line, later changes in one line."""
        head = f"· todo {self.done}" if self.done else "· todo"
        if not self.changed:
            return []
        if len(self.changed) > MOST:
            more = [f"… and {len(self.changed) - MOST} more"]
        else:
            more = []
        named = [*self.changed[:MOST], *more]
        if self.first:
            return [head, *(f"  {each}" for each in named)]
        return ["  ".join([head, *named])]
