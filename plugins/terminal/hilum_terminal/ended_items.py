"""Says why an item no longer waits for the user although it was not answered here."""

from __future__ import annotations

from hilum import Session
from hilum.sharing import JoinedSession
from hilum_view import Card

from hilum_terminal.approval_items import Item, WaitingPlan, WaitingQuestion

BROKEN_LOG = "the log of the conversation cannot be written, so it cannot accept answers"
ANSWERED_ELSEWHERE = "it was answered in another terminal"


def is_answered_elsewhere(identity: str, session: Session | None) -> bool:
    """Return whether the user answered an item in another terminal or in the browser."""
    return session is not None and (
        identity in session.sent_elsewhere or identity in session.answered_on_page
    )


def describe_place(identity: str, session: Session | None, user: str = "") -> str:
    """Return where an item was answered, and by whom if that is known.

    Args:
        identity: The item.
        session: The session; None if it is closed.
        user: The name in the answer; only pages of a server know names.
    """
    name = session.answered_on_page.get(identity) if session is not None else None
    name = name or user
    return f"by {name} on the page" if name else "in another terminal"


def describe_end(
    item: Item, session: Session | None, *, is_working: bool, now: float, card: Card | None = None
) -> str:
    """Return why an item no longer waits.

    Args:
        item: The item.
        session: The session; None if it is closed.
        is_working: Whether the agent that the user talks to is working.
        now: Time in seconds on the clock of the item's deadline.
        card: The call to which the item belongs; None if it is unknown.
    """
    if session is not None and session.journal.broken is not None:
        return BROKEN_LOG
    if is_answered_elsewhere(item.id, session):
        return f"it was answered {describe_place(item.id, session)}"
    decided_by = card.decided_by if card is not None else ""
    if decided_by == "timeout" or 0 < item.deadline <= now:
        return "the time limit was reached"
    if isinstance(item, WaitingPlan):
        return "it was decided, or another prompt was sent"
    is_joined = isinstance(session, JoinedSession)
    # The owner of the session does not report who answered a question.
    if is_joined and isinstance(item, WaitingQuestion) and is_working:
        return ANSWERED_ELSEWHERE
    if decided_by == "stop" or (card is not None and card.was_stopped):
        return "the run was stopped"
    return "the agent's run has ended" if item.agent else "the run has ended"
