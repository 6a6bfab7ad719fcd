"""Shows the open items of a run's todo list, and asks the user to decide on a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import trio
from hilum import Plans, Run, Session, UsageError
from hilum.command import discard_typed
from hilum.events import RunEnded
from hilum.hooks import PLUGIN_EXCEPTIONS, describe_error

from hilum_cli.approvals import parse_choice, read_line
from hilum_cli.stopping import Stopping
from hilum_cli.terminal import Out, columns, escape_terminal, line, wrap

if TYPE_CHECKING:
    from hilum.services import PlanProposal

MAX_NAMED = 10
CHOICES = (
    "y: carry it out · e: edit it first · n: reject it (n REASON: ask for another plan) · Enter:"
    " decide later"
)


def with_left(session: Session, end: RunEnded) -> RunEnded:
    """Return the end of a run, with open todo items added to the remaining work."""
    plan = session.plugin(Plans)
    try:
        open_items = plan.left_over(end.agent or "main") if plan else ()
        if not open_items:
            return end
        named = "; ".join(line(item.content, 100) for item in open_items[:MAX_NAMED])
    except PLUGIN_EXCEPTIONS:
        # The failure must not hide the answer; `next_step` reports it.
        return end
    left_out = len(open_items) - MAX_NAMED
    if left_out > 0:
        named += f"; and {left_out} more"
    text = f"Open in the todo list: {named}."
    return msgspec.structs.replace(end, left=f"{end.left} {text}".strip())


def next_step(session: Session, end: RunEnded, kept: bool) -> str:
    """Return the user's next steps for the plan; empty if there are none.

    Args:
        session: The session.
        end: The event that ended the run, with the remaining work.
        kept: Whether the session was stored, so that it can be resumed.
    """
    plan = session.plugin(Plans)
    if plan is None:
        return ""
    try:
        return _next_step(plan, session, end, kept)
    except PLUGIN_EXCEPTIONS as error:
        return f"The plugin `plan` failed: {describe_error(error)}."


def _next_step(plan: Plans, session: Session, end: RunEnded, kept: bool) -> str:
    if plan.proposal(end.agent or "main"):
        text = "Nothing has been changed yet."
        if kept:
            again = f"hilum run --resume {session.id}"
            text += f"\nTo carry out the plan: {again} --accept"
            text += f'\nTo change it: {again} "…"'
        return text
    counts = plan.progress(end.agent or "main")
    if end.state == "completed" and plan.left_over(end.agent or "main"):
        return f"{counts['completed']} of {counts['total']} items are completed. {end.left}"
    return ""


def waits(session: Session) -> PlanProposal | None:
    """Return the plan that is awaiting the user's decision."""
    plan = session.plugin(Plans)
    try:
        return plan.proposal() if plan else None
    except PLUGIN_EXCEPTIONS:
        return None  # `next_step` reports the failure


async def accept(session: Session, text: str = "") -> Run:
    """Start carrying out the plan that is awaiting a decision.

    Args:
        session: The session.
        text: The plan as edited by the user; empty for the unchanged plan.

    Raises:
        UsageError: No plan is awaiting a decision.
    """
    plan = session.plugin(Plans)
    if plan is None:
        raise UsageError(
            "Plans are not available: the plugin `plan` is not loaded.",
            hint="Load the plugin `plan`.",
        )
    return await plan.accept(text or None)


async def decide(session: Session, stopping: Stopping) -> Run | None:
    """Ask at the terminal for a decision on the plan that was just shown.

    Args:
        session: The session.
        stopping: The signal handling; a signal leaves the plan undecided.

    Returns:
        The resulting run, or ``None`` if there is none.
    """
    plan = session.plugin(Plans)
    proposal = waits(session)
    if plan is None or proposal is None:
        return None
    err = Out(2)
    outer = stopping.stop
    text = proposal.text
    err.say(
        "\n── The plan above awaits your decision. Nothing has been changed yet.\n"
        f"{wrap(CHOICES, columns())}"
    )
    discard_typed()
    with trio.CancelScope() as scope:
        # A signal only closes this question. The run has already ended, and the plan stays
        # undecided.
        stopping.stop = scope.cancel
        try:
            while True:
                err.put(b"Carry it out? [y/e/n] ")
                word, reason = parse_choice(await read_line(0))
                match word:
                    case "y" | "yes":
                        return await plan.accept(text)
                    case "e" | "edit":
                        text = await _edited(text, stopping, err)
                    case "n" | "no":
                        if not reason:
                            err.say("The plan was rejected.")
                        return await plan.reject(reason)
                    case "":
                        return None
                    case "\x04":
                        err.say("\nInput ended (Ctrl-D): no decision was made about the plan.")
                        return None
                    case _:
                        err.say("Please answer y, e or n, or press Enter.")
        finally:
            stopping.stop = outer
    err.say("")
    return None


async def _edited(text: str, stopping: Stopping, err: Out) -> str:
    """Let the user edit the plan, and show the edited version."""
    from hilum_cli import editor

    # While the editor is open, it handles Ctrl-C.
    stopping.lent = True
    try:
        changed = await editor.edit(text, ".md")
    except UsageError as error:
        err.say(escape_terminal(f"{error.message}\n{error.hint}"))
        return text
    finally:
        stopping.lent = False
    # An empty file usually means that the user wants to abort, as for a commit message in Git.
    if not changed.strip():
        err.say("The text is empty: the plan was not changed.")
        return text
    if changed.strip() == text.strip():
        err.say("The plan was not changed.")
        return text
    err.say(
        escape_terminal(
            f"\n{changed.strip()}\n\n── This is the plan as you edited it. y carries it out."
        )
    )
    return changed
