"""Numbers from logs and providers: those that cannot be right count as 0."""

from __future__ import annotations

from typing import TypeVar

from hilum import Usage
from hilum.messages import Price

N = TypeVar("N", int, float)

MAX_NUMBER = 10**12
"""The largest number of dollars, tokens or seconds that one event can have used."""


def check_number(number: N) -> N:
    """Return a number from a log, which may come from another machine; 0 if it cannot be right.

    A negative number would lower sums. One that is not finite would make them meaningless, and a
    huge one could not be converted or shown.
    """
    if 0 <= number <= MAX_NUMBER:
        return number
    return type(number)(0)


def check_usage(usage: Usage) -> Usage:
    """Return the counts of a request; each one that cannot be right is 0."""
    return Usage(
        check_number(usage.input),
        check_number(usage.cached),
        check_number(usage.cache_write),
        check_number(usage.output),
        check_number(usage.reasoning),
        None if usage.cost is None else check_number(usage.cost),
    )


def is_right_price(price: Price) -> bool:
    """Return whether all prices can be right."""
    prices = (price.input, price.output, price.cached or 0.0, price.cache_write or 0.0)
    return all(0 <= each <= MAX_NUMBER for each in prices)
