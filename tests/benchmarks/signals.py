"""Ends runs by signals at random instants and counts what is left.

The instants are between the start of the process and 0.2 s after its end.

Run ``python tests/benchmarks/signals.py 2000``. Each run is a real ``hilum run`` with all plugins
in a git repository, with a home, data and temporary folder of its own, against a scripted model
over HTTP; half of them have a command running. All of SIGINT, SIGTERM and SIGHUP are sent, and some
runs go on at a time. It prints hangs (10 s), tracebacks, wrong exit codes, missing result lines,
unsettled sessions, and processes and folders that are left. ``--jobs`` says how many runs go on at
a time, ``--until 0.1`` keeps all signals in the first 0.1 s, where Python and hilum start.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import uuid4

import attrs
import trio
from hilum.events import FINAL
from hilum.messages import AssistantMessage, Text, ToolCall, ToolMessage
from hilum_replay import serve

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LIMIT = 10.0
"""Seconds after a signal in which a run must have ended, without those in which it waited for a
processor.
"""
MAX_WAIT = 90.0
"""Seconds after which it counts as a hang however busy the machine is."""
AFTER = 0.2
"""Seconds after the end of a run in which a signal may still come."""
COMMAND = "sleep 0.3 & sleep 0.2; echo done"


@attrs.define
class Counts:
    """What went wrong, and some examples of it."""

    runs: int = 0
    wrong: Counter[str] = attrs.Factory(Counter)
    examples: list[str] = attrs.Factory(list)
    latest: float = 0.0
    before_hilum: int = 0

    def add(self, what: str, example: str) -> None:
        """Count one."""
        self.wrong[what] += 1
        if len(self.examples) < 20:
            self.examples.append(f"{what}: {example}")


async def answer(request: Any) -> AssistantMessage:
    """Ask for a command where the prompt says so, then end."""
    last = request.messages[-1]
    wants = any(
        "command" in getattr(part, "text", "")
        for m in request.messages
        for part in getattr(m, "parts", ())
    )
    if wants and not any(isinstance(message, ToolMessage) for message in request.messages):
        call = ToolCall("c1", "run_terminal_cmd", json.dumps({"command": COMMAND}))
        return AssistantMessage((Text("I run it.", "model"), call), stop="calls")
    assert last is not None
    return AssistantMessage((Text("Done.", "model"),))


def make_repository(folder: Path) -> None:
    """Make a git repository of some files."""
    folder.mkdir()
    for number in range(40):
        (folder / f"module_{number}.py").write_text(f'"""Module {number}."""\n\nVALUE = {number}\n')
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-C", str(folder)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "first"], check=True)


def marked(mark: str) -> list[str]:
    """List the command lines of processes that carry a mark in their environment."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            environment = Path("/proc", name, "environ").read_bytes()
            if f"SIGNALS_MARK={mark}".encode() in environment:
                found.append(
                    Path("/proc", name, "cmdline").read_bytes().replace(b"\0", b" ").decode()[:120]
                )
        except OSError:
            continue
    return [line for line in found if line]


def processor_wait(pid: int) -> float:
    """Return the seconds in which the main thread of a process could have run, and other programs
    had the processors.
    """
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


class Bench:
    """Starts runs and looks at what they leave.

    Args:
        folder: Where everything is.
        url: Address of the model.
        counts: Takes what is found.
    """

    def __init__(self, folder: Path, url: str, counts: Counts) -> None:
        self._folder = folder
        self._repository = folder / "repository"
        make_repository(self._repository)
        self._url = url
        self._counts = counts

    async def run_once(
        self, *, instant: float | None, number: signal.Signals, command: bool, format: str
    ) -> float:
        """Run once, send a signal at an instant, and look at what is left.

        Return the seconds that the run took.
        """
        mark = uuid4().hex
        home = self._folder / mark
        for name in ("home", "tmp"):
            (home / name).mkdir(parents=True)
        work = home / "work"
        shutil.copytree(self._repository, work)
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(home / "home"),
            "TMPDIR": str(home / "tmp"),
            "OPENAI_BASE_URL": f"{self._url}/v1",
            "HILUM_MODEL": "openai/scripted",
            "SIGNALS_MARK": mark,
        }
        prompt = "run the command" if command else "hello"
        argv = [
            sys.executable,
            "-m",
            "hilum",
            "run",
            prompt,
            "--approve",
            "auto",
            "--output-format",
            format,
        ]
        began = time.perf_counter()
        process = await trio.lowlevel.open_process(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=work,
            env=environ,
        )
        output: dict[str, bytes] = {}
        # One number for all messages about this run.
        what = f"{number.name} at {instant if instant is not None else -1:.4f} s, command={command}, {format}"
        async with trio.open_nursery() as nursery:
            for name, stream in (("out", process.stdout), ("err", process.stderr)):
                nursery.start_soon(self._read, stream, output, name)
            if instant is not None:
                with trio.move_on_after(instant):
                    await process.wait()
                    # The process is gone: a signal after its end finds nobody.
                if process.returncode is None:
                    process.send_signal(number)
            sent = time.perf_counter()
            hung = not await self._ends(process, LIMIT if instant is not None else 60)
            if hung:
                used = time.perf_counter() - sent, processor_wait(process.pid)
                self._counts.add(
                    "hang",
                    f"{what}: {used[0]:.1f} s, of them {used[1]:.1f} s waiting for a processor",
                )
                process.kill()
                await process.wait()
            elif instant is not None:
                self._counts.latest = max(self._counts.latest, time.perf_counter() - sent)
            nursery.cancel_scope.deadline = trio.current_time() + 2
        took = time.perf_counter() - began
        if instant is not None and not hung:
            self._judge(process.returncode or 0, output, number, format, what)
        await self._look(mark, home, what)
        shutil.rmtree(home, ignore_errors=True)
        self._counts.runs += 1
        return took

    async def _ends(self, process: trio.Process, limit: float) -> bool:
        """Wait for the end.

        Returns whether it came within some seconds, not counting those of waiting for a processor.
        """
        began = time.perf_counter()
        waited_before = processor_wait(process.pid)
        left = limit
        while left > 0 and process.returncode is None:
            with trio.move_on_after(left):
                await process.wait()
                break
            elapsed = time.perf_counter() - began
            left = min(limit + processor_wait(process.pid) - waited_before, MAX_WAIT) - elapsed
        return process.returncode is not None

    async def _read(self, stream: Any, output: dict[str, bytes], name: str) -> None:
        output[name] = b""
        async for piece in stream:
            output[name] += piece

    def _judge(
        self, code: int, output: dict[str, bytes], number: int, format: str, what: str
    ) -> None:
        """Compare exit code and output with what they must be."""
        err = output.get("err", b"").decode(errors="replace")
        out = output.get("out", b"").decode(errors="replace")
        if "Traceback" in err or "Exception" in err:
            # While Python itself starts its own handler of SIGINT is there, and hilum has not run a
            # line that could change it.
            if number == signal.SIGINT and "/hilum" not in err:
                self._counts.before_hilum += 1
                return
            self._counts.add("traceback", f"{what}: {err[-300:]!r}")
        if code not in (0, 128 + number, -number):
            self._counts.add("exit code", f"{what}: {code} {err[-200:]!r}")
        # Ended by the default action: hilum had not begun, so it has nothing to say.
        if format != "text" and code >= 0:
            lines = out.splitlines()
            result = json.loads(lines[-1]) if lines else {}
            if result.get("type") != "result" or result.get("exit_code") != code:
                self._counts.add("no result line", f"{what}: {code} {out[-200:]!r}")

    async def _look(self, mark: str, home: Path, what: str) -> None:
        """Look for processes and folders that are left, and for a session that says that it still
        works.
        """
        left = marked(mark)
        if left:
            await trio.sleep(0.5)  # the warden ends what a killed owner has left
            left = marked(mark)
        if left:
            self._counts.add("process left", f"{what}: {left}")
        folders = sorted(path.name for path in (home / "tmp").iterdir())
        if folders:
            self._counts.add("folder left", f"{what}: {folders}")
        status = await trio.run_process(
            ["git", "-C", str(home / "work"), "status", "--porcelain", "--ignored"],
            capture_stdout=True,
        )
        if status.stdout:
            self._counts.add("workspace changed", f"{what}: {status.stdout!r}")
        for database in (home / "home").rglob("sessions.db"):
            with sqlite3.connect(database) as connection:
                states = [row[0] for row in connection.execute("SELECT state FROM sessions")]
            for state in states:
                if state not in (*FINAL, "idle"):
                    self._counts.add("unsettled session", f"{what}: {state}")


async def measure(runs: int, seed: int, jobs: int, until: float | None) -> Counts:
    """Do all runs and return what was found.

    Args:
        runs: How many.
        seed: Of the instants.
        jobs: How many go on at a time.
        until: The latest instant of a signal, in seconds; that of the end of an undisturbed run by
            default.
    """
    counts = Counts()
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="signals-") as name:
        async with serve(answer, pace=0.0) as server:
            bench = Bench(Path(name), server.url, counts)
            spans = {}
            for command in (False, True):
                took = [
                    await bench.run_once(
                        instant=None, number=signal.SIGINT, command=command, format="json"
                    )
                    for _ in range(3)
                ]
                spans[command] = until or max(took) + AFTER
            counts.runs = 0
            limit = trio.CapacityLimiter(jobs)

            async def one(
                instant: float, number: signal.Signals, command: bool, format: str
            ) -> None:
                async with limit:
                    await bench.run_once(
                        instant=instant, number=number, command=command, format=format
                    )

            async with trio.open_nursery() as nursery:
                for _ in range(runs):
                    command = chance.random() < 0.5
                    number = chance.choice(SIGNALS)
                    format = chance.choice(("text", "json", "stream-json"))
                    nursery.start_soon(
                        one, chance.uniform(0, spans[command]), number, command, format
                    )
    return counts


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", nargs="?", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--until", type=float)
    options = parser.parse_args()
    counts = trio.run(measure, options.runs, options.seed, options.jobs, options.until)
    for example in counts.examples:
        print(example)
    kinds = (
        "hang",
        "traceback",
        "exit code",
        "no result line",
        "unsettled session",
        "process left",
        "folder left",
    )
    print(
        f"{counts.runs} runs; "
        + ", ".join(f"{kind}: {counts.wrong[kind]}" for kind in (*kinds, "workspace changed"))
    )
    print(
        f"latest end {counts.latest:.2f} s after its signal; Python's own traceback before hilum: {counts.before_hilum}"
    )
    sys.exit(bool(counts.wrong))


if __name__ == "__main__":
    main()
