"""Prices, in cents."""


def total(lines, discount=0):
    """Return the sum of an order; the discount is in percent and rounded half up.

    >>> total([(2, 450), (1, 99)])
    999
    >>> total([(1, 999)], 10)
    899
    >>> total([(1, 105)], 10)
    94
    """
    amount = sum(number * price for number, price in lines)
    return amount - amount * discount // 100
