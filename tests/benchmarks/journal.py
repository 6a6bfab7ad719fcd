"""What reading before editing, the journal and snapshots cost.

An edit and a command run with them and without, in one run.

``python tests/benchmarks/journal.py`` prints a table. The tools' own work is the same on both
sides; the rounds alternate.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import hilum_files
import hilum_shell
import hilum_store
import trio
from hilum import Call, Workspace
from hilum.events import PluginEvent
from hilum.testing import open_bench
from hilum_files.journal.changes import track_workspace
from hilum_files.paths import open_file, replace_file
from hilum_files.text import unified_diff
from hilum_files.write_tools import _edit

ROUNDS = 200


def size(folder: Path) -> int:
    """Bytes of the contents kept in a folder."""
    return sum(file.stat().st_size for file in folder.glob("objects.db*"))


def plant(root: Path, count: int) -> Path:
    """Make a project: files of 6 KB, ten in a folder."""
    root.mkdir()
    for number in range(count):
        path = root / f"part{number // 100}" / f"piece{number // 10 % 10}" / f"file{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"value = {number}\n" * 400)
    (root / "edited.py").write_text("one = 0\n" + "line = 1\n" * 600)
    return root


def edit_plainly(workspace: Workspace, path: str, pairs: list[tuple[str, str]]) -> None:
    """Do the work of an edit without checking or recording it: read, replace, write, read back."""
    with open_file(workspace, path) as file:
        before = file.read().decode()
    after = hilum_files.apply_edits(before, pairs)[-1].content
    replace_file(workspace, path, after.encode())
    unified_diff(path, before, after)
    with open_file(workspace, path) as file:
        assert file.read().decode() == after


async def edits(bench, root: Path) -> tuple[float, float]:
    """Median milliseconds of an edit, guarded and not."""
    session, agent = bench.session, bench.session.agents["main"]
    times: dict[bool, list[float]] = {True: [], False: []}
    changes = session.plugin(hilum_files.Changes)
    (root / "plain.py").write_bytes((root / "edited.py").read_bytes())
    known = hilum_files.content_hash((root / "edited.py").read_bytes())
    changes._update().ledger.seen.setdefault("main", {})["edited.py"] = known
    for number in range(ROUNDS):
        for guarded in (True, False):
            call = Call(
                f"c{number}", "edit_file", {}, agent, session, session.workspace, None, 0.0, print
            )
            began = time.perf_counter()
            pairs = [(f"one = {number}\n", f"one = {number + 1}\n")]
            if guarded:
                workspace = track_workspace(call)
                await trio.to_thread.run_sync(_edit, workspace, "edited.py", pairs, False)
            else:
                await trio.to_thread.run_sync(edit_plainly, Workspace(root), "plain.py", pairs)
            times[guarded].append((time.perf_counter() - began) * 1000)
    return statistics.median(times[True]), statistics.median(times[False])


async def commands(bench, root: Path, rounds: int) -> tuple[float, float, float]:
    """Milliseconds of the first look, and the median of what the looks around a command take.

    And of all of a command.
    """
    looks: list[float] = []
    whole: list[float] = []
    first = 0.0
    for number in range(rounds):
        seen = len(bench.observed)
        await bench.call("run_terminal_cmd", command=f"echo {number} > touched.txt")
        mine = [
            o
            for o in bench.observed[seen:]
            if o.name in ("on_tool_call", "wrap_process", "check_result")
        ]
        spent = sum(o.seconds for o in mine if "files" in o.plugin) * 1000
        if number == 0:
            first = spent
        else:
            looks.append(spent)
            whole.append(next(o.seconds for o in bench.observed[seen:] if o.kind == "tool") * 1000)
    changed = [
        e for e in bench.of(PluginEvent) if e.name == "files.changed" and e.data.get("changes")
    ]
    assert len(changed) >= rounds, "a change was missed"
    return first, statistics.median(looks), statistics.median(whole)


async def measure(count: int) -> None:
    """Measure a project of some size, with looks at what inotify reported and with walks."""
    for incremental in (True, False):
        with tempfile.TemporaryDirectory() as folder:
            root = plant(Path(folder, "workspace"), count)
            async with open_bench(
                hilum_files,
                hilum_shell,
                hilum_store,
                workspace=root,
                folder=Path(folder, "bench"),
                settings={"files.incremental_snapshots": incremental},
            ) as bench:
                guarded, plain = await edits(bench, root)
                rounds = 30 if incremental or count <= 5000 else 10
                first, looks, command = await commands(bench, root, rounds)
                kept = size(Path(folder, "bench", "data", "objects"))
        how = "inotify" if incremental else "walks"
        print(
            f"{count:7,} files   edit {guarded:6.2f} ms, without {plain:6.2f} ms: + {guarded - plain:5.2f} ms",
            end="   ",
        )
        print(f"command, {how:7}: looks {looks:6.1f} ms beside {command:5.1f} ms", end="   ")
        print(f"first look {first:7.1f} ms, kept {kept / 1e6:.1f} MB")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="*", default=[100, 1000, 20_000])
    for count in parser.parse_args().files:
        trio.run(measure, count)
    print(f"load average {os.getloadavg()[0]:.1f}", file=sys.stderr)


if __name__ == "__main__":
    main()
