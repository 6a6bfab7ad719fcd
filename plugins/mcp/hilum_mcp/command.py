"""Implements ``hilum mcp`` on the command line and ``/mcp`` in a session."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from getpass import getpass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import trio
from hilum import HilumError, UsageError, errors
from hilum.command import discard_typed, escape_terminal
from trio.to_thread import run_sync as in_thread

from hilum_mcp import lazy

if TYPE_CHECKING:
    from hilum import Session

    from hilum_mcp.session_servers import ServerStatus

# The exit code that shells use for an interrupted command.
INTERRUPTED = 130


def main(argv: Sequence[str]) -> int:
    """Add, list, approve and test MCP servers, and log in to them.

    Returns:
        The exit code: 1 if a server does not work or is not approved, or if a configuration file
        has a mistake.
    """
    if argv[:1] == ["serve"]:
        return lazy.serve_command.run(argv[1:])
    words, folder = split_workspace(list(argv))
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    commands = lazy.commands
    context = commands.CommandContext(
        find_workspace(folder or "."),
        sys.stdout,
        ask=_ask if is_terminal else None,
        read_line=_read_line if is_terminal else None,
        err=sys.stderr,
    )
    code = INTERRUPTED
    try:
        code = trio.run(commands.run, words, context)
    except* KeyboardInterrupt:  # may be raised in any task, and thus within exception groups
        print(file=sys.stderr)
    sys.stdout.flush()
    return code


def find_workspace(folder: str) -> Path:
    """Return the real path of a workspace that the user named.

    Raises:
        UsageError: The folder does not exist.
    """
    path = Path(os.path.realpath(os.path.expanduser(folder)))
    if not path.is_dir():
        raise UsageError(f"The folder {folder} does not exist.", hint="Specify an existing folder.")
    return path


def split_workspace(argv: list[str]) -> tuple[list[str], str]:
    """Return the arguments without ``--workspace``, and the value of that option.

    The words after ``--`` belong to a server's command and are not searched.
    """
    own = argv[: argv.index("--")] if "--" in argv else argv
    for number, word in enumerate(own):
        name, equals, value = word.partition("=")
        if name not in ("--workspace", "-C"):
            continue
        before = argv[:number]
        rest = argv[number + 1 :]
        if equals:
            return before + rest, value
        if number + 1 == len(own):
            raise UsageError(f"{name} requires a folder.", code=errors.E_BAD_ARGS)
        return before + rest[1:], rest[0]
    return argv, ""


def _ask(question: str, secret: bool) -> str:
    """Ask a question on the terminal, and return the answer; at end-of-file, an empty string."""
    read = getpass if secret else input
    discard_typed()
    try:
        # The question quotes configuration files from a repository. Escape sequences in these files
        # could overwrite what the user sees.
        return read(f"{escape_terminal(question)} ").strip()
    except EOFError:
        return ""


async def _read_line() -> str:
    """Wait for the user to type a line on the terminal.

    If the user types nothing, the thread is abandoned and ends with the program.
    """
    # `os.read` needs no lock. A thread that is abandoned while it reads `sys.stdin` would still
    # hold the buffer's lock, which is a fatal error when the interpreter exits.
    data = await in_thread(os.read, 0, 65_536, abandon_on_cancel=True)
    return data.decode(errors="replace").strip()


async def run_slash(session: Session, statuses: Iterable[ServerStatus], line: str) -> str:
    """Run an action of ``/mcp`` and return its output.

    Args:
        session: The session.
        statuses: The servers that run in the session.
        line: The text after ``/mcp``.
    """
    out = StringIO()
    context = lazy.commands.CommandContext(
        Path(session.workspace.root),
        out,
        session=session,
        statuses={status.name: status for status in statuses},
    )
    try:
        await lazy.commands.run_line(line, context)
    except HilumError as error:
        out.write(str(error))
    return out.getvalue().strip()
