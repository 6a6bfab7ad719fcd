"""How long ``hilum sessions list`` takes with 1,000 sessions.

Run it: ``python tests/benchmarks/sessions_list.py``.

Prints medians of five for whole processes: seconds that passed, and seconds of the processor, which
say more on a busy machine. The sessions are alike: 40 turns, of five events each; ``--turns N``
takes another number.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import trio
from hilum.events import (
    AnyEvent,
    CallDone,
    CallStarted,
    ModelAnswered,
    ModelStarted,
    RoundEnded,
    RunStarted,
)
from hilum.messages import AssistantMessage, Text, ToolCall, ToolResult, Usage, UserMessage
from hilum.store import SessionInfo
from hilum_store import SqliteStore


def events(turns: int) -> list[AnyEvent]:
    """Return the events of a session."""
    message = UserMessage((Text("Do it"),))
    found: list[AnyEvent] = [
        RunStarted(seq=1, agent="main", run="r1", text="Do it", message=message)
    ]
    call = ToolCall("c1", "read_file", '{"path": "src/module.py"}')
    text = Text("x = 1\n" * 300, "tool:read_file")
    for _ in range(turns):
        where = {"agent": "main", "run": "r1"}
        answer = AssistantMessage((call,), stop="calls", model="lab/model")
        turn: list[AnyEvent] = [
            ModelStarted(seq=len(found) + 1, model="lab/model", turn=1, **where),
            ModelAnswered(
                seq=len(found) + 2, message=answer, usage=Usage(1000, output=50, cost=0.01), **where
            ),
            CallStarted(seq=len(found) + 3, call=call, risk="read", effect="pure", **where),
            CallDone(seq=len(found) + 4, result=ToolResult("c1", "read_file", (text,)), **where),
            RoundEnded(seq=len(found) + 5, **where),
        ]
        found += turn
    return found


async def fill(path: Path, workspace: str, sessions: int, turns: int) -> None:
    """Write the sessions."""
    store = SqliteStore(path)
    content = events(turns)
    for number in range(sessions):
        log = await store.create(
            SessionInfo(id=f"20260101-{number:06}-00000000", workspace=workspace)
        )
        log.append(content)
        await log.close()
    await store.close()


def processor() -> float:
    """Return the seconds of the processor that ended child processes have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def medians(command: list[str], env: dict[str, str], cwd: Path) -> tuple[float, float]:
    """Return the medians of five runs of a command, after one that counts for nothing: seconds
    passed, and processor.
    """
    passed = []
    worked = []
    for _ in range(6):
        before = processor()
        began = time.perf_counter()
        subprocess.run(command, env=env, cwd=cwd, check=True, stdout=subprocess.DEVNULL)
        passed.append(time.perf_counter() - began)
        worked.append(processor() - before)
    return statistics.median(passed[1:]), statistics.median(worked[1:])


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=40)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(os.path.realpath(made))
        workspace = folder / "work"
        workspace.mkdir()
        (folder / "data").mkdir(mode=0o700)
        # The first run, which counts for nothing, writes the bytecode. Without it every run would
        # compile all modules again, which takes longer than the command.
        env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        env["HILUM_CONFIG"] = str(folder / "config")
        env["HILUM_DATA"] = str(folder / "data")
        trio.run(
            fill, folder / "data" / "sessions.db", str(workspace), options.sessions, options.turns
        )
        hilum = [sys.executable, "-m", "hilum"]
        print(f"{options.sessions} sessions of {options.turns * 5 + 1} events")
        for name, arguments in (
            ("hilum sessions --help", ["--help"]),
            ("hilum sessions list", ["list"]),
            ("hilum sessions list --limit 0", ["list", "--limit", "0"]),
        ):
            passed, worked = medians([*hilum, "sessions", *arguments], env, workspace)
            print(f"{name:<40} {passed:8.3f} s   processor {worked:6.3f} s")


if __name__ == "__main__":
    main()
