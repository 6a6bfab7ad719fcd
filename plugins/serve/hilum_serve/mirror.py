"""The events and the streaming output of a remote session, as far as a client has received them."""

from __future__ import annotations

from typing import Any

import msgspec
from hilum import HilumError
from hilum import events as ev
from hilum.journal import Journal, Key, Reader
from hilum.store import MemoryLog, SessionInfo
from hilum_view import SessionView


class Mirror:
    """A copy of a remote session's log, with its view.

    Args:
        info: The description of the session.

    Attributes:
        journal: The events, and the output that is arriving, for any number of readers.
        view: The view of the events.
        grants: Scopes and tools that users approved for the rest of the session.
        error: Why nothing more comes; ``None`` as long as something may come.
    """

    def __init__(self, info: SessionInfo) -> None:
        self.journal = Journal(MemoryLog(info))
        self.view = SessionView()
        self.grants: set[str] = set()
        self.error: HilumError | None = None
        # The length of each output that is arriving, with what was missed of it.
        self._ends: dict[Key, int] = {}
        self._asked: dict[str, str] = {}

    @property
    def last(self) -> int:
        """Number of the last event that was received."""
        return self.journal.last

    @property
    def closed(self) -> bool:
        """Whether nothing more comes."""
        return self.journal.closed

    def add_event(self, event: ev.AnyEvent) -> bool:
        """Add an event, and return whether it is the next one; one that is known is ignored."""
        if event.seq <= self.last:
            return True
        if event.seq > self.last + 1:
            return False
        self.journal.append([event])
        self.view.apply(event)
        self._fold_grants(event)
        self.journal.drop_replaced(event)
        for key in list(self._ends):
            if key not in self.journal.streams:
                del self._ends[key]
        return True

    def _fold_grants(self, event: ev.AnyEvent) -> None:
        if isinstance(event, ev.ApprovalAsked):
            self._asked[event.id] = event.scope or event.call.name
        elif isinstance(event, ev.ApprovalAnswered):
            scope = self._asked.pop(event.id, "")
            if event.accepted and event.remember != "once" and scope:
                self.grants.add(scope)
        elif isinstance(event, ev.GrantRevoked):
            self.grants.discard(event.scope)

    def add_delta(self, data: dict[str, Any]) -> None:
        """Add a piece of output with its offset; what was received before is ignored."""
        offset = int(data.pop("offset", 0))
        delta = msgspec.convert(data, ev.Delta)
        key = (delta.seq, delta.kind, delta.call_id)
        is_new = key not in self._ends
        before = self._ends.get(key, offset)
        end = offset + len(delta.text)
        if not is_new and end <= before:
            return
        text = delta.text
        if offset < before:
            text = text[before - offset :]
        elif offset > before:
            # The server no longer has what lies between.
            self.journal.streams[key].clear()
        self._ends[key] = end
        self.journal.delta(key, delta.agent, delta.run, text, delta.tool)
        if text:
            self.view.apply(msgspec.structs.replace(delta, text=text))

    def close(self, error: HilumError | None = None) -> None:
        """Note that nothing more comes."""
        self.error = self.error or error
        self.journal.end()

    async def reached(self, seq: int) -> None:
        """Wait until an event was received, or nothing more comes."""
        while self.last < seq and not self.closed:
            await self.journal.news.wait()


class MirrorReader(Reader):
    """A reader of a mirror, which raises the error after which nothing more comes.

    Args:
        mirror: The mirror.
        after: Number of the last event that the caller already knows.
        deltas: Whether to return output while it arrives.
        kinds: The kinds of events to return; all if empty.
    """

    def __init__(
        self,
        mirror: Mirror,
        after: int,
        deltas: bool,
        kinds: tuple[type[ev.Event], ...] = (),
    ) -> None:
        super().__init__(mirror.journal, after, deltas, kinds)
        self._mirror = mirror

    def __aiter__(self) -> MirrorReader:
        return self

    async def __anext__(self) -> ev.AnyEvent | ev.Delta:
        """Return the next event or delta; wait for it if necessary.

        Raises:
            HilumError: The server refuses this client, or the session is gone.
        """
        try:
            return await super().__anext__()
        except StopAsyncIteration:
            if self._mirror.error is None:
                raise
        raise self._mirror.error
