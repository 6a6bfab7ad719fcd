"""Runs hilum or the bare loop against a scripted model, and returns the times."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import trio
from hilum import HilumError
from hilum.errors import E_INTERNAL
from hilum.fork_client import find_socket
from hilum.processes import Command, Warden

from hilum_cli.bench.memory import ProcessMemory, measure_memory
from hilum_cli.bench.scripted_model import Calls, Model
from hilum_cli.fork_server.command import find_server

BARE_LOOP = Path(__file__).with_name("bare_loop.py")
MARK = "BENCH_RUN_ID"
"""A variable in the environment of the measured processes, by which their memory is found."""
SAMPLE = "hilum_bench_sample.py"
"""The file that the runs read and edit."""
_KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR")
# Additional turns, so that the limit does not end a run.
_SPARE_TURNS = 5
_MAX_ERROR = 2_000  # characters
_SERVER_TIMEOUT = 60.0  # seconds for the fork server and all runs with it
_SERVER_POLL = 0.05  # seconds


class Measurement(NamedTuple):
    """One run of hilum or of the bare loop.

    Attributes:
        start: Milliseconds from the start of the process to its first request.
        turns: Milliseconds of each turn.
        memory: The memory at the end of the run, by part.
    """

    start: float
    turns: list[float]
    memory: list[ProcessMemory]


def make_hilum_command(turns: int, settings: Sequence[str] = ()) -> list[str]:
    """Return the command line of a run of hilum.

    Args:
        turns: The number of turns in the script.
        settings: Settings as ``key=value``.
    """
    argv = [sys.executable, "-m", "hilum", "run", "--approve", "auto"]
    for setting in (f"turns={turns + _SPARE_TURNS}", *settings):
        argv += ["--set", setting]
    return [*argv, "Work."]


def make_bare_command() -> list[str]:
    """Return the command line of the bare loop."""
    return [sys.executable, str(BARE_LOOP)]


def make_environment(home: Path, url: str, mark: str) -> dict[str, str]:
    """Return the environment of a run, which has no settings, keys or sessions of the user.

    Args:
        home: The home folder of the run.
        url: The base URL of the model.
        mark: The value of ``MARK``.
    """
    env = {name: os.environ[name] for name in _KEPT if name in os.environ}
    env |= {"HOME": str(home), "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none"}
    return env | {"HILUM_MODEL": "openai/m", MARK: mark}


async def measure(
    warden: Warden,
    argv: Sequence[str],
    script: Sequence[Calls],
    work: Path,
    home: Path,
    think: float = 0.0,
    first_think: float | None = None,
) -> Measurement:
    """Run a program against a scripted model.

    Args:
        warden: The owner of the processes.
        argv: The program.
        script: The calls of each answer.
        work: The folder to work in.
        home: The home folder of the run.
        think: Seconds for which the model thinks before each answer.
        first_think: Seconds before the first answer; those of ``think`` by default.

    Raises:
        HilumError: The program failed, or did not carry out the script.
    """
    model = Model(script, think, first_think)
    mark = f"{MARK}-{os.getpid()}-{id(model)}"
    memory: list[ProcessMemory] = []
    if sys.platform == "linux":
        model.before_last = lambda: memory.extend(measure_memory(f"{MARK}={mark}"))
    try:
        began = time.perf_counter()
        command = Command(tuple(argv), str(work), make_environment(home, model.url, mark))
        done = await warden.run(command)
    finally:
        model.close()
    if done.returncode or len(model.arrived) != len(script) + 1:
        output = done.stderr.decode(errors="replace")[-_MAX_ERROR:]
        raise HilumError(
            f"A measured run failed (exit code {done.returncode}, {len(model.arrived)} of"
            f" {len(script) + 1} requests). Its output ends with:\n{output}",
            code=E_INTERNAL,
            hint="`hilum doctor` finds what does not work on this machine.",
        )
    start = (model.arrived[0] - began) * 1000
    return Measurement(start, model.turns(), memory)


async def measure_forked(warden: Warden, work: Path, home: Path, rounds: int) -> list[Measurement]:
    """Run hilum without any tool call, with a fork server in the home folder of the runs.

    Args:
        warden: The owner of the processes.
        work: The folder to work in.
        home: The home folder of the runs.
        rounds: The number of runs.

    Returns:
        The measurements; none if the server does not start.
    """
    env = make_environment(home, "", "")
    serve = Command((sys.executable, "-m", "hilum", "fork-server", "serve"), str(work), env)
    async with warden.open(serve):
        with trio.move_on_after(_SERVER_TIMEOUT):
            while not find_server(find_socket(env)):  # noqa: ASYNC110  # it is another process
                await trio.sleep(_SERVER_POLL)
            argv = make_hilum_command(0)
            return [await measure(warden, argv, [], work, home) for _ in range(rounds)]
    return []


def make_scripts(turns: int, edits: int, reads: int) -> dict[str, list[Calls]]:
    """Return the script of each measurement.

    Args:
        turns: Number of turns with a command.
        edits: Number of turns with an edit, after the turn that reads the file.
        reads: Number of turns that read.
    """
    edit_script: list[Calls] = [[("read_file", {"path": SAMPLE})]]
    for number in range(edits):
        change = {"old_string": f"VALUE = {number}\n", "new_string": f"VALUE = {number + 1}\n"}
        edit_script.append([("edit_file", {"path": SAMPLE, **change})])
    return {
        "start": [],
        "command": [[("run_terminal_cmd", {"command": f"echo {n}"})] for n in range(turns)],
        "edit": edit_script,
        "eight": [[("run_terminal_cmd", {"command": f"sleep 0.5; echo {n}"}) for n in range(8)]],
        # Identical calls would be refused as repetitions.
        "read": [[("read_file", {"path": SAMPLE, "start_line": n + 1})] for n in range(reads)],
    }


def make_sample(lines: int) -> str:
    """Return the text of the file that the runs read and edit."""
    functions = [f"\n\ndef add_{n}(value: int) -> int:\n    return value + {n}" for n in range(8)]
    text = '"""A file of `hilum bench`."""\n\nVALUE = 0\n' + "\n".join(functions) + "\n"
    return text + "".join(f"# line {number}\n" for number in range(lines))
