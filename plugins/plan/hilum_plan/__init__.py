"""The agent's todo list, its questions to the user, and plans that the user decides on.

All state is folded from the session's log, so resumed and forked sessions have it without extra
files.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import trio
from hilum import hookimpl

from hilum_plan.items import Item, ItemCall, Status
from hilum_plan.plan import Plan
from hilum_plan.questions import Question, question_asked, question_settled
from hilum_plan.settings import PlanSettings
from hilum_plan.state import Proposal

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
    """Yield a session's plugin instance, and report the ends of runs while the session is open."""
    plan = Plan(session, session.settings(PlanSettings))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(plan.watch, name="plan: ends of runs")
        yield plan
        plan.report()  # a run may have ended at the same moment as the session
        nursery.cancel_scope.cancel()
