"""Costs of trains."""

from desk.money import Money
from desk.rates import fetch_rate as rate_of


def ticket(price, currency, target, reduction=0.0):
    """Return the price of a ticket."""
    return Money(round(price * (1 - reduction) * rate_of(currency, target), 2), target)
