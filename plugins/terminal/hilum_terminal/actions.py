"""What the user wants, in the order in which it was entered."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import trio


@attrs.frozen
class Action:
    """Something that the user entered.

    Attributes:
        run: Carries it out.
        text: The text that was entered.
        is_message: Whether it is a message for the agent, which a stop gives back to the user.
    """

    run: Callable[[], Awaitable[Any]]
    text: str = ""
    is_message: bool = False


class ActionQueue:
    """Carries out actions, one after another.

    Attributes:
        current: The action that is being carried out; None between two.
    """

    def __init__(self) -> None:
        self.current: Action | None = None
        self._waiting: deque[Action] = deque()
        self._changed = trio.Event()
        self._scope: trio.CancelScope | None = None

    def add(self, action: Action) -> None:
        """Carry out an action after those that were added earlier."""
        self._waiting.append(action)
        self._changed.set()

    def cancel(self) -> None:
        """Cancel the action that is being carried out."""
        if self._scope is not None:
            self._scope.cancel()

    def take_messages(self) -> list[str]:
        """Remove the messages that are not sent yet, and return their texts in order."""
        texts = []
        if self.current is not None and self.current.is_message:
            # The log does not contain it yet: nothing awaits after a message is written there.
            texts.append(self.current.text)
            self.cancel()
        texts += [action.text for action in self._waiting if action.is_message]
        self._waiting = deque(action for action in self._waiting if not action.is_message)
        return texts

    async def run(self, carry_out: Callable[[Action], Awaitable[None]]) -> None:
        """Carry out actions until cancelled.

        Args:
            carry_out: Carries out one action, and handles its errors.
        """
        while True:
            while not self._waiting:
                self._changed = trio.Event()
                await self._changed.wait()
            self.current = self._waiting.popleft()
            try:
                with trio.CancelScope() as self._scope:
                    await carry_out(self.current)
            finally:
                self.current = None
                self._scope = None
