"""Logs that are damaged, that a newer hilum wrote, or that another process is writing."""

import sqlite3

import msgspec
import pytest
from hilum import events as ev
from hilum.errors import StoreError
from hilum.store import MemoryStore, SessionInfo
from hilum_store import SqliteStore
from hilum_trace import UnreadableEvent, fold_spans
from hilum_trace.reading import read_entries
from hilum_trace.tree import describe_unread
from msgspec.structs import replace


def make_events(count):
    """Events of a session with one run that has not ended."""
    events = [ev.SessionOpened(session="s", workspace="/w"), ev.StopAsked(agent="main", run="r")]
    events += [ev.PluginEvent(name="test.fact", agent="main", run="r")] * (count - 2)
    return [replace(event, seq=seq, at=float(seq)) for seq, event in enumerate(events, 1)]


@pytest.fixture
async def store(tmp_path):
    """A store whose session has ten events; its log is still open for writing."""
    store = SqliteStore(tmp_path / "sessions.db")
    log = await store.create(SessionInfo("s", "/w"))
    log.append(make_events(10))
    yield store
    await store.close()


def change(store, seq, data):
    """Change an event behind the store's back; ``None`` removes it."""
    with sqlite3.connect(store.path) as connection:
        where = "WHERE key & 0xffffffff = ?"
        if data is None:
            connection.execute(f"DELETE FROM events {where}", (seq,))
        else:
            connection.execute(f"UPDATE events SET data = ? {where}", (data, seq))
    connection.close()


async def test_a_log_that_is_being_written_is_read_whole_and_continued(store):
    entries = await read_entries(store, "s")
    assert entries == make_events(10)
    assert await read_entries(store, "s", after=8) == make_events(10)[8:]
    assert await read_entries(store, "s", after=10) == []


async def test_an_event_of_a_newer_version_is_counted_in_its_run(store):
    line = {"type": "dreamt", "seq": 5, "at": 5.0, "agent": "main", "run": "r", "depth": [1]}
    change(store, 5, msgspec.json.encode(line))
    with pytest.raises(StoreError):
        await store.read("s")
    trace = fold_spans(await read_entries(store, "s"))
    assert trace.events == 10
    assert trace.unknown == {"dreamt": 1}
    assert trace.damaged == []
    sentence = "1 event is of a type that this version does not know: dreamt (1)."
    assert describe_unread(trace) == [sentence]


async def test_a_known_event_with_an_unknown_value_is_counted_by_its_type(store):
    line = {"type": "run_ended", "seq": 5, "state": "dissolved"}
    change(store, 5, msgspec.json.encode(line))
    trace = fold_spans(await read_entries(store, "s"))
    assert trace.unknown == {"run_ended": 1}


@pytest.mark.parametrize(
    "data", [b"", b"\xff\x00", b'{"type": "stop_asked"', b"[]", 7, "text", b"{}"]
)
async def test_a_damaged_event_does_not_hide_the_others(store, data):
    change(store, 5, data)
    trace = fold_spans(await read_entries(store, "s"))
    assert trace.damaged == [5]
    assert trace.events == 10
    assert describe_unread(trace) == ["The log is damaged at entry 5."]


async def test_an_event_under_a_wrong_number_is_damaged(store):
    change(store, 5, ev.encode(make_events(10)[6]))
    assert fold_spans(await read_entries(store, "s")).damaged == [5]


async def test_missing_events_are_one_entry(store):
    change(store, 4, None)
    change(store, 5, None)
    entries = await read_entries(store, "s")
    assert entries[3] == UnreadableEvent(4, problem="events 4 to 5 are missing")
    assert [entry.seq for entry in entries] == [1, 2, 3, 4, 6, 7, 8, 9, 10]


async def test_a_missing_end_is_noticed(store):
    expected = (await store.info("s")).events
    for seq in (9, 10):
        change(store, seq, None)
    entries = await read_entries(store, "s", expected=expected)
    assert entries[8:] == [UnreadableEvent(9, problem="events 9 to 10 are missing")]


async def test_a_damaged_page_of_the_file_hides_only_its_own_events(tmp_path):
    """The events before and after the page are read."""
    path = tmp_path / "sessions.db"
    store = SqliteStore(path)
    log = await store.create(SessionInfo("s", "/w"))
    events = make_events(3_000)
    log.append(events)
    await log.close()
    await store.close()
    damage_leaf_page(path)
    store = SqliteStore(path)
    entries = await read_entries(store, "s", expected=3_000)
    await store.close()
    problems = [entry for entry in entries if isinstance(entry, UnreadableEvent)]
    assert "damaged" in problems[0].problem
    assert len(problems) == 2  # the first event that cannot be read, and the others of the page
    read = [entry for entry in entries if not isinstance(entry, UnreadableEvent)]
    known = {event.seq: event for event in events}
    assert all(entry == known[entry.seq] for entry in read)
    assert read[-1].seq == 3_000
    assert len(read) > 2_900


def damage_leaf_page(path):
    """Overwrite a page in the middle of the file, which is full of events."""
    data = bytearray(path.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 4096] = b"\xee" * 4096
    path.write_bytes(data)


async def test_a_store_without_raw_access_is_read_as_well():
    store = MemoryStore()
    log = await store.create(SessionInfo("s", "/w"))
    log.append(make_events(10))
    assert await read_entries(store, "s") == make_events(10)
