"""Codes of articles."""


def check_digit(digits):
    """Return the check digit of a code: odd places count once, even places three times.

    >>> check_digit("400638133393")
    1
    >>> check_digit("978020137962")
    4
    """
    total = sum(int(digit) * (1 if place % 2 else 3) for place, digit in enumerate(digits))
    return (10 - total % 10) % 10


def is_valid(code):
    """Return whether a code has 13 digits and the right check digit.

    >>> is_valid("4006381333931")
    True
    >>> is_valid("4006381333932")
    False
    >>> is_valid("40063")
    False
    """
    return len(code) == 13 and check_digit(code[:12]) == int(code[12])
