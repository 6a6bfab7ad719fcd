"""The rules of lasting approvals, for both faces: what an answer to one call also covers."""

from __future__ import annotations

from collections.abc import Sequence

from hilum_terminal.approval_items import Answer, Item, Remember, WaitingCall
from hilum_terminal.text_width import escape_text

EDITED_NOTE = "The arguments were edited; this version will run."


def find_lasting_problem(item: WaitingCall) -> str:
    """Return why a call cannot have a lasting approval; empty if it can."""
    if item.dangerous:
        return "This call is dangerous: hilum asks about each one."
    if item.arguments is not None:
        # The approval would cover calls that differ from the one that the user edited.
        return "An edited call can be approved only once."
    return ""


def find_rule_problem(item: WaitingCall) -> str:
    """Return why a call's approval cannot be stored for later sessions; empty if it can."""
    problem = find_lasting_problem(item)
    if problem or item.scope:
        return problem
    return "No rule can describe this call."


def find_also_covered(item: Item, waiting: Sequence[Item]) -> tuple[WaitingCall, ...]:
    """Return the other waiting calls that a lasting approval of a call covers."""
    if not isinstance(item, WaitingCall):
        return ()
    return tuple(
        each
        for each in waiting
        if isinstance(each, WaitingCall)
        and each.id != item.id
        and each.grant == item.grant
        and not find_lasting_problem(each)
    )


def find_batch(item: Item | None, waiting: Sequence[Item]) -> tuple[WaitingCall, ...]:
    """Return the waiting calls in the same model response that can be allowed together."""
    if not isinstance(item, WaitingCall) or not item.response:
        return ()
    return tuple(
        each
        for each in waiting
        if isinstance(each, WaitingCall)
        and each.response == item.response
        # hilum always asks about a dangerous call separately.
        and not find_lasting_problem(each)
    )


def grant(
    item: WaitingCall, shown: Sequence[WaitingCall], waiting: Sequence[Item], remember: Remember
) -> list[Answer]:
    """Return the answers that give a call a lasting approval.

    Calls that have arrived or changed since the user saw what the approval covers are not included.

    Args:
        item: The call.
        shown: The other calls that the user saw as covered (see ``find_also_covered``).
        waiting: The items that wait now.
        remember: How long the approval lasts.
    """
    others = [Answer(each.id, True) for each in find_unchanged(shown, waiting)]
    return [Answer(item.id, True, remember=remember), *others]


def find_unchanged(shown: Sequence[WaitingCall], waiting: Sequence[Item]) -> list[WaitingCall]:
    """Return the calls that still wait exactly as they were shown to the user."""
    return [call for call in shown if call in waiting]


def describe_covered(item: WaitingCall) -> str:
    """Return what a lasting approval covers, on one line."""
    return inline(item.covers or item.scope or f"all calls of {item.tool}")


def inline(text: str) -> str:
    """Return untrusted text as a part of a row; newlines are shown as ``\\n``."""
    return escape_text(text).replace("\n", "\\n").replace("\t", " ")
