"""The purposes of the simulated model's calls. The id of each call contains the value of its purpose."""

from __future__ import annotations

from enum import StrEnum


class Purpose(StrEnum):
    """What a call is for."""

    RIGHT = "g"
    """The right call of a step."""
    WRONG = "x"
    """A wrong call of a step, which slipped."""
    REPEATED = "i"
    """A failed call, repeated unchanged."""
    READ = "r"
    """Reading a file before an edit of it."""
    FIND = "f"
    """Finding a file by its name."""
    SEARCH_AGAIN = "q"
    """Searching again after an incomplete result."""
    LONG_OUTPUT = "w"
    """A call with far more output than needed."""
    LOOP = "l"
    """Repeating a call that succeeded."""
    DEFY = "d"
    """Reaching a refused change in another way."""
    REPAIR = "u"
    """Undoing or repairing a mistake of its own."""


TRIES = frozenset({Purpose.RIGHT, Purpose.WRONG, Purpose.REPEATED, Purpose.DEFY})
"""Purposes of the calls that try to do what a step is for."""
