"""Levels of the stock."""

from stock.units import pieces


def level(stock, article):
    """Return how many pieces of an article are there.

    >>> level({"cup": [(2, "dozen"), (5, "piece")]}, "cup")
    29
    >>> level({}, "cup")
    0
    """
    return sum(pieces(number, unit) for number, unit in stock.get(article, []))


def is_low(stock, article, least):
    """Return whether fewer pieces than the least number are there.

    >>> is_low({"cup": [(1, "dozen")]}, "cup", 13)
    True
    >>> is_low({"cup": [(1, "dozen")]}, "cup", 12)
    False
    """
    return level(stock, article) <= least
