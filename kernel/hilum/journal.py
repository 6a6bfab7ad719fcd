"""The journal of a session, which provides its events and streamed output to any number of readers.

Readers get an event only when it is durable (see ``hilum.store.Log``), and what follows from an event
waits as well. Output that is still arriving (``Delta``) is never stored. A late reader gets the text
so far and then the additions; a slow reader gets several pieces joined. Writers never wait for
readers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice

import msgspec
import trio

from hilum.errors import StoreError
from hilum.events import AnyEvent, CallDone, Delta, Event, ModelAnswered, ModelFailed, RunEnded
from hilum.store import Log

# Number of recent events that are kept in memory, so that only late readers need the store.
RECENT = 1_000
KEEP = 200_000
# Seconds that a session which closes waits for its last events to become durable.
CLOSE_TIMEOUT = 10.0
# Seconds after which the user learns that events do not become durable.
DELAY_SHOWN = 2.0
Key = tuple[int, str, str]  # sequence number, kind, call id
Kinds = tuple[type[Event], ...]


class Stream(msgspec.Struct):
    """The last pieces of one output, about ``KEEP`` characters."""

    agent: str
    run: str
    tool: str = ""
    pieces: deque[str] = msgspec.field(default_factory=deque)
    first: int = 0
    size: int = 0
    replaced_by: int = 0  # the event with the whole output, which is not durable yet

    def add(self, text: str) -> None:
        """Add a piece, and drop the oldest pieces of an output that is too long."""
        self.pieces.append(text)
        self.size += len(text)
        while self.size > KEEP and len(self.pieces) > 1:
            self.size -= len(self.pieces.popleft())
            self.first += 1

    def clear(self) -> None:
        """Drop all pieces, because what follows them is missing."""
        self.first += len(self.pieces)
        self.size = 0
        self.pieces.clear()

    def since(self, position: int) -> tuple[str, int]:
        """Return the text after a position, and the new position."""
        skipped = max(position - self.first, 0)
        text = "".join(islice(self.pieces, skipped, None))
        return text, self.first + len(self.pieces)


class FirstOfKinds:
    """What the readers of some kinds of events wait for.

    Attributes:
        arrived: Set when there is an event of these kinds, or when the journal closes or breaks.
        seq: The number of that event; 0 if it is not known.
    """

    def __init__(self) -> None:
        self.arrived: trio.Event = trio.Event()
        self.seq: int = 0


class Journal:
    """The log of a session and its readers.

    Attributes:
        broken: The error that keeps the journal from accepting events; ``None`` while it accepts
            them.
        streams: Output that is still arriving.
        news: Set, and then replaced by a new event, when there are events or output to read.
        new_events: The same, but not for output.
        delay_changed: The same, but only when ``delay`` may have changed.
        closed: Whether the session is closed.
        appended_at: Time of the last event on trio's clock.
        on_broken: Called when the journal breaks.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._recent = deque[AnyEvent](maxlen=RECENT)
        self.broken: StoreError | None = None
        self.streams: dict[Key, Stream] = {}
        self.news: trio.Event = trio.Event()
        self.new_events: trio.Event = trio.Event()
        self.delay_changed: trio.Event = trio.Event()
        self._awaited: dict[Kinds, FirstOfKinds] = {}
        self.closed: bool = False
        self.appended_at: float = trio.current_time()
        self.on_broken: Callable[[], None] = _do_nothing
        # What waits for an event to become durable, in the order of the events.
        self._waiting = deque[tuple[int, Callable[[], None]]]()
        log.subscribe(self._advance)

    @property
    def last(self) -> int:
        """Sequence number of the last event, which may not be durable yet."""
        return self._log.last

    @property
    def durable(self) -> int:
        """Sequence number of the last durable event, which is the last one that readers get."""
        return self._log.durable

    @property
    def delay(self) -> StoreError | None:
        """Why events do not become durable at the moment; ``None`` while nothing is wrong."""
        return self._log.delay if self.broken is None else None

    def append(self, events: Sequence[AnyEvent], shown: Sequence[AnyEvent] | None = None) -> None:
        """Write events in one transaction, and show them to readers when they are durable.

        Args:
            events: The events.
            shown: The events that readers in this process get instead, if any.

        Raises:
            StoreError: The events could not be written; from now on, no event can be written.
        """
        # After a failed write, the log and the folded state differ, so no more events are accepted.
        if self.broken is not None:
            raise self.broken
        appended: Sequence[AnyEvent] | None = None
        try:
            self._log.append(events)
            self.appended_at = trio.current_time()
            self._recent.extend(events if shown is None else shown)
            appended = events
        except StoreError as error:
            self._break(error)
            raise
        finally:
            # All readers are woken after a failure, because they end when the log is broken.
            self._wake(appended)

    async def flush(self, seq: int | None = None) -> None:
        """Wait until an event is durable; by default, the last one.

        Raises:
            StoreError: The event will never be durable; from now on, no event can be written.
        """
        if self._log.durable >= (self._log.last if seq is None else seq):
            return
        if self.broken is not None:
            raise self.broken
        await self._log.flush(seq)

    def when_durable(self, seq: int, function: Callable[[], None]) -> None:
        """Call a function when an event is durable: now, later, or never if the log breaks."""
        if self._log.durable >= seq:
            function()
        else:
            self._waiting.append((seq, function))

    async def wait_for_delay(self, delayed: bool) -> StoreError | None:
        """Wait until events are delayed, or no longer delayed, and return why they are."""
        while (self.delay is not None) != delayed:
            await self.delay_changed.wait()
        return self.delay

    def _advance(self, error: StoreError | None) -> None:
        """Record that more events are durable, or that the log is broken or delayed."""
        while self._waiting and self._waiting[0][0] <= self._log.durable:
            self._waiting.popleft()[1]()
        for key, stream in list(self.streams.items()):
            if 0 < stream.replaced_by <= self._log.durable:
                del self.streams[key]
        if error is not None and self.broken is None:
            self._break(error)
        self._wake()

    def _break(self, error: StoreError) -> None:
        self.broken = error
        self._waiting.clear()
        self.on_broken()

    def read_all(self) -> list[AnyEvent]:
        """Read all events so far."""
        events: list[AnyEvent] = []
        # Sequence numbers have no gaps, so the number of events equals the last sequence number.
        while page := self._log.read(len(events)):
            events += page
        self._recent.extend(events)
        return events

    def delta(self, key: Key, agent: str, run: str, text: str, tool: str = "") -> None:
        """Add a piece of output.

        Only the first piece of a call's arguments needs the name of the tool.
        """
        stream = self.streams.setdefault(key, Stream(agent, run))
        stream.tool = stream.tool or tool
        stream.add(text)
        # Most readers want events only. A model streams hundreds of pieces for each event.
        self._wake_output()

    def read_answer(self, agent: str) -> str:
        """Return the text of the answer that is arriving for an agent; empty if there is none."""
        for (_, kind, _), stream in self.streams.items():
            if kind == "text" and stream.agent == agent and not stream.replaced_by:
                return "".join(stream.pieces)
        return ""

    def _drop(self, seq: int, agent: str, call_id: str | None = None, *, run: str = "") -> None:
        """Drop the output of a call or, if no call is given, of the agent's response.

        Readers get it until the event with the complete output is durable.

        Args:
            seq: Sequence number of the event with the complete output.
            agent: The agent.
            call_id: The call.
            run: The only run whose output is dropped; by default, all runs.
        """
        for key, stream in list(self.streams.items()):
            _, kind, call = key
            if stream.agent != agent or run not in ("", stream.run):
                continue
            is_answer = kind != "output"
            if (call_id is None and is_answer) or (call_id == call and not is_answer):
                if self._log.durable >= seq:
                    del self.streams[key]
                elif not stream.replaced_by:
                    stream.replaced_by = seq

    def has_in_memory(self, after: int) -> bool:
        """Return whether all events after a sequence number can be read without the store."""
        return self._log.last - after <= len(self._recent)

    def drop_replaced(self, event: Event) -> None:
        """Drop the streamed output that an event in the log replaces."""
        if isinstance(event, ModelAnswered | ModelFailed):
            self._drop(event.seq, event.agent)
        elif isinstance(event, RunEnded):
            # A prompt that is dropped from the queue ends, too, while the agent answers another
            # one. The text of that answer must not be lost.
            self._drop(event.seq, event.agent, run=event.run)
        elif isinstance(event, CallDone):
            self._drop(event.seq, event.agent, event.result.call_id)

    def since(self, after: int) -> list[AnyEvent]:
        """Read all events after a sequence number if they are recent, otherwise a page of them.

        The events need not be durable, so that a plugin finds those that it has just written. What
        leaves the process is read with ``durable_since``.
        """
        if not self.has_in_memory(after):
            return self._log.read(after)
        missing = self._log.last - after
        # Access to the middle of a deque is slow, so the last events are read from its end.
        newest_first = islice(reversed(self._recent), max(missing, 0))
        return list(newest_first)[::-1]

    def durable_since(self, after: int) -> list[AnyEvent]:
        """Read all durable events after a sequence number, or a page of them."""
        durable = self._log.durable
        if after >= durable:
            return []
        events = self.since(after)
        if events and events[-1].seq > durable:
            return [event for event in events if event.seq <= durable]
        return events

    def first_of(self, kinds: Kinds) -> FirstOfKinds:
        """Return what is set by the next event of some kinds."""
        return self._awaited.setdefault(kinds, FirstOfKinds())

    def _wake(self, appended: Sequence[AnyEvent] | None = None) -> None:
        """Wake the tasks that wait for events or for output.

        Args:
            appended: The new events; by default, the readers of all kinds of events are woken.
        """
        self.new_events.set()
        # A trio event cannot be cleared, so it is replaced.
        self.new_events = trio.Event()
        self._wake_output()
        if appended is None:
            self.delay_changed.set()
            self.delay_changed = trio.Event()
        for kinds, first in list(self._awaited.items()):
            found = 0
            if appended is not None:
                found = next((event.seq for event in appended if isinstance(event, kinds)), -1)
            if found < 0:
                continue
            del self._awaited[kinds]
            # An earlier event of these kinds may be queued, too; its readers must not skip it.
            if found <= self._log.durable:
                first.seq = found
            first.arrived.set()

    def _wake_output(self) -> None:
        self.news.set()
        self.news = trio.Event()

    def end(self) -> None:
        """End the readers, once they have read everything."""
        self.closed = True
        self._wake()

    async def close(self) -> None:
        """End the readers, after they got the last events, and release the log."""
        # A session that is cancelled must release its lease; otherwise it could not be opened
        # again.
        with trio.CancelScope(shield=True):
            with suppress(StoreError), trio.move_on_after(CLOSE_TIMEOUT):
                await self.flush()
            self.end()
            await self._log.close()


class Reader:
    """A reader that returns a journal's events in order, until the journal closes or breaks.

    A reader is an async iterator but not a generator, so it can be abandoned without being closed.

    Args:
        journal: The journal.
        after: Sequence number of the last event that the caller already knows.
        deltas: Whether to return output while it arrives.
        kinds: The kinds of events to return; all if empty. Other events do not wake the task that
            reads, which matters because a turn writes six events.
    """

    def __init__(
        self,
        journal: Journal,
        after: int,
        deltas: bool,
        kinds: Kinds = (),
    ) -> None:
        self._journal = journal
        self._after = after
        self._deltas = deltas
        self._kinds = kinds
        self._ready: deque[AnyEvent | Delta] = deque()
        self._seen: dict[Key, int] = {}

    def __aiter__(self) -> Reader:
        return self

    async def __anext__(self) -> AnyEvent | Delta:
        """Return the next event or delta; wait for it if necessary."""
        journal = self._journal
        while not self._ready:
            # The trio event is fetched before reading, because anything that arrives in between
            # sets it.
            news = journal.news if self._deltas else journal.new_events
            first = journal.first_of(self._kinds) if self._kinds else None
            # A page of events may contain none of the reader's kinds.
            while self._fill() and not self._ready:
                pass
            if self._ready:
                break
            if journal.closed or journal.broken:
                raise StopAsyncIteration
            if first is None:
                await news.wait()
            else:
                await first.arrived.wait()
                # The events before it are of other kinds and may have left the memory.
                self._after = max(self._after, first.seq - 1)
        return self._ready.popleft()

    def _fill(self) -> bool:
        """Fetch what is new: events first, and output only when all events have been fetched.

        Returns:
            Whether there were new events, also if none is of the reader's kinds.
        """
        events = self._journal.durable_since(self._after)
        if events:
            self._after = events[-1].seq
            if self._kinds:
                events = [event for event in events if isinstance(event, self._kinds)]
            self._ready.extend(events)
            return True
        if self._deltas:
            self._ready.extend(self._unseen())
        return False

    async def aclose(self) -> None:
        """Do nothing. The method exists so that a reader can be used like an async generator."""

    def _unseen(self) -> list[Delta]:
        """Return the output that was added since the previous read."""
        found = []
        seen = {}
        for key, stream in self._journal.streams.items():
            seq, kind, call_id = key
            if seq > self._journal.durable:
                continue  # readers do not know yet what this is the output of
            text, seen[key] = stream.since(self._seen.get(key, 0))
            is_new_call = bool(stream.tool) and key not in self._seen
            if text or is_new_call:
                delta = Delta(
                    seq,
                    stream.agent,
                    stream.run,
                    kind,  # type: ignore[arg-type]
                    text,
                    call_id,
                    stream.tool,
                )
                found.append(delta)
        self._seen = seen
        return found


async def report_delays(journal: Journal, tell: Callable[[StoreError | None], None]) -> None:
    """Report to the user when events have not become durable for a while, and when they do again.

    Args:
        journal: The journal.
        tell: Called with the reason, and later with ``None``.
    """
    while True:
        reason = await journal.wait_for_delay(True)
        with trio.move_on_after(DELAY_SHOWN):
            await journal.wait_for_delay(False)
            continue
        tell(reason)
        await journal.wait_for_delay(False)
        if journal.broken is None:
            tell(None)


def _do_nothing() -> None:
    pass
