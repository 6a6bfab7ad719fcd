"""Writes amounts of money in words."""

__version__ = "2.3.0"

_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()


def _number(value):
    if value < 20:
        return _ONES[value]
    tens, ones = divmod(value, 10)
    return _TENS[tens - 2] + (f"-{_ONES[ones]}" if ones else "")


def in_words(amount, currency="euro"):
    """Return an amount below 100 in words: four euro fifty."""
    whole, cents = divmod(round(amount * 100), 100)
    text = f"{_number(whole)} {currency}"
    return f"{text} {_number(cents)}" if cents else text
