"""``hilum sessions``: lists, shows, resumes, forks, renames, deletes, prunes and exports sessions."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import time
from argparse import Namespace
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import hilum
import msgspec
from hilum import StoreError, UsageError, make_redactor
from hilum.command import Parser, check_folder, check_text, discard_typed, insert_list
from hilum.errors import E_BAD_ARGS, E_BUSY, E_UNKNOWN
from hilum.events import FINAL, encode
from hilum.store import MemoryStore, UnreadableLog, find_session, storage_plugins
from hilum_view import Totals, format_cost, total

from hilum_cli import exits, run
from hilum_cli.options import run_async
from hilum_cli.terminal import Out, escape_terminal, is_terminal, line
from hilum_cli.transcript import markdown, transcript

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from hilum import Kernel
    from hilum.events import AnyEvent
    from hilum.store import SessionInfo

    Commands = _SubParsersAction[Parser]

LISTED = 20
"""Default number of sessions to list."""
TEST_FOLDER = "tests/sessions"
"""Default folder for sessions that are exported as tests."""
EPILOG = """\
A session is identified by its id or by any unambiguous beginning of the id.

  hilum sessions list --all
  hilum sessions show 20260131-1504
  hilum sessions export 20260131-1504 --format markdown -o work.md
  hilum sessions export 20260131-1504 --test wrong_total
"""


def main(argv: list[str]) -> int:
    """List, show, resume, fork, rename, delete, prune and export sessions.

    Returns:
        The exit code (see ``exits``).
    """
    if argv[:1] == ["resume"]:
        return _resume(argv[1:])
    check_text(argv)
    options = make_parser().parse_args(insert_list(argv))
    code = run_async(_with_kernel, options)
    return int(options.out.finish(code))


def _resume(argv: list[str]) -> int:
    if "-h" in argv or "--help" in argv:
        return run.main(argv)
    return run.main(["--resume", *argv])


async def _with_kernel(options: Namespace) -> int:
    """Open a kernel to access its store; no model is used."""
    options.out = Out(1)
    # Load only the plugins that store sessions, so that no other plugin can slow down or break the
    # command.
    async with hilum.open_kernel(storage_plugins()) as kernel:
        if isinstance(kernel.store, MemoryStore):
            raise StoreError(
                "No loaded plugin stores sessions.",
                hint="Install hilum-store; `hilum plugins` lists the plugins.",
            )
        action: Callable[[Kernel, Namespace], Awaitable[int | None]] = options.action
        return await action(kernel, options) or exits.COMPLETED


def make_parser() -> Parser:
    """Declare commands and options."""
    parser = Parser(
        "hilum sessions",
        "List (the default), show, resume, fork, rename, delete, prune and export sessions.",
        EPILOG,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)
    _add_reading_commands(commands)
    _add_changing_commands(commands)
    _add_export(commands)
    return parser


def _add_command(
    commands: Commands, name: str, action: Callable[..., object], help: str, *, named: bool = True
) -> Parser:
    """Declare a command, and return its parser.

    Args:
        commands: The commands.
        name: Its name.
        action: The function that runs it.
        help: What it does.
        named: Whether it takes the id of a session.
    """
    parser = commands.add_parser(name, description=help[:1].upper() + help[1:] + ".", help=help)
    parser.set_defaults(action=action)
    if named:
        parser.add_argument(
            "session", metavar="ID", help="the session's id, the beginning of its id, or `last`"
        )
    return parser


def _add_reading_commands(commands: Commands) -> None:
    add = _add_command(
        commands,
        "list",
        _list,
        "list the sessions in this folder, most recently used first",
        named=False,
    ).add_argument
    add("--all", action="store_true", help="list the sessions in all folders")
    add("--workspace", "-C", default=".", metavar="DIR", help="list the sessions in another folder")
    add(
        "--limit",
        type=int,
        default=LISTED,
        metavar="N",
        help=f"the newest N ({LISTED} if not given); 0 for all",
    )
    add("--json", action="store_true", help="print one JSON array")
    add = _add_command(commands, "show", _show, "show a session turn by turn").add_argument
    add("--full", action="store_true", help="show arguments and results of tool calls in full")
    add("--events", action="store_true", help="print the raw events, one per line")
    _add_command(commands, "resume", _list, "resume a session; takes the options of hilum run")


def _add_changing_commands(commands: Commands) -> None:
    add = _add_command(commands, "fork", _fork, "copy a session into a new one").add_argument
    add(
        "--upto",
        type=int,
        metavar="SEQ",
        help="only the events up to this number (see show --events)",
    )
    _add_command(commands, "rename", _rename, "give a session a title").add_argument(
        "title", nargs="+", metavar="TITLE"
    )
    _add_command(commands, "delete", _delete, "delete a session").add_argument(
        "--yes", action="store_true", help="do not ask for confirmation"
    )
    add = _add_command(
        commands, "prune", _prune, "delete sessions that were not used lately", named=False
    ).add_argument
    add(
        "--days",
        type=int,
        required=True,
        metavar="N",
        help="delete the sessions in all folders that were last used more than N days ago",
    )
    add("--dry-run", action="store_true", help="only list them")


def _add_export(commands: Commands) -> None:
    add = _add_command(
        commands, "export", _export, "write a session to a file or to standard output"
    ).add_argument
    add(
        "--format",
        choices=("jsonl", "markdown", "html", "cassette"),
        default="jsonl",
        help="the events, readable text, a web page, or a recording for --cassette",
    )
    add(
        "-o",
        "--output",
        default="",
        metavar="FILE",
        help="file to write (default: standard output); with --test, the folder (default:"
        f" {TEST_FOLDER})",
    )
    add("--force", action="store_true", help="overwrite the file")
    add(
        "--test",
        default="",
        metavar="NAME",
        help="write a test that replays the session: a recording, and a pytest file that compares"
        " results and files",
    )
    add(
        "--without",
        action="append",
        default=[],
        metavar="PATTERN",
        help="with --test: files of the workspace to leave out, such as '*.log'",
    )


async def read_all(kernel: Kernel, session: str) -> list[AnyEvent]:
    """Read all events in a session."""
    events: list[AnyEvent] = []
    # The store returns events in pages of a limited size.
    while page := await kernel.store.read(session, events[-1].seq if events else 0):
        events += page
    return events


# --- list -----------------------------------------------------------------------------------------


async def _list(kernel: Kernel, options: Namespace) -> None:
    folder = "" if options.all else check_folder(options.workspace)
    if options.limit < 0:
        raise UsageError(
            "--limit must not be negative.", code=E_BAD_ARGS, hint="Pass a number, or 0 for all."
        )
    found = await kernel.store.list(folder)
    # Usage is stored in events, and reading the events of a thousand sessions would take seconds.
    if options.limit:
        infos = found[: options.limit]
    else:
        infos = found
    older = len(found) - len(infos)
    infos, totals = await _measure(kernel, infos)
    if options.json:
        rows = [_as_data(info, used) for info, used in zip(infos, totals, strict=True)]
        options.out.put(msgspec.json.encode(rows) + b"\n")
    elif infos:
        options.out.say(table(infos, totals, folder=not folder, width=_width()))
        if older:
            options.out.say(f"… and {older:,} older: hilum sessions list --limit 0 shows all.")
    else:
        if options.all:
            more = ""
        else:
            more = (
                f" of {escape_terminal(folder)}."
                " hilum sessions list --all shows those of other folders"
            )
        options.out.say(f"There are no sessions{more}.")


def _width() -> int:
    if is_terminal(1):
        return shutil.get_terminal_size().columns
    return 200


async def _measure(
    kernel: Kernel, infos: Sequence[SessionInfo]
) -> tuple[list[SessionInfo], list[Totals]]:
    """Return sessions with their present state, and their usage.

    A session whose log cannot be read is ``damaged``, or ``unreadable`` if a newer hilum wrote it; its
    usage is left out, because a part of it would be misleading.
    """
    measured: list[SessionInfo] = []
    totals: list[Totals] = []
    for info in infos:
        try:
            current = await _settled(kernel, info)
            used = total(await read_all(kernel, info.id))
        except UnreadableLog as error:
            state = "damaged" if error.is_damaged else "unreadable"
            current = msgspec.structs.replace(info, state=state)
            used = total([])
        except StoreError as error:
            if error.code == E_UNKNOWN:  # deleted in the meantime
                continue
            raise
        measured.append(current)
        totals.append(used)
    return measured, totals


async def _settled(kernel: Kernel, info: SessionInfo) -> SessionInfo:
    """Return a session, as ``interrupted`` if its log shows it running but no process runs it."""
    # The log of a killed process still shows a running session.
    if info.state in ("idle", *FINAL) or await kernel.store.is_open(info.id):
        return info
    return msgspec.structs.replace(info, state="interrupted")


def _as_data(info: SessionInfo, used: Totals) -> dict[str, object]:
    data = msgspec.structs.asdict(info)
    return data | {"tokens": used.usage.total, "cost": used.usage.cost, "runs": used.runs}


def table(
    infos: Sequence[SessionInfo], totals: Sequence[Totals], *, folder: bool, width: int
) -> str:
    """Return sessions as a table.

    Args:
        infos: The sessions.
        totals: The usage of each session.
        folder: Whether to show the sessions' workspaces, which is useful if they differ.
        width: Available width in columns; the title is shortened if necessary.
    """
    where = "WORKSPACE" if folder else ""
    rows: list[tuple[str, ...]] = [
        ("ID", "USED", "EVENTS", "STATE", "TOKENS", "COST", where, "TITLE")
    ]
    rows += [_row(info, used, folder) for info, used in zip(infos, totals, strict=True)]
    # Empty columns are left out.
    sizes = []
    for column in range(7):
        filled = any(row[column] for row in rows[1:])
        sizes.append(max(len(row[column]) for row in rows) if filled else 0)
    lines = []
    for row in rows:
        start = "".join(f"{cell:{size}}  " for cell, size in zip(row, sizes, strict=False) if size)
        lines.append((start + line(row[7], max(width - len(start), 12))).rstrip())
    return "\n".join(lines)


def _row(info: SessionInfo, used: Totals, folder: bool) -> tuple[str, ...]:
    return (
        info.id,
        time.strftime("%Y-%m-%d %H:%M", time.localtime(info.updated)),
        str(info.events),
        info.state,
        str(used.usage.total or ""),
        format_cost(used.usage),
        escape_terminal(info.workspace) if folder else "",
        line(info.title, 200),
    )


# --- one session ----------------------------------------------------------------------------------


async def _show(kernel: Kernel, options: Namespace) -> None:
    session = await find_session(kernel.store, options.session, ".")
    info = await _settled(kernel, await kernel.store.info(session))
    events = await read_all(kernel, info.id)
    if options.events:
        options.out.put(b"".join(encode(event) + b"\n" for event in events))
        return
    options.out.say(escape_terminal(transcript(info, events, full=options.full)))


async def _fork(kernel: Kernel, options: Namespace) -> None:
    if options.upto is not None and options.upto < 1:
        raise UsageError(
            "--upto must be at least 1.",
            code=E_BAD_ARGS,
            hint="`hilum sessions show ID --events` shows the numbers of the events.",
        )
    session = await find_session(kernel.store, options.session, ".")
    options.out.say(await kernel.fork(session, options.upto))


async def _rename(kernel: Kernel, options: Namespace) -> None:
    title = " ".join(" ".join(options.title).split())
    if not title:
        raise UsageError(
            "The title is empty.", code=E_BAD_ARGS, hint="Pass a title of at least one word."
        )
    await kernel.store.rename(options.session, title)


async def _delete(kernel: Kernel, options: Namespace) -> int:
    info = await kernel.store.info(options.session)
    if not options.yes:
        if not is_terminal(0):
            raise UsageError(
                "Deleting requires confirmation, and standard input is not a terminal.",
                code=E_BAD_ARGS,
                hint="Confirm with --yes.",
            )
        from hilum_cli.approvals import read_line

        discard_typed()
        Out(2).put(
            f"Delete {info.id} ({info.events} events: {line(info.title, 60)})? [y/N] ".encode()
        )
        if (await read_line(0)).strip().lower() not in ("y", "yes"):
            Out(2).say("Nothing was deleted.")
            return exits.FAILED
    await kernel.store.delete(info.id)
    return exits.COMPLETED


async def _prune(kernel: Kernel, options: Namespace) -> None:
    """Delete old sessions one after another; those that are open are left alone."""
    if options.days < 1:
        raise UsageError(
            "--days must be at least 1.", code=E_BAD_ARGS, hint="Pass a number of days."
        )
    limit = time.time() - options.days * 24 * 3600
    deleted = 0
    for info in await kernel.store.list():
        if info.updated >= limit:
            continue
        if options.dry_run:
            options.out.say(f"{info.id}  {line(info.title, 60)}".rstrip())
            continue
        try:
            await kernel.store.delete(info.id)
        except StoreError as error:
            # Another process may use, or have deleted, a session that was just listed.
            if error.code not in (E_BUSY, E_UNKNOWN):
                raise
            continue
        deleted += 1
    if not options.dry_run:
        options.out.say(f"{deleted} session{'s' * (deleted != 1)} deleted.")


async def _export(kernel: Kernel, options: Namespace) -> None:
    info = await kernel.store.info(await find_session(kernel.store, options.session, "."))
    if options.test:
        await _export_test(kernel, options, info)
        return
    if options.without:
        raise UsageError(
            "--without leaves files out of a test.", code=E_BAD_ARGS, hint="Add --test NAME."
        )
    data = _exported(info, await read_all(kernel, info.id), options.format)
    # An export may leave this machine. Logs that were written by earlier versions, or without the
    # plugin `guard`, may contain keys.
    data = make_redactor()(data.decode(errors="surrogateescape"), guess=False).encode(
        errors="surrogateescape"
    )
    if not options.output:
        options.out.put(data)
        return
    try:
        # Blocking is harmless here: the command has nothing else to do.
        _write_whole(Path(options.output), data, options.force)
    except FileExistsError:
        hint = "Choose another name, or overwrite the file with --force."
        raise UsageError(f"{options.output} exists.", code=E_BAD_ARGS, hint=hint) from None
    except OSError as error:
        message = f"{options.output} cannot be written: {os.strerror(error.errno or 0)}."
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            hint = "Free some space; an earlier file is unchanged."
            raise StoreError(message, hint=hint) from None
        raise UsageError(message, code=E_BAD_ARGS, hint="Choose another name.") from None


async def _export_test(kernel: Kernel, options: Namespace, info: SessionInfo) -> None:
    """Write a session as a test, and report what it contains."""
    from hilum_replay.sessions.exporting import export_test  # no other export needs it

    exported = await export_test(
        await read_all(kernel, info.id),
        options.test,
        Path(options.output or TEST_FOLDER),
        title=info.title,
        session=info.id,
        overwrite=options.force,
        without=options.without,
    )
    options.out.say(escape_terminal(exported.describe()))


def _write_whole(path: Path, data: bytes, overwrite: bool) -> None:
    """Write a file completely or not at all: after an error, an existing file is unchanged.

    Raises:
        FileExistsError: The file exists and must not be overwritten.
        OSError: It cannot be written.
    """
    if path.exists() and not path.is_file():
        # A terminal or a pipe is not a file that could be replaced.
        path.write_bytes(data)
        return
    # A symbolic link stays a link, as if the file were written in place.
    path = Path(os.path.realpath(path))
    if not overwrite:
        # Fails if the file exists, even if another program has just created it.
        path.open("xb").close()
    is_written = False
    descriptor, temporary = tempfile.mkstemp(prefix=".hilum-", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
        is_written = True
    finally:
        if not is_written:
            os.unlink(temporary)
            if not overwrite:
                path.unlink()


def _exported(info: SessionInfo, events: list[AnyEvent], format: str) -> bytes:
    if format == "jsonl":
        return b"".join(encode(event) + b"\n" for event in events)
    if format == "markdown":
        return markdown(info, events).encode(errors="backslashreplace")
    if format == "html":
        from hilum_cli.transcript_html import render_html  # few exports need it

        return render_html(info, events).encode(errors="backslashreplace")
    import hilum_replay  # this module imports trio, which --help does not need

    return hilum_replay.dumps(hilum_replay.record(events, title=info.title)).encode()
