"""Real ``hilum`` programs in a pseudo-terminal, with a scripted model and folders of their own."""

import fcntl
import os
import pty
import struct
import termios
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import trio
from screens import Screen
from warm_start import WarmStarter, python_environment

# Seconds that a program on a terminal may take in a test.
LIMIT = 100


@asynccontextmanager
async def on_screen(
    warm: WarmStarter,
    folder: Path,
    url: str,
    arguments: Sequence[str] = (),
    *,
    columns: int = 100,
    lines: int = 40,
    rate: float | None = None,
) -> AsyncIterator[Screen]:
    """Start ``hilum`` on a terminal; it is ended with the block.

    Args:
        warm: Starter of the program.
        folder: Folder for the workspace, the settings and the data.
        url: Address of the scripted model.
        arguments: Arguments of ``hilum``.
        columns: Width of the terminal.
        lines: Height of the terminal.
        rate: Bytes a second that the terminal reads; None for no limit.
    """
    workspace = folder / "work"
    workspace.mkdir(exist_ok=True)
    env = python_environment() | {
        "HOME": str(folder),
        "HILUM_CONFIG": str(folder / "config"),
        "HILUM_DATA": str(folder / "data"),
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": "k",
        "HILUM_MODEL": "openai/scripted",
        "TERM": "xterm-256color",
    }
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    process = await warm.open(
        arguments,
        cwd=workspace,
        env=env,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        own_terminal=True,
    )
    screen = Screen(ours, theirs, process, columns, lines, rate)
    try:
        with trio.fail_after(LIMIT):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(screen.read)
                yield screen
                nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            if process.returncode is None:
                process.kill()
            await process.wait()
        os.close(ours)
        os.close(theirs)
