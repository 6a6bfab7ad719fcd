"""Killed at any instant, from many processes at once: what was durable is there, in order, without
gaps.
"""

import contextlib
import gc
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable

import pytest
import trio
from engines import Engine
from hilum.errors import E_BUSY, StoreError
from hilum.events import PluginEvent
from hilum.store import Log, SessionInfo, Store

# Forks a writer for each seed it is given. A writer appends batches of one to four events, now and
# then large ones or the end of a run (which starts a checkpoint), and tells the last number only
# after ``flush`` has returned.
WRITERS = """
import random
import hilum_postgres.sessions, hilum_store.sessions

async def open_soon(store):
    while True:
        try:
            return await store.open("s1")
        except StoreError as error:
            if error.code != "E_BUSY":
                raise
            await trio.sleep(0.002)

async def write(seed):
    dice = random.Random(seed)
    store = make_store()
    log = await open_soon(store)
    say("open", log.last)
    while True:
        count = dice.randrange(1, 5)
        batch = [event(log.last + 1 + n, dice.choice((10, 300, 20_000))) for n in range(count)]
        if dice.random() < 0.2:
            batch[-1] = RunEnded(seq=batch[-1].seq, agent="main", state="completed")
        log.append(batch)
        await log.flush()
        say("appended", log.last)

while seed := sys.stdin.readline():
    number = os.fork()
    if not number:
        trio.run(write, int(seed))
    say("forked", number)
    os.waitpid(number, 0)
    say("dead", 0)

async def main():
    pass
"""


async def read_all(store: Store, session: str) -> list[int]:
    found: list[int] = []
    while page := await store.read(session, after=len(found)):
        found += [event.seq for event in page]
    return found


def kill_a_writer(writers: "subprocess.Popen[str]", seed: int, delay: float, after: str) -> int:
    """Start a writer, kill it ``delay`` seconds after it said a word, give what it reported
    last.
    """
    assert writers.stdin
    assert writers.stdout
    writers.stdin.write(f"{seed}\n")
    writers.stdin.flush()
    said: dict[str, int] = {}
    while not {"forked", after} <= said.keys():
        word, number = writers.stdout.readline().split()
        said[word] = int(number)
    time.sleep(delay)
    os.kill(said["forked"], signal.SIGKILL)
    while "dead" not in said:
        word, number = writers.stdout.readline().split()
        said[word] = int(number)
    return said.get("appended", 0)


async def open_soon(store: Store) -> Log:
    """Open the session of a process that has just died: a server may need a moment to notice."""
    while True:
        try:
            return await store.open("s1")
        except StoreError as error:
            if error.code != E_BUSY:
                raise
            await trio.sleep(0.002)


async def test_killed_writer_loses_nothing_it_reported(
    engine: Engine, trials: Callable[[int, int], int]
) -> None:
    """SIGKILL at random instants: every reported event is there, the lease is free, the file is
    sound.
    """
    dice = random.Random(2026)
    kills = trials(8, 200)
    store = engine.make_store()
    await (await store.create(SessionInfo(id="s1", workspace="/w"))).close()
    await store.close()
    writers = engine.start(WRITERS)
    reported = productive = 0
    with trio.fail_after(600):
        for seed in range(kills):
            # Every tenth may be killed while it opens the file, every other one not before it has
            # written.
            after = "forked" if seed % 10 == 0 else ("open", "appended")[seed % 2]
            told = kill_a_writer(writers, seed, dice.random() * 0.03, after)
            productive += told > reported
            reported = max(reported, told)
            store = engine.make_store()
            log = await open_soon(store)
            assert log.last >= reported
            assert log.last == (await store.info("s1")).events
            if seed % 20 == 19 or seed == kills - 1:
                assert await read_all(store, "s1") == list(range(1, log.last + 1))
            await store.close()
    assert productive > kills / 4


PARALLEL = """
async def main():
    name = sys.argv[3]
    store = make_store()
    log = await store.create(SessionInfo(id=name, workspace="/w"))
    say("ready")
    sys.stdin.readline()
    for seq in range(1, 201):
        last = seq % 50 == 0
        log.append([RunEnded(seq=seq, agent="main", state="completed") if last else event(seq, 400)])
    await log.flush()
    say("done", log.last)
    await store.close()
"""


async def test_processes_write_different_sessions_at_once(engine: Engine) -> None:
    """Four processes make the file together and append in parallel, with checkpoints among it.

    A reader follows.
    """
    processes = [engine.start(PARALLEL, f"p{number}") for number in range(4)]
    with trio.fail_after(60):
        for process in processes:
            assert await trio.to_thread.run_sync(process.stdout.readline) == "ready\n"
        for process in processes:
            process.stdin.write("\n")
            process.stdin.flush()
        store = engine.make_store()
        while (seen := await read_all(store, "p0"))[-1:] != [200]:
            assert seen == list(range(1, len(seen) + 1))
            await trio.sleep(0.01)
        for process in processes:
            assert await trio.to_thread.run_sync(process.stdout.readline) == "done 200\n"
            assert await trio.to_thread.run_sync(process.wait) == 0
        for number in range(4):
            assert await read_all(store, f"p{number}") == list(range(1, 201))
        assert {info.events for info in await store.list()} == {200}
        await store.close()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers there")
async def test_interrupt_in_an_append_leaves_a_usable_log(engine: Engine, store: Store) -> None:
    """Ctrl-C at random instants of an append: all or nothing is on record, and the log knows
    which.
    """

    appending = False

    def interrupt(*_: object) -> None:
        # A signal that another thread received reaches this one late: after the append, at times
        if appending:
            raise KeyboardInterrupt

    dice = random.Random(7)
    log = await store.create(SessionInfo(id="s1", workspace="/w"))
    before = signal.signal(signal.SIGALRM, interrupt)
    outcomes, span = {"written": 0, "undone": 0}, 120e-6
    # An interrupt in a finalizer of another test's garbage would be lost, and complained of
    gc.disable()
    try:
        for _ in range(400):
            known = log.last
            batch = [PluginEvent(seq=known + n, name="test.fact") for n in (1, 2)]
            with contextlib.suppress(KeyboardInterrupt):
                try:
                    appending = True
                    signal.setitimer(signal.ITIMER_REAL, dice.uniform(1e-6, span))
                    log.append(batch)
                finally:
                    appending = False
                    signal.setitimer(signal.ITIMER_REAL, 0)
            assert log.last in (known, known + 2)
            outcomes["written" if log.last > known else "undone"] += 1
            span *= 0.95 if log.last > known else 1.05  # both happen, however fast the machine is
            assert [event.seq for event in log.read(after=known)] == list(
                range(known + 1, log.last + 1)
            )
    finally:
        gc.enable()
        signal.signal(signal.SIGALRM, before)
    assert min(outcomes.values()) > 10
    log.append([PluginEvent(seq=log.last + 1, name="test.fact")])
    await log.flush()
    assert await read_all(store, "s1") == list(range(1, log.last + 1))
