"""The usage of a session: the tokens and cost of all its runs and agents."""

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
        """Add the usage of an event."""
        used = usage_of(event)
        if used is not None:
            self.usage += used
        if isinstance(event, RunStarted | RunRetried) and event.agent == "main":
            self.runs += 1


def usage_of(event: Event) -> Usage | None:
    """Return the usage that an event adds, or ``None`` if it adds none."""
    if isinstance(event, ModelAnswered):
        return event.usage
    # An agent's usage is also charged to the agent that started it, but must be counted only once,
    # when its model answers.
    if isinstance(event, ModelUsed) and not event.purpose.startswith("agent "):
        return event.usage
    return None


def total(events: Iterable[Event]) -> Totals:
    """Calculate and return a session's totals from its events."""
    totals = Totals()
    for event in events:
        totals.apply(event)
    return totals
