"""Counts things in messages."""

from __future__ import annotations


def count(number: int, what: str) -> str:
    """Return a number of things: ``1 rule``, ``2 rules``."""
    return f"{number} {what}{'s' * (number != 1)}"


def is_or_are(number: int) -> str:
    """Return the verb after a number of things."""
    return "is" if number == 1 else "are"
