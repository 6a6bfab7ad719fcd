"""Costs of flights."""

import desk.rates as exchange
from desk.money import Money


def ticket(price, currency, target, *, rate=exchange.fetch_rate):
    """Return the price of a ticket."""
    return Money(round(price * rate(currency, target), 2), target)
