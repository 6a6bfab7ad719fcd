"""``hilum diff`` and ``hilum undo``: what a session changed, and taking it back.

No model and no key is needed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from hilum import UsageError, Workspace, errors, events
from hilum.store import unspell_folder
from hilum_commandline import Parser, neutral, say
from msgspec.structs import replace

from hilum_files.journal.journal import Journal, objects_folder, stale
from hilum_files.journal.objects import Objects
from hilum_files.journal.records import Record, unspell
from hilum_files.text import show

if TYPE_CHECKING:
    from hilum import Kernel
    from hilum.store import Log

    from hilum_files.journal.undo import Plan

Action = Callable[[argparse.Namespace, Journal], None]
SCOPES = ("call", "turn", "run")
_COLOURS = {"+": "32", "-": "31", "@": "36"}
_NAMING = """\
Without ID it is the last one that changed something and is not undone; a run is all that a prompt of yours led to, with
what its sub-agents changed. A call and a run are named by their ids, or a beginning of them; a turn by its number in the
last run, or by RUN:NUMBER. `hilum diff --list` shows them all.
"""
DIFF = f"""\
Show what a session changed: each file once, from what it was to what it became. Undone changes are left out.

{_NAMING}"""
UNDO = f"""\
Take back what a call, a turn or a run changed, commands, tools of MCP servers and sub-agents included: all of it or
nothing. Files that were changed since are merged; where that is not possible nothing is done. An undo can be undone:
`hilum undo undo`.

{_NAMING}"""


def diff(argv: Sequence[str]) -> int:
    """Show what a session changed in files, by call, turn or run.

    Returns:
        The exit code.
    """
    parser = _parser("diff", DIFF, (*SCOPES, "session", "undo"))
    parser.add_argument(
        "--list", action="store_true", help="list what was changed, by run, turn and call"
    )
    parser.add_argument("--stat", action="store_true", help="only names and numbers of lines")
    return _run(parser, argv, _diff)


def undo(argv: Sequence[str]) -> int:
    """Take back what a call, a turn or a run changed, commands included.

    Returns:
        The exit code.
    """
    parser = _parser("undo", UNDO, (*SCOPES, "undo"))
    parser.add_argument("--dry-run", "-n", action="store_true", help="only say what would be done")
    parser.add_argument(
        "--keep-going",
        "-k",
        action="store_true",
        help="put back what can be, where something cannot",
    )
    return _run(parser, argv, _undo)


def _parser(name: str, description: str, scopes: Sequence[str]) -> Parser:
    parser = Parser(f"hilum {name}", description)
    parser.add_argument(
        "scope",
        nargs="?",
        default="run",
        choices=scopes,
        help="what to look at; the last run without",
    )
    parser.add_argument("id", nargs="?", default="", metavar="ID", help="which call, turn or run")
    parser.add_argument(
        "--session",
        "-s",
        default="",
        metavar="ID",
        help="the session; this folder's last one by default",
    )
    parser.add_argument("--workspace", "-C", default=".", metavar="DIR", help="another folder")
    return parser


def _run(parser: Parser, argv: Sequence[str], action: Action) -> int:
    try:
        options = parser.parse_args(argv)
    except SystemExit as error:  # --help
        return int(error.code or 0)
    import trio

    options.workspace = os.path.realpath(os.path.expanduser(options.workspace))
    trio.run(_with_journal, options, action)
    sys.stdout.flush()
    return 0


async def _with_journal(options: argparse.Namespace, action: Action) -> None:
    """Read the session's log, and open it for writing if something is to be undone."""
    import trio
    from hilum import open_kernel

    async with open_kernel() as kernel:
        session, known = await _session(kernel, options)
        info = await kernel.store.info(session)
        writes = action is _undo and not options.dry_run
        log = await kernel.store.open(session) if writes else None
        journal = Journal(
            Workspace(unspell_folder(info.workspace), kernel.options.extra_roots),
            Objects(objects_folder()),
            _writer(log),
            session,
        )
        if log is not None:
            journal.emit = _writer(log, journal)
        try:
            # Once more where it is ours now: somebody may have written to it since.
            journal.fold(await _events(kernel, session) if log else known)
            if log is not None:
                await trio.to_thread.run_sync(journal.settle)
            await trio.to_thread.run_sync(action, options, journal)
        finally:
            journal.objects.close()
            if log is not None:
                await log.close()


def _writer(
    log: Log | None, journal: Journal | None = None
) -> Callable[[events.PluginEvent], None]:
    """Return what writes events, from a thread, to a log, and lets a journal take them in."""
    import trio

    def write(event: events.PluginEvent) -> None:
        if log is not None:
            written = replace(event, seq=log.last + 1, at=time.time())
            trio.from_thread.run_sync(lambda: log.append([written]))
            if journal is not None:
                journal.fold([written])

    return write


async def _session(
    kernel: Kernel, options: argparse.Namespace
) -> tuple[str, list[events.AnyEvent]]:
    """Find the session: the one that was named, else the folder's last one that changed
    something.
    """
    if options.session:
        session = (await kernel.store.info(options.session)).id
        return session, await _events(kernel, session)
    for info in (await kernel.store.list(options.workspace))[:50]:
        found = await _events(kernel, info.id)
        if any(
            isinstance(event, events.PluginEvent) and event.name.startswith("files.")
            for event in found
        ):
            return info.id, found
    hint = "hilum sessions list --all shows the sessions of all folders; name one: --session ID."
    raise UsageError(
        f"No session has changed files in {neutral(options.workspace)}.",
        code=errors.E_NOT_FOUND,
        hint=hint,
    )


async def _events(kernel: Kernel, session: str) -> list[events.AnyEvent]:
    found: list[events.AnyEvent] = []
    while page := await kernel.store.read(session, found[-1].seq if found else 0):
        found += page
    return found


# --- diff -----------------------------------------------------------------------------------------


def _diff(options: argparse.Namespace, journal: Journal) -> None:
    from hilum_files.journal.show import LEFT_OUT, shown

    if options.list:
        _list(journal)
        return
    records = journal.ledger.select(options.scope, options.id)
    found = shown(journal, records)
    left_out = [change.path for change in found if change.note == LEFT_OUT]
    found = [change for change in found if change.note != LEFT_OUT]
    several = {name for change in found for name in change.agents} - {"main"}
    for change in found:
        counts = f" (+{change.added} -{change.removed})" if change.diff else ""
        note = f" [{change.note}]" if change.note else ""
        by = f" by {', '.join(map(show, change.agents))}" if several else ""
        if options.stat or not change.diff or note or by:
            say(f"{change.what} {change.path}{counts if options.stat else ''}{note}{by}")
        if change.diff and not options.stat:
            _say_diff(change.diff)
    if left_out:
        more = f" and {len(left_out) - 5} more" if len(left_out) > 5 else ""
        say(f"Left out of snapshots: {', '.join(left_out[:5])}{more}")
    elif not found:
        say("Nothing is changed.")
    _warn(journal, records)


def _list(journal: Journal) -> None:
    """List the records: undone ones are marked."""
    run = None
    for record in journal.ledger.records.values():
        if record.run != run:
            run = record.run
            above = journal.ledger.started.get(run)
            of = f"  (started by run {above.run})" if above else ""
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(record.at))
            say(f"run {run or '(none)'}  {when}  {show(record.agent)}{of}")
        mark = "" if journal.ledger.left(record) else "  (undone)"
        count = len(record.changes)
        names = ", ".join(show(unspell(change.path)) for change in record.changes[:3])
        if record.tool == "undo":
            which = f"undo {record.id}"
        else:
            which = f"turn {record.turn}  call {record.call}"
        say(
            f"  {which}  {record.what or record.tool}:"
            f" {names}{f' and {count - 3} more' if count > 3 else ''}{mark}"
        )
    if run is None:
        say("Nothing was changed.")


# --- undo -----------------------------------------------------------------------------------------


def _undo(options: argparse.Namespace, journal: Journal) -> None:
    records = journal.ledger.select(options.scope, options.id)
    if options.dry_run:
        plan = journal.plan(options.scope, options.id)
        if plan.conflicts and not options.keep_going:
            raise stale(plan)
    else:
        plan = journal.undo(options.scope, options.id, keep_going=options.keep_going)
    _report(plan, would=options.dry_run)
    _warn(journal, records)


def _report(plan: Plan, *, would: bool) -> None:
    verbs = {
        True: ("would be deleted", "would be brought back", "would be restored", "would be merged"),
        False: ("deleted", "brought back", "restored", "merged with later changes"),
    }[would]
    for step in plan.steps:
        merged = step.path in plan.merged
        verb = (
            verbs[0]
            if step.after is None
            else verbs[1]
            if step.before is None
            else verbs[3 if merged else 2]
        )
        say(f"{show(unspell(step.path))}: {verb}")
    for path in plan.left:
        say(f"{show(unspell(path))}/: left as it is; such folders are not kept")
    for path, why in plan.conflicts.items():
        say(f"{show(unspell(path))}: left as it is: {why}")
    if not plan.steps:
        say("Everything is as it was already; nothing was written.")


def _warn(journal: Journal, records: Iterable[Record]) -> None:
    """Say what cannot be relied on."""
    records = list(records)
    for record in records:
        if record.cut_off and record.what:
            _note(
                f"{record.what!r} was cut off: changes made before the session was opened again are"
                " counted as its own."
            )
    runs = {record.run for record in records}
    for record in journal.ledger.unprotected:
        if any(place.run in runs for place in journal.ledger.lineage(record)):
            _note(f"{record.what!r}: {record.unprotected}")


# --- writing --------------------------------------------------------------------------------------


def _note(text: str) -> None:
    sys.stdout.flush()
    say(f"hilum: {text}", to=sys.stderr)


def _say_diff(text: str) -> None:
    coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    for line in text.split("\n")[:-1]:
        if coloured and line[:3] not in ("+++", "---"):
            colour = _COLOURS.get(line[:1])
        else:
            colour = None
        if colour:
            print(f"\x1b[{colour}m{neutral(line)}\x1b[m")
        else:
            say(line)
