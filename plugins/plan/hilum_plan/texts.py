"""Creates texts for the model about a todo list: results of changes, reminders and context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hilum_plan.changes import Clock
from hilum_plan.items import Item, allowed_states, join_words, progress
from hilum_plan.state import AgentPlan

MAX_NAMED = 5
MAX_WIDTH = 100
_TITLES = {"in_progress": "In progress", "blocked": "Blocked", "failed": "Failed"}


def name_item(item: Item) -> str:
    """Return an item's name for use in a sentence: its id and the beginning of its content."""
    content = item.content
    if len(content) > MAX_WIDTH:
        content = content[: MAX_WIDTH - 1] + "…"
    return f"{item.id} ({content})"


def name_items(items: Sequence[Item]) -> str:
    """Return the names of the first few items, for use in a sentence."""
    names = ", ".join(map(name_item, items[:MAX_NAMED]))
    if len(items) > MAX_NAMED:
        names += f" and {len(items) - MAX_NAMED} more"
    return names


def summarize(items: Sequence[Item]) -> str:
    """Return the state of a list and its next item in one line."""
    if not items:
        return "The todo list is empty."
    counts = progress(items)
    summary = f"Todo list: {counts['completed']} of {counts['total']} completed"
    dropped = len(items) - counts["total"]
    summary += f", {dropped} dropped." if dropped else "."
    for status, title in _TITLES.items():
        found = [item for item in items if item.status == status]
        if found:
            summary += f" {title}: {name_items(found)}."
    following = _find_next(items)
    if following is not None:
        summary += f" Next: {name_item(following)}."
    return summary


def _find_next(items: Sequence[Item]) -> Item | None:
    return next((item for item in items if item.status == "pending"), None)


def describe_change(items: Sequence[Item], refused: Sequence[str]) -> str:
    """Return the result of a call, beginning with the refused changes, which need a reaction."""
    if not refused:
        return summarize(items)
    lines = [
        "These items were not changed; all other changes were made:",
        *(f"- {reason}" for reason in refused),
    ]
    return "\n".join([*lines, summarize(items)])


def list_items(items: Sequence[Item]) -> str:
    """Return items as a list with one item per line."""
    return "\n".join(f"- [{item.status}] {item.id}: {item.content}" for item in items)


def describe_kept(plan: AgentPlan) -> str:
    """Return the list as the model must know it after a compaction; empty without open items."""
    if not plan.open:
        return ""
    text = f"Open items of your todo list:\n{list_items(plan.open)}"
    finished = [item for item in plan.items if item.status == "completed"]
    if finished:
        # Without this, a model writes the list again without them, and the progress is lost.
        text += f"\nCompleted, and still on the list: {name_items(finished)}."
    return text


def remind(plan: AgentPlan, clock: Clock, *, after: int, reminded: set[str]) -> str:
    """Return a reminder of open items; empty if none is needed.

    Args:
        plan: The agent's plan.
        clock: The current time.
        after: Number of rounds without a change after which the list counts as forgotten; 0 for
            never.
        reminded: The reminders sent since the last change to the list, so that each is sent once;
            new ones are added.
    """
    notes = []
    # Each reminder is sent once: a reminder in every round would cost tokens and be ignored.
    for key, note in [*_idle_reminder(plan), *_stuck_reminders(plan, clock)]:
        if key not in reminded:
            reminded.add(key)
            notes.append(note)
    rounds = plan.rounds + 1  # the current round is not counted yet
    if after and plan.open and not notes and rounds % after == 0:
        notes.append(
            f"You have not changed your todo list for {rounds} rounds. {summarize(plan.items)}"
        )
    if not notes:
        return ""
    return " ".join([*notes, "Keep the list up to date with todo_write."])


def _idle_reminder(plan: AgentPlan) -> Iterator[tuple[str, str]]:
    """Yield the key and text of a reminder if no item is in progress."""
    following = _find_next(plan.items)
    if following is None or any(item.status == "in_progress" for item in plan.items):
        return
    yield (
        "idle",
        f"No item in your todo list is in progress; the next one is {name_item(following)}.",
    )


def _stuck_reminders(plan: AgentPlan, clock: Clock) -> Iterator[tuple[str, str]]:
    """Yield the key and text of a reminder for each item that may be given up."""
    for item in plan.open:
        if item.status in ("blocked", "failed"):
            allowed = allowed_states(item, clock.now, clock.blocked_timeout)
            if "cancelled" in allowed:
                text = f"{name_item(item)} is {item.status}: it can become {join_words(allowed)}."
                yield f"stuck {item.id}", text


def describe_left_items(plan: AgentPlan) -> str:
    """Return what a new prompt must tell the model about the list; may be empty."""
    parts = []
    if plan.dropped:
        dropped = list_items(plan.dropped)
        parts.append(
            "These items in your todo list were cancelled when the user stopped the run:\n"
            + dropped
        )
    if plan.open:
        parts.append(f"These items in your todo list are still open:\n{list_items(plan.open)}")
    return "\n\n".join(parts)
