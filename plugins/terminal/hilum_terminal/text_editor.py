"""Opens a text in the user's editor, on the user's terminal."""

from __future__ import annotations

import os
import shlex
import tempfile
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import trio
from hilum import UsageError

HINT = "Set VISUAL or EDITOR to a program that edits a file and exits when you are done."


async def edit_text(
    text: str,
    suffix: str,
    terminal: AbstractAsyncContextManager[None],
    name: str = "text",
    *,
    is_exact: bool = False,
) -> str:
    """Let the user edit a text.

    Args:
        text: The current text.
        suffix: Suffix of the file name, from which editors detect the language.
        terminal: A context in which the editor may use the terminal.
        name: Name of the file, without its suffix.
        is_exact: Whether line breaks are returned as they are in the file. Otherwise, each of them
            is returned as a newline.

    Returns:
        The text that the user saved.

    Raises:
        UsageError: The editor could not be started or failed, or the file is missing.
    """
    # The order is the same as in Git; POSIX guarantees that vi exists.
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    # The folder is private, because editors write backup files next to the file.
    folder = await trio.to_thread.run_sync(lambda: tempfile.TemporaryDirectory(prefix="hilum-"))
    path = Path(folder.name) / f"{name}{suffix}"
    newline = "" if is_exact else None

    def read() -> str:
        with path.open(encoding="utf-8", newline=newline) as file:
            return file.read()

    try:
        await trio.to_thread.run_sync(
            lambda: path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
        )
        async with terminal:
            # The warden does not run the editor, because the warden's processes have no terminal.
            # The editor ends when the user exits it or closes the terminal.
            argv = [*shlex.split(command), str(path)]
            done = await trio.run_process(argv, stdin=None, check=False)
        if done.returncode:
            raise UsageError(
                f"The editor {command} exited with {done.returncode}: the text was not changed.",
                hint=HINT,
            )
        return await trio.to_thread.run_sync(read)
    except (OSError, ValueError) as error:
        raise UsageError(f"The editor {command} cannot be used: {error}.", hint=HINT) from None
    finally:
        await trio.to_thread.run_sync(folder.cleanup)
