"""The user's editor: a text is changed in the program that the user likes best, on the user's own
terminal.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from pathlib import Path

import trio
from hilum import UsageError

HINT = "Set VISUAL or EDITOR to a program that edits a file and ends when you are done."


async def edit(text: str, suffix: str = ".md") -> str:
    """Have the user change a text.

    Args:
        text: As it is.
        suffix: Ending of the file's name, by which editors know the language.

    Returns:
        The text as the user has saved it.

    Raises:
        UsageError: The editor cannot be started, failed, or left no text.
    """
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    folder = await trio.to_thread.run_sync(lambda: tempfile.TemporaryDirectory(prefix="hilum-"))
    path = Path(folder.name) / f"plan{suffix}"
    try:
        await trio.to_thread.run_sync(
            lambda: path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
        )
        # Not below the warden: what is there has no terminal. It is the user's own program, and
        # ends with the terminal.
        done = await trio.run_process([*shlex.split(command), str(path)], stdin=None, check=False)
        if done.returncode:
            raise UsageError(
                f"The editor {command} ended with {done.returncode}: the text stays as it was.",
                hint=HINT,
            )
        return await trio.to_thread.run_sync(lambda: path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"The editor {command} cannot be used: {error}.", hint=HINT) from None
    finally:
        await trio.to_thread.run_sync(folder.cleanup)
