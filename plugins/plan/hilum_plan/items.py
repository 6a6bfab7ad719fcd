"""Items of a todo list: their states, and which changes of state are lawful.

Nothing here knows of a session.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

Status = Literal["pending", "in_progress", "completed", "cancelled", "blocked", "failed", "skipped"]
OPEN: frozenset[str] = frozenset({"pending", "in_progress", "blocked", "failed"})
DROPPED: frozenset[str] = frozenset({"cancelled", "skipped"})
MOST_FAILURES = 3
"""Failures after which a failed item may be cancelled."""

LAWFUL: dict[str, tuple[str, ...]] = {
    "pending": ("in_progress", "skipped", "cancelled"),
    "in_progress": ("completed", "failed", "blocked", "pending", "cancelled"),
    "failed": ("in_progress",),
    "blocked": ("in_progress",),
    "completed": (),
    "skipped": (),
    "cancelled": (),
}
"""What an item can become.

Besides, a failed item is cancelled after three failures, a blocked one after a time.
"""
FIRST = ("pending", *LAWFUL["pending"])
"""What a new item can be: pending, or what is one step from it."""


class ItemCall(msgspec.Struct):
    """A tool call that was made while an item was in progress.

    ``code`` is that of a failure; ``done`` says it has ended.
    """

    id: str
    name: str
    done: bool = False
    code: str = ""
    seconds: float = 0.0


class Item(msgspec.Struct, frozen=True, omit_defaults=True):
    """An item of a todo list.

    Attributes:
        id: Its id, as the model gave it.
        content: What is to be done, one line.
        status: Where it stands.
        failures: How often it has failed.
        made: When it was added, Unix time; with the id this is what makes it this item.
        since: When its status last changed, Unix time.
        spent: Seconds it was in progress, up to ``since``.
        calls: The tool calls made while it was in progress; they are in the log, and no part of the
            item's own events.
    """

    id: str
    content: str
    status: Status = "pending"
    failures: int = 0
    made: float = 0.0
    since: float = 0.0
    spent: float = 0.0
    calls: tuple[ItemCall, ...] = ()

    @property
    def open(self) -> bool:
        """Whether there is something left to do."""
        return self.status in OPEN

    def moved(self, status: Status, now: float) -> Item:
        """Return it with another status.

        Args:
            status: The status; whether it may is not asked.
            now: Unix time.
        """
        if status == self.status:
            return self
        spent = self.spent + (max(now - self.since, 0.0) if self.status == "in_progress" else 0.0)
        failures = self.failures + (status == "failed")
        return msgspec.structs.replace(
            self, status=status, since=now, spent=spent, failures=failures
        )


def allowed(item: Item, now: float, patience: float) -> tuple[str, ...]:
    """Return what an item can become now.

    Args:
        item: The item.
        now: Unix time.
        patience: Seconds after which a blocked item may be cancelled.
    """
    late = item.status == "blocked" and now - item.since >= patience
    hopeless = item.status == "failed" and item.failures >= MOST_FAILURES
    if late or hopeless:
        return (*LAWFUL[item.status], "cancelled")
    return LAWFUL[item.status]


def refusal(item: Item, status: str, now: float, patience: float) -> str:
    """Return why an item cannot take a status and what it can take instead; empty if it can.

    Takes what ``allowed`` takes.
    """
    can = allowed(item, now, patience)
    if status == item.status or status in can:
        return ""
    said = f"it cannot go from {item.status} to {status}"
    if not can:
        return (
            f"{said}: {item.status} is final. Add an item with another id if there is more to do."
        )
    said += f"; from {item.status} it can become {listed(can)}."
    if status == "cancelled" and item.status == "failed":
        said += (
            f" It may be cancelled after {MOST_FAILURES} failures; so far it has failed"
            f" {times(item.failures)}."
        )
    elif status == "cancelled":
        said += f" It may be cancelled when it has been blocked for {patience:g} seconds."
    return said


def progress(items: Sequence[Item]) -> dict[str, int]:
    """Count: ``total`` is the sum of ``completed``, ``in_progress`` and ``pending`` (what is open
    and not in progress).

    What was cancelled or skipped is not to be done, and is not counted.
    """
    kept = [item.status for item in items if item.status not in DROPPED]
    completed = kept.count("completed")
    running = kept.count("in_progress")
    return {
        "total": len(kept),
        "completed": completed,
        "in_progress": running,
        "pending": len(kept) - completed - running,
    }


def listed(words: Sequence[str]) -> str:
    """Join words: ``a, b or c``."""
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def times(count: int) -> str:
    """Write how often."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
