"""``hilum sessions``: list, show, resume, fork, rename, delete and export what was done."""

from __future__ import annotations

import os
import shutil
import time
from argparse import Namespace
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from hilum import StoreError, UsageError
from hilum.errors import E_BAD_ARGS
from hilum_commandline import Parser

from hilum_cli import exits
from hilum_cli.options import check_folder, check_text, run_command
from hilum_cli.progress import money
from hilum_cli.terminal import Out, is_terminal, line, neutral, quiet_exit
from hilum_cli.totals import Totals, total

if TYPE_CHECKING:
    from hilum import Kernel
    from hilum.events import AnyEvent
    from hilum.store import SessionInfo

LISTED = 20
"""Sessions that are listed where no number is given."""
EPILOG = """\
A session is named by its id or by any beginning of it that fits no other.

  hilum sessions list --all
  hilum sessions show 20260131-1504
  hilum sessions export 20260131-1504 --format markdown -o work.md
"""


def main(argv: list[str]) -> int:
    """List, show, resume, fork, rename, delete and export sessions.

    Returns:
        The exit code (see ``exits``).
    """
    if argv[:1] == ["resume"]:
        return _resume(argv[1:])
    return run_command(lambda: _run(argv))


def _resume(argv: list[str]) -> int:
    from hilum_cli.run import main as run

    if not argv or argv[0].startswith("-"):
        return run(argv if "-h" in argv or "--help" in argv else ["--resume", *argv])
    return run(["--resume", *argv])


def _run(argv: Sequence[str]) -> int:
    check_text(argv)
    options = make_parser().parse_args(argv)
    import trio

    code = trio.run(_with_kernel, options)
    quiet_exit()
    return exits.BROKEN_PIPE if options.out.gone else code


async def _with_kernel(options: Namespace) -> int:
    """Open a kernel for its store; no model is touched."""
    from hilum import open_kernel
    from hilum.store import MemoryStore

    options.out = Out(1)
    async with open_kernel() as kernel:
        if isinstance(kernel.store, MemoryStore):
            raise StoreError(
                "No plugin keeps sessions.",
                hint="Install hilum-store; hilum plugins shows what is there.",
            )
        action: Callable[[Kernel, Namespace], Awaitable[int | None]] = options.action
        return await action(kernel, options) or exits.COMPLETED


def make_parser() -> Parser:
    """Declare commands and options."""
    parser = Parser(
        "hilum sessions", "List, show, resume, fork, rename, delete and export sessions.", EPILOG
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_Sub)

    def command(
        name: str, action: Callable[..., object], help: str, *, named: bool = True
    ) -> Parser:
        made: Parser = commands.add_parser(
            name, description=help[:1].upper() + help[1:] + ".", help=help
        )
        made.set_defaults(action=action)
        if named:
            made.add_argument(
                "session", metavar="ID", help="the session's id, or the beginning of it"
            )
        return made

    add = command(
        "list", _list, "list the sessions of this folder, last used first", named=False
    ).add_argument
    add("--all", action="store_true", help="those of all folders")
    add("--workspace", "-C", default=".", metavar="DIR", help="those of another folder")
    add(
        "--limit",
        type=int,
        default=LISTED,
        metavar="N",
        help=f"the newest N ({LISTED} if not given); 0 for all",
    )
    add("--json", action="store_true", help="one JSON array")
    add = command("show", _show, "show what was said and done, turn by turn").add_argument
    add("--full", action="store_true", help="unfold arguments and results of tool calls")
    add("--events", action="store_true", help="the events themselves, one per line")
    command("resume", _list, "go on with a session; takes what hilum run takes")
    add = command("fork", _fork, "copy a session into a new one").add_argument
    add(
        "--upto",
        type=int,
        metavar="SEQ",
        help="only the events up to this number (see show --events)",
    )
    command("rename", _rename, "give a session a title").add_argument(
        "title", nargs="+", metavar="TITLE"
    )
    command("delete", _delete, "delete a session").add_argument(
        "--yes", action="store_true", help="without asking"
    )
    add = command("export", _export, "write a session to a file or to standard output").add_argument
    add(
        "--format",
        choices=("jsonl", "markdown", "cassette"),
        default="jsonl",
        help="its events; a readable text; or a recording that --cassette plays",
    )
    add("-o", "--output", default="", metavar="FILE", help="file to write; standard output without")
    add("--force", action="store_true", help="overwrite the file")
    return parser


class _Sub(Parser):
    """A parser made by ``add_parser``, which gives the texts by name."""

    def __init__(self, *, prog: str, description: str = "", **_: object) -> None:
        super().__init__(prog, description)


async def read_all(kernel: Kernel, session: str) -> list[AnyEvent]:
    """Read all events of a session."""
    events: list[AnyEvent] = []
    while page := await kernel.store.read(session, events[-1].seq if events else 0):
        events += page
    return events


# --- list -----------------------------------------------------------------------------------------


async def _list(kernel: Kernel, options: Namespace) -> None:
    folder = "" if options.all else check_folder(options.workspace)
    if options.limit < 0:
        raise UsageError(
            "--limit counts sessions.", code=E_BAD_ARGS, hint="Give a number, or 0 for all."
        )
    found = await kernel.store.list(folder)
    # What a session has used is in its events: those of a thousand sessions take seconds to read.
    if options.limit:
        infos = found[: options.limit]
    else:
        infos = found
    infos = [await _settled(kernel, info) for info in infos]
    totals = [total(await read_all(kernel, info.id)) for info in infos]
    if options.json:
        import msgspec

        rows = [_as_data(info, used) for info, used in zip(infos, totals, strict=True)]
        options.out.put(msgspec.json.encode(rows) + b"\n")
    elif infos:
        options.out.say(table(infos, totals, folder=not folder, width=_width()))
        older = len(found) - len(infos)
        if older:
            options.out.say(f"… and {older:,} older: hilum sessions list --limit 0 shows all.")
    else:
        if options.all:
            more = ""
        else:
            more = f" of {neutral(folder)}. hilum sessions list --all shows those of other folders"
        options.out.say(f"There are no sessions{more}.")


def _width() -> int:
    if is_terminal(1):
        return shutil.get_terminal_size().columns
    return 200


async def _settled(kernel: Kernel, info: SessionInfo) -> SessionInfo:
    """Return a session with the state ``interrupted`` where its log says that it works, and no
    process does.
    """
    import msgspec
    from hilum.events import FINAL
    from hilum.store import is_open

    if info.state in ("idle", *FINAL) or await is_open(kernel.store, info.id):
        return info
    return msgspec.structs.replace(info, state="interrupted")


def _as_data(info: SessionInfo, used: Totals) -> dict[str, object]:
    import msgspec

    data = msgspec.structs.asdict(info)
    return data | {"tokens": used.usage.total, "cost": used.usage.cost, "runs": used.runs}


def table(
    infos: Sequence[SessionInfo], totals: Sequence[Totals], *, folder: bool, width: int
) -> str:
    """Return sessions as a table.

    Args:
        infos: The sessions.
        totals: What each of them has used.
        folder: Whether their workspaces differ and are shown.
        width: Columns there are; the title gives way.
    """
    rows = [
        ("ID", "USED", "EVENTS", "STATE", "TOKENS", "COST", "WORKSPACE" if folder else "", "TITLE")
    ]
    for info, spent_by in zip(infos, totals, strict=True):
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.updated))
        where = neutral(info.workspace) if folder else ""
        spent = str(spent_by.usage.total) if spent_by.usage.total else ""
        cost = money(spent_by.usage.cost) if spent_by.usage.cost is not None else ""
        rows.append(
            (info.id, used, str(info.events), info.state, spent, cost, where, line(info.title, 200))
        )
    # A column that nobody has anything in is left out.
    sizes = []
    for column in range(7):
        filled = any(row[column] for row in rows[1:])
        sizes.append(max(len(row[column]) for row in rows) if filled else 0)
    lines = []
    for row in rows:
        start = "".join(f"{cell:{size}}  " for cell, size in zip(row, sizes, strict=False) if size)
        lines.append((start + line(row[7], max(width - len(start), 12))).rstrip())
    return "\n".join(lines)


# --- one session ----------------------------------------------------------------------------------


async def _show(kernel: Kernel, options: Namespace) -> None:
    info = await _settled(kernel, await kernel.store.info(options.session))
    events = await read_all(kernel, info.id)
    if options.events:
        from hilum.events import encode

        options.out.put(b"".join(encode(event) + b"\n" for event in events))
        return
    from hilum_cli.transcript import transcript

    options.out.say(neutral(transcript(info, events, full=options.full)))


async def _fork(kernel: Kernel, options: Namespace) -> None:
    if options.upto is not None and options.upto < 1:
        raise UsageError(
            "--upto counts events from 1.",
            code=E_BAD_ARGS,
            hint="See hilum sessions show ID --events.",
        )
    options.out.say(await kernel.fork(options.session, options.upto))


async def _rename(kernel: Kernel, options: Namespace) -> None:
    title = " ".join(" ".join(options.title).split())
    if not title:
        raise UsageError("The title is empty.", code=E_BAD_ARGS, hint="Give it a word.")
    await kernel.store.rename(options.session, title)


async def _delete(kernel: Kernel, options: Namespace) -> int:
    info = await kernel.store.info(options.session)
    if not options.yes:
        if not is_terminal(0):
            raise UsageError(
                "Deleting is confirmed, and nobody is there to ask.",
                code=E_BAD_ARGS,
                hint="Add --yes.",
            )
        from hilum_cli.approvals import read_line

        Out(2).put(
            f"Delete {info.id} ({info.events} events: {line(info.title, 60)})? [y/N] ".encode()
        )
        if (await read_line(0)).strip().lower() not in ("y", "yes"):
            Out(2).say("Nothing was deleted.")
            return exits.FAILED
    await kernel.store.delete(info.id)
    return exits.COMPLETED


async def _export(kernel: Kernel, options: Namespace) -> None:
    info = await kernel.store.info(options.session)
    from hilum_guard import Redactor  # heavy, and only an export needs it

    data = _exported(info, await read_all(kernel, info.id), options.format)
    # An export leaves this machine. Logs of earlier versions, and of sessions without the guard,
    # may hold keys.
    data = Redactor()(data.decode(errors="surrogateescape"), guess=False).encode(
        errors="surrogateescape"
    )
    if not options.output:
        options.out.put(data)
        return
    try:
        # "x" refuses what exists, whoever made it and when.
        with open(options.output, "wb" if options.force else "xb") as file:  # noqa: ASYNC230  (a local file, at the end)
            file.write(data)
    except FileExistsError:
        hint = "Give another name, or overwrite it with --force."
        raise UsageError(f"{options.output} exists.", code=E_BAD_ARGS, hint=hint) from None
    except OSError as error:
        message = f"{options.output} cannot be written: {os.strerror(error.errno or 0)}."
        raise UsageError(message, code=E_BAD_ARGS, hint="Give another name.") from None


def _exported(info: SessionInfo, events: list[AnyEvent], format: str) -> bytes:
    if format == "jsonl":
        from hilum.events import encode

        return b"".join(encode(event) + b"\n" for event in events)
    if format == "markdown":
        from hilum_cli.transcript import markdown

        return markdown(info, events).encode(errors="backslashreplace")
    import hilum_replay

    return hilum_replay.dumps(hilum_replay.record(events, title=info.title)).encode()
