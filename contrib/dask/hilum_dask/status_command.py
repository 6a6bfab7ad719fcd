"""``hilum batch status``: the progress of a batch, whoever works on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from hilum.command import Parser
from hilum_cli.terminal import Out, escape_terminal, line

from hilum_dask.folders import BatchFolder
from hilum_dask.lease import find_holder
from hilum_dask.progress import describe_end
from hilum_dask.tasks import TaskFile


def main(argv: Sequence[str]) -> int:
    """Show the progress and the results so far; return the exit code."""
    parser = Parser("hilum batch status", "Show the progress of a batch.")
    parser.add_argument("folder", metavar="DIR", help="the batch's folder")
    parser.add_argument("--tasks", action="store_true", help="list all tasks")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(argv)
    folder = BatchFolder(Path(options.folder).absolute())
    folder.expect()
    tasks = TaskFile(folder.tasks_file)
    tasks.load()
    holder = find_holder(folder)
    out = Out(1)
    states: Counter[str] = Counter()
    running = _list_running(folder)
    solved = 0
    rows = []
    for entry in tasks.entries:
        record = folder.read_result(entry.name)
        state = "open"
        if record is not None:
            state = record.state
            solved += record.solved
        elif holder is not None and entry.name in running:
            state = "running"
        states[state] += 1
        if options.tasks:
            end = describe_end(record) if record is not None else state
            rows.append((entry.id, state, end))
    cost = sum(record.cost or 0.0 for _, record in folder.read_attempts())
    if options.json:
        data: dict[str, object] = {
            "type": "batch_status",
            "tasks": len(tasks.entries),
            "solved": solved,
            "states": dict(states),
            "cost": cost,
            "driver": holder.describe() if holder is not None else None,
        }
        if options.tasks:
            data["rows"] = [{"id": identity, "state": state} for identity, state, _ in rows]
        out.say_json(data)
        return out.finish()
    for identity, _, end in rows:
        out.say(f"{line(identity, 60)}\t{escape_terminal(end)}")
    counts = ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in states.items())
    price = f" Cost so far: ${cost:.4f}." if cost else ""
    out.say(f"{len(tasks.entries)} tasks: {counts}; {solved} solved.{price}")
    who = f"The driver is {holder.describe()}." if holder else "No driver is running."
    out.say(who)
    return out.finish()


def _list_running(folder: BatchFolder) -> set[str]:
    """Return the names of the tasks that have a workspace."""
    try:
        return {path.name.rpartition(".")[0] for path in folder.work.iterdir()}
    except OSError:
        return set()
