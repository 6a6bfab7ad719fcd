"""``hilum cost``: what sessions cost, by model, agent, plugin, tool, turn, day or project."""

from __future__ import annotations

import re
import shutil
import sys
import time
from argparse import Namespace
from collections.abc import Iterable, Sequence

import hilum
import trio
from hilum import StoreError, UsageError
from hilum.command import Parser, check_folder, check_text, say, say_json
from hilum.errors import E_BAD_ARGS
from hilum.store import (
    MemoryStore,
    SessionInfo,
    Store,
    find_session,
    storage_plugins,
    unspell_folder,
)
from hilum_cli.terminal import is_terminal

from hilum_trace.bill.bill import DIMENSIONS, Bill, ChargedSession
from hilum_trace.bill.charges import ChargeFold
from hilum_trace.bill.cost_format import as_data, describe_unknown, format_csv, format_table
from hilum_trace.formatting import explain_no_sessions
from hilum_trace.reading import read_pages
from hilum_trace.spans import Trace
from hilum_trace.tree import describe_unread

DESCRIPTION = """\
Show what sessions cost: the tokens that the providers counted, their cost, and the time that models and tools took."""
EPILOG = """\
A bill by plugin or tool divides each request among what it contained: the instructions, tool
definitions, results, notes and context of each plugin, and the plugin's own requests to models. The
sums are the provider's counts; the division relies on estimated sizes. Cached tokens are those at
the beginning of a request.

  hilum cost                                this folder, by model
  hilum cost --all --since 30d --by day     all folders, the last 30 days
  hilum cost --since 7d --by plugin         which plugin fills the prompts
  hilum cost --session last --by turn       which turns of the last session were expensive
  hilum cost --all --by project --csv       for a spreadsheet

Budgets limit the cost in advance: hilum config budgets, and /budget in a conversation.
"""
SHOWN = 40
"""Default number of rows."""
# Time, number, agent and run of an event, which are the same in all copies of a session.
_ChargeKey = tuple[float, int, str, str]
_UNITS = {"m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}
_PART = re.compile(r"(\d{1,6})\s*(minutes?|mins?|m|hours?|h|days?|d|weeks?|w)(?![a-z])\s*")
_SPAN = re.compile(f"(?:{_PART.pattern})+")
_DATES = ("%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dt%H:%M", "%Y-%m-%dt%H:%M:%S")


def main(argv: Sequence[str]) -> int:
    """Show what sessions cost.

    Returns:
        The exit code.
    """
    check_text(argv)
    try:
        options = make_parser().parse_args([*argv])
    except SystemExit as error:  # --help
        return int(error.code or 0)
    options.after = 0.0
    if options.since is not None:
        options.after = parse_since(options.since, time.time())
    trio.run(_show, options)
    sys.stdout.flush()
    return 0


def make_parser() -> Parser:
    """Declare the options."""
    parser = Parser("hilum cost", DESCRIPTION, EPILOG)
    add = parser.add_argument
    add(
        "--by",
        choices=DIMENSIONS,
        default="model",
        metavar="WHAT",
        help=f"one row for each {', '.join(DIMENSIONS[:-1])} or {DIMENSIONS[-1]} (default: model)",
    )
    add(
        "--since",
        default=None,
        metavar="WHEN",
        help="only since a time: 90m, 1h30m, 7d, today, yesterday, a date (2026-11-01), or both"
        " ('2026-11-01 14:30')",
    )
    add("--session", default="", metavar="ID", help="one session: its id, its beginning, or last")
    add("--all", action="store_true", help="sessions of all folders")
    add("--workspace", "-C", default=".", metavar="DIR", help="sessions of another folder")
    add(
        "--limit",
        type=int,
        default=SHOWN,
        metavar="N",
        help=f"the first N rows of the table ({SHOWN} if not given); 0 for all",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object")
    form.add_argument("--csv", action="store_true", help="print comma-separated values")
    return parser


def parse_since(text: str, now: float) -> float:
    """Return the Unix time that ``--since`` names.

    Args:
        text: Numbers with units (``90m``, ``1h30m``, ``7 days``), ``today``, ``yesterday``, or a
            date with or without a time.
        now: The current Unix time.

    Raises:
        UsageError: The text is none of these, or names a time before 1970 or in the future.
    """
    word = text.strip().lower()
    if _SPAN.fullmatch(word):
        seconds = sum(int(count) * _UNITS[unit[0]] for count, unit in _PART.findall(word))
        return max(now - seconds, 0.0)
    after = _parse_date(word, now)
    if after is None:
        raise UsageError(
            f"{text!r} is not a time for --since.",
            code=E_BAD_ARGS,
            hint=(
                "Write a number with a unit (90m, 1h30m, 7d, 4w), today, yesterday, a date"
                " (2026-11-01) or a date with a time ('2026-11-01 14:30')."
            ),
        )
    if after > now:
        raise UsageError(
            f"{text!r} is in the future.", code=E_BAD_ARGS, hint="Choose an earlier time."
        )
    return after


def _parse_date(word: str, now: float) -> float | None:
    """Return the Unix time of a day or a date with a time; ``None`` if the text is neither."""
    days_ago = {"today": 0, "yesterday": 1}.get(word)
    if days_ago is not None:
        day = time.localtime(now)
        # The day before may have 23 or 25 hours.
        midnight = (day.tm_year, day.tm_mon, day.tm_mday - days_ago, 0, 0, 0, 0, 0, -1)
        return time.mktime(midnight)
    for form in _DATES:
        try:
            return time.mktime(time.strptime(word, form))
        except (ValueError, OverflowError):
            continue
    return None


async def _show(options: Namespace) -> None:
    """Read the sessions and print the bill."""
    if options.limit < 0:
        raise UsageError(
            "--limit must not be negative.", code=E_BAD_ARGS, hint="Pass a number, or 0 for all."
        )
    # Only the plugins that store sessions are loaded, so that no other plugin can slow down or
    # break the command.
    async with hilum.open_kernel(storage_plugins()) as kernel:
        if isinstance(kernel.store, MemoryStore):
            raise StoreError(
                "No loaded plugin stores sessions.",
                hint="Install hilum-store; `hilum plugins` lists the plugins.",
            )
        infos = await _find_sessions(kernel.store, options)
        bill = Bill(options.by)
        await add_sessions(bill, kernel.store, infos, options.after)
    if options.json:
        say_json(as_data(bill) | {"sessions": len(infos), "since": options.after or None})
    elif options.csv:
        say(format_csv(bill))
    elif bill.rows():
        say(format_table(bill, options.limit, _find_width()))
    else:
        say("\n".join([_describe_nothing(options, len(infos)), *describe_unknown(bill)]))


def _find_width() -> int:
    """Return the number of columns of the terminal; 0 if the output is no terminal."""
    return shutil.get_terminal_size().columns if is_terminal(1) else 0


def _describe_nothing(options: Namespace, count: int) -> str:
    """Return a sentence about a bill without requests."""
    if count:
        text = "No request to a model was made in these sessions."
        if options.after:
            text = "No request to a model was made in these sessions since then."
    elif options.after:
        text = "There are no sessions that were used since then."
    elif options.all:
        text = "There are no sessions."
    else:
        text = explain_no_sessions(check_folder(options.workspace))
    return text if options.all or options.session else f"{text} --all includes all folders."


async def _find_sessions(store: Store, options: Namespace) -> list[SessionInfo]:
    """Return the sessions that the options select, oldest first."""
    folder = "" if options.all else check_folder(options.workspace)
    if options.session:
        session = await find_session(store, options.session, options.workspace)
        return [await store.info(session)]
    infos = [info for info in await store.list(folder) if info.updated >= options.after]
    return sorted(infos, key=lambda info: info.created)


async def add_sessions(
    bill: Bill, store: Store, infos: Iterable[SessionInfo], after: float = 0.0
) -> None:
    """Add the charges of sessions to a bill.

    A copy of a session contains the events of the original, which are added only once.

    Args:
        bill: The bill.
        store: The store of the sessions.
        infos: The sessions, oldest first.
        after: Unix time before which charges are left out.
    """
    billed: set[_ChargeKey] = set()
    for info in infos:
        try:
            await _add_session(bill, store, info, after, billed)
        except StoreError as error:
            # One damaged log must not hide what all others cost.
            bill.unreadable.append(error.message)


async def _add_session(
    bill: Bill, store: Store, info: SessionInfo, after: float, billed: set[_ChargeKey]
) -> None:
    """Add the charges of a session, except those that are already in ``billed``.

    What cannot be read of the log is left out and noted in ``bill.unreadable``.

    Raises:
        StoreError: The log cannot be read at all.
    """
    fold = ChargeFold(divided=bill.is_divided)
    source = ChargedSession(info.id, unspell_folder(info.workspace), fold.titles)
    unread = Trace()
    async for events in read_pages(store, info, unread):
        for event in events:
            charge = fold.apply(event)
            if charge is None or charge.at < after:
                continue
            # A copy keeps the times and numbers of events, and the ids of their runs.
            key = (event.at, event.seq, event.agent, event.run)
            if key in billed:
                continue
            billed.add(key)
            bill.add(charge, source)
    for problem in describe_unread(unread):
        bill.unreadable.append(f"session {info.id}: {problem}")
