"""How long the store in PostgreSQL takes. Run it: ``python tests/benchmarks/postgres.py``.

Starts a server of its own with ``fsync`` on, and prints medians and 99th percentiles: appending on
loopback by one session and by eight, opening after a kill, and listing and reading 10,000 sessions
with as many events as given (``--events``; 1,000 of them need 6 GB).
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psycopg
import trio
from hilum.errors import StoreError
from hilum.events import PluginEvent, encode
from hilum.store import SessionInfo
from hilum_postgres import PostgresStore

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from postgres_server import PostgresServer, run_server

SESSIONS = 10_000
HOLD = """
import sys, trio
from hilum.events import PluginEvent
from hilum_postgres import PostgresStore
async def main():
    log = await PostgresStore(sys.argv[1]).open("held")
    while True:
        log.append([PluginEvent(seq=log.last + 1, name="test.fact")])
        await log.flush()
        print(log.last, flush=True)
trio.run(main)
"""


def show(name: str, seconds: list[float]) -> None:
    """Print the median and the 99th percentile in milliseconds."""
    seconds = sorted(seconds)
    middle = seconds[len(seconds) // 2] * 1e3
    high = seconds[min(len(seconds) - 1, len(seconds) * 99 // 100)] * 1e3
    print(f"{name:<58} {middle:8.2f} ms   99 %: {high:8.2f} ms   n = {len(seconds)}", flush=True)


def event(seq: int, size: int = 300) -> PluginEvent:
    """Return an event of about 400 bytes."""
    return PluginEvent(seq=seq, agent="main", name="test.fact", data={"x": "x" * size})


async def append(store: PostgresStore, name: str, count: int, taken: list[float]) -> None:
    """Append events one by one; measure until each is durable."""
    log = await store.create(SessionInfo(id=name, workspace="/w"))
    for seq in range(1, count + 1):
        began = time.perf_counter()
        log.append([event(seq)])
        await log.flush()
        taken.append(time.perf_counter() - began)
    await log.close()


def insert(url: str, count: int) -> None:
    """Measure what the database alone takes for a committed row, as a baseline."""
    taken = []
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE baseline (seq bigint PRIMARY KEY, data bytea)")
        for seq in range(count):
            began = time.perf_counter()
            values = (seq, encode(event(seq)))
            connection.execute("INSERT INTO baseline VALUES (%s, %s)", values, prepare=True)
            taken.append(time.perf_counter() - began)
    show("one row with the driver alone (baseline)", taken)


async def measure_append(url: str, count: int) -> None:
    """Measure appending by one session, and by eight at once."""
    await trio.to_thread.run_sync(insert, url, count)
    store = PostgresStore(url)
    taken: list[float] = []
    await append(store, "one", count, taken)
    show("append an event until it is durable", taken)
    log = await store.create(SessionInfo(id="queue", workspace="/w"))
    taken = []
    for seq in range(1, count + 1):
        began = time.perf_counter()
        log.append([event(seq)])
        taken.append(time.perf_counter() - began)
        await log.flush()
    await log.close()
    show("  of which the event loop is held", taken)
    taken = []
    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(append, store, f"many{number}", count // 8, taken)
    show("the same, eight sessions of one process at once", taken)
    await store.close()


async def measure_takeover(url: str, count: int) -> None:
    """Measure opening a session whose process was killed while it wrote."""
    store = PostgresStore(url)
    await (await store.create(SessionInfo(id="held", workspace="/w"))).close()
    taken: list[float] = []
    for _ in range(count):
        process = subprocess.Popen(  # noqa: ASYNC220 (the benchmark does nothing else meanwhile)
            [sys.executable, "-c", HOLD, url], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout
        for _ in range(5):
            last = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        began = time.perf_counter()
        while True:
            try:
                log = await store.open("held")
                break
            except StoreError:  # the server has not noticed the death yet
                await trio.sleep(0.001)
        taken.append(time.perf_counter() - began)
        assert log.last >= last
        await log.close()
        process.wait()
        process.stdout.close()
    show("open a session of a process that was just killed", taken)
    await store.close()


def fill(url: str, events: int) -> None:
    """Write many sessions at once, as the store would have one by one."""
    line = encode(event(1)).replace(b'"seq":1', b'"seq":%d')
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET search_path = hilum")
        connection.execute(
            "INSERT INTO sessions (id, workspace, kind, title, created, updated, events, state,"
            " forked) SELECT '20260101-' || lpad(n::text, 6, '0'), '/home/' || n %% 50, 'main',"
            " 'Find out why test ' || n || ' fails', n, n, %s, 'completed', ''"
            " FROM generate_series(1, %s) n",
            (events, SESSIONS),
        )
        connection.execute(
            "INSERT INTO events SELECT s.number, n, convert_to(format(%s, n), 'UTF8')"
            " FROM sessions s, generate_series(1, %s) n WHERE s.id LIKE '2026%%'",
            (line.decode().replace("%d", "%s"), events),
        )
        connection.execute("VACUUM ANALYZE")


async def measure_lists(url: str, events: int) -> None:
    """Measure what people wait for in a large database."""
    began = time.perf_counter()
    await trio.to_thread.run_sync(fill, url, events)
    print(
        f"{SESSIONS:,} sessions × {events:,} events: filled in {time.perf_counter() - began:.0f} s"
    )
    store = PostgresStore(url)
    assert len(await store.list()) >= SESSIONS
    for name, action in {
        "list all sessions": lambda: store.list(),
        "list the sessions of a folder": lambda: store.list("/home/7"),
        "find a session by the beginning of its id": lambda: store.info("20260101-00777"),
        "read 1,000 events": lambda: store.read("20260101-007777", 0, 1000),
        "open a session, which reads it whole": lambda: reopen(store),
    }.items():
        taken = []
        for _ in range(50):
            start = time.perf_counter()
            with suppress(StoreError):  # several sessions have ids that begin like that
                await action()
            taken.append(time.perf_counter() - start)
        show(name, taken)
    await store.close()


async def reopen(store: PostgresStore) -> None:
    """Open a session and close it."""
    await (await store.open("20260101-004242")).close()


def measure(server: PostgresServer, count: int, events: int) -> None:
    """Measure everything."""
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    url = server.make_database()
    trio.run(measure_append, url, count)
    trio.run(measure_takeover, url, max(count // 100, 5))
    trio.run(measure_lists, url, events)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="events to append")
    parser.add_argument("--events", type=int, default=100, help="events of each session")
    options = parser.parse_args()
    with run_server(fsync=True) as running:
        measure(running, options.count, options.events)
