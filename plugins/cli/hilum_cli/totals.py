"""What a session has used: tokens and cost of all its runs and agents, a fold over its events."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from hilum.events import Event, ModelAnswered, ModelUsed, RunRetried, RunStarted
from hilum.messages import Usage


class Totals(msgspec.Struct):
    """Tokens, cost and number of runs.

    Attributes:
        usage: Tokens and cost of all agents.
        runs: Number of runs of the main agent.
    """

    usage: Usage = Usage()
    runs: int = 0

    def apply(self, event: Event) -> None:
        """Fold one event."""
        used = used_by(event)
        if used is not None:
            self.usage += used
        if isinstance(event, RunStarted | RunRetried) and event.agent == "main":
            self.runs += 1


def used_by(event: Event) -> Usage | None:
    """Return what an event adds to the bill; ``None`` for one that adds nothing."""
    if isinstance(event, ModelAnswered):
        return event.usage
    # What an agent has used is charged to the agent that started it as well; it is counted once,
    # with its answers.
    if isinstance(event, ModelUsed) and not event.purpose.startswith("agent "):
        return event.usage
    return None


def total(events: Iterable[Event]) -> Totals:
    """Return the totals of a session."""
    totals = Totals()
    for event in events:
        totals.apply(event)
    return totals
