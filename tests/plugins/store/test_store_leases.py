"""One session, one writer: between processes, within a process, and after a crash."""

# ruff: noqa: ASYNC240  (tests may touch files directly)

import subprocess
from pathlib import Path

import pytest
from hilum.errors import E_BUSY, StoreError
from hilum.events import PluginEvent
from hilum.store import SessionInfo
from hilum_store import SqliteStore
from hilum_store.database import Database
from hilum_store.lease import Lease, remove_stale_leases


def fact(seq: int) -> PluginEvent:
    return PluginEvent(seq=seq, name="test.fact", data={"n": seq})


HOLD = """
async def main():
    store = SqliteStore(path)
    log = await store.create(SessionInfo(id="held", workspace="/w"))
    log.append([event(1)])
    say("ready")
    sys.stdin.readline()
    log.append([event(2)])
    say("done")
    sys.stdin.readline()
    await store.close()
"""


def tell(process: "subprocess.Popen[str]", line: str = "") -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


def hear(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


async def test_log_whose_lease_was_lost_refuses_to_append(path: Path, store: SqliteStore) -> None:
    """Where the lock was circumvented, the signature in the file still keeps the log in one
    hand.
    """
    log = await store.create(SessionInfo(id="s1", workspace="/w"))
    log.append([fact(1)])
    for lock in path.with_name("sessions.db.leases").iterdir():
        lock.unlink()
    other = SqliteStore(path)
    thief = await other.open("s1")
    with pytest.raises(
        StoreError, match=r"can no longer be written by this process: .* in use in this process"
    ) as caught:
        log.append([fact(2)])
    assert caught.value.code == E_BUSY
    thief.append([fact(2)])
    await log.close()  # must not remove the lock of the other
    third = SqliteStore(path)
    with pytest.raises(StoreError):
        await third.open("s1")
    await third.close()
    assert [event.seq for event in thief.read()] == [1, 2]
    await other.close()


async def test_log_of_a_deleted_session_refuses_to_append(path: Path, store: SqliteStore) -> None:
    """Events never come back for a session that is gone, nor go to one with the same name."""
    log = await store.create(SessionInfo(id="s1", workspace="/w"))
    for lock in path.with_name("sessions.db.leases").iterdir():
        lock.unlink()
    other = SqliteStore(path)
    await other.delete("s1")
    with pytest.raises(StoreError, match="it was deleted"):
        log.append([fact(1)])
    new = await other.create(SessionInfo(id="s1", workspace="/w"))
    with pytest.raises(StoreError, match="it was deleted"):
        log.append([fact(1)])
    assert new.read() == []
    await other.close()


async def test_moved_file_refuses_to_append(path: Path, store: SqliteStore) -> None:
    """Events are not written into a file that nobody will find again; put back, it goes on."""
    log = await store.create(SessionInfo(id="s1", workspace="/w"))
    log.append([fact(1)])
    path.rename(path.with_name("elsewhere.db"))
    with pytest.raises(StoreError, match="was moved or deleted while it was in use"):
        log.append([fact(2)])
    path.with_name("elsewhere.db").rename(path)
    log.append([fact(2)])
    assert log.last == 2


def test_waiting_lease_follows_a_removed_file(tmp_path: Path) -> None:
    """A lock on a file that its holder has removed guards nothing: the lease is on the file that is
    there.
    """
    first = Lease.take(tmp_path / "lock")
    assert first is not None
    assert Lease.take(tmp_path / "lock") is None
    first.release()
    assert not first.held
    second = Lease.take(tmp_path / "lock", wait=True)
    assert second is not None
    assert Lease.take(tmp_path / "lock") is None
    first.release()
    assert (tmp_path / "lock").exists()
    second.release()
    assert not (tmp_path / "lock").exists()


async def test_closing_removes_the_leases_of_killed_processes_and_no_other(
    child, store: SqliteStore
) -> None:  # type: ignore[no-untyped-def]
    """A kill leaves a file that guards nothing any more."""
    process = child(HOLD)
    assert hear(process) == "ready"
    folder = store.path.with_name("sessions.db.leases")
    [held] = folder.iterdir()
    remove_stale_leases(folder)
    assert held.exists()
    process.kill()
    process.wait()
    await store.info("held")
    await store.close()
    assert list(folder.iterdir()) == []


def test_a_lease_that_is_being_removed_can_be_taken_a_moment_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that removes it holds it meanwhile, and is done before the second attempt."""
    database = Database(tmp_path / "sessions.db")
    removing = database.lease("1")
    assert removing is not None
    monkeypatch.setattr("hilum_store.database.time.sleep", lambda _: removing.release())
    lease = database.lease("1")
    assert lease is not None
    lease.release()
    database.close()
