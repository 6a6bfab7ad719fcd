"""The agent's todo list, its questions to the user, and plans that the user accepts, changes or
rejects.

Everything is a fold over the session's log: resume and fork have it without a file of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import trio
from hilum import hookimpl

from hilum_plan.folded import Proposal
from hilum_plan.half import Plan
from hilum_plan.items import Item, ItemCall, Status
from hilum_plan.questions import Question, question_asked, question_settled
from hilum_plan.settings import PlanSettings

if TYPE_CHECKING:
    from hilum import Session

__all__ = [
    "Item",
    "ItemCall",
    "Plan",
    "PlanSettings",
    "Proposal",
    "Question",
    "Status",
    "open_session",
    "question_asked",
    "question_settled",
]


@hookimpl
async def open_session(session: Session) -> AsyncIterator[Plan]:
    """Live as long as the session: a task tells by events what the end of a run did to the list."""
    plan = Plan(session, session.settings(PlanSettings))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(plan.watch, name="plan: ends of runs")
        yield plan
        plan.settle()  # what ended in the same moment as the session
        nursery.cancel_scope.cancel()
