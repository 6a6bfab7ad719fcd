"""Units of articles."""

PIECES = {"piece": 1, "pair": 2, "dozen": 12, "gross": 144}


def pieces(number, unit="piece"):
    """Return how many pieces an amount is.

    >>> pieces(3)
    3
    >>> pieces(2, "dozen")
    24
    >>> pieces(1, "gross")
    144
    """
    return number * PIECES[unit]
