"""``hilum batch cancel``: cancels tasks, or stops a whole batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hilum import HilumError, UsageError
from hilum.command import Parser
from hilum.errors import E_FAILED, unknown_name_error
from hilum_cli.terminal import Out, line

from hilum_dask.driver import cancelled_record
from hilum_dask.folders import STOP_ALL, BatchFolder, describe_os_error
from hilum_dask.lease import find_holder, hold_lease
from hilum_dask.tasks import Entry, TaskFile

EPILOG = """\
Without TASK, the driver stops all running tasks and ends; the tasks stay open, and the same
`hilum batch` continues. A task that is named gets the result `cancelled`.
"""
MAX_SHOWN = 60
"""Maximum number of characters of an id that an error shows."""


def main(argv: Sequence[str]) -> int:
    """Cancel tasks; return the exit code."""
    parser = Parser("hilum batch cancel", "Cancel tasks, or stop a batch.", EPILOG)
    parser.add_argument("folder", metavar="DIR", help="the batch's folder")
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="ids of tasks")
    options = parser.parse_args(argv)
    folder = BatchFolder(Path(options.folder).absolute())
    folder.expect()
    tasks = TaskFile(folder.tasks_file)
    tasks.load()
    entries = [_find(tasks, identity) for identity in options.tasks]
    holder = find_holder(folder)
    out = Out(1)
    try:
        if holder is None:
            count = _cancel_now(folder, entries)
            what = f"{count} open tasks were cancelled." if entries else "No driver is running."
        else:
            for name in [entry.name for entry in entries] or [STOP_ALL]:
                (folder.cancelled / name).touch()
            what = f"The driver was asked to stop ({holder.describe()})."
            if entries:
                what = f"The driver was asked to cancel {len(entries)} tasks."
    except OSError as error:
        raise HilumError(
            f"The request cannot be written: {describe_os_error(error)}.", code=E_FAILED
        ) from None
    out.say(what)
    return out.finish()


def _find(tasks: TaskFile, identity: str) -> Entry:
    """Return the task with an id.

    Raises:
        UsageError: There is none.
    """
    for entry in tasks.entries:
        if entry.id == identity:
            return entry
    # Ids may have any length and contain any characters.
    known = [line(entry.id, MAX_SHOWN) for entry in tasks.entries]
    error: UsageError = unknown_name_error("task", line(identity, MAX_SHOWN), known)
    raise error


def _cancel_now(folder: BatchFolder, entries: Sequence[Entry]) -> int:
    """Publish results for tasks on which nobody works; return how many were open."""
    if not entries:
        return 0
    with hold_lease(folder):
        return sum(folder.publish(entry.name, cancelled_record(entry, 0)) for entry in entries)
