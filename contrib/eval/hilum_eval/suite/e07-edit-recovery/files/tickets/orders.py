"""Orders of tickets."""

from tickets import messages

LIMIT = 8


def check(event, number, free, begun=False):
    """Return a message about why an order is refused; an empty text if it is accepted."""
    if begun:
        return messages.too_late(event)
    if number > LIMIT:
        return messages.too_many(event, LIMIT)
    if number > free:
        return messages.sold_out(event)
    return ""
