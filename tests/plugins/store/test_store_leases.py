"""One session, one writer: between processes, within a process, and after a crash."""

# ruff: noqa: ASYNC240  (tests may touch files directly)

import os
import socket
import subprocess
from pathlib import Path

import pytest
import trio
from hilum.errors import E_BUSY, E_UNKNOWN, StoreError
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


async def test_open_session_is_busy_and_names_its_holder(child, store: SqliteStore) -> None:  # type: ignore[no-untyped-def]
    """Opening and deleting are refused with the process that holds it.

    Reading and renaming are not.
    """
    process = child(HOLD)
    assert hear(process) == "ready"
    for refused in (store.open, store.delete):
        with pytest.raises(StoreError) as caught:
            await refused("held")
        assert caught.value.code == E_BUSY
        assert f"by process {process.pid} on {socket.gethostname()}" in caught.value.message
    assert [event.seq for event in await store.read("held")] == [1]
    await store.rename("held", "renamed")
    tell(process)
    assert hear(process) == "done"
    assert [event.seq for event in await store.read("held")] == [1, 2]
    assert (await store.info("held")).title == "renamed"
    tell(process)
    assert process.wait(60) == 0
    assert (await store.open("held")).last == 2


async def test_killed_holder_frees_its_lease_at_once(child, store: SqliteStore) -> None:  # type: ignore[no-untyped-def]
    """SIGKILL leaves the lock file behind, and it keeps nobody out."""
    process = child(HOLD)
    assert hear(process) == "ready"
    process.kill()
    process.wait()
    assert list(store.path.with_name("sessions.db.leases").iterdir())
    log = await store.open("held")
    log.append([fact(2)])
    assert [event.seq for event in log.read()] == [1, 2]


async def test_child_that_outlives_its_parent_keeps_no_lease(child, store: SqliteStore) -> None:  # type: ignore[no-untyped-def]
    """A forked process shares the open file.

    It must not hold on to the lock when its parent is killed.
    """
    process = child(
        """
        import time, warnings
        async def main():
            warnings.simplefilter("ignore")
            store = SqliteStore(path)
            log = await store.create(SessionInfo(id="held", workspace="/w"))
            forked = os.fork()
            if not forked:
                try:
                    log.append([event(1)])
                except StoreError as error:
                    say(os.getpid(), error.code)
                os.close(1)
                sys.stdin.read()
                os._exit(0)
            await trio.sleep_forever()
        """
    )
    number, code = hear(process).split()
    assert code == E_BUSY
    with pytest.raises(StoreError):
        await store.open("held")
    process.kill()
    process.wait()
    os.kill(int(number), 0)  # the forked process lives
    await store.open("held")


async def test_two_stores_in_one_process_exclude_each_other(path: Path, store: SqliteStore) -> None:
    """The lock belongs to the open file, not to the process."""
    other = SqliteStore(path)
    log = await store.create(SessionInfo(id="s1", workspace="/w"))
    for opener in (store, other):
        with pytest.raises(
            StoreError, match=rf"in use in this process \({os.getpid()}\)"
        ) as caught:
            await opener.open("s1")
        assert caught.value.code == E_BUSY
    await log.close()
    await log.close()
    taken = await other.open("s1")
    taken.append([fact(1)])
    with pytest.raises(StoreError, match="is closed"):
        log.append([fact(1)])
    await other.close()
    assert (await store.open("s1")).last == 1


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


async def test_many_openers_only_one_wins(path: Path) -> None:
    """Opened at the same time from many stores and threads, a session has exactly one writer, round
    after round.
    """
    stores = [SqliteStore(path) for _ in range(6)]
    await (await stores[0].create(SessionInfo(id="s1", workspace="/w"))).close()
    appended = 0
    refused: set[str] = set()

    async def attempt(store: SqliteStore, won: list[int]) -> None:
        try:
            log = await store.open("s1")
        except StoreError as error:
            refused.add(error.code)
            return
        log.append([fact(log.last + 1)])
        won.append(log.last)
        await log.close()

    with trio.fail_after(60):
        for _ in range(20):
            won: list[int] = []
            async with trio.open_nursery() as nursery:
                for store in stores:
                    nursery.start_soon(attempt, store, won)
            assert won == list(range(appended + 1, appended + len(won) + 1))
            assert won
            appended += len(won)
    assert refused <= {E_BUSY}
    for store in stores:
        await store.close()


async def test_deleted_while_opening_is_unknown(store: SqliteStore) -> None:
    """Deleting and opening at once ends in one of the two, never in a log without a session."""
    with trio.fail_after(60):
        for number in range(20):
            name = f"s{number}"
            await (await store.create(SessionInfo(id=name, workspace="/w"))).close()
            outcome: list[str] = []
            refused: list[str] = []

            async def opening(name: str, outcome: list[str], refused: list[str]) -> None:
                try:
                    (await store.open(name)).append([fact(1)])
                    outcome.append("opened")
                except StoreError as error:
                    refused.append(error.code)

            async def deleting(name: str, outcome: list[str], refused: list[str]) -> None:
                try:
                    await store.delete(name)
                    outcome.append("deleted")
                except StoreError as error:
                    refused.append(error.code)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(opening, name, outcome, refused)
                nursery.start_soon(deleting, name, outcome, refused)
            assert outcome in (["opened"], ["deleted"])
            assert refused in ([E_BUSY], [E_UNKNOWN])


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
