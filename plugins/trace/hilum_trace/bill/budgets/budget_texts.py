"""Texts about budgets: amounts, names, and the errors for requests that a budget refuses."""

from __future__ import annotations

import math

from hilum import ModelCallDenied
from hilum_view import BudgetView, format_budget_amount

from hilum_trace.bill.budgets.amounts import Exceeded, Unit


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
    # The budget may be far exceeded already, for example because it was lowered.
    least = max(exceeded.limit * 2, exceeded.spent * 1.5, exceeded.spent + 2 * exceeded.needed)
    raised = _format_raised(unit, least)
    hint = (
        "All finished work is kept. To continue, raise the budget for this session, for"
        f" example with `/budget {name} {raised}`, or in the settings"
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


def _format_raised(unit: Unit, amount: float) -> str:
    """Return an amount as the user would type it after ``/budget``, rounded up to two digits."""
    name: str = unit
    if unit == "minutes" and amount < 1:
        # The texts show short durations in seconds, too.
        amount *= 60
        name = "seconds"
    places = math.floor(math.log10(amount)) - 1 if amount > 0 else 0
    step = 10.0**places
    # Without the margin, 0.1 / 0.01 would be rounded up to 11.
    rounded = math.ceil(amount / step - 1e-9) * step
    text = f"{rounded:.{max(-places, 0)}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return f"{text} {name}"
