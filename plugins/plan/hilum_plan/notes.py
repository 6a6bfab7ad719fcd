"""What the model reads of its list: after a change, as a reminder, with the next prompt, and after
a trim.
"""

from __future__ import annotations

from collections.abc import Sequence

from hilum_plan.folded import AgentPlan
from hilum_plan.items import Item, allowed, listed, progress

MOST_NAMED = 5
WIDTH = 100


def named(item: Item) -> str:
    """Name an item in a sentence."""
    return f"{item.id} ({short(item.content)})"


def short(text: str) -> str:
    """Cut a text to a length that can stand in a list."""
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"


def names(items: Sequence[Item]) -> str:
    """Name items in a sentence, the first few of them."""
    more = f" and {len(items) - MOST_NAMED} more" if len(items) > MOST_NAMED else ""
    return ", ".join(map(named, items[:MOST_NAMED])) + more


def state(items: Sequence[Item]) -> str:
    """Say in a line how far a list is and what is next."""
    if not items:
        return "The todo list is empty."
    counts = progress(items)
    dropped = len(items) - progress(items)["total"]
    said = f"Todo list: {counts['completed']} of {counts['total']} completed"
    said += f", {dropped} dropped." if dropped else "."
    for status, title in (
        ("in_progress", "In progress"),
        ("blocked", "Blocked"),
        ("failed", "Failed"),
    ):
        found = [item for item in items if item.status == status]
        if found:
            said += f" {title}: {names(found)}."
    waiting = [item for item in items if item.status == "pending"]
    if waiting:
        said += f" Next: {named(waiting[0])}."
    return said


def result(items: Sequence[Item], refused: Sequence[str]) -> str:
    """Return what a call did: what was not changed first, because it needs a reaction."""
    if not refused:
        return state(items)
    lines = ["Not changed (everything else is):", *(f"- {why}" for why in refused)]
    return "\n".join([*lines, state(items)])


def rows(items: Sequence[Item]) -> str:
    """List items, one a line."""
    return "\n".join(f"- [{item.status}] {item.id}: {item.content}" for item in items)


def reminder(plan: AgentPlan, now: float, *, after: int, patience: float, said: set[str]) -> str:
    """Remind of open items where something matters; empty where nothing does.

    Args:
        plan: The agent's plan.
        now: Unix time.
        after: Rounds without a change after which the list counts as forgotten; 0 for never.
        patience: Seconds after which a blocked item may be cancelled.
        said: What was said since the list was last written, so that it is said once; is added to.
    """
    notes = []
    rounds = plan.rounds + 1  # this one has not been counted yet
    waiting = [item for item in plan.items if item.status == "pending"]
    if (
        waiting
        and not any(item.status == "in_progress" for item in plan.items)
        and "idle" not in said
    ):
        said.add("idle")
        notes.append(f"No item of your todo list is in progress; next is {named(waiting[0])}.")
    for item in plan.open:
        can = allowed(item, now, patience)
        if (
            item.status in ("blocked", "failed")
            and "cancelled" in can
            and f"stuck {item.id}" not in said
        ):
            said.add(f"stuck {item.id}")
            notes.append(f"{named(item)} is {item.status}: it can become {listed(can)}.")
    if after and plan.open and not notes and rounds % after == 0:
        notes.append(
            f"You have not changed your todo list for {rounds} rounds. {state(plan.items)}"
        )
    if notes:
        return " ".join([*notes, "Keep the list true with todo_write."])
    return ""


def context(plan: AgentPlan) -> str:
    """Say with a new prompt what the model may not know of its list; empty if there is nothing."""
    parts = []
    if plan.dropped:
        parts += [
            "These items of your todo list were cancelled when the user stopped the"
            f" run:\n{rows(plan.dropped)}"
        ]
    if plan.open:
        parts += [f"These items of your todo list are still open:\n{rows(plan.open)}"]
    return "\n\n".join(parts)
