"""What reading rules costs when a session opens, what a turn pays to see that nothing changed, and
a change.

Run: ``python tests/benchmarks/rules.py``. It writes a repository of 20,000 files, 50 of them rules.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import hilum_rules
import trio
from hilum.context import estimate
from hilum.testing import open_bench
from hilum_rules import RulesSettings, load_rules
from hilum_rules.discovery import find_paths
from hilum_rules.prompt_layers import REMINDER
from hilum_rules.rule_store import RuleStore

FILES, FOLDERS, TIMES = 20_000, 400, 200
RULE = "- Use the words of the trade in `{}` and name things after what they are, number {}.\n"


def show(name: str, value: str, bar: str = "") -> None:
    """Print a line of the table."""
    print(f"{name:<64} {value:>18}   {bar}")


def milliseconds(work: Callable[[], object], times: int = TIMES) -> tuple[float, float]:
    """Give the median and the 99th percentile of a call, in milliseconds of this thread's own time:
    others may be at work.
    """
    taken = []
    for _ in range(times):
        before = time.thread_time()
        work()
        taken.append((time.thread_time() - before) * 1000)
    return statistics.median(taken), statistics.quantiles(taken, n=100)[98]


def make(root: Path) -> None:
    """Write the repository: 50 files of rules with 40 rules each, the rest of it code."""
    (root / ".git").mkdir(parents=True)
    for number in range(FOLDERS):
        folder = root / f"pkg{number % 20}" / f"part{number}"
        folder.mkdir(parents=True)
        for inner in range(FILES // FOLDERS):
            (folder / f"m{inner}.py").write_text("x = 1\n")
    text = "".join(
        f"## Part {part}\n\n" + "".join(RULE.format(part, n) for n in range(10))
        for part in range(4)
    )
    (root / "AGENTS.md").write_text(
        "# All\n\n## Safety\n\n- Never edit files in `migrations/`.\n\n" + text
    )
    rules = root / ".cursor" / "rules"
    rules.mkdir(parents=True)
    for number in range(49):
        (rules / f"r{number}.mdc").write_text(f"---\nalwaysApply: true\n---\n# R{number}\n\n{text}")


async def waits(root: Path) -> tuple[float, float, float]:
    """Open a session in the repository.

    Gives its seconds, the longest wait of another task, and that beside plain work.
    """
    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        while True:
            before = time.perf_counter()
            await trio.sleep(0.001)
            longest = max(longest, time.perf_counter() - before - 0.001)

    async with open_bench(hilum_rules, answers=["ok"]) as bench, trio.open_nursery() as nursery:
        settings = bench.session.settings(RulesSettings)
        nursery.start_soon(tick)
        await trio.sleep(0.05)
        longest = 0.0
        taken = await trio.to_thread.run_sync(spent, hilum_rules.open_store, root, settings, "main")
        gap, longest = longest, 0.0
        await trio.to_thread.run_sync(spent, burn, taken)
        nursery.cancel_scope.cancel()
    return taken, gap, longest


def spent(work: Callable[..., object], *arguments: object) -> float:
    """Give the seconds of this thread's own time that a call takes."""
    before = time.thread_time()
    work(*arguments)
    return time.thread_time() - before


def burn(seconds: float) -> None:
    """Keep a thread busy with plain Python: what any work in a thread costs the loop on this
    machine, now.
    """
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        sum(range(1_000))


def main() -> None:
    """Measure, and print the table."""
    show("what", "measured", "bar")
    code = (
        "import time, trio, hilum; hilum.hookimpl, hilum.section, hilum.Session; t = time.process_time(); "
        "import hilum_rules; print((time.process_time() - t) * 1000)"
    )
    imports = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5)]
    show("import hilum_rules, beyond hilum", f"{min(imports):.1f} ms")
    with TemporaryDirectory() as made:
        empty, root = Path(made).resolve() / "empty", Path(made).resolve() / "repo"
        empty.mkdir()
        os.environ["HOME"] = str(empty)
        make(root)
        taken, longest, plain = trio.run(waits, root)
        show(
            f"reading 50 files, 2,000 rules, among {FILES:,} files, first time",
            f"{taken * 1000:.0f} ms",
        )
        show(
            "longest gap of the loop meanwhile",
            f"{longest * 1000:.1f} ms",
            f"beside plain work in a thread {plain * 1000:.1f} ms",
        )
        for name, place in (("no rules", empty), ("50 files", root)):
            current = RuleStore(find_paths(place, empty), RulesSettings())
            current.load()
            time.sleep(2.1)  # files written just now are read again, until their times tell apart
            current.refresh()
            median, late = milliseconds(current.refresh)
            show(
                f"a turn's look at {name}, nothing changed: median, p99",
                f"{median:.3f}, {late:.3f} ms",
                "2 ms",
            )
        file = root / "AGENTS.md"

        def change() -> None:
            file.write_text(file.read_text() + "- One more.\n")
            assert current.refresh()

        median, late = milliseconds(change, 30)
        show("a change of one file of 50: median, p99", f"{median:.1f}, {late:.1f} ms")
        median, _ = milliseconds(
            lambda: current.touch([f"pkg3/part3/{time.perf_counter_ns()}.py"]), 100
        )
        show("a tool's first touch of a file", f"{median:.3f} ms")
        big = Path(made) / "AGENTS.md"
        big.write_text("- A rule among many others that are as long.\n" * 230_000)
        median, _ = milliseconds(lambda: load_rules(big), 5)
        show(
            f"a file of {big.stat().st_size / 1e6:.0f} MB, read up to the limit", f"{median:.0f} ms"
        )
    show("the reminder after each round", f"{estimate(REMINDER)} tokens", "60")


if __name__ == "__main__":
    main()
