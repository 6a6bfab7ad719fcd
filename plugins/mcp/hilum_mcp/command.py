"""``hilum mcp`` at the command line, and ``/mcp`` in a session: the same actions."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hilum import Session

    from hilum_mcp.half import Row


def main(argv: Sequence[str]) -> int:
    """Add, list, approve, test and log in at MCP servers.

    Returns:
        The exit code: 1 where a server does not work or is not approved.
    """
    if argv[:1] == ["serve"]:
        from hilum_mcp.serving import serve

        return serve(argv[1:])
    import trio
    from hilum import UsageError

    from hilum_mcp.managing import Desk, run

    words, given = _folder(list(argv))
    folder = Path(os.path.realpath(os.path.expanduser(given or ".")))
    if not folder.is_dir():
        raise UsageError(f"There is no folder {given}.", hint="Name an existing folder.")
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if terminal:
        desk = Desk(folder, sys.stdout, ask=_ask, typed=_typed)
    else:
        desk = Desk(folder, sys.stdout)
    code = 130  # as shells have it for what was interrupted
    try:
        code = trio.run(run, words, desk)
    except* KeyboardInterrupt:  # it may come in groups, from whatever was waited for
        print(file=sys.stderr)
    sys.stdout.flush()
    return code


def _folder(argv: list[str]) -> tuple[list[str], str]:
    """Take ``--workspace`` out of what stands before ``--``: behind it is a command of the user's
    own.
    """
    from hilum import UsageError, errors

    mine = argv[: argv.index("--")] if "--" in argv else argv
    for number, word in enumerate(mine):
        name, equals, value = word.partition("=")
        if name in ("--workspace", "-C"):
            if not equals and number + 1 == len(mine):
                raise UsageError(f"{name} takes a folder.", code=errors.E_BAD_ARGS)
            return argv[:number] + argv[number + (1 if equals else 2) :], value or mine[number + 1]
    return argv, ""


def _ask(question: str, secret: bool) -> str:
    """Ask at the terminal; an end of input is an empty answer."""
    from getpass import getpass

    from hilum_commandline import neutral

    try:
        return (getpass if secret else input)(f"{neutral(question)} ").strip()
    except EOFError:
        return ""


async def _typed() -> str:
    """Wait for a line at the terminal.

    The thread is left behind where nothing is typed, and ends with the program.
    """
    import trio

    return (
        (await trio.to_thread.run_sync(os.read, 0, 65_536, abandon_on_cancel=True))
        .decode(errors="replace")
        .strip()
    )


async def reply(session: Session, rows: Callable[[], Iterable[Row]], line: str) -> str:
    """Do what was typed behind ``/mcp``, and give what there is to say.

    Args:
        session: The session.
        rows: Gives how the servers are that run in it.
        line: What was typed.
    """
    from hilum import HilumError

    from hilum_mcp.managing import Desk, run_line

    out = StringIO()
    live = [(row.name, row.state, row.error, row.tools) for row in rows()]
    desk = Desk(Path(session.workspace.root), out, session=session, rows=lambda: live)
    try:
        await run_line(line, desk)
    except HilumError as error:
        out.write(str(error))
    return out.getvalue().strip()
