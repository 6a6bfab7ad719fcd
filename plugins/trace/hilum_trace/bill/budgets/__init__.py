"""Budgets in dollars, tokens and minutes, which are reserved before each request to a model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import trio
from hilum import hookimpl

from hilum_trace.bill.budgets.session_budgets import SessionBudgets
from hilum_trace.bill.budgets.settings import BudgetSettings

if TYPE_CHECKING:
    from hilum import Session

__all__ = ["BudgetSettings", "SessionBudgets", "open_session"]

# While budgets cannot be checked, no request is sent.
gates = ("on_model_call",)


@hookimpl
async def open_session(session: Session) -> AsyncIterator[SessionBudgets]:
    """Yield the session plugin while the session is open."""
    async with trio.open_nursery() as nursery:
        # Plugins with gates open first and close last, so no request begins after this one ends.
        yield SessionBudgets(session, session.settings(BudgetSettings), nursery)
