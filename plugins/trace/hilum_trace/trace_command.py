"""The command ``hilum trace``: what happened in a session, and why it took so long."""

from __future__ import annotations

import gc
import os
import shutil
import time
from argparse import Namespace
from contextlib import aclosing
from pathlib import Path

import hilum
import trio
from hilum import StoreError, UsageError
from hilum.command import Parser, check_folder, check_text
from hilum.errors import E_BAD_ARGS, E_UNKNOWN
from hilum.store import UPDATE_HINT, MemoryStore, SessionInfo, Store, find_session, storage_plugins
from hilum_cli.terminal import Out, escape_terminal, is_terminal

from hilum_trace.exports import make_json, make_speedscope
from hilum_trace.flame import render_flame
from hilum_trace.following import follow
from hilum_trace.formatting import explain_no_sessions
from hilum_trace.page import make_page
from hilum_trace.reading import check_complete, iterate_entries
from hilum_trace.redaction import TextRedactor, change_texts
from hilum_trace.spans import Span, SpanFold, Trace
from hilum_trace.tree import Painter, describe_unknown, list_runs, render_slowest, render_tree

EPILOG = """\
Without SESSION, the command shows the session of this folder that was used last. A session is
identified by its id or by any unambiguous beginning of the id.

  hilum trace --slowest 10
  hilum trace 20260131-1504 --run 2 --flame
  hilum trace --html trace.html
"""
LAST = "last"
MAX_SPANS = 500_000
"""Maximum number of spans in a trace, which take about 400 MB."""


def main(argv: list[str]) -> int:
    """Show the trace of a session.

    Returns:
        The exit code.
    """
    check_text(argv)
    options = make_parser().parse_args(argv)
    _check(options)
    out = Out(1)
    trio.run(_with_store, options, out)
    return out.finish()


def make_parser() -> Parser:
    """Declare the options."""
    parser = Parser("hilum trace", "Show what happened in a session and how long it took.", EPILOG)
    add = parser.add_argument
    add("session", nargs="?", default="", metavar="SESSION", help="the session's id, or `last`")
    add(
        "--workspace",
        "-C",
        default=".",
        metavar="DIR",
        help="the folder whose last session to show",
    )
    add("--run", default="", metavar="N", help=f"only this run: its number, its id, or {LAST}")
    add("--all", action="store_true", help="show the turns of all runs, however many there are")
    add("--slowest", type=int, metavar="N", help="list the N slowest calls, waits and hooks")
    add("--flame", action="store_true", help="draw a run, by default the last one, as a flame view")
    add("--follow", action="store_true", help="show what a running session does until it ends")
    add("--json", action="store_true", help="print all spans as JSON")
    add("--speedscope", default="", metavar="FILE", help="write a profile for speedscope")
    add("--html", default="", metavar="FILE", help="write a web page with a timeline")
    add("--force", action="store_true", help="overwrite the file")
    return parser


def _check(options: Namespace) -> None:
    views = ("flame", "follow", "json", "speedscope", "html")
    chosen = [f"--{name}" for name in views if getattr(options, name)]
    if options.slowest is not None:
        chosen.append("--slowest")
    if len(chosen) > 1:
        raise UsageError(
            f"{' and '.join(chosen)} exclude each other.", code=E_BAD_ARGS, hint="Pass one of them."
        )
    if options.slowest is not None and options.slowest < 1:
        raise UsageError("--slowest must be at least 1.", code=E_BAD_ARGS, hint="Pass 1 or more.")
    whole = [view for view in ("--json", "--speedscope", "--html", "--follow") if view in chosen]
    if options.run and whole:
        raise UsageError(
            f"{whole[0]} always covers the whole session.", code=E_BAD_ARGS, hint="Leave out --run."
        )


async def _with_store(options: Namespace, out: Out) -> None:
    # Only the plugins that store sessions are loaded, so that no other plugin can slow down or
    # break the command.
    async with hilum.open_kernel(storage_plugins()) as kernel:
        if isinstance(kernel.store, MemoryStore):
            raise StoreError(
                "No loaded plugin stores sessions.",
                hint="Install hilum-store; `hilum plugins` lists the plugins.",
            )
        await _show(kernel.store, options, out)


async def _show(store: Store, options: Namespace, out: Out) -> None:
    info = await _find_session(store, options)
    painter = _make_painter()
    if options.follow:
        await follow(store, info.id, painter, out)
        return
    # The garbage collector would take a fifth of the time, and finds nothing while a log is read.
    gc.disable()
    try:
        # This comes first, so that a process that ends meanwhile leaves nothing that seems to run.
        now = time.time() if await store.is_open(info.id) else None
        leaves = bool(options.json or options.speedscope or options.html)
        trace = await _fold(store, info, now, leaves=leaves)
        _show_trace(trace, options, painter, out)
    finally:
        gc.enable()
    check_complete(trace)


async def _fold(store: Store, info: SessionInfo, now: float | None, *, leaves: bool) -> Trace:
    """Return the trace of a session, without secrets if it leaves this machine.

    If the log has more than ``MAX_SPANS`` spans, the trace ends there, and a line on standard error
    says so.

    Args:
        store: The store.
        info: The session.
        now: The Unix time if a process has the session open.
        leaves: Whether the trace leaves this machine.
    """
    redact = TextRedactor() if leaves else None
    fold = SpanFold(redact)
    async with aclosing(iterate_entries(store, info.id, expected=info.events)) as entries:
        async for entry in entries:
            fold.apply(entry)
            if len(fold.trace.spans) > MAX_SPANS:
                Out(2).say(
                    f"hilum: The session has more than {MAX_SPANS:,} spans. The trace ends at event"
                    f" {entry.seq:,} of {info.events:,}; --follow shows all of them."
                )
                now = fold.trace.last_at
                break
    fold.finish(now)
    if redact is not None:
        change_texts(fold.trace, redact)
    return fold.trace


def _show_trace(trace: Trace, options: Namespace, painter: Painter, out: Out) -> None:
    if options.json:
        out.put(make_json(trace).encode() + b"\n")
    elif options.speedscope:
        _write(options.speedscope, make_speedscope(trace), options.force, out)
    elif options.html:
        _write(options.html, make_page(trace), options.force, out)
    else:
        _print(trace, options, painter, out)
    if trace.unknown:
        Out(2).say(escape_terminal(f"hilum: {describe_unknown(trace)} {UPDATE_HINT}"))


async def _find_session(store: Store, options: Namespace) -> SessionInfo:
    if options.session:
        return await store.info(await find_session(store, options.session, options.workspace))
    folder = check_folder(options.workspace)
    found = await store.list(folder)
    if not found:
        raise _empty_error(folder)
    return found[0]


def _empty_error(folder: str) -> StoreError:
    """Return the error for a folder without sessions."""
    hint = "`hilum sessions list --all` shows those of other folders."
    return StoreError(explain_no_sessions(folder), code=E_UNKNOWN, hint=hint)


def _make_painter() -> Painter:
    if not is_terminal(1):
        return Painter()
    color = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Painter(shutil.get_terminal_size().columns, color=color)


def _print(trace: Trace, options: Namespace, painter: Painter, out: Out) -> None:
    run = _find_run(trace, options.run)
    if options.flame:
        run = run or _find_run(trace, LAST)
        assert run is not None
        width = painter.width or shutil.get_terminal_size().columns
        lines = render_flame(trace, run, width, color=painter.color)
    elif options.slowest is not None:
        lines = render_slowest(trace, painter, options.slowest, run)
    else:
        lines = render_tree(trace, painter, run=run, complete=options.all)
    out.say("\n".join(lines))


def _find_run(trace: Trace, name: str) -> Span | None:
    """Return the run with a number or an id; ``None`` if no run is named.

    Raises:
        UsageError: There is no such run.
    """
    if not name:
        return None
    runs = list_runs(trace)
    if name == LAST and runs:
        # The runs of sub-agents end before the run that started them.
        own = [run for run in runs if run.parent == trace.root.id]
        return (own or runs)[-1]
    if name.isascii() and name.isdigit() and 1 <= int(name) <= len(runs):
        return runs[int(name) - 1]
    for run in runs:
        if run.run == name:
            return run
    if not runs:
        raise UsageError(
            "The session has no runs.", code=E_UNKNOWN, hint="Send it a prompt: hilum run …"
        )
    raise UsageError(
        f"The session has no run {name!r}.",
        code=E_UNKNOWN,
        hint=f"Pass a number from 1 to {len(runs)}, or {LAST}.",
    )


def _write(name: str, text: str, overwrite: bool, out: Out) -> None:
    path = Path(name)
    try:
        # Blocking is harmless here: the command has nothing else to do.
        with path.open("w" if overwrite else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        hint = "Choose another name, or overwrite the file with --force."
        raise UsageError(f"{name} exists.", code=E_BAD_ARGS, hint=hint) from None
    except OSError as error:
        message = f"{name} cannot be written: {error.strerror}."
        raise UsageError(message, code=E_BAD_ARGS, hint="Choose another name.") from None
    out.say(f"Wrote {name} ({_format_size(len(text.encode()))}).")


def _format_size(size: int) -> str:
    """Return a number of bytes as text."""
    if size < 100_000:
        return f"{size / 1e3:.1f} kB"
    return f"{size / 1e6:.1f} MB"
