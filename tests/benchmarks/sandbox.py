"""What the sandbox costs a command, with and without spare sandboxes.

Run: ``python tests/benchmarks/sandbox.py``. The bar for all of guard: 25 ms. Each command follows a
pause in which a model would think, and in which spares are built.
"""

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import attrs
import trio
from hilum.processes import Command, Processes, Warden
from hilum_guard.sandbox import backends, sandbox_probe
from hilum_guard.sandbox.enforcement import Enforcement
from hilum_guard.sandbox.session_sandbox import Sandbox
from hilum_guard.sandbox.spares import SparePool
from hilum_guard.settings import GuardSettings

COMMANDS = 150
BATCHES = 30
BATCH = 8
THINKING = 0.04  # seconds before each command
THINKING_OF_BATCH = 0.25
ARGV = ["bash", "-c", "true"]


def show(name: str, times: list[float], beside: float = 0.0) -> None:
    """Print a line of the table: milliseconds, what is more than without, and the ratio to it."""
    value = statistics.median(times)
    more = f"+{1e3 * (value - beside):6.2f} ms  {value / beside:5.2f} x" if beside else ""
    print(f"{name:<58} {1e3 * value:8.2f} ms  {more}")


def describe(kind: Enforcement) -> str:
    """Return the name of a kind of sandbox."""
    return f"{kind.by}{'' if kind.shared else ', loopback not shared'}"


async def measure_batches(
    names: list[str], rivals: list[Processes], pools: list[SparePool | None]
) -> None:
    """Measure eight commands of half a second at once, in turns."""
    times: list[list[float]] = [[] for _ in rivals]
    for number in range(BATCHES + 1):
        for kept, processes, pool in zip(times, rivals, pools, strict=True):
            if pool is not None:
                pool.note_model_request("run")
            await trio.sleep(THINKING_OF_BATCH)
            begun = time.perf_counter()
            async with trio.open_nursery() as nursery:
                for _ in range(BATCH):
                    nursery.start_soon(processes.run, ["bash", "-c", "sleep 0.5"])
            if number:  # the first batch shows how many spares are needed
                kept.append(time.perf_counter() - begun)
    for name, kept in zip(names, times, strict=True):
        show(f"{BATCH} x sleep 0.5 at once, {name}", kept, statistics.median(times[0]))


async def main() -> None:
    """Measure each kind of sandbox there is beside none, in turns.

    With the session's loopback and with one per command.
    """
    begun = time.perf_counter()
    sandbox_probe.probe()
    print(f"{'probe, once in a process':<58} {1e3 * (time.perf_counter() - begun):8.2f} ms")
    kinds = [
        found
        for found in (backends.check_bubblewrap(), backends.check_landlock())
        if not isinstance(found, str)
    ]
    kinds = [
        each for kind in kinds for each in dict.fromkeys((kind, attrs.evolve(kind, shared=False)))
    ]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "proj"
        await trio.run_process(["git", "init", "-q", str(root)])
        async with Warden() as warden:

            async def as_it_is(command: Command) -> Command:
                return command

            def boxed(box: Sandbox) -> Processes:
                async def wrap(command: Command) -> Command:
                    return await box.wrap_process(command)

                return Processes(warden, wrap, str(root))

            boxes = [
                Sandbox(root, GuardSettings(), f"{folder}/{number}", enforced=kind)
                for number, kind in enumerate(kinds)
            ]
            names = [describe(kind) for kind in kinds]
            rivals = [Processes(warden, as_it_is, str(root)), *map(boxed, boxes)]
            async with trio.open_nursery() as nursery:
                if kinds[0].by == "bubblewrap":
                    box = Sandbox(root, GuardSettings(), f"{folder}/spare", enforced=kinds[0])
                    processes = boxed(box)
                    pool = SparePool(processes.start_spare, BATCH)
                    box.spares = pool
                    nursery.start_soon(pool.run)
                    boxes.append(box)
                    rivals.append(processes)
                    names.append(f"{names[0]}, spare")
                times: list[list[float]] = [[] for _ in rivals]
                wraps: list[list[float]] = [[] for _ in boxes]
                for _ in range(COMMANDS):  # in turns, so that noise hits all alike
                    for kept, processes in zip(times, rivals, strict=True):
                        await trio.sleep(THINKING)
                        begun = time.perf_counter()
                        await processes.run(ARGV)
                        kept.append(time.perf_counter() - begun)
                    for kept, box in zip(wraps, boxes, strict=True):
                        begun = time.perf_counter()
                        await box.wrap_process(Command(tuple(ARGV), str(root)))
                        kept.append(time.perf_counter() - begun)
                base = statistics.median(times[0])
                show("bash -c true, without a sandbox", times[0])
                for name, kept, own in zip(names, times[1:], wraps, strict=True):
                    show(f"bash -c true, {name}", kept, base)
                    show("  of it, the hook wrap_process", own)
                pools = [None, *(box.spares for box in boxes)]
                await measure_batches(["without a sandbox", *names], rivals, pools)
                nursery.cancel_scope.cancel()
            for box in boxes:
                box.close()


if __name__ == "__main__":
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores")
    trio.run(main)
