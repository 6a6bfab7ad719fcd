"""The order in which prompts were given.

The order must be enforced, because interpreting one prompt and searching it for secrets may take
longer than doing so for the next prompt.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import trio

# The prompts that this task is interpreting. If a plugin sends a prompt while it interprets another
# one, the new prompt must not wait for the other.
_within: ContextVar[frozenset[trio.Event]] = ContextVar(
    "prompts that are being read", default=frozenset()
)


class PromptOrder:
    """The prompts of one session that were given but are not queued yet."""

    def __init__(self) -> None:
        self._open: dict[str, list[trio.Event]] = {}

    @contextmanager
    def turn(self, agent: str) -> Iterator[list[trio.Event]]:
        """Register a prompt for an agent, behind earlier prompts, until the block ends.

        Yields:
            A list of events, one for each earlier prompt. Each event is set once its prompt is
            queued, answered or refused.
        """
        around = frozenset(each for each in _within.get() if not each.is_set())
        turns = self._open.setdefault(agent, [])
        earlier = [each for each in turns if each not in around]
        own = trio.Event()
        turns.append(own)
        token = _within.set(around | {own})
        try:
            yield earlier
        finally:
            _within.reset(token)
            turns.remove(own)
            own.set()
