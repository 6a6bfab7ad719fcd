"""The items in a todo list, their states, and the allowed state changes.

This module does not depend on sessions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

Status = Literal["pending", "in_progress", "completed", "cancelled", "blocked", "failed", "skipped"]
# A failed or blocked item is still open: the model must retry it, or give it up explicitly.
OPEN: frozenset[str] = frozenset({"pending", "in_progress", "blocked", "failed"})
DROPPED: frozenset[str] = frozenset({"cancelled", "skipped"})
# Number of failures after which a failed item may be cancelled.
MAX_FAILURES = 3

# The states that may follow each state. In addition, a failed item may be cancelled after
# `MAX_FAILURES` failures, and a blocked item after a time limit.
TRANSITIONS: dict[str, tuple[str, ...]] = {
    "pending": ("in_progress", "skipped", "cancelled"),
    "in_progress": ("completed", "failed", "blocked", "pending", "cancelled"),
    "failed": ("in_progress",),
    "blocked": ("in_progress",),
    "completed": (),
    "skipped": (),
    "cancelled": (),
}
# The possible states of a new item: pending, or a state that may follow pending.
INITIAL_STATES = ("pending", *TRANSITIONS["pending"])


class ItemCall(msgspec.Struct):
    """A tool call that was made while an item was in progress.

    Attributes:
        id: Id of the call.
        name: Name of the tool.
        done: Whether the call has ended.
        code: Error code of a failed call.
        seconds: Duration of the call.
    """

    id: str
    name: str
    done: bool = False
    code: str = ""
    seconds: float = 0.0


class Item(msgspec.Struct, frozen=True, omit_defaults=True):
    """An item in a todo list.

    Attributes:
        id: Id chosen by the model.
        content: Description of the step, on one line.
        status: Current state.
        failures: Number of failures.
        made: Unix time at which the item was added. Models reuse ids, so an item is identified by
            its id and this time.
        since: Unix time at which its state last changed.
        spent: Total time, in seconds, that it was in progress before ``since``.
        calls: Tool calls that were made while the item was in progress. The calls are folded from
            the log and are not part of the item's own events.
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
        """Whether the item is unfinished."""
        return self.status in OPEN

    def with_status(self, status: Status, now: float) -> Item:
        """Return the item in a new state, without checking whether the change is allowed.

        Args:
            status: The new state.
            now: Unix time.
        """
        if status == self.status:
            return self
        spent = self.spent
        if self.status == "in_progress":
            spent += max(now - self.since, 0.0)  # the clock may have been set back
        failures = self.failures + (status == "failed")
        return msgspec.structs.replace(
            self,
            status=status,
            since=now,
            spent=spent,
            failures=failures,
        )


def allowed_states(item: Item, now: float, blocked_timeout: float) -> tuple[str, ...]:
    """Return the states that an item may currently change to.

    Args:
        item: The item.
        now: Unix time.
        blocked_timeout: Seconds after which a blocked item may be cancelled.
    """
    timed_out = item.status == "blocked" and now - item.since >= blocked_timeout
    # Cancelling a failed item earlier would be an easy way to avoid a hard step.
    hopeless = item.status == "failed" and item.failures >= MAX_FAILURES
    if timed_out or hopeless:
        return (*TRANSITIONS[item.status], "cancelled")
    return TRANSITIONS[item.status]


def refusal(item: Item, status: str, now: float, blocked_timeout: float) -> str:
    """Return why a state change is not allowed, and what is allowed; empty for an allowed change.

    Args:
        item: The item.
        status: The new state.
        now: Unix time.
        blocked_timeout: Seconds after which a blocked item may be cancelled.
    """
    allowed = allowed_states(item, now, blocked_timeout)
    # Repeating a state is allowed, so that a call repeated after a crash changes nothing.
    if status == item.status or status in allowed:
        return ""
    reason = f"it cannot go from {item.status} to {status}"
    if not allowed:
        more = "Add an item with another id if there is more to do."
        return f"{reason}: {item.status} is final. {more}"
    reason += f"; from {item.status} it can become {join_words(allowed)}."
    if status != "cancelled":
        return reason
    if item.status == "failed":
        reason += f" It may be cancelled after {MAX_FAILURES} failures;"
        return f"{reason} so far it has failed {_times(item.failures)}."
    blocked = f"it has been blocked for {blocked_timeout:g} seconds"
    return f"{reason} It may be cancelled after {blocked}."


def progress(items: Sequence[Item]) -> dict[str, int]:
    """Return the progress of a list.

    Returns:
        ``completed``, ``in_progress``, ``pending`` (open and not in progress) and ``total``, their
        sum. Cancelled and skipped items are not counted.
    """
    states = [item.status for item in items if item.status not in DROPPED]
    completed = states.count("completed")
    running = states.count("in_progress")
    return {
        "total": len(states),
        "completed": completed,
        "in_progress": running,
        "pending": len(states) - completed - running,
    }


def join_words(words: Sequence[str]) -> str:
    """Return words as ``a, b or c``."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
