"""What programs outside of calls, such as hooks, answered in a recorded session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from hilum.events import AnyEvent, PluginEvent


class RecordedProgramResults:
    """The results that plugins take from the log in place of starting programs.

    Implements ``RecordedResults``.

    Args:
        events: The events of the recorded session.
        wait: A function that waits until everything before an event of the recorded log has
            happened again, such as the program's changes of files.
    """

    def __init__(self, events: Sequence[AnyEvent], wait: Callable[[int], Awaitable[None]]) -> None:
        self._left = [
            event for event in events if isinstance(event, PluginEvent) and "key" in event.data
        ]
        self._wait = wait

    async def take_result(self, name: str, key: str) -> Mapping[str, Any] | None:
        """Return the data of the next recorded event; ``None`` if there is none left.

        Args:
            name: The name of the event.
            key: The item ``key`` of its data.
        """
        for number, event in enumerate(self._left):
            if event.name == name and event.data["key"] == key:
                del self._left[number]
                await self._wait(event.seq)
                return event.data
        return None
