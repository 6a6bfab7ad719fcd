"""Shows commands' questions in place of the input until they are answered.

A question opens at any moment, for example when a slow command has found something to ask. It must
not take keys that the user types for a message, so it waits until ``may_show`` says that the user
is not typing, or until the user asks for it (``show_now``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import trio

from hilum_terminal.keys import Key, Paste
from hilum_terminal.prompts import Passed
from hilum_terminal.styles import Theme


class Overlay(Protocol):
    """A question that receives all keys while it is shown."""

    @property
    def typed(self) -> str:
        """The text that the user has written and that may be shown; empty for a secret."""
        ...

    def handle(self, key: Key | Paste, now: float) -> Any:
        """Handle a key, and return the result once there is one."""
        ...

    def hide(self) -> tuple[Key, ...]:
        """Let no key answer until the question is drawn again; return the keys that it held."""
        ...

    def rows(self, width: int, max_rows: int, theme: Theme, now: float) -> list[str]:
        """Return the rows to draw."""
        ...


class Overlays:
    """The open questions, which are shown one at a time, in the order in which they were asked.

    Args:
        changed: Function to call when a question appears, is put aside or ends: until the next
            frame, the user sees something else than what the keys reach.
        may_show: Function that returns whether a question may take the keys now.
        give_back: Function that gets what the user wrote in a question that ended without them.
    """

    def __init__(
        self,
        changed: Callable[[], None],
        may_show: Callable[[], bool],
        give_back: Callable[[str], None],
    ) -> None:
        self._changed = changed
        self._give_back = give_back
        self._may_show = may_show
        self._open: deque[tuple[Overlay, list[Any], trio.Event]] = deque()
        self._is_shown = False

    @property
    def is_open(self) -> bool:
        """Whether a question is shown or waits to be shown."""
        return bool(self._open)

    @property
    def is_waiting(self) -> bool:
        """Whether a question waits until the user has stopped typing."""
        return self.is_open and not self._is_shown

    @property
    def current(self) -> Overlay | None:
        """The question that is shown."""
        return self._open[0][0] if self._is_shown else None

    async def show(self, overlay: Overlay) -> Any:
        """Show a question, and return its result."""
        results: list[Any] = []
        answered = trio.Event()
        entry = (overlay, results, answered)
        self._open.append(entry)
        self.update()
        try:
            await answered.wait()
        finally:
            # Otherwise, ``handle`` or ``tick`` has removed the question.
            if entry in self._open:
                is_first = entry is self._open[0]
                self._open.remove(entry)
                # The command was stopped, but what the user wrote must not be lost. The next
                # question waits until this text is sent.
                self._give_back(overlay.typed)
                if is_first:
                    self._begin_next()
        return results[0]

    def update(self) -> None:
        """Show the first question, if the user is not typing."""
        if self.is_waiting and self._may_show():
            self.show_now()

    def show_now(self) -> None:
        """Show the first question, because the user asked for it."""
        self.hide()
        self._is_shown = True
        self._changed()

    def handle(self, key: Key | Paste, now: float) -> tuple[Key | Paste, ...]:
        """Pass a key to the question that is shown; return the keys that belong in the draft."""
        result = self._open[0][0].handle(key, now)
        if isinstance(result, Passed):
            self.put_aside()
            return result.keys
        self._finish(result)
        return ()

    def note_burst(self, now: float) -> None:
        """Let the question answer no key for a moment, because several keys arrived at once."""
        note_burst = getattr(self.current, "note_burst", None)
        if note_burst is not None:
            note_burst(now)

    def hide(self) -> tuple[Key, ...]:
        """Let no key answer until the user has seen the question; return the keys that it held."""
        return self._open[0][0].hide() if self._open else ()

    def put_aside(self) -> None:
        """Let the question wait, because the user is typing a message and must see it."""
        self._is_shown = False
        self._changed()

    def tick(self, now: float) -> None:
        """End the question that is shown, if it was only waiting for another key."""
        tick = getattr(self.current, "tick", None)
        if tick is not None:
            self._finish(tick(now))

    def next_tick(self) -> float | None:
        """Return the time of the next change by ``tick``; None if there is none."""
        next_tick = getattr(self.current, "next_tick", None)
        return None if next_tick is None else next_tick()

    def _finish(self, result: Any) -> None:
        if result is None:
            return
        _, results, answered = self._open.popleft()
        results.append(result)
        answered.set()
        self._begin_next()

    def _begin_next(self) -> None:
        self._is_shown = self.is_open and self._may_show()
        self._changed()
