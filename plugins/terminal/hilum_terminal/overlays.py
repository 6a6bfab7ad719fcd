"""Shows commands' questions in place of the input until they are answered."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import trio

from hilum_terminal.keys import Key, Paste
from hilum_terminal.styles import Theme


class Overlay(Protocol):
    """A question that receives all keys while it is shown."""

    def handle(self, key: Key | Paste, now: float) -> Any:
        """Handle a key, and return the result once there is one."""
        ...

    def rows(self, width: int, max_rows: int, theme: Theme, now: float) -> list[str]:
        """Return the rows to draw."""
        ...


class Overlays:
    """The open questions, which are shown one at a time, in the order in which they were asked.

    Args:
        changed: Function to call when something must be redrawn.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._open: deque[tuple[Overlay, list[Any], trio.Event]] = deque()

    @property
    def is_open(self) -> bool:
        """Whether a question is shown."""
        return bool(self._open)

    @property
    def current(self) -> Overlay | None:
        """The question that is shown."""
        return self._open[0][0] if self._open else None

    async def show(self, overlay: Overlay) -> Any:
        """Show a question, and return its result."""
        results: list[Any] = []
        answered = trio.Event()
        entry = (overlay, results, answered)
        self._open.append(entry)
        self._changed()
        try:
            await answered.wait()
        finally:
            if entry in self._open:
                self._open.remove(entry)
            self._changed()
        return results[0]

    def handle(self, key: Key | Paste, now: float) -> None:
        """Pass a key to the question that is shown."""
        overlay, results, answered = self._open[0]
        result = overlay.handle(key, now)
        if result is not None:
            results.append(result)
            self._open.popleft()
            answered.set()
