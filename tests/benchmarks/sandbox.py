"""What the sandbox costs a command.

Run: ``python tests/benchmarks/sandbox.py``. The bar for all of guard: 25 ms.
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
from hilum_guard.sandbox.session_sandbox import Sandbox
from hilum_guard.settings import GuardSettings

COMMANDS = 150
ARGV = ["bash", "-c", "true"]


def show(name: str, times: list[float], beside: float = 0.0) -> None:
    """Print a line of the table: milliseconds, what is more than without, and the ratio to it."""
    value = statistics.median(times)
    more = f"+{1e3 * (value - beside):6.2f} ms  {value / beside:5.2f} x" if beside else ""
    print(f"{name:<48} {1e3 * value:8.2f} ms  {more}")


async def main() -> None:
    """Measure each kind of sandbox there is beside none, in turns.

    With the session's loopback and with one per command.
    """
    begun = time.perf_counter()
    sandbox_probe.probe()
    print(f"{'probe, once in a process':<48} {1e3 * (time.perf_counter() - begun):8.2f} ms")
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
            rivals = [Processes(warden, as_it_is, str(root)), *map(boxed, boxes)]
            times: list[list[float]] = [[] for _ in rivals]
            wraps: list[list[float]] = [[] for _ in boxes]
            for _ in range(COMMANDS):  # in turns, so that noise hits all alike
                for kept, processes in zip(times, rivals, strict=True):
                    begun = time.perf_counter()
                    await processes.run(ARGV)
                    kept.append(time.perf_counter() - begun)
                for kept, box in zip(wraps, boxes, strict=True):
                    begun = time.perf_counter()
                    await box.wrap_process(Command(tuple(ARGV), str(root)))
                    kept.append(time.perf_counter() - begun)
            base = statistics.median(times[0])
            show("bash -c true, without a sandbox", times[0])
            for kind, kept, own in zip(kinds, times[1:], wraps, strict=True):
                show(
                    f"bash -c true, {kind.by}{'' if kind.shared else ', loopback not shared'}",
                    kept,
                    base,
                )
                show("  of it, the hook wrap_process", own)
            for box in boxes:
                box.close()


if __name__ == "__main__":
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores")
    trio.run(main)
