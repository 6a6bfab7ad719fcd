"""Messages to customers.

The wording was checked by an editor; apostrophes and dashes are typographic.
"""


def sold_out(event):
    """Return the message about an event without tickets."""
    return f"We’re sorry – “{event}” is sold out."


def too_many(event, limit):
    """Return the message about too many tickets in one order."""
    return f"We’re sorry – you can’t order more than {limit} tickets for “{event}”."


def too_late(event):
    """Return the message about an event that has begun."""
    return f"We’re sorry – “{event}” has begun. You can’t order tickets any more."
