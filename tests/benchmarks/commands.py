"""What run_terminal_cmd costs beside ``session.processes.run``, and what a command that prints 1 GB
costs.

Run: ``python tests/benchmarks/commands.py``.
"""

import os
import resource
import statistics
import sys
import time

import hilum_shell
import msgspec
import trio
from hilum import Call
from hilum.events import PluginEvent, RoundEnded
from hilum.testing import open_bench, pause, use

COMMANDS = 200
STOPS = 30
STUBBORN = "trap '' TERM INT HUP; (setsid sh -c 'trap \"\" TERM; echo up; sleep 1000' &); while :; do sleep 5; done"
GIGABYTE = 1_000_000_000
PRINT = f"head -c {GIGABYTE} /dev/zero | tr '\\0' x"


def megabytes() -> float:
    """Most memory that this process had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def show(name: str, value: float, unit: str, ratio: float = 0.0) -> None:
    """Print a line of the table."""
    print(f"{name:<58} {value:9.2f} {unit:<5} {f'{ratio:5.2f} x' if ratio else ''}")


async def call(session, tool: str, **arguments):
    """Call a tool as the kernel does, without a run around it.

    What it emits goes to the session's readers.
    """
    found, agent = session.tools[tool], session.agents["main"]
    checked = found.check(msgspec.json.encode(arguments).decode())

    def emit(text: str) -> None:
        session.journal.delta((1, "output", "c1"), agent.name, "", text)

    running = Call(
        "c1",
        tool,
        checked,
        agent,
        session,
        session.workspace,
        session.processes,
        float("inf"),
        emit,
    )
    output = await found.run(running)
    session.journal.drop("main", "c1")
    return output


async def cost(session) -> None:
    """Time short commands, in turns, so that noise hits both alike."""
    plain, ours = [], []
    for _ in range(COMMANDS):
        begun = time.perf_counter()
        await session.processes.run(["bash", "-c", "--", "true"], env={"PAGER": "cat"})
        between = time.perf_counter()
        await call(session, "run_terminal_cmd", command="true")
        ours.append(time.perf_counter() - between)
        plain.append(between - begun)
    base, more = statistics.median(plain), statistics.median(ours)
    show("session.processes.run, bash -c true (median)", 1e3 * base, "ms")
    show("run_terminal_cmd, true (median)", 1e3 * more, "ms", more / base)
    show("  more per command", 1e3 * (more - base), "ms")
    show(
        "  more per command, best of each",
        1e3 * (min(ours) - min(plain)),
        "ms",
        min(ours) / min(plain),
    )


async def gigabyte(session) -> None:
    """Let commands print 1 GB: to nobody, through the tool, and in the background while a pattern
    is waited for.
    """
    await call(session, "run_terminal_cmd", command="true")
    before = megabytes()
    begun = time.perf_counter()
    await session.processes.run(["bash", "-c", PRINT], limit=0)
    base = time.perf_counter() - begun
    show("1 GB, session.processes.run, nothing kept", GIGABYTE / base / 1e6, "MB/s")
    begun = time.perf_counter()
    output = await call(session, "run_terminal_cmd", command=PRINT, timeout=600.0)
    taken = time.perf_counter() - begun
    assert output.data["exit_code"] == 0, output.text[:200]
    show("1 GB, run_terminal_cmd, shown and kept", GIGABYTE / taken / 1e6, "MB/s", base / taken)
    for name, command in (("lines of 80", f"{PRINT} | fold -w 80"), ("one line", PRINT)):
        begun = time.perf_counter()
        started = await call(
            session, "run_terminal_cmd", command=f"{command}; echo; echo the end", background=True
        )
        service = started.data["service"]
        output = await call(
            session, "read_service", service=service, wait_for="^the end$", timeout=600.0
        )
        taken = time.perf_counter() - begun
        assert output.text.startswith("Found: "), output.text[:200]
        show(
            f"1 GB, background, {name}, until a pattern comes",
            GIGABYTE / taken / 1e6,
            "MB/s",
            base / taken,
        )
    show("memory more after all this, at most", megabytes() - before, "MB")


async def stops() -> None:
    """Time the end of stubborn services whose run is stopped: from the stop to nothing left."""
    times = []
    for _ in range(STOPS):
        start = use("run_terminal_cmd", command=STUBBORN, background=True)
        up = use("read_service", service="s1", wait_for="up")
        async with open_bench(hilum_shell, answers=[start, up, pause(1000)]) as bench:
            run = await bench.start("Serve.")
            first = await bench.wait_for(RoundEnded)
            await bench.wait_for(RoundEnded, after=first.seq)
            begun = time.perf_counter()
            run.stop()
            await bench.wait_for(PluginEvent, lambda event: event.name == "shell.service_ended")
            times.append(time.perf_counter() - begun)
    show(
        "stop of a run, to the end of its stubborn service, median",
        1e3 * statistics.median(times),
        "ms",
    )
    show("  worst", 1e3 * max(times), "ms")


async def main() -> None:
    """Measure, and print a table."""
    async with open_bench(hilum_shell) as bench:
        await cost(bench.session)
        await gigabyte(bench.session)
    await stops()


if __name__ == "__main__":
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores")
    trio.run(main)
