"""What a run leaves of its plan: items that are still open, and a plan that waits to be carried out."""

from __future__ import annotations

import msgspec
from hilum import Session
from hilum.events import RunEnded
from hilum_plan import Plan

from hilum_cli.terminal import line

MOST_NAMED = 10


def with_left(session: Session, end: RunEnded) -> RunEnded:
    """Give the end of a run with the open items of its todo list in what is left."""
    plan = session.half(Plan)
    open_items = plan.left_over(end.agent or "main") if plan else ()
    if not open_items:
        return end
    named = "; ".join(line(item.content, 100) for item in open_items[:MOST_NAMED])
    more = f"; and {len(open_items) - MOST_NAMED} more" if len(open_items) > MOST_NAMED else ""
    text = f"Open in the todo list: {named}{more}."
    return msgspec.structs.replace(end, left=f"{end.left} {text}".strip())


def next_step(session: Session, end: RunEnded, kept: bool) -> str:
    """Say what the user can do next about the plan, empty where there is nothing.

    Args:
        session: The session.
        end: How its run ended, with what is left.
        kept: Whether the session was stored, so that it can be gone on with.
    """
    plan = session.half(Plan)
    if plan is None:
        return ""
    if plan.proposal(end.agent or "main"):
        said = "Nothing is changed yet."
        if kept:
            again = f"hilum run --resume {session.id}"
            said += f' To have the plan carried out: {again} --mode agent "Carry it out."'
            said += f'\nTo change it: {again} "…"'
        return said
    counts = plan.progress(end.agent or "main")
    if end.state == "completed" and plan.left_over(end.agent or "main"):
        return f"{counts['completed']} of {counts['total']} items are completed. {end.left}"
    return ""
