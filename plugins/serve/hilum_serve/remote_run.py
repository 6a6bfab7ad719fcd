"""A run in a remote session."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from hilum import HilumError
from hilum import events as ev
from hilum.errors import E_INTERRUPTED

if TYPE_CHECKING:
    from hilum_serve.remote_session import RemoteSession


class RemoteRun:
    """A run in a remote session; see ``hilum.Run``.

    Attributes:
        id: Id of the run; empty for a command.
        agent: Name of the agent.
        session: The session.
        reply: The reply to a prompt that was a command; ``None`` if an agent works on it.
        after: Sequence number of the last event before the run's prompt.
        result: The event with which the run ended; ``None`` as long as it is not known.
    """

    def __init__(self, session: RemoteSession, data: Mapping[str, Any]) -> None:
        self.session = session
        self.id = str(data["run"])
        self.agent = str(data["agent"])
        self.reply: str | None = data["reply"]
        self.after = int(data["after"])
        self.result: ev.RunEnded | None = None
        if not self.id:
            self.result = ev.RunEnded(state="completed", text=self.reply or "")

    async def wait(self) -> ev.RunEnded:
        """Wait for the end of the run, and return its result.

        Raises:
            HilumError: The server refuses this client, or the session is gone.
        """
        if self.result is None:
            async for item in self.session.events(self.after):
                if isinstance(item, ev.RunEnded) and item.run == self.id:
                    self.result = item
                    break
        if self.result is None:
            text = "The connection was closed before the run ended."
            raise HilumError(text, code=E_INTERRUPTED)
        return self.result

    async def events(self, *, deltas: bool = False) -> AsyncIterator[ev.AnyEvent | ev.Delta]:
        """Yield the session's events from this run's prompt until the run has ended.

        Args:
            deltas: Whether to yield text and tool output while they arrive.
        """
        if not self.id:
            return
        async for item in self.session.events(self.after, deltas=deltas):
            yield item
            if isinstance(item, ev.RunEnded) and item.run == self.id:
                return

    def stop(self) -> None:
        """Stop the run, with everything that it started."""
        if self.result is None:
            self.session.stop(self.agent, run=self.id)
