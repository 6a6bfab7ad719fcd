"""Orders from the supplier."""

from stock.levels import is_low, level


def order(stock, article, least, pack):
    """Return how many packs to order, so that the least number is there again.

    >>> order({"cup": [(5, "piece")]}, "cup", 12, 6)
    2
    >>> order({"cup": [(6, "piece")]}, "cup", 12, 6)
    1
    >>> order({"cup": [(1, "dozen")]}, "cup", 12, 6)
    0
    """
    if not is_low(stock, article, least):
        return 0
    return (least - level(stock, article)) // pack
