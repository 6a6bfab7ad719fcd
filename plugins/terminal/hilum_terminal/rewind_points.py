"""Finds the prompts in a session's log that the user can go back to."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
from hilum.events import Event, PromptQueued, RunEnded, RunRetried, RunStarted


@attrs.frozen
class RewindPoint:
    """A prompt that the user can go back to.

    Attributes:
        text: The prompt as the user typed it.
        at: Unix time at which the prompt's run began.
        run: Id of its run.
        before: Number of the last event before the prompt.
    """

    text: str
    at: float
    run: str
    before: int


def find_rewind_points(events: Iterable[Event], agent: str = "main") -> list[RewindPoint]:
    """Return an agent's prompts whose runs have started, oldest first.

    Args:
        events: All events of the session.
        agent: The agent that the user talks to.
    """
    points: list[RewindPoint] = []
    # The number of the last event before each prompt that has not started; 0 if the prompt was
    # queued.
    waiting: dict[str, int] = {}
    # What the user typed, by run, if a plugin replaced the text of the prompt.
    typed: dict[str, str] = {}
    running = ""
    for event in events:
        if event.agent != agent:
            continue
        if isinstance(event, PromptQueued):
            # A prompt that waits for another run comes after the end of that run.
            typed[event.run] = event.typed
            is_behind = bool(running or waiting)
            waiting[event.run] = 0 if is_behind else event.seq - 1
        elif isinstance(event, RunStarted):
            running = event.run
            before = waiting.pop(event.run, 0) or event.seq - 1
            text = typed.pop(event.run, "") or event.text
            if event.repeats is not None:
                # The user typed nothing that could be sent again.
                text = ""
            points.append(RewindPoint(text, event.at, event.run, before))
        elif isinstance(event, RunRetried):
            running = event.run
        elif isinstance(event, RunEnded):
            waiting.pop(event.run, None)
            if event.run == running:
                running = ""
    return points
