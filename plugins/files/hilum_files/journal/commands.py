"""The commands ``hilum diff`` and ``hilum undo``, which need neither a model nor a key."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import trio
from hilum import StoreError, UsageError, Workspace, errors, events, open_kernel
from hilum.command import Parser, escape_terminal, say
from hilum.store import unspell_folder
from msgspec.structs import replace

from hilum_files.journal.content_store import ContentStore
from hilum_files.journal.file_diffs import LEFT_OUT, FileDiff, diff_records
from hilum_files.journal.journal import NAMED_SCOPES, Journal, contents_folder
from hilum_files.journal.ledger import Ledger
from hilum_files.journal.records import Change, Record, unspell_path
from hilum_files.journal.snapshots import Snapshots
from hilum_files.journal.tree import SnapshotLimits
from hilum_files.settings import FilesSettings
from hilum_files.text import show

if TYPE_CHECKING:
    from hilum import Kernel
    from hilum.store import Log

    from hilum_files.journal.undo_plan import Plan

Action = Callable[[argparse.Namespace, Journal], None]
SCOPES = ("call", "turn", "run", "since")
_COLOURS = {"+": "32", "-": "31", "@": "36"}
MAX_LEFT_OUT_SHOWN = 5
MAX_NAMES_LISTED = 3
MAX_SESSIONS_SEARCHED = 50
_NAMING = """\
Without ID, the command uses the last unit that changed something and has not been undone. A run is
everything that resulted from one of your prompts, including changes by sub-agents. ID is the id of
a call or run, or a prefix of it; for a turn, it is the number in the last run, or RUN:NUMBER.
`since NUMBER` is everything after that event (`hilum sessions show ID --events`).
`hilum diff --list` shows them all.
"""
DIFF = f"""\
Show what a session changed: each file once, from its first to its last version. Undone changes are
left out.

{_NAMING}"""
UNDO = f"""\
Undo what a call, turn or run changed, including commands, MCP tools and sub-agents:
all of it or nothing. Files that have changed since are merged; if that is not possible, nothing is
undone. An undo can be undone: `hilum undo undo`.

{_NAMING}"""


def diff(argv: Sequence[str]) -> int:
    """Show which files a session changed, by call, turn or run.

    Returns:
        The exit code.
    """
    parser = _make_parser("diff", DIFF, (*SCOPES, "session", "undo"))
    parser.add_argument(
        "--list", action="store_true", help="list the changes by run, turn and call"
    )
    parser.add_argument("--stat", action="store_true", help="show only names and line counts")
    return _run(parser, argv, _show_diff)


def undo(argv: Sequence[str]) -> int:
    """Undo the changes made by a call, a turn or a run, including changes made by commands.

    Returns:
        The exit code.
    """
    parser = _make_parser("undo", UNDO, (*SCOPES, "undo"))
    parser.add_argument("--dry-run", "-n", action="store_true", help="show what would be done")
    parser.add_argument(
        "--keep-going",
        "-k",
        action="store_true",
        help="restore everything else if something cannot be restored",
    )
    parser.add_argument(
        "--shared",
        action="store_true",
        help="also undo changes that another session may have made at the same time",
    )
    return _run(parser, argv, _undo_changes)


def _make_parser(name: str, description: str, scopes: Sequence[str]) -> Parser:
    parser = Parser(f"hilum {name}", description)
    parser.add_argument(
        "scope",
        nargs="?",
        default="run",
        choices=scopes,
        help="the unit; by default, the last run",
    )
    parser.add_argument(
        "id", nargs="?", default="", metavar="ID", help="id of the call, turn or run"
    )
    parser.add_argument(
        "--session",
        "-s",
        default="",
        metavar="ID",
        help="the session; by default, this folder's last one",
    )
    parser.add_argument("--workspace", "-C", default=".", metavar="DIR", help="another workspace")
    return parser


def _run(parser: Parser, argv: Sequence[str], action: Action) -> int:
    try:
        options = parser.parse_args(argv)
    except SystemExit as error:  # --help
        return int(error.code or 0)
    options.workspace = os.path.realpath(os.path.expanduser(options.workspace))
    trio.run(_run_with_journal, options, action)
    sys.stdout.flush()
    return 0


# --- the session's journal ------------------------------------------------------------------------


async def _run_with_journal(options: argparse.Namespace, action: Action) -> None:
    """Read the session's log and run an action; for an undo, also open the log for writing."""
    async with open_kernel() as kernel:
        session, logged = await _find_session(kernel, options)
        info = await kernel.store.info(session)
        is_writing = action is _undo_changes and not options.dry_run
        # The log can be read while the session is open; only an undo needs the session's lock.
        log = await kernel.store.open(session) if is_writing else None
        if log is None and _was_interrupted(logged):
            log = await _try_to_open(kernel, session)
        workspace = Workspace(unspell_folder(info.workspace), kernel.options.extra_roots)
        journal = Journal(workspace, ContentStore(contents_folder()), _ignore, session)
        if log is not None:
            journal.emit = _make_writer(log, journal)
            journal.flush = partial(trio.from_thread.run, log.flush)
        try:
            if log is not None:
                # Another process may have written to the log before this process opened it.
                logged = await _read_events(kernel, session)
            journal.apply_events(logged)
            if log is not None:
                settings = kernel.read_settings(workspace.root).get(FilesSettings)
                await trio.to_thread.run_sync(_recover, journal, settings)
            # The action runs in a thread, because it blocks and `_make_writer` calls back into the
            # event loop.
            await trio.to_thread.run_sync(action, options, journal)
        finally:
            journal.store.close()
            if log is not None:
                await log.close()


async def _try_to_open(kernel: Kernel, session: str) -> Log | None:
    """Open the log of a session with unfinished commands, unless the session itself is open."""
    try:
        return await kernel.store.open(session)
    except StoreError:  # the session is open, or its log cannot be written
        return None


def _recover(journal: Journal, settings: FilesSettings) -> None:
    """Record what an interrupted session changed, as the next opening of the session would."""
    limits = SnapshotLimits(settings.snapshot_file_limit, settings.snapshot_limit)
    snapshots = Snapshots(journal, journal.session, limits)
    snapshots.recover()


def _ignore(event: events.PluginEvent) -> None:
    """Ignore an event instead of writing it to the log."""


def _make_writer(log: Log, journal: Journal) -> Callable[[events.PluginEvent], None]:
    """Return a function that writes events to a log and a journal, from a thread."""

    def write(event: events.PluginEvent) -> None:
        written = replace(event, seq=log.last + 1, at=time.time())
        trio.from_thread.run_sync(lambda: log.append([written]))
        journal.apply_events([written])

    return write


async def _find_session(
    kernel: Kernel, options: argparse.Namespace
) -> tuple[str, list[events.AnyEvent]]:
    """Find the given session, or the last session in the folder that changed something.

    Returns:
        The session's id and its events.
    """
    if options.session:
        session = (await kernel.store.info(options.session)).id
        return session, await _read_events(kernel, session)
    # Each log is read in full, so the number of logs is limited.
    sessions = await kernel.store.list(options.workspace)
    for info in sessions[:MAX_SESSIONS_SEARCHED]:
        logged = await _read_events(kernel, info.id)
        if _has_changes(logged):
            return info.id, logged
    raise UsageError(
        f"No session has changed files in {escape_terminal(options.workspace)}.",
        code=errors.E_NOT_FOUND,
        hint=(
            "hilum sessions list --all shows the sessions of all folders; select one with"
            " --session ID."
        ),
    )


def _has_changes(logged: Sequence[events.AnyEvent]) -> bool:
    """Return whether a session changed files, or may have done so before it was interrupted."""
    ledger = _make_ledger(logged)
    recorded = ledger.records or ledger.undos or ledger.unprotected
    return bool(recorded or ledger.is_interrupted)


def _was_interrupted(logged: Sequence[events.AnyEvent]) -> bool:
    """Return whether a session has changes or commands without a recorded end."""
    return _make_ledger(logged).is_interrupted


def _make_ledger(logged: Sequence[events.AnyEvent]) -> Ledger:
    ledger = Ledger()
    for event in logged:
        ledger.apply(event)
    return ledger


async def _read_events(kernel: Kernel, session: str) -> list[events.AnyEvent]:
    found: list[events.AnyEvent] = []
    after = 0
    while page := await kernel.store.read(session, after):
        found += page
        after = page[-1].seq
    return found


# --- diff -----------------------------------------------------------------------------------------


def _show_diff(options: argparse.Namespace, journal: Journal) -> None:
    if options.list:
        _list_records(journal)
        return
    _warn_of_unfinished(journal)
    records = journal.ledger.select(options.scope, options.id)
    left_out: list[str] = []
    shown: list[FileDiff] = []
    for diff in diff_records(journal, records):
        if diff.note == LEFT_OUT:
            left_out.append(diff.path)
        else:
            shown.append(diff)
    names_agents = any(set(diff.agents) - {"main"} for diff in shown)
    for diff in shown:
        _print_file(diff, only_summary=options.stat, names_agents=names_agents)
    if left_out:
        names = _list_names(left_out, MAX_LEFT_OUT_SHOWN)
        say(f"Left out of snapshots: {names}")
    elif not shown:
        say("No files were changed.")
    _warn(journal, records)


def _print_file(diff: FileDiff, *, only_summary: bool, names_agents: bool) -> None:
    details = ""
    if only_summary and diff.diff:
        details = f" (+{diff.added} -{diff.removed})"
    if diff.note:
        details += f" [{diff.note}]"
    if names_agents:
        details += f" by {', '.join(map(show, diff.agents))}"
    if details or only_summary or not diff.diff:
        say(f"{diff.what} {diff.path}{details}")
    if diff.diff and not only_summary:
        _print_diff(diff.diff)


def _list_names(names: Sequence[str], limit: int) -> str:
    """Return the first names separated by commas, followed by the number of omitted names."""
    listed = ", ".join(names[:limit])
    more = len(names) - limit
    return f"{listed} and {more} more" if more > 0 else listed


def _list_records(journal: Journal) -> None:
    """List all records by run, and mark those that are undone."""
    _warn_of_unfinished(journal)
    run = None
    for record in journal.ledger.records.values():
        if record.run != run:
            run = record.run
            _print_run(journal, record)
        _print_record(record, _describe_state(journal.ledger, record))
    if run is None:
        say("No files were changed.")


def _print_run(journal: Journal, record: Record) -> None:
    parent = journal.ledger.origins.started.get(record.run)
    started_by = f"  (started by run {parent.run})" if parent else ""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(record.at))
    say(f"run {record.run or '(none)'}  {when}  {show(record.agent)}{started_by}")


def _describe_state(ledger: Ledger, record: Record) -> str:
    """Return a mark for a record that is undone, at least as far as it can be; "" for others."""
    in_effect = ledger.changes_in_effect(record)
    if not in_effect:
        return "  (undone)"
    if ledger.changes_to_undo(record):
        return ""
    if len(in_effect) == len(record.changes):
        return "  (left as it is)"
    left = [show(unspell_path(change.path)) for change in in_effect]
    return f"  (undone except {_list_names(left, MAX_NAMES_LISTED)})"


def _print_record(record: Record, mark: str) -> None:
    which = f"turn {record.turn}  call {record.call}"
    if record.is_undo:
        which = f"undo {record.id}"
    paths = [show(unspell_path(change.path)) for change in record.changes]
    names = _list_names(paths, MAX_NAMES_LISTED)
    say(f"  {which}  {record.what or record.tool}: {names}{mark}")


# --- undo -----------------------------------------------------------------------------------------


def _undo_changes(options: argparse.Namespace, journal: Journal) -> None:
    from hilum_files.journal.undo_plan import NEW_AND_NOT_KEPT  # imported at the first undo

    _warn_of_unfinished(journal)
    records = journal.ledger.select(options.scope, options.id)
    if options.dry_run:
        plan = journal.plan(options.scope, options.id, shared=options.shared)
        if plan.obstacles and not options.keep_going:
            raise journal.conflict_error(plan, options.scope, options.id, shared=options.shared)
    else:
        plan = journal.undo(
            options.scope, options.id, keep_going=options.keep_going, shared=options.shared
        )
    _report(plan, is_dry_run=options.dry_run)
    # A new file that is left needs no further step of hilum.
    is_left = any(why != NEW_AND_NOT_KEPT for why in plan.conflicts.values())
    if is_left and not options.dry_run:
        _print_next_steps(options, journal, records)
    _warn(journal, records)


def _print_next_steps(
    options: argparse.Namespace, journal: Journal, records: Sequence[Record]
) -> None:
    """Say how to try again what an undo left, and what the next undo does."""
    scope = options.scope
    older = ""
    if scope in NAMED_SCOPES:
        older = journal.ledger.name_older(scope, records)
    name = options.id or journal.ledger.name_unit(scope, records)
    say(f"To try again what was left as it is: hilum undo {scope} {name}")
    if older:
        say(f"To undo what was changed before that: hilum undo {scope} {older}")


def _report(plan: Plan, *, is_dry_run: bool) -> None:
    for step in plan.steps:
        verb = _describe_step(step, step.path in plan.merged, is_dry_run)
        sessions = ", ".join(plan.shared.get(step.path, ()))
        by = f"; session {sessions} may also have changed it" if sessions else ""
        say(f"{show(unspell_path(step.path))}: {verb}{by}")
    kept = "would be kept" if is_dry_run else "kept"
    for step in plan.kept:
        say(f"{show(unspell_path(step.path))}/: {kept}, because other files are in it")
    left = "would be left as it is" if is_dry_run else "left as it is"
    for path in plan.left:
        say(f"{show(unspell_path(path))}/: {left}; such folders are not recorded")
    for path, why in plan.conflicts.items():
        say(f"{show(unspell_path(path))}: {left}: {why}")
    if not plan.steps and not plan.kept:
        done = "" if plan.conflicts else "Everything has already been restored; "
        say(f"{done}nothing was written.".capitalize())


def _describe_step(step: Change, is_merged: bool, is_dry_run: bool) -> str:
    if step.after is None:
        verb = "deleted"
    elif step.before is None:
        verb = "recreated"
    elif is_merged:
        verb = "merged" if is_dry_run else "merged with later changes"
    else:
        verb = "restored"
    return f"would be {verb}" if is_dry_run else verb


def _warn(journal: Journal, records: Iterable[Record]) -> None:
    """Print warnings about commands whose changes are uncertain or cannot be undone."""
    runs: set[str] = set()
    for record in records:
        runs.add(record.run)
        if record.cut_off and record.what:
            _print_warning(
                f"{record.what!r} was interrupted: changes that others made afterwards, until hilum"
                " looked at the files again, are counted as its own."
            )
        if record.found_late:
            _print_warning(
                f"{record.what!r}: some changes were found only after it had ended; another program"
                " may have made them."
            )
    for record in journal.ledger.unprotected:
        if any(origin.run in runs for origin in journal.ledger.origins.trace(record)):
            _print_warning(f"{record.what!r}: {record.unprotected}")


def _warn_of_unfinished(journal: Journal) -> None:
    """Print a warning about commands whose changes are not known yet."""
    for record in journal.ledger.commands.values():
        _print_warning(
            f"{record.what!r} is running, or was interrupted: its changes are not known yet. They"
            " are shown when it has ended, or when the session is opened again"
            f" (hilum --resume {journal.session})."
        )


# --- output ---------------------------------------------------------------------------------------


def _print_warning(text: str) -> None:
    sys.stdout.flush()  # keeps standard output and standard error in order on a terminal
    say(f"hilum: {text}", to=sys.stderr)


def _print_diff(text: str) -> None:
    is_coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    for line in text.split("\n")[:-1]:
        # File contents may contain escape sequences that would control the terminal.
        colour = _COLOURS.get(line[:1])
        if is_coloured and colour and not line.startswith(("+++", "---")):
            print(f"\x1b[{colour}m{escape_terminal(line)}\x1b[m")
        else:
            say(line)
