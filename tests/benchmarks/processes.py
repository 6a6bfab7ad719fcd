"""What the warden costs, and how fast it ends a stubborn tree.

Run: ``python tests/benchmarks/processes.py``.
"""

import os
import statistics
import subprocess
import sys
import time

import trio
from hilum.processes import GRACE, Command, Processes, Warden

COMMANDS = 200
TREES = 200
STUBBORN = """
trap '' TERM INT HUP
( setsid bash -c 'trap "" TERM INT HUP; while :; do sleep 5; done' & ) &
echo up
while :; do sleep 5; done
"""


async def as_it_is(command: Command) -> Command:
    """Let a command pass unchanged."""
    return command


def marked(marker: str) -> list[int]:
    """List the processes that carry a marker in their environment."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if marker.encode() in file.read():
                    found.append(int(name))
        except OSError:
            continue
    return found


async def first_command() -> float:
    """Time a first command, start of the warden included."""
    begun = time.perf_counter()
    async with Warden() as warden:
        await Processes(warden, as_it_is, os.getcwd()).run(["true"])
        return time.perf_counter() - begun


async def stop(processes: Processes, grace: float) -> float:
    """Time the stop of a stubborn tree, from cancelling to nothing left."""
    up, begun = trio.Event(), 0.0
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            await processes.run(
                ["bash", "-c", STUBBORN],
                env={"BENCH": "stubborn"},
                on_output=lambda *_: up.set(),
                grace=grace,
            )

        nursery.start_soon(run)
        await up.wait()
        await trio.sleep(0.02)  # for the double fork to come up
        begun = time.perf_counter()
        nursery.cancel_scope.cancel()
    return time.perf_counter() - begun


def show(name: str, value: float, beside: float = 0.0) -> None:
    """Print a line of the table: milliseconds, and the ratio to what it is compared with."""
    print(f"{name:<52} {1e3 * value:8.2f} ms  {f'{value / beside:5.2f} x' if beside else ''}")


async def main() -> None:
    """Measure, and print a table."""
    firsts = [await first_command() for _ in range(20)]
    async with Warden() as warden:
        processes = Processes(warden, as_it_is, os.getcwd())
        ours, plain, argv = [], [], ["bash", "-c", "true"]
        for _ in range(COMMANDS):  # in turns, so that noise hits both alike
            begun = time.perf_counter()
            await trio.run_process(argv, capture_stdout=True, capture_stderr=True)
            between = time.perf_counter()
            await processes.run(argv)
            ours.append(time.perf_counter() - between)
            plain.append(between - begun)
        base, cost = statistics.median(plain), statistics.median(ours)
        show("trio.run_process, bash -c true (median)", base)
        show("Processes.run, bash -c true (median)", cost, base)
        show("  more per command", cost - base)
        show("first command, with the start of the warden", statistics.median(firsts))
        show("  more than a later one", statistics.median(firsts) - cost)
        for grace in (0.0, GRACE):
            times = sorted(
                [await stop(processes, grace) for _ in range(TREES if not grace else TREES // 4)]
            )
            show(f"stop of a stubborn tree, grace {grace} s: median", statistics.median(times))
            show("  p99", times[int(0.99 * len(times))])
            show("  worst", times[-1])
        print(f"processes left: {len(marked('BENCH=stubborn'))}")


if __name__ == "__main__":
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, "
          f"{subprocess.run(['uname', '-sr'], capture_output=True, text=True).stdout.strip()}")  # fmt: skip
    trio.run(main)
