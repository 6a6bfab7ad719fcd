"""Reading logs as far as they can be read: running, damaged, and written by a newer hilum."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing

import msgspec
from hilum import StoreError, has_more_values
from hilum.events import AnyEvent, Event, decode, decode_header
from hilum.store import RawReader, SessionInfo, Store

from hilum_trace.languages import ENGLISH, Language
from hilum_trace.spans import Trace, UnreadableEvent

Entry = Event | UnreadableEvent
# Entries that are read at once: more of small ones, so that all of them together take little memory.
_FIRST_PAGE = 16
_PAGE = 1000
_PAGE_SIZE = 8_000_000  # bytes
MAX_ENTRY_VALUES = 1_000_000
"""Maximum number of values in an entry. Decoded, the smallest values take 60 to 250 bytes each."""
DAMAGE_HINT = "Everything that can be read is shown; other sessions are not affected."


async def read_entries(
    store: Store, session: str, after: int = 0, expected: int = 0
) -> list[Entry]:
    """Return the entries that ``iterate_entries`` yields."""
    async with aclosing(iterate_entries(store, session, after, expected)) as entries:
        return [entry async for entry in entries]


async def iterate_entries(
    store: Store, session: str, after: int = 0, expected: int = 0
) -> AsyncGenerator[Entry, None]:
    """Yield the entries of a log that follow the one numbered ``after``.

    Entries that cannot be read, and gaps, become ``UnreadableEvent``. If a part of the file is
    damaged, the entries after it are read as well.

    Args:
        store: The store.
        session: The complete id of the session.
        after: Number of the last entry that is already known.
        expected: Number of entries that the log had before. If it has fewer now, its end is missing,
            and the last entry says so.

    Raises:
        StoreError: There is no such session, or a store without raw access cannot read its log.
    """
    if not isinstance(store, RawReader):
        while page := await store.read(session, after, _PAGE):
            for event in page:
                yield event
            after = page[-1].seq
        return
    limit = _FIRST_PAGE
    while True:
        try:
            lines = await store.read_raw(session, after, limit)
        except StoreError as error:
            if limit > 1:
                # A damaged page of the file spoils a whole read, so the rest is read in smaller
                # parts.
                limit = max(limit // 10, 1)
                continue
            yield UnreadableEvent(after + 1, problem=error.message)
            readable = await _find_readable(store, session, after + 1, expected)
            if readable is None:
                return
            after += 1
            lines = readable
            limit = _FIRST_PAGE
        if not lines:
            if after < expected:
                yield UnreadableEvent(after + 1, problem=_describe_gap(after, expected))
            return
        last = lines[-1][0]
        size = sum(len(line) for _, line in lines)
        for entry in decode_lines(lines, after):
            yield entry
        after = last
        if size > _PAGE_SIZE:
            limit = max(limit // 4, 1)
        elif size < _PAGE_SIZE // 4:
            limit = min(limit * 2, _PAGE)


async def read_pages(
    store: Store, info: SessionInfo, unread: Trace, after: int = 0
) -> AsyncIterator[Sequence[AnyEvent]]:
    """Yield the events of a session that can be read, in pages.

    Args:
        store: The store.
        info: The session.
        unread: A trace to which the entries that cannot be read are added.
        after: Number of the last event that is already known.

    Raises:
        StoreError: The store has no raw access, and cannot read the log.
    """
    last = after
    try:
        while page := await store.read(info.id, last):
            yield page
            last = page[-1].seq
    except StoreError:
        if not isinstance(store, RawReader):
            raise
    if last >= info.events:
        return
    # The page contains something that this version cannot read, or the end is missing.
    readable: list[AnyEvent] = []
    for entry in await read_entries(store, info.id, last, info.events):
        if not isinstance(entry, UnreadableEvent):
            readable.append(entry)
        elif entry.type:
            unread.unknown[entry.type] = unread.unknown.get(entry.type, 0) + 1
        else:
            unread.damaged.append(entry.seq)
    yield readable


async def _find_readable(
    store: RawReader, session: str, damaged: int, last: int
) -> Sequence[tuple[int, bytes]] | None:
    """Return the first line that can be read after a damaged part of the file.

    Args:
        store: The store.
        session: The complete id of the session.
        damaged: Number of the first entry that cannot be read.
        last: Number of the last entry.
    """
    found = None
    step = 1
    # A page of the file contains some dozens of entries. The steps grow until one leads behind the
    # damage, and then shrink.
    while damaged + step <= last:
        found = await _try_line(store, session, damaged + step - 1)
        if found:
            break
        step *= 2
    if not found:
        return None
    low = damaged + step // 2
    high = damaged + step
    while low < high:
        middle = (low + high) // 2
        lines = await _try_line(store, session, middle - 1)
        if lines:
            found = lines
            high = middle
        else:
            low = middle + 1
    return found


async def _try_line(
    store: RawReader, session: str, after: int
) -> Sequence[tuple[int, bytes]] | None:
    try:
        return await store.read_raw(session, after, 1)
    except StoreError:
        return None


def check_complete(trace: Trace) -> None:
    """Check that all entries of a log could be read.

    Raises:
        StoreError: Some entries are damaged or missing.
    """
    if trace.damaged:
        raise StoreError(describe_damaged(trace), hint=DAMAGE_HINT)


def describe_damaged(trace: Trace, t: Language = ENGLISH) -> str:
    """Return a sentence about the entries that cannot be read."""
    places = trace.damaged
    if len(places) == 1:
        return t("The log is damaged at entry {places}.", places=places[0])
    listed = ", ".join(map(str, places[:8]))
    if len(places) > 8:
        listed += ", …"
    return t(
        "The log is damaged in {count} places: at entries {places}.",
        count=f"{len(places):,}",
        places=listed,
    )


def decode_lines(lines: Sequence[tuple[int, bytes]], after: int = 0) -> Iterator[Entry]:
    """Yield the entry of each line, and one for each gap in the numbers.

    Args:
        lines: The numbers and lines, in order.
        after: Number of the entry before the first line.
    """
    for seq, line in lines:
        if seq > after + 1:
            yield UnreadableEvent(after + 1, problem=_describe_gap(after, seq - 1))
        yield _decode_line(seq, line)
        after = seq


def _describe_gap(after: int, last: int) -> str:
    if last == after + 1:
        return f"event {last} is missing"
    return f"events {after + 1} to {last} are missing"


def _decode_line(seq: int, line: bytes) -> Entry:
    problem = ""
    if has_more_values(line, MAX_ENTRY_VALUES):
        return UnreadableEvent(
            seq, problem=f"event {seq} has more than {MAX_ENTRY_VALUES:,} values"
        )
    try:
        event = decode(line)
        if event.seq == seq:
            return event
        problem = f"event {seq} has the number {event.seq}"
    except msgspec.DecodeError as error:
        problem = f"event {seq}: {error}"
    header = decode_header(line)
    if header is None or header.seq != seq:
        return UnreadableEvent(seq, problem=problem)
    return UnreadableEvent(seq, header.type, problem, header.at, header.agent, header.run)
