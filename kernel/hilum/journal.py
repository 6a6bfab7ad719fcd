"""The journal of a session: what was written, and what is on its way, for any number of readers.

Events are shown only after they were written. Output on its way (``Delta``) is never stored: a
reader that comes late gets the text so far, then what is added; one that is slow gets pieces
joined. Nothing waits for readers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice

import msgspec
import trio

from hilum.errors import StoreError
from hilum.events import AnyEvent, Delta
from hilum.store import Log

RECENT = 1_000
KEEP = 200_000
Key = tuple[int, str, str]  # sequence number, kind, call id


class Stream(msgspec.Struct):
    """The pieces of one output: a window of the last ``KEEP`` characters."""

    agent: str
    run: str
    pieces: deque[str] = msgspec.field(default_factory=deque)
    first: int = 0
    size: int = 0

    def add(self, text: str) -> None:
        """Add a piece; old ones fall out of the window."""
        self.pieces.append(text)
        self.size += len(text)
        while self.size > KEEP and len(self.pieces) > 1:
            self.size -= len(self.pieces.popleft())
            self.first += 1

    def since(self, position: int) -> tuple[str, int]:
        """Return the text after a position, and the position after it."""
        return "".join(islice(self.pieces, max(position - self.first, 0), None)), self.first + len(
            self.pieces
        )


class Journal:
    """The log of a session and its readers.

    Attributes:
        broken: Why it takes no more events, ``None`` while it does.
        streams: Output on its way.
        news: Set when there is something to read, and then replaced.
        closed: Whether its session is over.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._recent = deque[AnyEvent](maxlen=RECENT)
        self.broken: StoreError | None = None
        self.streams: dict[Key, Stream] = {}
        self.news = trio.Event()
        self.closed = False

    @property
    def last(self) -> int:
        """Sequence number of the last event."""
        return self._log.last

    def append(self, events: Sequence[AnyEvent], shown: Sequence[AnyEvent] | None = None) -> None:
        """Write events in one transaction, then show them.

        Args:
            events: What is written.
            shown: What is shown to those who read along, where that differs.

        Raises:
            StoreError: They could not be written; from now on nothing can.
        """
        if self.broken is not None:
            raise self.broken
        try:
            self._log.append(events)
            self._recent.extend(events if shown is None else shown)
        except StoreError as error:
            self.broken = error
            raise
        finally:
            self._wake()

    def read_all(self) -> list[AnyEvent]:
        """Read every event so far."""
        events: list[AnyEvent] = []
        while page := self._log.read(len(events)):
            events += page
        self._recent.extend(events)
        return events

    def delta(self, key: Key, agent: str, run: str, text: str) -> None:
        """Add a piece of output."""
        if key not in self.streams:
            self.streams[key] = Stream(agent, run)
        self.streams[key].add(text)
        self._wake()

    def drop(self, agent: str, call_id: str | None = None) -> None:
        """Forget the output of a call, or (without one) of an agent's answer: the event with the
        whole is written.
        """
        for key in [k for k, s in self.streams.items() if s.agent == agent]:
            if (
                (key[1] != "output")
                if call_id is None
                else (key[1] == "output" and key[2] == call_id)
            ):
                del self.streams[key]

    def since(self, after: int) -> list[AnyEvent]:
        """Read events after a sequence number: all of them where they are recent, else a page."""
        missing = self._log.last - after
        if missing > len(self._recent):
            return self._log.read(after)
        return [*islice(reversed(self._recent), max(missing, 0))][::-1]

    def _wake(self) -> None:
        self.news.set()
        self.news = trio.Event()

    async def close(self) -> None:
        """End the readers and give up the log."""
        self.closed = True
        self._wake()
        with trio.CancelScope(shield=True):
            await self._log.close()


class Reader:
    """Reads a journal in order until it closes or breaks.

    An async iterator, and no generator: it may be left at any point without being closed.

    Args:
        journal: What to read.
        after: Sequence number of the last event already known.
        deltas: Also give output on its way.
    """

    def __init__(self, journal: Journal, after: int, deltas: bool) -> None:
        self._journal = journal
        self._after = after
        self._deltas = deltas
        self._ready: deque[AnyEvent | Delta] = deque()
        self._seen: dict[Key, int] = {}

    def __aiter__(self) -> Reader:
        return self

    async def __anext__(self) -> AnyEvent | Delta:
        """Return the next event or delta, waiting for it if need be."""
        journal = self._journal
        while not self._ready:
            news = journal.news
            events = journal.since(self._after)
            if events:
                self._after = events[-1].seq
                self._ready.extend(events)
            elif self._deltas and (unseen := self._unseen()):
                self._ready.extend(unseen)
            elif journal.closed or journal.broken:
                raise StopAsyncIteration
            else:
                await news.wait()
        return self._ready.popleft()

    async def aclose(self) -> None:
        """Do nothing: so that it can stand where a generator could."""

    def _unseen(self) -> list[Delta]:
        found = []
        seen = {}
        for key, stream in self._journal.streams.items():
            text, seen[key] = stream.since(self._seen.get(key, 0))
            if text:
                found.append(Delta(key[0], stream.agent, stream.run, key[1], text, key[2]))  # type: ignore[arg-type]
        self._seen = seen
        return found
