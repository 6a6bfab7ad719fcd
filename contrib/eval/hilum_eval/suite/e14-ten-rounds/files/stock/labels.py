"""Labels for the shelves."""

from stock.prices import total


def label(name, price, width=16):
    """Return a label: the name, shortened if necessary, and the price at the right.

    >>> label("Cup", 450)
    'Cup         4.50'
    >>> label("Teapot, enamelled", 2999)
    'Teapot, e  29.99'
    """
    amount = f"{total([(1, price)]) / 100:.2f}"
    room = width - len(amount) - 2
    return f"{name[:room]:<{room}}  {amount}"
