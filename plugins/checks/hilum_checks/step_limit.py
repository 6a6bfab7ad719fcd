"""Limit how much work it takes to judge one call.

The work grows with the number of commands times the number of paths, rules and folders, so that one
long line could hold a session for hours. The steps are counted, because a limit in seconds would let
the speed of the machine decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MAX_STEPS = 100_000
"""Maximum number of steps to judge a call: comparisons of a path or a command with a rule."""


class TooManySteps(Exception):
    """A call cannot be judged in a limited number of steps."""


_left: ContextVar[list[int] | None] = ContextVar("left", default=None)


@contextmanager
def limit_steps(steps: int | None = None) -> Iterator[None]:
    """Raise ``TooManySteps`` if the body needs more steps.

    Args:
        steps: The number of steps; ``MAX_STEPS`` by default.
    """
    token = _left.set([MAX_STEPS if steps is None else steps])
    try:
        yield
    finally:
        _left.reset(token)


def count_step(weight: int = 1) -> None:
    """Count a step of the judgement in this context, if it is limited.

    Args:
        weight: How many steps it counts for.

    Raises:
        TooManySteps: All steps are used up.
    """
    left = _left.get()
    if left is None:
        return
    left[0] -= weight
    if left[0] < 0:
        raise TooManySteps
