"""What a user feels in a real project: hilum beside a bare script, in one run.

``python tests/benchmarks/real_project.py`` prints a table. The project is a Git repository of 40
small Python files, the home folder is fresh, and hilum runs as the program that users start, with
all installed plugins, the sandbox and the journal. The bare script has a loop, trio and httpx, and
three tools without any protection. Both talk to the same scripted model over HTTP, in turn.

A turn is measured at the model: from the end of its answer to the next request.
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
# Every process of a side has this variable in its environment, so that its memory can be found.
MARK = "REAL_PROJECT_MARK"


def make_project(folder: Path) -> None:
    """Create the repository."""
    for number in range(FILES):
        file = folder / "src" / f"part{number % 4}" / f"module{number:02}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = [f'"""Module {number}."""', "", "VALUE = 0", ""]
        for index in range(8):
            lines += ["", f"def add_{index}(value: int) -> int:", f"    return value + {index}", ""]
        file.write_text("\n".join(lines))
    (folder / "pyproject.toml").write_text('[project]\nname = "sample"\nversion = "1.0"\n')
    git = ["git", "-C", folder, "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "Begin"]):
        subprocess.run([*git, *words], check=True)


def memory_of(mark: str) -> tuple[float, float]:
    """Return the memory of all processes with a mark, in megabytes: shares (PSS), and RSS."""
    shares = 0
    whole = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() not in (process / "environ").read_bytes():
                continue
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
def project() -> Iterator[tuple[Path, Path]]:
    """Create a project and a home folder."""
    with tempfile.TemporaryDirectory(prefix="real-project-") as folder:
        work = Path(folder) / "work"
        home = Path(folder) / "home"
        work.mkdir()
        home.mkdir()
        make_project(work)
        yield work, home


def play(
    side: str, script: Sequence[Calls], *, config: str = "", options: Sequence[str] = ()
) -> dict[str, Any]:
    """Run one side in a new project.

    Args:
        side: The side.
        script: The calls of the model.
        config: Text to add to the project's ``pyproject.toml``.
        options: Further options of ``hilum run``.

    Returns:
        ``start`` (milliseconds until the first request), ``turns``, ``memory`` and ``parts`` (the
        memory by part, which does not depend on other programs).
    """
    model = Model(script)
    with project() as (work, home):
        with (work / "pyproject.toml").open("a") as file:
            file.write(config)
        mark = home.parent.name
        env = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        env |= {"HOME": str(home), "OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "none"}
        env |= {"HILUM_MODEL": "openai/m", MARK: mark}
        memory: list[tuple[float, float]] = []
        parts = []

        def look() -> None:
            memory.append(memory_of(mark))
            parts.extend(measure_memory(f"{MARK}={mark}"))

        model.before_last = look
        argv = make_bare_command()
        if side == "hilum":
            argv = [sys.executable, "-m", "hilum", "run", "--approve", "auto"]
            argv += ["--set", f"turns={len(script) + 5}", *options, "Work."]
        began = time.perf_counter()
        done = subprocess.run(argv, cwd=work, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    model.close()
    assert len(model.arrived) == len(script) + 1, done.stderr
    start = (model.arrived[0] - began) * 1000
    return {"start": start, "turns": model.turns(), "memory": memory[0], "parts": parts}


def path_of(number: int) -> str:
    """Return the path of a file of the project."""
    number %= FILES
    return f"src/part{number % 4}/module{number:02}.py"


def make_scripts() -> dict[str, list[Calls]]:
    """Return the scripted calls of each measurement."""
    edits: list[Calls] = [[("read_file", {"path": path_of(0)})]]
    for number in range(TURNS):
        change = {"old_string": f"VALUE = {number}\n", "new_string": f"VALUE = {number + 1}\n"}
        edits.append([("edit_file", {"path": path_of(0), **change})])
    reads: list[Calls] = []
    for number in range(READS):
        reads.append([("read_file", {"path": path_of(number), "start_line": number // FILES + 1})])
    return {
        "start": [],
        "command": [[("run_terminal_cmd", {"command": f"echo {n}"})] for n in range(TURNS)],
        "edit": edits,
        "eight": [[("run_terminal_cmd", {"command": f"sleep 0.5; echo {n}"}) for n in range(8)]],
        "read": reads,
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    scripts = make_scripts()
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for number in range(rounds):
        for kind, script in scripts.items():
            # Three hundred reads take long and vary little.
            if kind == "read" and number >= 2:
                continue
            for side in SIDES if number % 2 == 0 else SIDES[::-1]:
                found.setdefault((kind, side), []).append(play(side, script))

    def median(kind: str, side: str, part: slice) -> float:
        runs = [statistics.median(run["turns"][part]) for run in found[kind, side]]
        return statistics.median(runs)

    def start(side: str) -> float:
        return statistics.median(run["start"] for run in found["start", side])

    def memory(side: str, index: int) -> float:
        return statistics.median(run["memory"][index] for run in found["read", side])

    rows = [
        ("process start to first request, ms", *map(start, SIDES)),
        ("turn with a command, ms", *(median("command", side, slice(3, None)) for side in SIDES)),
        ("turn with an edit, ms", *(median("edit", side, slice(3, None)) for side in SIDES)),
        ("turn with a read, first 30, ms", *(median("read", side, slice(3, 33)) for side in SIDES)),
        (
            "turn with a read, last 30, ms",
            *(median("read", side, slice(-30, None)) for side in SIDES),
        ),
        (
            "eight commands of 0.5 s at once, ms",
            *(median("eight", side, slice(None)) for side in SIDES),
        ),
        ("memory after 300 reads, all processes, PSS, MB", *(memory(side, 0) for side in SIDES)),
        ("the same, RSS, MB", *(memory(side, 1) for side in SIDES)),
    ]
    print(f"{'':48} {'bare':>8} {'hilum':>8} {'ratio':>7}")
    for label, bare, ours in rows:
        print(f"{label:48} {bare:8.1f} {ours:8.1f} {ours / bare:6.2f}x")
    for side in SIDES:
        for part in found["read", side][-1]["parts"]:
            print(f"memory of {side}, {part.part}: {part.megabytes:.1f} MB ({part.processes})")


if __name__ == "__main__":
    main()
