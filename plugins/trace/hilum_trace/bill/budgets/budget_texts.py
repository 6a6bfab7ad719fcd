"""Texts about budgets: amounts, names, and the errors for requests that a budget refuses."""

from __future__ import annotations

from hilum import ModelCallDenied
from hilum_view import BudgetView, format_budget_amount

from hilum_trace.bill.budgets.amounts import Exceeded


def refusal(name: str, exceeded: Exceeded) -> ModelCallDenied:
    """Return the error for a request that a budget does not allow.

    Args:
        name: The name of the budget, as ``/budget`` takes it.
        exceeded: The limit that does not allow the request.
    """
    unit = exceeded.unit
    limit = format_budget_amount(unit, exceeded.limit)
    spent = format_budget_amount(unit, exceeded.spent)
    budget = f"The budget of {limit} for {_describe(name)}"
    if exceeded.is_reached:
        message = f"{budget} is reached: {spent} spent."
    else:
        needed = format_budget_amount(unit, exceeded.needed)
        message = (
            f"{budget} is too small for the next request: {spent} spent, and the request itself"
            f" needs about {needed}."
        )
    raised = max(exceeded.limit * 2, exceeded.spent + 2 * exceeded.needed)
    hint = (
        "All finished work is kept. To continue, raise the budget for this session, for"
        f" example with `/budget {name} {_plain(raised)} {unit}`, or in the settings"
        f" ({_setting(name, unit)}), and send a message."
    )
    return ModelCallDenied(message, hint=hint)


def warning(budget: BudgetView) -> str:
    """Return the sentence that warns of a budget that is nearly used up."""
    what = _describe(budget.budget)
    return f"The budget for {what} is nearly used up: {budget.describe()} spent."


def unpriced_error(name: str, dollars: float, model: str) -> ModelCallDenied:
    """Return the error for a request to a model without a price, with a budget in dollars."""
    limit = format_budget_amount("dollars", dollars)
    return ModelCallDenied(
        f"The budget of {limit} for {_describe(name)} cannot be kept: the price of {model} is not"
        " known.",
        hint=(
            f'Set the price (models.models."{model}".price) or a budget in tokens, or let such'
            ' models pass: budgets.unpriced = "admit".'
        ),
    )


def _describe(name: str) -> str:
    """Return a budget's name as part of a sentence."""
    kind, _, what = name.partition(" ")
    if kind == "session":
        return "this session"
    if kind == "day":
        return "today"
    return f"the {kind} {what}"


def _setting(name: str, unit: str) -> str:
    """Return the key of a budget's setting."""
    kind, _, what = name.partition(" ")
    if not what:
        return f"budgets.{kind}.{unit}"
    key = what if what.replace("-", "").replace("_", "").isalnum() else f'"{what}"'
    return f"budgets.{kind}s.{key}.{unit}"


def _plain(number: float) -> str:
    """Return a number as the user would type it."""
    return f"{number:.2f}".rstrip("0").rstrip(".") if number < 100 else f"{number:.0f}"
