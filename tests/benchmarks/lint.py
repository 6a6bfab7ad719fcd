"""What read_lints costs beside ruff alone, what a step with an edit waits for, and what the
loop waits for meanwhile.

Run: ``python tests/benchmarks/lint.py``. It links the ruff of this environment into a project of
400 files.
"""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import hilum_lint
import msgspec
import trio
from hilum import Call, Text, ToolResult
from hilum.testing import open_bench

TIMES = 30
CONFIG = '[project]\nname = "x"\n[tool.ruff.lint]\nselect = ["E", "F"]\n' + "".join(
    f'[tool.other{n}]\nkeys = ["one", "two", "three"]\nmore = {{a = 1, b = "text"}}\n'
    for n in range(60)
)
FLOOD = "import os, sys, json\n" * 4_000


def show(name: str, value: float, base: float = 0.0) -> None:
    """Print a line of the table."""
    print(f"{name:<64} {value * 1000:9.1f} ms {f'{value / base:6.2f} x' if base else ''}")


def make(root: Path) -> str:
    """Write the project; gives the path of its ruff."""
    (root / ".venv" / "bin").mkdir(parents=True)
    (root / ".venv" / "bin" / "ruff").symlink_to(Path(sys.executable).parent / "ruff")
    (root / "pyproject.toml").write_text(CONFIG)
    (root / "src" / "pkg").mkdir(parents=True)
    for number in range(400):
        (root / "src" / "pkg" / f"m{number}.py").write_text(
            "import os\n\n\ndef f(x):\n    return x + missing\n"
        )
    (root / "flood.py").write_text(FLOOD)
    return str(root / ".venv" / "bin" / "ruff")


async def call(session, **arguments):
    """Call read_lints as the kernel does, without a run around it."""
    found, agent = session.tools["read_lints"], session.agents["main"]
    checked = found.check(msgspec.json.encode(arguments).decode())
    place, until = session.workspace, trio.current_time() + 100
    return await found.run(
        Call("1", found.name, checked, agent, session, place, session.processes, until, print)
    )


async def longest_wait(work) -> float:
    """Give the longest time that another task had to wait for its turn while this ran."""
    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        while True:
            before = time.perf_counter()
            await trio.sleep(0.001)
            longest = max(longest, time.perf_counter() - before - 0.001)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tick)
        await work()
        nursery.cancel_scope.cancel()
    return longest


async def timed(work) -> float:
    """Seconds that something takes."""
    begun = time.perf_counter()
    await work()
    return time.perf_counter() - begun


def alone(argv: list[str]) -> float:
    """Seconds that a plain subprocess takes."""
    begun = time.perf_counter()
    subprocess.run(argv, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun


async def main(folder: str) -> None:
    """Print the table; the first rows are measured in turns, so that noise hits all alike."""
    root = Path(folder)
    ruff, file = make(root), "src/pkg/m7.py"
    argv = [
        ruff,
        "check",
        "--output-format=json",
        "--no-cache",
        "--exit-zero",
        "--quiet",
        str(root / file),
    ]
    settings = {"lint.trusted": [str(root)], "lint.background": False}
    async with open_bench(hilum_lint, "files", settings=settings, workspace=root) as bench:
        session, agent = bench.session, bench.session.agents["main"]
        half = session.plugin(hilum_lint.Lint)
        before, after = "x + 1", "x + missing"
        diff = f"--- a/{file}\n+++ b/{file}\n@@ -5,1 +5,1 @@\n-    return {before}\n+    return {after}\n"
        data = {"path": file, "diff": diff, "created": False}
        results = [ToolResult("1", "edit_file", (Text("Edited."),), data=data)]
        await half.remind(agent, results)
        assert "F821" in str(await half.check_answer(agent, None))
        assert "F821" in (await call(session, paths=[file])).text
        bare, plain, ours, steps, notes = [], [], [], [], []
        for _ in range(TIMES):
            bare.append(alone(argv))
            plain.append(await timed(lambda: session.processes.run(argv)))
            ours.append(await timed(lambda: call(session, paths=[file])))
            steps.append(await timed(lambda: half.remind(agent, results)))
            notes.append(await timed(lambda: half.check_answer(agent, None)))
        base = statistics.median(bare)
        show("ruff, one file, by subprocess", base)
        show("the same by session.processes", statistics.median(plain), base)
        show("read_lints of one file (bar: < 150 ms beyond ruff)", statistics.median(ours), base)
        show("  beyond ruff, slowest of all", max(ours) - base)
        show("what a step waits for after an edit (bar: 1 ms)", statistics.median(steps))
        show("  slowest of all", max(steps))
        show(
            "the note itself, ruff before and after, beside the step",
            statistics.median(notes),
            base,
        )
        found = (await call(session)).data["count"]
        assert found > 10_000
        show(f"read_lints of 401 files, {found:,} findings", await timed(lambda: call(session)))
        show("  longest wait of the loop meanwhile", await longest_wait(lambda: call(session)))


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        trio.run(main, os.path.realpath(folder))
