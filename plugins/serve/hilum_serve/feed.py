"""The feed of a session: what its readers get, encoded once for all of them.

The feed follows the session's log, keeps the view up to date, and writes what is new into a ring
of items, once for each vocabulary that somebody reads. A reader is a position in the ring and the
number of the last event that it got, so that slow readers cost nothing: one that is behind the ring
continues from the log.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import msgspec
import trio
from hilum import Session
from hilum import events as ev
from hilum_view import AnyEntry, Card, SessionView

from hilum_serve.http_server import encode_frame
from hilum_serve.view_items import (
    MAX_SLICE,
    MAX_SNAPSHOT_ENTRIES,
    describe_entry,
    find_streaming_entry,
    utf16_length,
)
from hilum_serve.vocabularies import (
    Vocabulary,
    rename_delta_for_chat,
    rename_delta_for_desktop,
    rename_for_chat,
    rename_for_desktop,
)

PAUSE = 0.01
"""Seconds in which events are collected before they are encoded."""
MAX_ITEMS = 2_000
MAX_BYTES = 4_000_000
"""Limits of the ring; readers that are further behind continue from the log."""
MAX_SHARED = 64
"""Most messages that are kept because several readers get them; together at most ``MAX_BYTES``."""
MAX_RECENT = 500
"""Number of events behind the end of the log up to which they are read from memory."""
MAX_PAGE = 500
"""Most events that are read from the log at once."""
FIRST_PAGE = 16
PAGE_BYTES = 500_000
MAX_PER_MESSAGE = 2_000
MAX_KEPT = 500_000
"""Characters of an output that are kept for readers that join later."""
MAX_CHUNK = 64_000
"""Most characters of one piece of streaming output."""
Key = tuple[int, str, str]
Element = tuple[int, str]
"""Encoded JSON, with the sequence number that a reader has completely seen after it; or 0."""
StateMaker = Callable[[], msgspec.Struct]
_encode = msgspec.json.Encoder(enc_hook=str).encode


def encode_text(value: object) -> str:
    """Return a value as JSON text."""
    return _encode(value).decode()


@attrs.define
class _Output:
    """An output that is arriving, as far as the feed has passed it on."""

    agent: str
    run: str
    tool: str
    position: int = 0
    pieces: list[str] = attrs.field(factory=list)
    size: int = 0
    units: int = 0

    def add(self, text: str) -> None:
        """Add a piece, and forget the beginning of a very long text."""
        self.pieces.append(text)
        self.size += len(text)
        self.units += utf16_length(text)
        if self.size > MAX_KEPT and len(self.text) > 2 * MAX_KEPT:
            self.pieces = [self.text[-MAX_KEPT:]]

    @property
    def start(self) -> int:
        """Offset in characters at which the text that is left begins."""
        return self.size - len(self.text)

    @property
    def text(self) -> str:
        """The text so far."""
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""


@attrs.frozen
class _Item:
    """The elements that became available at the same moment, by vocabulary."""

    seq: int
    elements: dict[Vocabulary, list[Element]]
    size: int


class Feed:
    """The feed of one session.

    Args:
        session: The session.
        view: The view that the feed keeps up to date.
        make_state: Function that returns the state of the session.
        on_news: Function that is called when there is something to read.

    Attributes:
        ended: Set when the session has ended, so that nothing more comes.
        why: Why the feed ended.
        seq: Number of the last event in the feed.
    """

    def __init__(
        self,
        session: Session,
        view: SessionView,
        make_state: StateMaker,
        on_news: Callable[[], None] = lambda: None,
    ) -> None:
        self.ended = trio.Event()
        self.why = ""
        self.seq = 0
        self._session = session
        self._view = view
        self._make_state = make_state
        self._on_news = on_news
        self._moved = trio.Event()
        self._outputs: dict[Key, _Output] = {}
        self._ring: deque[_Item] = deque()
        self._first = 0
        self._bytes = 0
        self._readers: Counter[Vocabulary] = Counter()
        # The number of the last event that changed each entry, by id.
        self._changed_at: list[int] = []
        self._last_state: dict[str, bytes] = {}
        self._joined: dict[tuple[Vocabulary, int, int], bytes] = {}
        self._joined_bytes = 0

    # --- following the session --------------------------------------------------------------------

    async def run(self) -> None:
        """Follow the session until it ends."""
        journal = self._session.journal
        while True:
            # Fetched before reading, because anything that arrives in between sets it.
            news = journal.news
            # The events of a long log, when the session has just been opened, are read in a thread.
            events = await self._read_page(self.seq)
            self._take(events)
            if events:
                await trio.lowlevel.checkpoint()
                continue
            if journal.closed or journal.broken is not None:
                break
            await news.wait()
            await trio.sleep(PAUSE)
        self.end("closed")

    def end(self, why: str) -> None:
        """End the feed; readers receive the reason."""
        if not self.ended.is_set():
            self.why = why
            self.ended.set()
        self._wake()

    def note_state(self) -> None:
        """Send readers what changed in the state without an event, such as the title."""
        if self._readers["view"] > 0:
            self._append(self.seq, {"view": self._diff_state()})
            self._wake()

    def _wake(self) -> None:
        self._moved.set()
        self._moved = trio.Event()
        self._on_news()

    async def reached(self, seq: int) -> None:
        """Wait until the feed contains an event, or has ended."""
        while self.seq < seq and not self.ended.is_set():
            await self._moved.wait()

    def _take(self, events: Sequence[ev.Event]) -> None:
        """Apply events, or, when there are none, the output that arrived."""
        touched: dict[int, AnyEntry] = {}
        changes_state = False
        for event in events:
            changes = self._view.apply(event)
            self.seq = event.seq
            changes_state = changes_state or bool(changes.parts - {"entries"})
            for entry in changes.entries:
                touched[entry.id] = entry
                self._note_change(entry.id)
        # As in the kernel's readers, output comes only after all events before it.
        deltas = [] if events else self._take_outputs()
        if events or deltas:
            self._publish(events, deltas, touched, changes_state or bool(events))
            self._wake()

    def _note_change(self, entry: int) -> None:
        missing = entry + 1 - len(self._changed_at)
        if missing > 0:
            self._changed_at.extend([self.seq] * missing)
        self._changed_at[entry] = self.seq

    def _take_outputs(self) -> list[tuple[ev.Delta, int, int]]:
        """Return the new output, each piece with its offset in characters and UTF-16 units."""
        found: list[tuple[ev.Delta, int, int]] = []
        streams = self._session.journal.streams
        for key in [key for key in self._outputs if key not in streams]:
            del self._outputs[key]
        for key, stream in streams.items():
            is_new = key not in self._outputs
            if is_new:
                self._outputs[key] = _Output(stream.agent, stream.run, stream.tool)
            output = self._outputs[key]
            text, output.position = stream.since(output.position)
            if not text and not (is_new and stream.tool):
                continue
            seq, kind, call = key
            delta = ev.Delta(seq, stream.agent, stream.run, _kind(kind), text, call, stream.tool)
            found.append((delta, output.size, output.units))
            output.add(text)
            self._view.apply(delta)
        return found

    # --- encoding ---------------------------------------------------------------------------------

    def _publish(
        self,
        events: Sequence[ev.Event],
        deltas: Sequence[tuple[ev.Delta, int, int]],
        touched: dict[int, AnyEntry],
        changes_state: bool,
    ) -> None:
        """Encode what is new for the vocabularies that somebody reads."""
        wanted = [name for name, count in self._readers.items() if count > 0]
        if not wanted:
            # Readers that join get what happened meanwhile from the log.
            self._forget()
            return
        elements: dict[Vocabulary, list[Element]] = {}
        for name in wanted:
            if name == "view":
                elements[name] = self._encode_view(touched, deltas, changes_state)
            else:
                own = [element for event in events for element in encode_event(event, name)]
                for delta, at, _ in deltas:
                    own += encode_delta(delta, at, name)
                elements[name] = own
        self._append(self.seq, elements)

    def _append(self, seq: int, elements: dict[Vocabulary, list[Element]]) -> None:
        size = sum(len(text) for own in elements.values() for _, text in own)
        self._ring.append(_Item(seq, elements, size))
        self._bytes += size
        while len(self._ring) > MAX_ITEMS or (self._bytes > MAX_BYTES and len(self._ring) > 1):
            self._bytes -= self._ring.popleft().size
            self._first += 1

    def _forget(self) -> None:
        self._first += len(self._ring)
        self._ring.clear()
        self._bytes = 0
        self._forget_shared()

    def _forget_shared(self) -> None:
        self._joined.clear()
        self._joined_bytes = 0

    def _encode_view(
        self,
        touched: dict[int, AnyEntry],
        deltas: Sequence[tuple[ev.Delta, int, int]],
        changes_state: bool,
    ) -> list[Element]:
        elements: list[Element] = [
            (0, self._encode_entry(touched[identity])) for identity in sorted(touched)
        ]
        # Only the state, which comes last, has the number of the events: a reader whose connection
        # is lost before it must get the entries again.
        for delta, _, units in deltas:
            entry = find_streaming_entry(self._view, delta)
            if entry is not None:
                elements += _encode_growth(delta, units, entry.id)
        if changes_state:
            elements += self._diff_state()
        if elements and not deltas:
            elements[-1] = (self.seq, elements[-1][1])
        return elements

    def _encode_entry(self, entry: AnyEntry) -> str:
        return encode_text({"type": "entry", "entry": self._describe(entry)})

    def _describe(self, entry: AnyEntry) -> dict[str, Any]:
        units = 0
        if isinstance(entry, Card) and not entry.ended:
            for (_, kind, call), output in self._outputs.items():
                if kind == "output" and (output.agent, call) == (entry.agent, entry.call.id):
                    units = output.units
        return describe_entry(entry, units)

    def describe_entries(self, entries: Sequence[AnyEntry]) -> list[dict[str, Any]]:
        """Return entries as plain data of limited size, as the vocabulary ``view`` has them."""
        return [self._describe(entry) for entry in entries]

    def _diff_state(self, *, always: bool = True) -> list[Element]:
        """Return an element with the parts of the state that changed since the last one.

        Args:
            always: Whether to return an element without any part if nothing has changed.
        """
        state = self._make_state()
        parts = {name: _encode(getattr(state, name)) for name in state.__struct_fields__}
        changed = {
            name: msgspec.Raw(data)
            for name, data in parts.items()
            if self._last_state.get(name) != data
        }
        self._last_state = parts
        if not changed and not always:
            return []
        return [(0, encode_text({"type": "state", "seq": self.seq, **changed}))]

    # --- reading ----------------------------------------------------------------------------------

    @contextmanager
    def join(self, vocabulary: Vocabulary) -> Iterator[None]:
        """Have the feed encode a vocabulary within the block."""
        self._readers[vocabulary] += 1
        try:
            yield
        finally:
            self._readers[vocabulary] -= 1

    @property
    def end_position(self) -> int:
        """The position behind the last item."""
        return self._first + len(self._ring)

    def take(
        self, vocabulary: Vocabulary, position: int, limit: int = MAX_SLICE
    ) -> tuple[list[Element], int, int] | None:
        """Return what a reader gets next; ``None`` if it is behind the ring.

        Args:
            vocabulary: What the reader reads.
            position: Position of the reader.
            limit: Largest number of characters, unless the first item alone is larger.

        Returns:
            The elements, the reader's next position, and the number of the last event in them.
        """
        if position < self._first:
            return None
        elements: list[Element] = []
        size = 0
        seq = 0
        for index in range(position - self._first, len(self._ring)):
            item = self._ring[index]
            own = item.elements.get(vocabulary, [])
            length = sum(len(text) for _, text in own)
            if elements and (size + length > limit or len(elements) + len(own) > MAX_PER_MESSAGE):
                break
            elements += own
            size += length
            seq = item.seq
            position += 1
        return elements, position, seq

    def join_shared(
        self, vocabulary: Vocabulary, position: int, end: int, elements: list[Element]
    ) -> bytes:
        """Return the elements between two positions as a WebSocket frame, which readers share."""
        key = (vocabulary, position, end)
        frame = self._joined.get(key)
        if frame is None:
            frame = encode_frame(join_elements(elements))
            if len(self._joined) >= MAX_SHARED or self._joined_bytes > MAX_BYTES:
                self._forget_shared()
            self._joined[key] = frame
            self._joined_bytes += len(frame)
        return frame

    async def catch_up(
        self, vocabulary: Vocabulary, after: int
    ) -> tuple[AsyncGenerator[list[Element], None], int, int]:
        """Return what a reader gets first, and where it continues.

        Args:
            vocabulary: What the reader reads.
            after: Number of the last event that the reader has.

        Returns:
            Elements in slices, the position after them, and the number of the last event in them.
        """
        await self.reached(min(after, self._session.journal.last))
        # What follows, up to the return, happens at one moment.
        if vocabulary == "view":
            # The parts that readers get later are those that differ from the last state. A change
            # that no reader has got yet must not be taken for one that this reader lacks, and the
            # other readers need it.
            missed = self._diff_state(always=False)
            if missed:
                self._append(self.seq, {"view": missed})
                self._wake()
        position = self.end_position
        seq = self.seq
        if vocabulary == "view":
            elements = self._encode_missed_entries(after)
            return _yield_slices(elements), position, seq
        outputs = [(_make_delta(key, each), each.start) for key, each in self._outputs.items()]
        return self._read_log(vocabulary, after, seq, outputs), position, seq

    async def _read_log(
        self,
        vocabulary: Vocabulary,
        after: int,
        seq: int,
        outputs: list[tuple[ev.Delta, int]],
    ) -> AsyncGenerator[list[Element], None]:
        """Yield the events after a number, and then the output so far."""
        limit = FIRST_PAGE
        while after < seq:
            events = await self._read_page(after, limit)
            events = [event for event in events if after < event.seq <= seq]
            if not events:
                break
            after = events[-1].seq
            limit = _choose_limit(events)
            # Encoded while it is sent: a reader keeps one part of the page, and not all of it.
            # A client that has seen a number must have all elements of the event.
            for part in _slice(encode_event(event, vocabulary) for event in events):
                yield part
        elements: list[Element] = []
        for delta, at in outputs:
            elements += encode_delta(delta, at, vocabulary)
        for part in _slice([[element] for element in elements]):
            yield part

    async def _read_page(self, after: int, limit: int = MAX_PAGE) -> Sequence[ev.Event]:
        session = self._session
        # The journal keeps the last thousand events in memory; the store reads in a thread.
        if session.journal.last - after < MAX_RECENT:
            return session.journal.durable_since(after)
        return await session.kernel.store.read(session.id, after, limit)

    def _encode_missed_entries(self, after: int) -> list[Element]:
        """Return the entries that changed after an event, and the state; or a snapshot."""
        state = self._make_state()
        entries = self._view.entries
        changed = [identity for identity, at in enumerate(self._changed_at) if at > after]
        # Output that is arriving changes entries without an event.
        for key, output in self._outputs.items():
            entry = find_streaming_entry(self._view, _make_delta(key, output))
            if entry is not None and entry.id not in changed:
                changed.append(entry.id)
        is_near = 0 < after <= self.seq and len(changed) <= MAX_SNAPSHOT_ENTRIES
        if is_near:
            elements: list[Element] = [
                (0, self._encode_entry(entries[identity])) for identity in sorted(changed)
            ]
            plain = {"type": "state", "seq": self.seq, **_fields(state)}
            elements.append((self.seq, encode_text(plain)))
            if sum(len(text) for _, text in elements) <= MAX_SLICE * 4:
                return elements
        return [(self.seq, self._encode_snapshot(state))]

    def _encode_snapshot(self, state: msgspec.Struct) -> str:
        """Return the newest entries and the state."""
        newest: list[msgspec.Raw] = []
        size = 0
        for entry in reversed(self._view.entries[-MAX_SNAPSHOT_ENTRIES:]):
            data = _encode(self._describe(entry))
            size += len(data)
            if newest and size > MAX_SLICE:
                break
            newest.append(msgspec.Raw(data))
        newest.reverse()
        return encode_text(
            {
                "type": "snapshot",
                "seq": self.seq,
                "entries": newest,
                "total": len(self._view.entries),
                "state": _fields(state),
            }
        )


def _fields(state: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(state, name) for name in state.__struct_fields__}


def _make_delta(key: Key, output: _Output) -> ev.Delta:
    """Return the whole output so far as one piece."""
    seq, kind, call = key
    return ev.Delta(seq, output.agent, output.run, _kind(kind), output.text, call, output.tool)


def _kind(kind: str) -> Any:
    return kind


def _choose_limit(events: Sequence[ev.Event]) -> int:
    """Return how many events the next page should have, so that it is about ``PAGE_BYTES`` large.

    Every reader that is behind keeps a page while its client takes it.
    """
    size = sum(len(ev.encode(event)) for event in events)
    fitting = PAGE_BYTES * len(events) // max(size, 1)
    # Small events may be followed by large ones, so a page is at most twice as long as the last.
    return max(1, min(fitting, 2 * max(len(events), FIRST_PAGE), MAX_PAGE))


def _slice(groups: Iterable[Sequence[Element]]) -> Iterator[list[Element]]:
    """Yield elements in lists of limited size; those of a group stay together."""
    part: list[Element] = []
    size = 0
    for group in groups:
        length = sum(len(text) for _, text in group)
        is_full = size + length > MAX_SLICE or len(part) + len(group) > MAX_PER_MESSAGE
        if part and is_full:
            yield part
            part = []
            size = 0
        part += group
        size += length
    if part:
        yield part


async def _yield_slices(elements: list[Element]) -> AsyncGenerator[list[Element], None]:
    for part in _slice([[element] for element in elements]):
        yield part


def join_elements(elements: Sequence[Element]) -> str:
    """Return elements as one JSON array."""
    return f"[{','.join(text for _, text in elements)}]"


def encode_event(event: ev.Event, vocabulary: Vocabulary) -> list[Element]:
    """Return an event as elements of a vocabulary; none if it has no name for it."""
    if vocabulary == "events":
        return [(event.seq, ev.encode(event).decode())]
    facts = rename_for_desktop(event) if vocabulary == "002" else rename_for_chat(event)
    elements = [(0, encode_text(fact)) for fact in facts]
    if elements:
        # Only after the last one has a reader seen the whole event.
        elements[-1] = (event.seq, elements[-1][1])
    return elements


def encode_delta(delta: ev.Delta, at: int, vocabulary: Vocabulary) -> list[Element]:
    """Return a piece of output as elements, with the offset at which it begins."""
    elements: list[Element] = []
    for piece, start in _split(delta, at):
        if vocabulary == "events":
            plain = msgspec.to_builtins(piece)
            plain = {"type": "delta", **plain, "offset": start}
            elements.append((0, encode_text(plain)))
            continue
        rename = rename_delta_for_desktop if vocabulary == "002" else rename_delta_for_chat
        fact = rename(piece, start)
        if fact is not None:
            elements.append((0, encode_text(fact)))
    return elements


def _encode_growth(delta: ev.Delta, at: int, entry: int) -> list[Element]:
    """Return a piece of output as additions to a field of an entry."""
    elements: list[Element] = []
    for piece, _ in _split(delta, 0):
        grown: dict[str, Any] = {
            "type": "text",
            "seq": piece.seq,
            "entry": entry,
            "field": piece.kind,
            "at": at,
            "add": piece.text,
        }
        if piece.kind == "arguments":
            grown["call"] = piece.call_id
            grown["tool"] = piece.tool
        elements.append((0, encode_text(grown)))
        at += utf16_length(piece.text)
    return elements


def _split(delta: ev.Delta, at: int) -> Iterator[tuple[ev.Delta, int]]:
    """Yield a piece of output in parts of limited size, each with its offset in characters."""
    if len(delta.text) <= MAX_CHUNK:
        yield delta, at
        return
    for start in range(0, len(delta.text), MAX_CHUNK):
        text = delta.text[start : start + MAX_CHUNK]
        yield msgspec.structs.replace(delta, text=text), at + start
