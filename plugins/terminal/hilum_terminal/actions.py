"""A queue of the user's actions, carried out in the order in which they were entered."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import trio


@attrs.frozen
class Action:
    """An action that the user entered.

    Attributes:
        run: Async function that carries out the action.
        text: The text that the user entered.
        is_message: Whether the action sends a message to the agent; a stop returns an unsent
            message to the draft.
        keeps_conversation: Whether the action leaves the conversation as it is, so that a later
            message need not wait for it.
    """

    run: Callable[[], Awaitable[Any]]
    text: str = ""
    is_message: bool = False
    keeps_conversation: bool = False


class ActionQueue:
    """A queue that carries out actions one after another.

    Attributes:
        current: The action that is being carried out; None if there is none.
    """

    def __init__(self) -> None:
        self.current: Action | None = None
        self._waiting: deque[Action] = deque()
        self._changed = trio.Event()
        # Set when an action has ended or was taken back; then replaced by a new event.
        self._ended = trio.Event()
        self._scope: trio.CancelScope | None = None

    async def wait_until_empty(self) -> None:
        """Wait until every action has been carried out."""
        while self._waiting or self.current is not None:
            await self._ended.wait()

    def add(self, action: Action) -> None:
        """Add an action, which is carried out after all earlier ones."""
        self._waiting.append(action)
        self._changed.set()

    def _note_end(self) -> None:
        self._ended.set()
        self._ended = trio.Event()

    def cancel(self) -> None:
        """Cancel the action that is being carried out."""
        if self._scope is not None:
            self._scope.cancel()

    @property
    def messages(self) -> list[str]:
        """The messages that wait for an earlier action, in order."""
        return [action.text for action in self._waiting if action.is_message]

    @property
    def delays_messages(self) -> bool:
        """Whether a message that is sent now must wait for an action of this queue."""
        current = [] if self.current is None else [self.current]
        return any(not action.keeps_conversation for action in (*current, *self._waiting))

    def take_last_message(self) -> str:
        """Remove the last message that waits, and return its text; empty if there is none."""
        for action in reversed(self._waiting):
            if action.is_message:
                self._waiting.remove(action)
                self._note_end()
                return action.text
        return ""

    def take_messages(self) -> list[str]:
        """Remove the messages that have not been sent yet, and return their texts in order."""
        texts = []
        if self.current is not None and self.current.is_message:
            # The log does not contain this message yet, because an action ends when its message is
            # written to the log.
            texts.append(self.current.text)
            self.cancel()
        texts += [action.text for action in self._waiting if action.is_message]
        self._waiting = deque(action for action in self._waiting if not action.is_message)
        self._note_end()
        return texts

    async def run(self, carry_out: Callable[[Action], Awaitable[None]]) -> None:
        """Carry out actions until cancelled.

        Args:
            carry_out: Async function that carries out one action and handles its errors.
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
                self._note_end()
