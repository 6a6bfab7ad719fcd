"""One session, one writer: between processes, within a process, and after a crash."""

import os
import socket
import subprocess

import pytest
import trio
from engines import Engine, fact
from hilum.errors import E_BUSY, E_UNKNOWN, StoreError
from hilum.store import Log, SessionInfo, Store

HOLD = """
async def main():
    store = make_store()
    log = await store.create(SessionInfo(id="held", workspace="/w"))
    log.append([event(1)])
    await log.flush()
    say("ready")
    sys.stdin.readline()
    log.append([event(2)])
    await log.flush()
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


async def open_soon(store: Store, session: str) -> Log:
    """Open a session whose holder has just died: a server may need a moment to notice."""
    deadline = trio.current_time() + 2
    while True:
        try:
            return await store.open(session)
        except StoreError as error:
            if error.code != E_BUSY or trio.current_time() > deadline:
                raise
            await trio.sleep(0.005)


async def test_open_session_is_busy_and_names_its_holder(engine: Engine, store: Store) -> None:
    """Opening and deleting are refused with the process that holds it.

    Reading and renaming are not.
    """
    process = engine.start(HOLD)
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


async def test_whether_a_session_is_open_is_read_without_its_lease(
    engine: Engine, store: Store
) -> None:
    """Asking changes nothing, so the holder goes on, and a killed one counts as gone."""
    process = engine.start(HOLD)
    assert hear(process) == "ready"
    assert await store.is_open("held")
    tell(process)
    assert hear(process) == "done"
    process.kill()
    process.wait()
    with trio.fail_after(2):
        while await store.is_open("held"):  # noqa: ASYNC110 (a server needs a moment)
            await trio.sleep(0.005)
    log = await store.open("held")
    assert await store.is_open("held")
    await log.close()
    assert not await store.is_open("held")
    with pytest.raises(StoreError) as caught:
        await store.is_open("unknown")
    assert caught.value.code == E_UNKNOWN


async def test_killed_holder_frees_its_lease_at_once(engine: Engine, store: Store) -> None:
    """After SIGKILL, nobody is kept out."""
    process = engine.start(HOLD)
    assert hear(process) == "ready"
    process.kill()
    process.wait()
    log = await open_soon(store, "held")
    log.append([fact(2)])
    assert [event.seq for event in log.read()] == [1, 2]


async def test_child_that_outlives_its_parent_keeps_no_lease(engine: Engine, store: Store) -> None:
    """A forked process shares the open file.

    It must not hold on to the lock when its parent is killed.
    """
    process = engine.start(
        """
        import time, warnings
        async def main():
            warnings.simplefilter("ignore")
            store = make_store()
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
    await open_soon(store, "held")


async def test_two_stores_in_one_process_exclude_each_other(engine: Engine, store: Store) -> None:
    """The lock belongs to the open file, not to the process."""
    other = engine.make_store()
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
    await taken.flush()
    with pytest.raises(StoreError, match="is closed"):
        log.append([fact(1)])
    await other.close()
    assert (await store.open("s1")).last == 1


async def test_many_openers_only_one_wins(engine: Engine) -> None:
    """Opened at the same time from many stores and threads, a session has exactly one writer, round
    after round.
    """
    stores = [engine.make_store() for _ in range(6)]
    await (await stores[0].create(SessionInfo(id="s1", workspace="/w"))).close()
    appended = 0
    refused: set[str] = set()

    async def attempt(store: Store, won: list[int]) -> None:
        try:
            log = await store.open("s1")
        except StoreError as error:
            refused.add(error.code)
            return
        log.append([fact(log.last + 1)])
        await log.flush()
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


async def test_deleted_while_opening_is_unknown(engine: Engine, store: Store) -> None:
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
