"""``hilum batch trace``: what happened in the session of a task."""

from __future__ import annotations

import os
from argparse import REMAINDER
from collections.abc import Sequence
from pathlib import Path

from hilum import UsageError, load_command
from hilum.command import Parser
from hilum.errors import E_FILE_NOT_FOUND, E_NOT_INSTALLED, E_UNKNOWN

from hilum_dask.folders import BatchFolder, name_file

EPILOG = """\
The options are those of hilum trace.

  hilum batch trace batch-out task-7 --slowest 5
"""


def main(argv: Sequence[str]) -> int:
    """Show the trace of a task's last attempt; return the exit code."""
    parser = Parser("hilum batch trace", "Show what happened in a task's session.", EPILOG)
    parser.add_argument("folder", metavar="DIR", help="the batch's folder")
    parser.add_argument("task", metavar="TASK", help="the task's id")
    parser.add_argument("options", nargs=REMAINDER, help="options of hilum trace")
    options = parser.parse_args(argv)
    folder = BatchFolder(Path(options.folder).absolute())
    folder.expect()
    name = name_file(options.task)
    stores = sorted(
        (int(path.stem.rpartition(".")[2]), path)
        for path in folder.sessions.glob("*.db")
        if path.stem.rpartition(".")[0] == name and path.stem.rpartition(".")[2].isdigit()
    )
    if not stores:
        raise UsageError(
            f"The task {options.task!r} has no session in {options.folder!r}.",
            code=E_FILE_NOT_FOUND if name in folder.result_names() else E_UNKNOWN,
            hint="`hilum batch status --tasks` lists the tasks.",
        )
    trace = load_command("trace")
    if trace is None:
        raise UsageError(
            "The command trace is not installed.",
            code=E_NOT_INSTALLED,
            hint="pip install hilum-trace",
        )
    record = folder.read_result(name)
    session = record.session if record is not None and record.session else "last"
    os.environ["HILUM_STORE_PATH"] = str(stores[-1][1])
    return trace([session, *options.options])
