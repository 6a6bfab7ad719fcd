"""The budgets of a session: how much of each is spent."""

from __future__ import annotations

from typing import TypeGuard

import msgspec
from hilum.events import PluginEvent

from hilum_view.formatting import format_duration, format_money

SPENT = "budgets.spent"
"""Name of the event that tells how much of a budget is spent."""
# From this share on, a budget is shown as a warning.
NEARLY_SPENT = 0.8


class BudgetView(msgspec.Struct, frozen=True):
    """How much of a budget is spent.

    Attributes:
        budget: The budget, as the command ``/budget`` names it: ``session``, ``day``, ``agent NAME``
            or ``plugin NAME``.
        unit: ``dollars``, ``tokens`` or ``minutes``.
        spent: What is spent, rounded to about one per cent of the limit.
        limit: The limit.
    """

    budget: str
    unit: str
    spent: float
    limit: float

    @property
    def share(self) -> float:
        """The share that is spent; a budget of nothing is spent from the beginning."""
        return self.spent / self.limit if self.limit else 1.0

    @property
    def is_nearly_spent(self) -> bool:
        """Whether little of the budget is left."""
        return self.share >= NEARLY_SPENT

    def describe(self) -> str:
        """Return what is spent of what limit as text."""
        limit = format_budget_amount(self.unit, self.limit)
        if self.unit == "tokens":
            return f"{round(self.spent):,} of {limit}"
        return f"{format_budget_amount(self.unit, self.spent)} of {limit}"


class BudgetViews(msgspec.Struct):
    """The budgets of a session that have limits.

    Attributes:
        all: The budgets by name and unit, in the order in which they were first reported.
    """

    all: dict[tuple[str, str], BudgetView] = {}

    @property
    def tightest(self) -> BudgetView | None:
        """The budget of which the largest share is spent; ``None`` if there is none."""
        return max(self.all.values(), key=lambda each: each.share, default=None)

    def apply(self, event: PluginEvent) -> bool:
        """Apply an event, and return whether it changed anything."""
        data = event.data
        budget = data.get("budget")
        unit = data.get("unit")
        # Any plugin can write an event with this name and with different data.
        if not isinstance(budget, str) or not isinstance(unit, str):
            return False
        spent = data.get("spent")
        limit = data.get("limit")
        if limit is None:
            return self.all.pop((budget, unit), None) is not None
        if not _is_amount(spent) or not _is_amount(limit):
            return False
        self.all[budget, unit] = BudgetView(budget, unit, float(spent), float(limit))
        return True


def _is_amount(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and 0 <= value < float("inf")


def format_budget_amount(unit: str, amount: float) -> str:
    """Return an amount of a budget as text with its unit."""
    if unit == "dollars":
        return format_money(amount)
    if unit == "minutes":
        return format_duration(amount * 60)
    return f"{round(amount):,} {unit}"
