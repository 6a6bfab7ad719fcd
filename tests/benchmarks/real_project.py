"""What a user feels in a real project: hilum beside a bare script, in one run.

``python tests/benchmarks/real_project.py`` prints a table. The project is a Git repository of 40
small Python files (``--files N`` for more), the home folder is fresh, and hilum runs as the program
that users start, with all installed plugins, the sandbox and the journal. The bare script has a loop,
trio and httpx, and three tools without any protection. Both talk to the same scripted model over HTTP,
in turn.

A turn is measured at the model: from its answer to the next request. Before each answer
to a command or an edit, the model thinks for a moment (``THINK``), in which hilum builds spare
sandboxes. A third side is hilum without spares.

``--beside CHECKOUT`` measures another checkout of hilum in the same rounds (with the environment in
its ``.venv``, made by ``uv sync`` there). Machines differ, so figures of two revisions can be compared
only if one run measures both. ``--only`` measures some of the rows.

``--journal`` prints only what the journal of file changes adds to a turn with a command: with looks
at what inotify names, with walks of the whole project, and without the journal.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hilum_cli.bench.measuring import make_bare_command
from hilum_cli.bench.memory import measure_memory
from hilum_cli.bench.scripted_model import Calls, Model

FILES = 40
TURNS = 30
READS = 300
SIDES = ("bare", "hilum")
FILES_IN_FOLDER = 20
WITHOUT_SPARES = "no spares"
OTHER_CHECKOUT = "other"
# Options of hilum for each side on which it runs.
OPTIONS: dict[str, list[str]] = {
    "hilum": [],
    WITHOUT_SPARES: ["--set", "guard.spare_sandboxes=0"],
    OTHER_CHECKOUT: [],
    "walks": ["--set", "files.incremental_snapshots=false"],
    "no journal": ["--set", "files.snapshots=false"],
}
JOURNALS = ("hilum", "walks", "no journal")
# The seconds for which the model thinks before each answer. No model answers faster.
THINK = {
    "command": 0.04,
    "edit": 0.04,
    "ruff edit": 0.04,
    "eight": 0.3,
    "first command": 3.0,
    "first edit": 3.0,
}
# What is added to the project's pyproject.toml for a measurement.
CONFIG = {"ruff edit": "\n[tool.ruff.lint]\nselect = ['E', 'F']\n"}
# Three hundred reads take long and vary little.
MOST_ROUNDS_OF_READS = 2
# Every process of a side has this variable in its environment, so that its memory can be found.
MARK = "REAL_PROJECT_MARK"


def make_project(folder: Path, count: int) -> None:
    """Create the repository."""
    for number in range(count):
        file = folder / path_of(number)
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = [f'"""Module {number}."""', "", "VALUE = 0", ""]
        for index in range(8):
            lines += ["", f"def add_{index}(value: int) -> int:", f"    return value + {index}", ""]
        file.write_text("\n".join(lines))
    (folder / "pyproject.toml").write_text('[project]\nname = "sample"\nversion = "1.0"\n')
    run_git(folder, "init", "-q")
    run_git(folder, "add", ".")
    run_git(folder, "commit", "-qm", "Begin")


def run_git(folder: Path, *words: str) -> None:
    """Run git in the project."""
    git = ["git", "-C", folder, "-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run([*git, *words], check=True)


def find_processes(mark: str) -> Iterator[Path]:
    """Yield the folders in /proc of all processes with a mark."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (process / "environ").read_bytes():
                yield process
        except OSError:
            continue


def processor_time_of(mark: str) -> float:
    """Return the processor time of all processes with a mark, in milliseconds."""
    ticks = 0
    for process in find_processes(mark):
        # The name of the program, in brackets, may contain spaces.
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks * 1000 / os.sysconf("SC_CLK_TCK")


def memory_of(mark: str) -> tuple[float, float]:
    """Return the memory of all processes with a mark, in megabytes: shares (PSS), and RSS."""
    shares = 0
    whole = 0
    for process in find_processes(mark):
        try:
            for line in (process / "smaps_rollup").read_text().splitlines():
                name, _, value = line.partition(":")
                if name == "Pss":
                    shares += int(value.split()[0])
                elif name == "Rss":
                    whole += int(value.split()[0])
        except OSError:
            continue
    return shares / 1024, whole / 1024


@contextmanager
def project(count: int) -> Iterator[Path]:
    """Create a project."""
    with tempfile.TemporaryDirectory(prefix="real-project-") as folder:
        work = Path(folder) / "work"
        work.mkdir()
        make_project(work, count)
        yield work


def play(
    side: str,
    script: Sequence[Calls],
    work: Path,
    *,
    think: float = 0.0,
    config: str = "",
    options: Sequence[str] = (),
    python: str = sys.executable,
) -> dict[str, Any]:
    """Run one side in a project, with a new home folder, and restore the project.

    Args:
        side: The side: ``bare``, or a key of ``OPTIONS``.
        script: The calls of the model.
        work: The project.
        think: Seconds before each answer of the model.
        config: Text to add to the project's ``pyproject.toml``.
        options: Further options of ``hilum run``.
        python: The Python in whose environment hilum is installed.

    Returns:
        ``start`` (milliseconds until the first request), ``turns``, ``memory``, ``parts`` (the
        memory by part, which does not depend on other programs) and ``processor`` (the processor
        time of the whole run in milliseconds).
    """
    model = Model(script, think=think)
    with tempfile.TemporaryDirectory(prefix="real-home-") as home:
        with (work / "pyproject.toml").open("a") as file:
            file.write(config)
        mark = Path(home).name
        env = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        env |= {"HOME": home, "OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "none"}
        env |= {"HILUM_MODEL": "openai/m", MARK: mark}
        # The checkers of the environment, such as ruff, are those that hilum finds.
        env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
        memory: list[tuple[float, float]] = []
        parts = []
        processor: list[float] = []

        def look() -> None:
            processor.append(processor_time_of(mark))
            memory.append(memory_of(mark))
            parts.extend(measure_memory(f"{MARK}={mark}"))

        model.before_last = look
        argv = make_bare_command()
        if side != "bare":
            argv = [python, "-m", "hilum", "run", "--approve", "auto", *OPTIONS[side]]
            argv += ["--set", f"turns={len(script) + 5}", *options, "Work."]
        began = time.perf_counter()
        done = subprocess.run(argv, cwd=work, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    model.close()
    assert len(model.arrived) == len(script) + 1, done.stderr
    run_git(work, "checkout", "-q", ".")
    start = (model.arrived[0] - began) * 1000
    return {
        "start": start,
        "turns": model.turns(),
        "memory": memory[0],
        "parts": parts,
        "processor": processor[0],
    }


def path_of(number: int) -> str:
    """Return the path of a file of the project."""
    if number < FILES:
        return f"src/part{number % 4}/module{number:02}.py"
    return f"src/part{number // 1000}/group{number // FILES_IN_FOLDER}/module{number:02}.py"


def make_scripts() -> dict[str, list[Calls]]:
    """Return the scripted calls of each measurement."""
    edits: list[Calls] = [[("read_file", {"path": path_of(0)})]]
    for number in range(TURNS):
        change = {"old_string": f"VALUE = {number}\n", "new_string": f"VALUE = {number + 1}\n"}
        edits.append([("edit_file", {"path": path_of(0), **change})])
    reads: list[Calls] = []
    for number in range(READS):
        reads.append(
            [("read_file", {"path": path_of(number % FILES), "start_line": number // FILES + 1})]
        )
    return {
        "start": [],
        "command": [[("run_terminal_cmd", {"command": f"echo {n}"})] for n in range(TURNS)],
        "edit": edits,
        "ruff edit": edits,
        # The first call in a session, which needs what no earlier call has prepared.
        "first command": [[("run_terminal_cmd", {"command": "echo 1"})]],
        "first edit": edits[:2],
        "eight": [[("run_terminal_cmd", {"command": f"sleep 0.5; echo {n}"}) for n in range(8)]]
        * 7,
        "read": reads,
    }


def main() -> None:
    """Measure and print."""
    kinds = tuple(make_scripts())
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=FILES, help="number of files in the project")
    parser.add_argument("--journal", action="store_true", help="measure only the journal's share")
    parser.add_argument(
        "--beside", type=Path, metavar="CHECKOUT", help="another checkout to measure in turn"
    )
    parser.add_argument(
        "--only", nargs="+", choices=kinds, default=kinds, metavar="KIND", help=", ".join(kinds)
    )
    options = parser.parse_args()
    with project(options.files) as work:
        if options.journal:
            print_journal(work, options.rounds)
        else:
            played = play_rounds(work, options.rounds, options.only, options.beside)
            print_table(played, with_other=options.beside is not None)
    print(f"{options.files:,} files, load average {os.getloadavg()[0]:.1f}")


def print_journal(work: Path, rounds: int) -> None:
    """Print what the journal adds to a turn with a command that prints or that writes a file."""
    scripts = {
        "that prints": [[("run_terminal_cmd", {"command": f"echo {n}"})] for n in range(TURNS)],
        "that writes": [
            [("run_terminal_cmd", {"command": f"echo {n} > {path_of(0)}"})] for n in range(TURNS)
        ],
    }
    for kind, script in scripts.items():
        found: dict[str, list[float]] = {}
        for number in range(rounds):
            for side in JOURNALS[:: 1 if number % 2 == 0 else -1]:
                turns = play(side, script, work)["turns"]
                found.setdefault(side, []).append(statistics.median(turns[3:]))
        for side, medians in found.items():
            turn = statistics.median(medians)
            added = turn - statistics.median(found["no journal"])
            print(f"turn with a command {kind}, {side:12} {turn:8.1f} ms, journal {added:+7.1f} ms")


def play_rounds(
    work: Path, rounds: int, kinds: Sequence[str], other: Path | None
) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Run all sides in turn and return what ``play`` returned, by kind and side.

    Args:
        work: The project.
        rounds: How often each side runs. The order is reversed in every second round.
        kinds: The keys of ``make_scripts`` to run.
        other: Another checkout of hilum to run as a side of its own.
    """
    scripts = make_scripts()
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for number in range(rounds):
        for kind in kinds:
            if kind == "read" and number >= MOST_ROUNDS_OF_READS:
                continue
            sides = [*SIDES]
            if kind in ("command", "eight"):
                sides.append(WITHOUT_SPARES)
            if other is not None:
                sides.append(OTHER_CHECKOUT)
            for side in sides if number % 2 == 0 else sides[::-1]:
                python = sys.executable
                if side == OTHER_CHECKOUT:
                    python = str(other / ".venv" / "bin" / "python")
                played = play(
                    side,
                    scripts[kind],
                    work,
                    think=THINK.get(kind, 0.0),
                    config=CONFIG.get(kind, ""),
                    python=python,
                )
                found.setdefault((kind, side), []).append(played)
    return found


def print_table(
    found: dict[tuple[str, str], list[dict[str, Any]]], *, with_other: bool = False
) -> None:
    """Print a row for each figure: the bare loop, hilum, and the other checkout if one ran.

    Args:
        found: What ``play_rounds`` returned.
        with_other: Whether another checkout ran.
    """

    def turn(kind: str, side: str, part: slice) -> float:
        runs = [statistics.median(run["turns"][part]) for run in found[kind, side]]
        return statistics.median(runs)

    def start(kind: str, side: str, _: slice) -> float:
        return statistics.median(run["start"] for run in found[kind, side])

    def shares(kind: str, side: str, _: slice) -> float:
        return statistics.median(run["memory"][0] for run in found[kind, side])

    def whole(kind: str, side: str, _: slice) -> float:
        return statistics.median(run["memory"][1] for run in found[kind, side])

    def processor(kind: str, side: str, _: slice) -> float:
        least = min(run["processor"] for run in found[kind, side])
        # A run without turns ends when hilum has started.
        return (least - min(run["processor"] for run in found["start", side])) / READS

    everything = slice(None)
    rows = (
        ("process start to first request, ms", "start", start, everything),
        ("turn with a command, ms", "command", turn, slice(3, None)),
        ("turn with an edit, ms", "edit", turn, slice(3, None)),
        ("turn with an edit, ruff configured, ms", "ruff edit", turn, slice(3, None)),
        ("first turn of a session, a command, ms", "first command", turn, everything),
        ("second turn of a session, an edit, ms", "first edit", turn, slice(1, None)),
        ("turn with a read, first 30, ms", "read", turn, slice(3, 33)),
        ("turn with a read, last 30, ms", "read", turn, slice(-30, None)),
        ("the same, processor time, least of all runs, ms", "read", processor, everything),
        ("eight commands of 0.5 s at once, ms", "eight", turn, slice(1, None)),
        ("memory after 300 reads, all processes, PSS, MB", "read", shares, everything),
        ("the same, RSS, MB", "read", whole, everything),
    )
    print(f"{'':48} {'bare':>8} {'hilum':>8} {'ratio':>7}", end="")
    print(f" {'other':>8} {'ratio':>7} {'hilum/other':>12}" if with_other else "")
    for label, kind, measure, part in rows:
        if (kind, "hilum") not in found or (
            measure is processor and ("start", "hilum") not in found
        ):
            continue
        bare = measure(kind, "bare", part)
        ours = measure(kind, "hilum", part)
        print(f"{label:48} {bare:8.1f} {ours:8.1f} {ours / bare:6.2f}x", end="")
        if with_other:
            other = measure(kind, OTHER_CHECKOUT, part)
            print(f" {other:8.1f} {other / bare:6.2f}x {ours / other:12.2f}", end="")
        print()
    for kind, label, part in (
        ("command", "turn with a command, without spare sandboxes, ms", slice(3, None)),
        ("eight", "eight commands at once, without spares, ms", slice(1, None)),
    ):
        if (kind, "hilum") in found:
            bare, ours = (turn(kind, side, part) for side in ("bare", WITHOUT_SPARES))
            print(f"{label:48} {bare:8.1f} {ours:8.1f} {ours / bare:6.2f}x")
    if ("read", "hilum") in found:
        for side in SIDES:
            for each in found["read", side][-1]["parts"]:
                print(f"memory of {side}, {each.part}: {each.megabytes:.1f} MB ({each.processes})")


if __name__ == "__main__":
    main()
