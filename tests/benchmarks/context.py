"""What gathering context costs in a repository of 20,000 files, and whether the loop waits for it.

Run: ``python tests/benchmarks/context.py``. The bars: 300 ms for all six sources, with the guard
and its sandbox; no gap of the loop longer than 20 ms. The repository is copies of Python's library
and the installed packages, under Git, with changed files; linters are ruff where this environment
has it. The first prompt also loads modules and starts the warden; it is shown apart, and so is what
a prompt costs that names nothing, in a folder without Git.
"""

import gc
import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import trio
from hilum.context import ContextRequest
from hilum.events import PluginEvent
from hilum.testing import Bench, open_bench
from hilum_search.ripgrep import find_ripgrep

FILES = 20_000
TIMES = 15
PLUGINS = ("files", "guard", "search", "shell", "lint", "context")
PROMPT = (
    "Why does `{word}` fail in open_file_{n} of target_one.py? See find_spec_{n} and ModuleSpec."
)


def plant(top: Path) -> int:
    """Copy text files until there are enough, and commit them; give their number."""
    count = copy = 0
    sources = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib")]
    while count < FILES:
        for source in sources:
            for path in source.rglob("*.py"):
                target = top / f"{source.name}{copy}" / path.relative_to(source)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
                count += 1
        copy += 1
    (top / "pyproject.toml").write_text('[project]\nname = "x"\n[tool.ruff]\n')
    (top / "target_one.py").write_text("def open_file_0():\n    return missing\n")
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        subprocess.run(["git", *who, *command], cwd=top, check=True)
    (top / ".venv" / "bin").mkdir(parents=True)
    (top / ".venv" / "bin" / "ruff").symlink_to(Path(sys.executable).parent / "ruff")
    (top / ".gitignore").write_text(".venv\n")
    for number in range(5):
        (top / f"changed{number}.py").write_text("x = 1\n" * 200)
    return count


def state(top: Path) -> dict[str, Any]:
    """Three long files, a cursor in one that is not open, and a long terminal."""
    longest = sorted(top.glob("python3*0/*.py"), key=lambda path: -path.stat().st_size)[:4]
    names = [str(path.relative_to(top)) for path in longest]
    return {
        "open_files": [{"path": name} for name in names[:3]], "active_file": names[1],
        "cursor": {"path": names[3], "line": 900}, "terminal_output": "FAILED tests/test_x.py\n" * 5_000,
    }  # fmt: skip


class Beat:
    """Measures the longest time for which the event loop did not get round."""

    longest = computing = 0.0

    async def run(self) -> None:
        """Beat until cancelled: by the clock, and by the time that the loop's own thread
        computed.
        """
        last, worked = time.perf_counter(), time.thread_time()
        while True:
            await trio.sleep(0.001)
            now, work = time.perf_counter(), time.thread_time()
            self.longest, last = max(self.longest, now - last - 0.001), now
            self.computing, worked = max(self.computing, work - worked), work


async def gathered(
    bench: Bench, text: str, said: dict[str, Any]
) -> tuple[dict[str, Any], float, Beat]:
    """Prompt once.

    Gives the event, milliseconds of the hook, and the gaps of the loop while it ran.
    """
    hook, session, agent = "gather_context", bench.session, bench.session.agents["main"]
    seen, beat = len(bench.calls(hook)), Beat()
    request = ContextRequest(text, 50_000, said)
    gc.collect()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(beat.run)
        await trio.sleep(0.01)
        beat.longest = beat.computing = 0.0
        await session.hooks.gather(hook, agent=agent, request=request)
        nursery.cancel_scope.cancel()
    ms = 1e3 * max(each.seconds for each in bench.calls(hook)[seen:] if each.plugin == "context")
    events = [event.data for event in bench.of(PluginEvent) if event.name == "context.gathered"]
    return (events[-1] if events else {}), ms, beat


def told(gaps: list[Beat]) -> str:
    """Write gaps down: on a busy machine the first figure is mostly that of other programs."""
    longest, computing = (
        [1e3 * getattr(gap, name) for gap in gaps] for name in ("longest", "computing")
    )
    return (
        f"longest gap of the loop: median {statistics.median(longest):.1f}, worst {max(longest):.1f} ms, in which it computed"
        f" itself: median {statistics.median(computing):.1f}, worst {max(computing):.1f} ms"
    )


async def by_hand(root: Path, n: int) -> float:
    """Milliseconds of the three programs alone, side by side, their output thrown away: Git,
    ripgrep and ruff.
    """
    words = rf"\b(?:import_module|open_file_{n}|find_spec_{n}|ModuleSpec)\b"
    commands = [
        ["git", "--no-optional-locks", "status", "--porcelain", "-z", "--no-renames"],
        [find_ripgrep(), "--json", "--hidden", "--glob=!.git/", "-e", words, "./"],
        [str(root / ".venv" / "bin" / "ruff"), "check", "-q", "target_one.py"],
    ]
    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for command in commands:
            run = partial(subprocess.run, command, cwd=root, stdout=subprocess.DEVNULL, check=False)
            nursery.start_soon(trio.to_thread.run_sync, run)
    return 1e3 * (time.perf_counter() - began)


async def main(root: Path) -> None:
    """Measure, and print a table."""
    count = plant(root)
    chosen = {"files.snapshots": False}
    async with open_bench(
        *PLUGINS,
        workspace=root,
        settings={**chosen, "lint.trusted": [str(root)]},
    ) as bench:
        said, times, gaps, missing = state(root), list[float](), list[Beat](), 0
        alone, sources = list[float](), dict[str, list[float]]()
        for turn in range(TIMES + 1):
            data, ms, gap = await gathered(bench, PROMPT.format(word="import_module", n=turn), said)
            if not turn:
                print(f"{count:,} files; the first prompt: {ms:.0f} ms, {told([gap])}")
                continue
            if turn == 1:
                print(
                    f"  sent: {', '.join(each['type'] for each in data['blocks'])}; {data['tokens']:,} tokens"
                )
            missing += 6 - len({each["type"] for each in data["blocks"]})
            times.append(ms)
            alone.append(await by_hand(root, turn))
            gaps.append(gap)
            for name, about in data["sources"].items():
                sources.setdefault(name, []).append(about["ms"])
    print(
        f"  all six: median {statistics.median(times):.0f} ms, worst {max(times):.0f} ms (bar 300);"
        f" {missing} of {6 * TIMES} sources gave nothing"
    )
    hand = statistics.median(alone)
    print(
        f"  git status, rg and ruff alone, side by side: {hand:.0f} ms; ratio {statistics.median(times) / hand:.2f}"
    )
    print(f"  {told(gaps)} (bar 20)")
    print(
        "  "
        + ", ".join(f"{name} {statistics.median(each):.0f} ms" for name, each in sources.items())
    )
    with tempfile.TemporaryDirectory() as empty:
        async with open_bench(*PLUGINS, workspace=empty, settings=chosen) as bench:
            _, first, _ = await gathered(bench, "hi", {})
            _, second, _ = await gathered(bench, "hi", {})
        print(
            f"nothing to gather, in an empty folder: the first prompt {first:.0f} ms, the second {second:.1f} ms"
        )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        trio.run(main, Path(folder).resolve())
