"""What a store does for its users, compared with the store in memory where both can do it."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from hilum.errors import E_BUSY, E_INTERNAL, E_UNKNOWN, StoreError
from hilum.events import AnyEvent, PluginEvent, RunStarted, StateChanged
from hilum.messages import Text, UserMessage
from hilum.store import MemoryStore, SessionInfo, Store
from hilum_store import SqliteStore
from msgspec.structs import replace


def fact(seq: int, text: str = "") -> PluginEvent:
    return PluginEvent(seq=seq, at=seq / 2, agent="main", name="test.fact", data={"text": text})


def prompt(seq: int, text: str) -> RunStarted:
    return RunStarted(
        seq=seq, agent="main", run="r1", text=text, message=UserMessage((Text(text),))
    )


def facts(count: int, after: int = 0) -> list[AnyEvent]:
    return [fact(seq) for seq in range(after + 1, after + count + 1)]


@pytest.fixture(params=["memory", "sqlite"])
def either(request: pytest.FixtureRequest) -> Store:
    store: Store = MemoryStore() if request.param == "memory" else request.getfixturevalue("store")
    return store


async def test_events_come_back_as_they_were_appended(either: Store) -> None:
    """Order, pages and content survive, in an open log and without a lease."""
    log = await either.create(SessionInfo(id="s1", workspace="/w"))
    assert log.last == 0
    log.append([fact(1, "ä\U0001f600\0")])
    log.append([fact(2), prompt(3, "Do it")])
    log.append([])
    assert log.last == 3
    assert log.read() == [fact(1, "ä\U0001f600\0"), fact(2), prompt(3, "Do it")]
    assert log.read(after=1, limit=1) == [fact(2)]
    assert log.read(after=3) == []
    assert list(await either.read("s1", after=2)) == [prompt(3, "Do it")]
    assert list(await either.read("s1", limit=2)) == [fact(1, "ä\U0001f600\0"), fact(2)]


async def test_description_follows_the_events(either: Store) -> None:
    """The first prompt gives the title, the main agent's state is the session's, and events are
    counted.
    """
    made = SessionInfo(id="s1", workspace="/w", kind="headless", created=5.0, forked="s0")
    log = await either.create(made)
    assert await either.info("s1") == made
    log.append(
        [
            prompt(1, "First  prompt"),
            StateChanged(seq=2, agent="main", state="thinking", previous="idle"),
        ]
    )
    log.append(
        [prompt(3, "Second"), StateChanged(seq=4, agent="helper", state="failed", previous="idle")]
    )
    info = await either.info("s1")
    assert info == replace(
        made, title="First prompt", state="thinking", events=4, updated=info.updated
    )
    assert info.updated > 5.0


async def test_title_given_by_the_user_stays(either: Store) -> None:
    """Renaming works while the session is open, and no prompt overwrites the name."""
    log = await either.create(SessionInfo(id="s1", workspace="/w"))
    await either.rename("s1", "Mine")
    log.append([prompt(1, "Do it")])
    assert (await either.info("s1")).title == "Mine"
    await either.rename("s", "")
    log.append([prompt(2, "Again")])
    assert (await either.info("s1")).title == "Again"


async def test_list_shows_the_last_used_first(either: Store) -> None:
    """All sessions or those of a workspace, by last use."""
    for name, workspace, used in (("a", "/w", 1.0), ("b", "/v", 3.0), ("c", "/w", 2.0)):
        await (await either.create(SessionInfo(id=name, workspace=workspace, updated=used))).close()
    assert [info.id for info in await either.list()] == ["b", "c", "a"]
    assert [info.id for info in await either.list("/w")] == ["c", "a"]
    assert list(await either.list("/nowhere")) == []


async def test_session_is_named_by_any_unambiguous_beginning(either: Store) -> None:
    """The id itself always wins; an unknown or ambiguous name is an error."""
    for name in ("ab", "abc", "xyz", "x_z"):
        await (await either.create(SessionInfo(id=name, workspace="/w"))).close()
    assert (await either.info("ab")).id == "ab"
    assert (await either.info("xy")).id == "xyz"
    assert (await either.info("x_")).id == "x_z"
    for name in ("a", "", "q", "%", "abcd"):
        with pytest.raises(StoreError) as caught:
            await either.info(name)
        assert caught.value.code == E_UNKNOWN


async def test_ambiguous_name_lists_the_candidates(store: SqliteStore) -> None:
    """The hint says which sessions could be meant, but not all of a thousand."""
    for number in range(10):
        await (await store.create(SessionInfo(id=f"s{number}", workspace="/w"))).close()
    with pytest.raises(StoreError, match="More than one session begins with 's'") as caught:
        await store.open("s")
    assert caught.value.hint == "Use a longer part of the id: s0, s1, s2, s3, s4, s5, s6, s7, …."


async def test_log_continues_where_it_ended(path: Path) -> None:
    """Another store finds everything, and numbers go on."""
    first = SqliteStore(path)
    (await first.create(SessionInfo(id="s1", workspace="/w"))).append(facts(3))
    await first.close()
    second = SqliteStore(path)
    log = await second.open("s1")
    assert (log.last, log.read()) == (3, facts(3))
    log.append(facts(2, after=3))
    assert (await second.info("s1")).events == 5
    await second.close()


async def test_ten_thousand_events_at_once(store: SqliteStore) -> None:
    """A fork writes a whole log in one transaction, and it is read in pages."""
    log = await store.create(SessionInfo(id="s1", workspace="/w"))
    events = facts(10_000)
    log.append(events)
    found: list[AnyEvent] = []
    while page := log.read(after=len(found)):
        assert len(page) == 1000
        found += page
    assert found == events


async def test_sessions_do_not_see_each_other(store: SqliteStore) -> None:
    """Logs of neighbouring sessions stay apart, also after one was deleted."""
    logs = [await store.create(SessionInfo(id=name, workspace="/w")) for name in "abc"]
    for number, log in enumerate(logs):
        log.append(facts(number + 1))
    await logs[1].close()
    await store.delete("b")
    assert [len(await store.read(name)) for name in "ac"] == [1, 3]
    again = await store.create(SessionInfo(id="b", workspace="/w"))
    assert (again.last, again.read()) == (0, [])


@pytest.mark.parametrize("numbers", [[2], [0], [1, 3], [1, 1]])
async def test_gap_in_the_numbers_is_refused(store: SqliteStore, numbers: list[int]) -> None:
    """A log never gets a hole: nothing is written, and the right event can follow."""
    log = await store.create(SessionInfo(id="s1", workspace="/w"))
    with pytest.raises(StoreError) as caught:
        log.append([fact(number) for number in numbers])
    assert caught.value.code == E_INTERNAL
    log.append([fact(1)])
    assert log.read() == [fact(1)]


async def test_taken_id_is_refused(store: SqliteStore) -> None:
    """Making a session never touches one that exists."""
    log = await store.create(SessionInfo(id="s1", workspace="/w"))
    log.append(facts(1))
    with pytest.raises(StoreError, match="already a session s1"):
        await store.create(SessionInfo(id="s1", workspace="/v"))
    assert (await store.info("s1")).workspace == "/w"
    log.append(facts(1, after=1))


async def test_file_is_private(store: SqliteStore, path: Path) -> None:
    """The folder, the file and what lies beside it are for the user alone."""
    (await store.create(SessionInfo(id="s1", workspace="/w"))).append(facts(1))
    modes = {
        each.name: stat.S_IMODE(each.stat().st_mode)
        for each in [path.parent, *path.parent.iterdir()]
    }
    assert modes == {
        "data": 0o700,
        "sessions.db": 0o600,
        "sessions.db-wal": 0o600,
        "sessions.db-shm": 0o600,
        "sessions.db.leases": 0o700,
    }


async def test_nothing_happens_before_the_first_use(path: Path) -> None:
    """Making a store, and closing it, touches no file."""
    store = SqliteStore(path)
    await store.close()
    assert not path.parent.exists()


def test_importing_the_plugin_does_not_load_sqlite() -> None:
    """SQLite is loaded at first use."""
    code = "import sys, hilum_store; sys.exit('sqlite3' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_closed_store_says_so(path: Path) -> None:
    """Neither the store nor its logs can be used after it was closed, and closing twice is
    harmless.
    """
    store = SqliteStore(path)
    log = await store.create(SessionInfo(id="s1", workspace="/w"))
    log.append(facts(1))
    await store.close()
    await store.close()
    with pytest.raises(StoreError, match="store is closed"):
        await store.list()
    with pytest.raises(StoreError, match="log of session s1 is closed") as caught:
        log.append(facts(1, after=1))
    assert caught.value.code == E_BUSY
    with pytest.raises(StoreError, match="log of session s1 is closed"):
        log.read()


async def test_closing_leaves_one_file(path: Path) -> None:
    """What is left is the session file, to copy or to move, and an empty folder."""
    store = SqliteStore(path)
    (await store.create(SessionInfo(id="s1", workspace="/w"))).append(facts(5))
    await store.close()
    assert sorted(str(each.relative_to(path.parent)) for each in path.parent.rglob("*")) == [
        "sessions.db",
        "sessions.db.leases",
    ]


async def test_power_durability_syncs_each_commit(path: Path) -> None:
    """The setting reaches SQLite on the connection that appends."""
    for durability, level in (("process", 1), ("power", 2)):
        store = SqliteStore(path, durability)  # type: ignore[arg-type]
        await store.list()
        assert store._sessions is not None
        [found] = store._sessions._database.writer.execute("PRAGMA synchronous").fetchone()
        assert found == level
        await store.close()


async def test_cancelled_close_still_closes(path: Path) -> None:
    """A store closes within a cancelled scope, and gives its leases back."""
    store = SqliteStore(path)
    await store.create(SessionInfo(id="s1", workspace="/w"))
    with trio.CancelScope() as scope:
        scope.cancel()
        await store.close()
    other = SqliteStore(path)
    await other.open("s1")
    await other.close()


async def test_log_can_be_read_with_the_sqlite_shell(store: SqliteStore, path: Path) -> None:
    """A view shows each event as JSON beside its session."""
    import sqlite3

    (await store.create(SessionInfo(id="s1", workspace="/w"))).append(facts(2))
    connection = sqlite3.connect(path)
    rows = connection.execute(
        "SELECT session, seq, json_extract(event, '$.type') FROM log ORDER BY seq"
    ).fetchall()
    connection.close()
    assert rows == [("s1", 1, "plugin_event"), ("s1", 2, "plugin_event")]
