"""What a todo list costs: a call with 100 items, a round with a list, reading a long log, and the
import.

Run: ``python tests/benchmarks/plan.py``.
"""

import statistics
import subprocess
import sys
import time

import hilum_plan
import trio
from hilum import hookimpl, tool
from hilum.events import CallDone
from hilum.store import MemoryStore
from hilum.testing import open_bench, use
from hilum_plan import Plan

TIMES = 200
ITEMS = [
    {"id": str(n), "content": f"Step {n}: " + "change the parser and run its tests " * 5}
    for n in range(100)
]
IMPORT = "import time, hilum.kernel, hilum.session; t = time.perf_counter(); import hilum_plan; print(time.perf_counter() - t)"


@tool(risk="read", effect="pure")
def look() -> str:
    """Look."""
    return "Seen."


class Look:
    """A tool that costs nothing."""

    @hookimpl
    def provide_tools(self):
        """Give it."""
        return [look]


def show(name: str, value: float, bar: str = "") -> None:
    """Print a line of the table."""
    print(f"{name:<66} {value * 1000:9.2f} ms   {bar}")


async def call() -> None:
    """A todo_write of 100 items through the real loop."""
    answers = [use("todo_write", todos=ITEMS, merge=bool(n % 2)) for n in range(TIMES)]
    async with open_bench(
        hilum_plan, answers=[*answers, "Done."], settings={"turns": 10_000}
    ) as bench:
        await bench.run("Go")
        seconds = sorted(event.seconds for event in bench.of(CallDone))
        show("todo_write of 100 items, median", statistics.median(seconds), "bar 1000 ms (K5)")
        show("todo_write of 100 items, slowest", seconds[-1], "bar 1000 ms (K5)")


async def rounds(*plugins: object) -> float:
    """Seconds of a round with one call that does nothing, with a list or without the plugin."""
    first = [use("todo_write", todos=ITEMS)] if plugins else []
    async with open_bench(
        Look(),
        *plugins,
        answers=[*first, *[use("look")] * TIMES, "Done."],
        settings={"turns": 10_000},
    ) as bench:
        began = time.perf_counter()
        await bench.run("Go")
        return (time.perf_counter() - began) / TIMES


async def reading() -> None:
    """The first look at a list in a session that is resumed."""
    store = MemoryStore()
    async with open_bench(
        Look(), hilum_plan, answers=[use("todo_write", todos=ITEMS), *[use("look")] * 1500, "Done."],
        settings={"turns": 10_000}, store=store,
    ) as bench:  # fmt: skip
        await bench.run("Go")
        session, count = bench.session.id, bench.session.journal.last
        fork = await bench.kernel.fork(session)
        async with bench.kernel.open_session(bench.workspace, resume=fork) as again:
            plan = Plan(again, again.settings(hilum_plan.PlanSettings))
            began = time.perf_counter()
            plan.items()
            show(
                f"first look at the list of a log of {count:,} events", time.perf_counter() - began
            )


def main() -> None:
    """Print the table."""
    trio.run(call)
    without, with_list = trio.run(rounds), trio.run(rounds, hilum_plan)
    show("a round without the plugin", without)
    show("a round with a list of 100 items", with_list, f"{with_list / without:.2f} x")
    trio.run(reading)
    took = [
        float(subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True).stdout)
        for _ in range(7)
    ]
    show("import of hilum_plan beside the kernel, fastest of 7", min(took))


if __name__ == "__main__":
    main()
