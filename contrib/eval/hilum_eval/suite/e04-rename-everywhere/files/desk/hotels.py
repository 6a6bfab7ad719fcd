"""Costs of hotels."""

from desk import rates
from desk.money import Money


def night(price, currency, target):
    """Return the price of a night."""
    return Money(round(price * rates.fetch_rate(currency, target), 2), target)


def stay(price, currency, target, nights):
    """Return the price of a stay; the tax of 5 % is paid at the hotel."""
    factor = rates.fetch_rate(currency, target)
    return Money(round(price * nights * factor / 1.05, 2), target)
