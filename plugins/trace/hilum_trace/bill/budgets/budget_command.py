"""The command ``/budget``: shows the budgets of a session, and changes one for this session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hilum import UsageError
from hilum.errors import E_BAD_ARGS
from hilum_view import format_budget_amount

from hilum_trace.bill.budgets.amounts import UNITS, Amount, Limits, Unit

USAGE = (
    "Write, for example, /budget session 5 dollars, /budget day 2000000 tokens, /budget agent"
    " main 30 minutes, /budget plugin memory 0.50 dollars, or /budget session off."
)
_NAMED = ("agent", "plugin")
# Units of time besides minutes, in minutes.
_TIME_UNITS = {"seconds": 1 / 60, "hours": 60.0}


class BudgetChange(NamedTuple):
    """A change of a budget; without a unit, all of its limits are removed."""

    budget: str
    unit: Unit | None
    limit: float | None


class BudgetStatus(NamedTuple):
    """A budget: its name, its limits, and what was spent."""

    name: str
    limits: Limits
    spent: Amount


def parse_change(words: Sequence[str]) -> BudgetChange:
    """Return the change that the words after ``/budget`` describe.

    Raises:
        UsageError: The words are not a budget with an amount.
    """
    rest = list(words)
    kind = rest.pop(0).lower()
    if kind in _NAMED:
        if not rest:
            raise _usage_error(f"The name of the {kind} is missing.")
        name = f"{kind} {rest.pop(0)}"
    elif kind in ("session", "day"):
        name = kind
    else:
        raise _usage_error(f"There is no budget {kind!r}.")
    if [word.lower() for word in rest] == ["off"]:
        return BudgetChange(name, None, None)
    if len(rest) == 1 and rest[0].startswith("$"):
        rest = [rest[0][1:], "dollars"]
    if len(rest) != 2:
        raise _usage_error("A budget is an amount with a unit.")
    unit, factor = _parse_unit(rest[1])
    return BudgetChange(name, unit, _parse_number(rest[0]) * factor)


def is_pattern(budget: str) -> bool:
    """Return whether the name of a budget is a pattern, which applies to each name that it matches."""
    return any(character in budget for character in "*?[")


def _parse_number(text: str) -> float:
    try:
        number = float(text.replace(",", "").replace("_", ""))
    except ValueError:
        raise _usage_error(f"{text!r} is not a number.") from None
    if not 0 <= number < float("inf"):
        raise _usage_error(f"{text!r} is not an amount.")
    return number


def _parse_unit(text: str) -> tuple[Unit, float]:
    """Return a unit of budgets, and how many of it the given unit is."""
    word = text.lower()
    for unit in UNITS:
        if word in (unit, unit.removesuffix("s")):
            return unit, 1.0
    for other, minutes in _TIME_UNITS.items():
        if word in (other, other.removesuffix("s")):
            return "minutes", minutes
    raise _usage_error(f"{text!r} is not a unit.")


def _usage_error(problem: str) -> UsageError:
    return UsageError(problem, code=E_BAD_ARGS, hint=USAGE)


def format_budgets(budgets: Sequence[BudgetStatus]) -> str:
    """Return the budgets of a session as text; without any, how to set one."""
    lines = []
    for budget in budgets:
        for unit, limit in budget.limits.set_units():
            spent = format_budget_amount(unit, budget.spent.of(unit))
            left = max(limit - budget.spent.of(unit), 0.0)
            lines.append(
                f"{budget.name}: {spent} of {format_budget_amount(unit, limit)} spent,"
                f" {format_budget_amount(unit, left)} left"
            )
    if not lines:
        lines += ["No budget is set.", USAGE]
    return "\n".join(lines)
