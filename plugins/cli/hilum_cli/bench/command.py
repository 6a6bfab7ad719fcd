"""``hilum bench``: measures hilum on the user's machine and project, and gives advice."""

from __future__ import annotations

import os
import platform
import statistics
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hilum import UsageError, open_temporary_folder
from hilum.command import Parser, check_folder, check_text, escape_terminal
from hilum.errors import E_BAD_ARGS

from hilum_cli.options import run_async
from hilum_cli.terminal import Out

if TYPE_CHECKING:
    from hilum.processes import Warden

    from hilum_cli.bench.advice import Facts
    from hilum_cli.bench.measuring import Measurement
    from hilum_cli.bench.project_copy import ProjectCopy

TURNS = 12
READS = 60
MAX_ROUNDS = 5
DEFAULT_SECONDS = 45
MAX_DIGITS = 6
"""Maximum number of digits of a number of seconds."""
_WARM_UP = 3  # turns that are left out, because they load code or create files
EPILOG = """\
hilum measures the time from the start of the process to the first request to the model, turns with a \
command, an edit and a read, eight commands of 0.5 s at once, and the memory of all processes. A \
turn lasts from the end of the model's answer to the next request. The model thinks for 40 ms \
before an answer with a command or an edit, for 300 ms before the eight commands, and for a second \
before the first command of a session; meanwhile, hilum prepares sandboxes.

hilum works in a temporary copy of the project: a clone of its last commit or, without Git, a copy \
of its files. It has default settings, the sandbox and a new home folder. The model is a script on \
this machine: no key or network is needed, and nothing is sent. The bare loop is a small script \
with the same tools and no protection.
"""
# Seconds for which the model thinks before each answer; no model answers faster.
# Meanwhile, hilum builds spare sandboxes; eight of them take longer than one.
_THINK = {"command": 0.04, "unguarded": 0.04, "edit": 0.04, "eight": 0.3}
# Seconds for which the model thinks before its first answer, as a quick model does.
_FIRST_THINK = {"command": 1.0}
_LABELS = {
    "start": "start to first request",
    "forked": "  the same with the fork server",
    "command": "turn with a command",
    "unguarded": "  the same without sandbox",
    "first": "  the first turn of a session",
    "edit": "turn with an edit",
    "read": "turn with a read",
    "eight": "eight commands of 0.5 s at once",
    "memory": f"memory after {READS} reads",
}
_SIDES = ("bare", "hilum")
_NAMES = {"bare": "bare loop", "hilum": "hilum"}


def main(argv: list[str]) -> int:
    """Measure how fast hilum is on this machine and in this project, and what would help.

    Returns:
        The exit code.
    """
    check_text(argv)
    parser = Parser(
        "hilum bench",
        "Measure how fast hilum is on this machine and in this project, beside a bare loop.",
        EPILOG,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--workspace", "-C", default=".", metavar="DIR", help="the project (default: this folder)"
    )
    parser.add_argument(
        "--seconds",
        type=_parse_seconds,
        default=DEFAULT_SECONDS,
        metavar="N",
        help=f"begin no further round after N seconds (default: {DEFAULT_SECONDS})",
    )
    options = parser.parse_args(argv)
    source = _check_project(check_folder(options.workspace))
    with open_temporary_folder("bench") as folder:
        report, signal = run_async(_measure_until_stopped, source, folder, options)
    if signal:
        return 128 + signal
    out = Out(1)
    if options.json:
        out.say_json(report)
    else:
        out.say(escape_terminal(format_report(report)))
    return out.finish()


def _parse_seconds(text: str) -> int:
    """Return the number of seconds in an argument.

    Raises:
        UsageError: The text is no whole number.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS):
        raise UsageError(
            f"{escape_terminal(text[:20])} is not a number of seconds.",
            code=E_BAD_ARGS,
            hint=f"Give a whole number: --seconds {DEFAULT_SECONDS}, or 0 for a single round.",
        )
    return int(text)


def _check_project(folder: str) -> Path:
    """Return the folder of the project.

    Raises:
        UsageError: It is no folder, or its files exist only while the system runs.
    """
    from hilum_cli.bench.project_copy import find_system_folders

    source = Path(folder)
    shown = escape_terminal(folder)
    hint = "Choose the folder of a project: --workspace DIR."
    if not source.is_dir():
        raise UsageError(f"{shown} is not a folder.", hint=hint)
    if not find_system_folders().isdisjoint((source, *source.parents)):
        raise UsageError(f"{shown} has no files on a disk.", hint=hint)
    return source


async def _measure_until_stopped(
    source: Path, folder: Path, options: Namespace
) -> tuple[dict[str, Any], int]:
    """Measure everything, and return the report and 0, or the signal that stopped it.

    The arguments are those of ``_measure_all``.
    """
    import trio

    from hilum_cli.stopping import Stopping

    report: dict[str, Any] = {}
    async with trio.open_nursery() as nursery:
        # A signal must not end the process before the copy of the project is deleted.
        stopping = Stopping(nursery.cancel_scope.cancel)
        await nursery.start(stopping.listen)
        report = await _measure_all(source, folder, options)
        nursery.cancel_scope.cancel()
    return report, stopping.signal


async def _measure_all(source: Path, folder: Path, options: Namespace) -> dict[str, Any]:
    """Measure everything, and return the report.

    Args:
        source: The user's project.
        folder: A temporary folder.
        options: The options of the command.
    """
    from hilum.fork_client import find_socket
    from hilum.processes import Warden

    from hilum_cli.bench import advice, measuring
    from hilum_cli.bench.project_copy import copy_project
    from hilum_cli.fork_server.command import find_server

    progress = Out(2)
    deadline = time.monotonic() + options.seconds
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    async with Warden() as warden:
        progress.say("Copying the project …")
        project = await copy_project(warden, source, folder / "project")
        home = folder / "home"
        home.mkdir()
        runs: dict[tuple[str, str], list[Measurement]] = {}
        rounds = 0
        while rounds < MAX_ROUNDS and (not rounds or time.monotonic() < deadline):
            rounds += 1
            for kind, side in _list_runs(rounds):
                progress.say(f"Round {rounds}: {_LABELS[kind].strip()}, {_NAMES[side]} …")
                found = await _measure_once(warden, project, home, kind, side)
                runs.setdefault((kind, side), []).append(found)
        if find_server(find_socket()):
            progress.say("The start with the fork server, as one runs …")
            forked = await measuring.measure_forked(warden, project.folder, home, rounds)
            if forked:
                runs["forked", "hilum"] = forked
        status = await _time_status(warden, project)
        has_cache = await _has_untracked_cache(warden, source)
    times = {side: _summarize(runs, side) for side in _SIDES}
    facts = advice.Facts(project, source, times["hilum"], times["bare"], status, has_cache, load)
    return _make_report(facts, runs, rounds)


async def _measure_once(
    warden: Warden, project: ProjectCopy, home: Path, kind: str, side: str
) -> Measurement:
    """Run hilum or the bare loop once.

    Args:
        warden: The owner of the processes.
        project: The copy of the project.
        home: The home folder of the run.
        kind: The measurement.
        side: ``bare`` or ``hilum``.
    """
    from hilum_cli.bench import measuring

    scripts = measuring.make_scripts(TURNS, TURNS, READS)
    script = scripts["command" if kind == "unguarded" else kind]
    argv = measuring.make_bare_command()
    if side == "hilum":
        settings = ["guard.sandbox=off"] if kind == "unguarded" else []
        argv = measuring.make_hilum_command(len(script), settings)
    sample = project.folder / measuring.SAMPLE
    sample.write_text(measuring.make_sample(READS))
    think = _THINK.get(kind, 0.0)
    first_think = _FIRST_THINK.get(kind)
    return await measuring.measure(warden, argv, script, project.folder, home, think, first_think)


def _list_runs(number: int) -> list[tuple[str, str]]:
    """Return the measurements of a round, each with its side.

    The order alternates, so that neither side always finds warm caches.
    """
    sides = _SIDES if number % 2 else _SIDES[::-1]
    kinds = ("start", "command", "unguarded", "edit", "read", "eight")
    runs = [(kind, side) for kind in kinds for side in sides]
    return [run for run in runs if run != ("unguarded", "bare")]


def _summarize(runs: dict[tuple[str, str], list[Measurement]], side: str) -> dict[str, float]:
    """Return the median of each measurement of a side: milliseconds, and megabytes of memory."""
    found: dict[str, float] = {}
    for (kind, whose), measured in runs.items():
        if whose != side:
            continue
        if kind in ("start", "forked"):
            found[kind] = statistics.median(run.start for run in measured)
            continue
        skipped = 0 if kind == "eight" else _WARM_UP
        found[kind] = statistics.median(statistics.median(run.turns[skipped:]) for run in measured)
        if kind == "command":
            found["first"] = statistics.median(run.turns[0] for run in measured)
        if kind == "read" and measured[0].memory:
            found["memory"] = statistics.median(_total_memory(run) for run in measured)
    return found


def _total_memory(run: Measurement) -> float:
    return sum(part.megabytes for part in run.memory)


async def _time_status(warden: Warden, project: ProjectCopy) -> float:
    """Return the milliseconds of the second ``git status``; 0 without a repository."""
    from hilum.processes import Command

    from hilum_cli.bench.project_copy import make_git_environment

    if not project.is_repository:
        return 0.0
    env = make_git_environment()
    command = Command(("git", "status", "--porcelain"), str(project.folder), env)
    seconds = [(await warden.run(command)).seconds for _ in range(2)]
    return seconds[-1] * 1000


async def _has_untracked_cache(warden: Warden, source: Path) -> bool:
    """Return whether the user's repository remembers untracked files."""
    from hilum.processes import Command, CommandError

    from hilum_cli.bench.project_copy import make_git_environment

    env = make_git_environment(uses_settings=True)
    argv = ("git", "config", "--get", "core.untrackedCache")
    command = Command(argv, str(source), env)
    try:
        done = await warden.run(command)
    except CommandError:  # Git is not installed
        return False
    return done.stdout.strip() in (b"true", b"keep")


def _make_report(
    facts: Facts, runs: dict[tuple[str, str], list[Measurement]], rounds: int
) -> dict[str, Any]:
    """Return the report, as ``--json`` prints it."""
    from hilum import __version__

    from hilum_cli.bench.advice import find_advice

    figures = []
    for name in _LABELS:
        if name in facts.times:
            value = facts.times[name]
            bare = facts.bare.get(name)
            figures.append(
                {
                    "name": name,
                    "unit": "MB" if name == "memory" else "ms",
                    "bare": None if bare is None else round(bare, 1),
                    "hilum": round(value, 1),
                    "ratio": None if not bare else round(value / bare, 2),
                }
            )
    last = runs["read", "hilum"][-1].memory
    return {
        "hilum": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "processors": os.cpu_count() or 1,
        "load": round(facts.load, 1),
        "rounds": rounds,
        "files": facts.project.files,
        "is_repository": facts.project.is_repository,
        "figures": figures,
        "memory": [
            {"part": each.part, "processes": each.processes, "megabytes": round(each.megabytes, 1)}
            for each in last
        ],
        "advice": find_advice(facts),
    }


def format_report(report: dict[str, Any]) -> str:
    """Return the report as text."""
    kind = "files in a Git repository" if report["is_repository"] else "files, without Git"
    rounds = "1 round" if report["rounds"] == 1 else f"{report['rounds']} rounds"
    lines = [
        f"hilum {report['hilum']}, Python {report['python']}, {report['processors']} processors,"
        f" load {report['load']}; {report['files']:,} {kind}; medians of {rounds}",
        "",
        f"{'':34}{'bare loop':>12}{'hilum':>12}{'ratio':>8}",
    ]
    for figure in report["figures"]:
        label = _LABELS[figure["name"]]
        unit = figure["unit"]
        bare = "" if figure["bare"] is None else f"{figure['bare']:.1f} {unit}"
        ratio = "" if figure["ratio"] is None else f"{figure['ratio']:.2f}"
        lines.append(f"{label:34}{bare:>12}{figure['hilum']:>9.1f} {unit}{ratio:>8}")
    if report["memory"]:
        parts = [_format_part(part) for part in report["memory"]]
        lines += ["", "Memory of hilum: " + ", ".join(parts)]
    lines += ["", *_format_advice(report["advice"])]
    return "\n".join(lines)


def _format_part(part: dict[str, Any]) -> str:
    count = "" if part["processes"] == 1 else f" ({part['processes']} processes)"
    return f"{part['part']}{count} {part['megabytes']:.1f} MB"


def _format_advice(advice: Sequence[str]) -> list[str]:
    if not advice:
        return ["There is nothing to improve on this machine and in this project."]
    return ["What would help:", *(f"- {text}" for text in advice)]
