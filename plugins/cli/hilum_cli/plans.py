"""What a run leaves of its plan: items that are still open, and a plan that waits to be carried
out.
"""

from __future__ import annotations

import msgspec
import trio
from hilum import Run, Session, UsageError
from hilum.events import RunEnded
from hilum_plan import Plan, Proposal

from hilum_cli.approvals import discard_typed, read_line
from hilum_cli.stopping import Stopping
from hilum_cli.terminal import Out, columns, line, neutral, wrap

MOST_NAMED = 10
CHOICES = (
    "y: carry it out · e: edit it first · n: drop it (n REASON: have another one worked out) ·"
    " Enter: decide later"
)


def with_left(session: Session, end: RunEnded) -> RunEnded:
    """Return the end of a run with the open items of its todo list in what is left."""
    plan = session.half(Plan)
    open_items = plan.left_over(end.agent or "main") if plan else ()
    if not open_items:
        return end
    named = "; ".join(line(item.content, 100) for item in open_items[:MOST_NAMED])
    if len(open_items) > MOST_NAMED:
        more = f"; and {len(open_items) - MOST_NAMED} more"
    else:
        more = ""
    text = f"Open in the todo list: {named}{more}."
    return msgspec.structs.replace(end, left=f"{end.left} {text}".strip())


def next_step(session: Session, end: RunEnded, kept: bool) -> str:
    """Return what the user can do next about the plan, empty where there is nothing.

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
            said += f"\nTo have the plan carried out: {again} --accept"
            said += f'\nTo change it: {again} "…"'
        return said
    counts = plan.progress(end.agent or "main")
    if end.state == "completed" and plan.left_over(end.agent or "main"):
        return f"{counts['completed']} of {counts['total']} items are completed. {end.left}"
    return ""


def waits(session: Session) -> Proposal | None:
    """Return the plan that waits for the user's decision."""
    plan = session.half(Plan)
    return plan.proposal() if plan else None


async def accept(session: Session, text: str = "") -> Run:
    """Have the plan that waits carried out.

    Args:
        session: The session.
        text: The plan as the user has changed it; as it stands without.

    Raises:
        UsageError: No plan waits.
    """
    plan = session.half(Plan)
    if plan is None:
        raise UsageError("There are no plans here.", hint="Load the plugin plan.")
    return await plan.accept(text or None)


async def decide(session: Session, stopping: Stopping) -> Run | None:
    """Ask at the terminal what is to become of the plan that was just shown.

    Args:
        session: The session.
        stopping: A signal leaves the plan undecided.

    Returns:
        The run that follows, ``None`` where nothing does.
    """
    plan = session.half(Plan)
    proposal = waits(session)
    if plan is None or proposal is None:
        return None
    err = Out(2)
    outer = stopping.stop
    text = proposal.text
    err.say(
        f"\n── The plan above waits for you. Nothing is changed yet.\n{wrap(CHOICES, columns())}"
    )
    discard_typed()
    with trio.CancelScope() as scope:
        stopping.stop = scope.cancel
        try:
            while True:
                err.put(b"Carry it out? [y/e/n] ")
                word, _, reason = (await read_line(0)).strip().partition(" ")
                match word.lower().rstrip(",:;"):
                    case "y" | "yes":
                        return await plan.accept(text)
                    case "e" | "edit":
                        text = await _edited(text, stopping, err)
                    case "n" | "no":
                        if not reason.strip():
                            err.say("The plan is dropped.")
                        return await plan.reject(reason.strip())
                    case "":
                        return None
                    case "\x04":
                        err.say("\nThe input ended (Ctrl-D): the plan stays undecided.")
                        return None
                    case _:
                        err.say("Please answer y, e or n, or press Enter.")
        finally:
            stopping.stop = outer
    err.say("")
    return None


async def _edited(text: str, stopping: Stopping, err: Out) -> str:
    """Let the user change the plan; shows what it reads now."""
    from hilum_cli import editor

    stopping.lent = True
    try:
        changed = await editor.edit(text, ".md")
    except UsageError as error:
        err.say(neutral(f"{error.message}\n{error.hint}"))
        return text
    finally:
        stopping.lent = False
    if not changed.strip():
        err.say("It is empty: the plan stays as it was.")
        return text
    if changed.strip() == text.strip():
        err.say("It is as it was.")
        return text
    err.say(
        neutral(f"\n{changed.strip()}\n\n── The plan as you have changed it. y carries it out.")
    )
    return changed
