"""Leases in a database: lost ones, frozen holders, and the fence that keeps a log in one hand."""

import os
import signal
import socket

import hilum_postgres.sessions
import pytest
import trio
from engines import Engine, fact
from hilum.errors import E_BUSY, StoreError
from hilum.events import PluginEvent
from hilum.store import LeaseHolder, SessionBusy, SessionInfo

INFO = SessionInfo(id="s1", workspace="/w")
END_OTHERS = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


async def test_log_that_was_opened_elsewhere_writes_nothing_more(make_store, postgres, url) -> None:
    """A holder that lost its connection learns who has the session now, and its events are lost."""
    store, other = make_store(), make_store()
    told: list[StoreError] = []
    log = await store.create(INFO)
    log.append([fact(1)])
    await log.flush()
    log.subscribe(lambda error: told.append(error) if error else None)
    # The locks of the first store are given to the second one, as if the network had failed.
    postgres.execute(url, "UPDATE hilum.sessions SET epoch = epoch + 1, holder = 'other'")
    log.append([fact(2)])
    with pytest.raises(
        StoreError, match=r"can no longer be written by this process: .* in use"
    ) as caught:
        await log.flush()
    assert caught.value.code == E_BUSY
    assert told == [caught.value]
    with pytest.raises(StoreError, match="can no longer be written"):
        log.append([fact(3)])
    await log.close()
    thief = await other.open("s1")
    assert thief.read() == [fact(1)]


async def test_lost_connection_is_replaced_and_the_lease_with_it(make_store, postgres, url) -> None:
    """Nothing is written twice, nothing is lost, and the session stays with its process."""
    store, other = make_store(), make_store()
    log = await store.create(INFO)
    for round_ in range(5):
        log.append([fact(2 * round_ + 1)])
        if round_ % 2:
            await log.flush()
        postgres.execute(url, END_OTHERS)
        log.append([fact(2 * round_ + 2)])
        await log.flush()
    with pytest.raises(StoreError) as caught:
        await other.open("s1")
    assert caught.value.code == E_BUSY
    assert [event.seq for event in await other.read("s1")] == list(range(1, 11))


async def test_killed_processes_leave_no_rows(make_store, postgres, url) -> None:
    """The next process that opens a session removes them."""
    await make_store().list()
    postgres.execute(
        url,
        "INSERT INTO hilum.holders (id, host, pid, beat) VALUES"
        " ('killed', 'h', 1, now() - interval '10 minutes'), ('alive', 'h', 2, now())",
    )
    await make_store().create(INFO)
    rows = postgres.execute(url, "SELECT pid FROM hilum.holders WHERE host = 'h'")
    assert rows == [(2,)]


async def test_log_of_a_deleted_session_writes_nothing_more(make_store, postgres, url) -> None:
    """Events never come back for a session that is gone, nor go to one with the same name."""
    store, other = make_store(), make_store()
    log = await store.create(INFO)
    postgres.execute(url, "DELETE FROM hilum.sessions")
    log.append([fact(1)])
    with pytest.raises(StoreError, match="it was deleted"):
        await log.flush()
    await log.close()
    new = await other.create(INFO)
    assert new.read() == []


async def test_other_processes_find_out_who_has_a_session_open(make_store, postgres, url) -> None:
    """The refusal and the list of holders contain what the holder announced, until it closes."""
    store, other = make_store(), make_store()
    store.announce("first")
    await store.create(INFO)
    here = LeaseHolder(socket.gethostname(), os.getpid(), "first")
    assert await other.find_holders(["s1", "unknown"]) == {"s1": here}
    with pytest.raises(SessionBusy) as caught:
        await other.open("s1")
    assert caught.value.code == E_BUSY
    store.announce("second")
    with trio.fail_after(10):
        # The store's thread publishes it.
        while (await other.find_holders(["s1"]))["s1"].address == "first":  # noqa: ASYNC110
            await trio.sleep(0.01)
    # As if the holder had died: its lock is gone, and its row is left.
    postgres.execute(url, "UPDATE hilum.holders SET beat = now() - interval '31 s'")
    assert not (await other.find_holders(["s1"]))["s1"].holds
    await store.close()
    assert await other.find_holders(["s1"]) == {}
    assert await other.find_holders([]) == {}


async def test_a_holder_on_another_machine_is_named_in_the_refusal(
    make_store, postgres, url
) -> None:
    """A server can pass a request on to the process that was faster in opening a session."""
    store, other = make_store(), make_store()
    store.announce("address")
    await store.create(INFO)
    postgres.execute(url, "UPDATE hilum.holders SET host = 'far', pid = 7")
    with pytest.raises(SessionBusy, match="by process 7 on far") as caught:
        await other.open("s1")
    assert caught.value.holder == LeaseHolder("far", 7, "address")
    with pytest.raises(SessionBusy) as caught:
        await other.delete("s1")
    assert caught.value.holder is not None


FREEZE = """
async def main():
    store = make_store()
    log = await store.create(SessionInfo(id="s1", workspace="/w"))
    log.append([event(1)])
    await log.flush()
    say("ready")
    await trio.to_thread.run_sync(sys.stdin.readline)
    log.append([event(2)])
    try:
        await log.flush()
    except StoreError as error:
        say(error.code, "no longer" in error.message)
    await store.close()
"""


async def test_session_of_a_frozen_process_is_taken_over(
    make_store, url, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that shows no sign of life loses its sessions; awake again, it writes nothing."""
    engine = Engine("postgres", url)
    process = engine.start(FREEZE)
    assert process.stdout
    assert process.stdin
    assert await trio.to_thread.run_sync(process.stdout.readline) == "ready\n"
    os.kill(process.pid, signal.SIGSTOP)
    store = make_store()
    with pytest.raises(StoreError) as caught:
        await store.open("s1")
    assert caught.value.code == E_BUSY
    monkeypatch.setattr(hilum_postgres.sessions, "STALE", 0.5)
    await trio.sleep(0.6)
    began = trio.current_time()
    log = await store.open("s1")
    assert trio.current_time() - began < 2
    log.append([PluginEvent(seq=2, name="test.mine")])
    await log.flush()
    os.kill(process.pid, signal.SIGCONT)
    process.stdin.write("\n")
    process.stdin.flush()
    assert await trio.to_thread.run_sync(process.stdout.readline) == f"{E_BUSY} True\n"
    assert [event.name for event in await store.read("s1")] == ["test.fact", "test.mine"]
    engine.close()


async def test_user_who_may_not_end_connections_takes_over_by_the_fence(
    make_store, postgres, url, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old holder keeps its lock, but its epoch is over."""
    store, other = make_store(), make_store()
    log = await store.create(INFO)
    log.append([fact(1)])
    await log.flush()
    monkeypatch.setattr(hilum_postgres.sessions, "STALE", -1.0)
    monkeypatch.setattr(hilum_postgres.sessions, "RELEASE_TIMEOUT", 0.05)
    monkeypatch.setattr(hilum_postgres.sessions.schema, "END_HOLDER", "SELECT %s::int")
    thief = await other.open("s1")
    thief.append([fact(2)])
    await thief.flush()
    log.append([fact(2)])
    with pytest.raises(StoreError, match="can no longer be written"):
        await log.flush()
    assert [event.seq for event in await other.read("s1")] == [1, 2]


LOCKS = """
SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


async def test_session_that_was_taken_over_without_its_lock_is_locked_later(
    make_store, postgres, url, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the old holder ends, a third process must not get the session."""
    store, other, third = make_store(), make_store(), make_store()
    log = await store.create(INFO)
    with monkeypatch.context() as patch:
        patch.setattr(hilum_postgres.sessions, "STALE", -1.0)
        patch.setattr(hilum_postgres.sessions, "RELEASE_TIMEOUT", 0.05)
        patch.setattr(hilum_postgres.sessions.schema, "END_HOLDER", "SELECT %s::int")
        thief = await other.open("s1")
    await log.close()
    with trio.fail_after(10):
        while postgres.execute(url, LOCKS) != [(1,)]:  # noqa: ASYNC110 (a thread takes it)
            await trio.sleep(0.01)
    with pytest.raises(StoreError) as caught:
        await third.open("s1")
    assert caught.value.code == E_BUSY
    thief.append([fact(1)])
    await thief.flush()
    await thief.close()
    assert (await third.open("s1")).read() == [fact(1)]
