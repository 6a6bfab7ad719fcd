"""What a search costs beside ``rg`` alone, and whether anything waits for it.

Run: ``python tests/benchmarks/search.py``.

The tree is copies of Python's library and the installed packages, some 20,000 files or more, in a
temporary folder. Runs of one kind alternate with those they are compared with, so that noise hits
both alike; the best of each is compared.
"""

import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hilum_search
import msgspec
import trio
from hilum import Call, Command, Workspace
from hilum.processes import Processes, Warden
from hilum.settings import load
from hilum_search.path_index import PathIndex
from hilum_search.ripgrep import find_ripgrep

FILES = 20_000
ROUNDS = 7
SEARCHES: dict[str, dict[str, Any]] = {
    "a word": {"pattern": "cancel_scope"},
    "no match": {"pattern": "nobody_wrote_this"},
    "case ignored": {"pattern": "cancelscope", "ignore_case": True},
    "expression with words": {"pattern": r"def \w+_stream\w*_to\w*\("},
    "the same, many matches": {"pattern": r"def \w+_stream\w*\("},
    "common word, many matches": {"pattern": r"\bself\.\w+\s*=\s*\w+\("},
    "common word, few matches": {"pattern": r"\bself\.\w+\s*=\s*[Q]\w+\("},
    "begin of line": {"pattern": r"^\s*raise \w+Error\(.*\bfrom\b"},
    "begin of line, no match": {"pattern": r"^\s*raise \w+Error\(.*\bfrom\b \w+zz"},
    "one of three, no match": {"pattern": "TODO: z|FIXME: z|XXX: z"},
    "no word at all": {"pattern": r"\d{9}[A-F]{3}"},
    "look-behind": {"pattern": r"(?<!async )with open_nursery"},
    "very many matches": {"pattern": "import"},
}


def plant(top: Path) -> int:
    """Copy text files until there are enough; give their number."""
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
    return count


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

    def __str__(self) -> str:
        return f"{1e3 * self.longest:.1f} ms, of which the loop computed at most {1e3 * self.computing:.1f} ms"


async def alone(rg: str, root: Path, pattern: str, ignore_case: bool = False) -> float:
    """Time ``rg --json``, its output read and thrown away."""
    options = ["-i"] * ignore_case + ["-P"] * ("(?<" in pattern)
    begun = time.perf_counter()
    await trio.to_thread.run_sync(
        partial(
            subprocess.run,
            [rg, "--json", *options, "-e", pattern, "./"],
            cwd=root,
            stdout=subprocess.PIPE,
            check=False,
        )
    )
    return time.perf_counter() - begun


def maker(warden: Warden, root: Path) -> Callable[..., Awaitable[tuple[float, float]]]:
    """Give what calls search_files: seconds to the end, and to the first result (0 without one)."""

    async def unchanged(command: Command) -> Command:
        return command

    processes = Processes(warden, unchanged, str(root))

    async def ours(**arguments: Any) -> tuple[float, float]:
        loaded = load([hilum_search.SearchSettings], environ={"HOME": str(root)})
        session: Any = SimpleNamespace(
            settings=loaded.get,
            processes=processes,
            workspace=Workspace(root),
            plugin=lambda kind: None,
        )
        first = 0.0

        def show(_: str) -> None:
            nonlocal first
            first = first or time.perf_counter() - begun

        begun = time.perf_counter()
        if "query" in arguments:
            async with trio.open_nursery() as nursery:
                paths = PathIndex(session, nursery)
                await paths.find(**arguments)
                listed = time.perf_counter()
                await paths.find(**arguments)
                nursery.cancel_scope.cancel()
            return time.perf_counter() - listed, listed - begun
        tool = hilum_search.search_files
        checked = tool.check(msgspec.json.encode(arguments).decode())
        call = Call(
            "1",
            tool.name,
            checked,
            None,
            session,
            Workspace(root),
            processes,
            trio.current_time() + 60,
            show,
        )
        output = await tool.run(call)
        assert not output.code, output.text
        return time.perf_counter() - begun, first

    return ours


async def main(root: Path) -> None:
    """Measure, and print a table."""
    rg = find_ripgrep()
    beat = Beat()
    async with Warden() as warden, trio.open_nursery() as nursery:
        ours = maker(warden, root)
        await ours(pattern="x y z")  # the warden starts, the files get into the cache
        print(f"{'':26}{'rg alone':>10}{'search_files':>14}{'ratio':>7}{'first':>9}")
        ratios: list[float] = []
        for name, arguments in SEARCHES.items():
            alone_times: list[float] = []
            times: list[tuple[float, float]] = []
            for _ in range(ROUNDS):
                alone_times.append(await alone(rg, root, **arguments))
                times.append(await ours(**arguments))
            best = min(alone_times)
            least = min(seconds for seconds, _ in times)
            first = min(seconds for _, seconds in times)
            ratios.append(least / best)
            print(
                f"{name:26}{1e3 * best:7.0f} ms{1e3 * least:11.0f} ms{ratios[-1]:7.2f}"
                f"{1e3 * first:6.0f} ms"
            )
        print(f"ratio: median {statistics.median(ratios):.2f}, worst {max(ratios):.2f}")
        nursery.start_soon(beat.run)  # only now, as beating takes time too
        gaps: list[tuple[float, float]] = []  # the longest each time
        for _ in range(ROUNDS):
            beat.longest = beat.computing = 0.0
            for arguments in SEARCHES.values():
                await ours(**arguments)
            gaps.append((beat.longest, beat.computing))
        # The least of these, as others use the machine too.
        beat.longest, beat.computing = (min(some) for some in zip(*gaps, strict=True))
        print(f"longest gap of the event loop in {len(SEARCHES)} searches: {beat}")
        beat.longest = beat.computing = 0.0
        found = [await ours(query="cancel", limit=20) for _ in range(ROUNDS)]
        again, listed = (1e3 * min(times) for times in zip(*found, strict=True))
        print(f"find_paths: first {listed:.0f} ms, then {again:.0f} ms")
        print(f"longest gap of the event loop in find_paths: {beat}")
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(
            f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, {plant(Path(folder)):,} files"
        )
        trio.run(main, Path(folder))
