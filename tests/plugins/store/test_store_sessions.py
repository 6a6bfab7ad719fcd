"""What is special about sessions in a file: its permissions, its format, when it is opened."""

import stat
import subprocess
import sys
from pathlib import Path

from hilum.events import AnyEvent, PluginEvent
from hilum.store import SessionInfo
from hilum_store import SqliteStore


def fact(seq: int, text: str = "") -> PluginEvent:
    return PluginEvent(seq=seq, at=seq / 2, agent="main", name="test.fact", data={"text": text})


def facts(count: int, after: int = 0) -> list[AnyEvent]:
    return [fact(seq) for seq in range(after + 1, after + count + 1)]


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
