"""Opens a text in the user's editor, on the user's terminal."""

from __future__ import annotations

import os
import shlex
import stat
import tempfile
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import trio
from hilum import UsageError, remove_folder

HINT = "Set VISUAL or EDITOR to a program that edits a file and exits when you are done."


async def edit_text(
    text: str,
    suffix: str,
    terminal: AbstractAsyncContextManager[None],
    environ: Mapping[str, str],
    name: str = "text",
    *,
    is_exact: bool = False,
) -> str:
    """Let the user edit a text.

    Args:
        text: The current text.
        suffix: Suffix of the file name, from which editors detect the language.
        terminal: A context in which the editor may use the terminal.
        environ: The environment of the editor, which also names it.
        name: Name of the file, without its suffix.
        is_exact: Whether line breaks are returned as they are in the file. Otherwise, each of them
            is returned as a newline.

    Returns:
        The text that the user saved.

    Raises:
        UsageError: The editor could not be started or failed, or the file is missing or is not
            UTF-8. A file that the user changed is kept, and the error names it.
    """
    # The order is the same as in Git; POSIX guarantees that vi exists.
    command = environ.get("VISUAL") or environ.get("EDITOR") or "vi"
    # The folder is private, because editors write backup files next to the file.
    folder = Path(await trio.to_thread.run_sync(lambda: tempfile.mkdtemp(prefix="hilum-")))
    path = folder / f"{name}{suffix}"
    written = (text.rstrip("\n") + "\n").encode()
    is_kept = False
    try:
        await trio.to_thread.run_sync(path.write_bytes, written)
        problem = await _run_editor(command, path, terminal, environ)
        data = await trio.to_thread.run_sync(_read_file, command, path)
        try:
            edited = data.decode()
        except UnicodeDecodeError:
            problem = problem or "wrote a file that is not UTF-8"
        if problem:
            # What the user typed must not be lost.
            is_kept = data != written
            place = f" What you typed is in {path}." if is_kept else ""
            raise UsageError(
                f"The editor {command} {problem}: the text was not changed.{place}", hint=HINT
            )
        return edited if is_exact else edited.replace("\r\n", "\n").replace("\r", "\n")
    except (OSError, ValueError) as error:
        raise UsageError(f"The editor {command} cannot be used: {error}.", hint=HINT) from None
    finally:
        if not is_kept:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(remove_folder, folder)


def _read_file(command: str, path: Path) -> bytes:
    """Read the edited file; unlike a plain read, never wait for the writer of a named pipe.

    Raises:
        UsageError: The editor deleted the file, or left something else in its place.
    """
    try:
        # Without O_NONBLOCK, opening a named pipe waits, and hilum could not end.
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        raise _unusable_result(command, "deleted the file") from None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise _unusable_result(command, "left no regular file")
        with open(fd, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(fd)


def _unusable_result(command: str, problem: str) -> UsageError:
    return UsageError(
        f"The editor {command} {problem}: the text was not changed.",
        hint="Try again: save the text in the file that the editor opens, then exit.",
    )


async def _run_editor(
    command: str,
    path: Path,
    terminal: AbstractAsyncContextManager[None],
    environ: Mapping[str, str],
) -> str:
    """Run an editor until it exits; return what went wrong, as the end of a sentence.

    The warden cannot run the editor. Its processes have process sessions of their own, and so no
    controlling terminal: the editor would get neither Ctrl-C and Ctrl-Z nor the size of the window,
    and could not read keys. The editor is in hilum's process group instead. If hilum ends in
    order, trio ends the editor. If hilum is killed, the shell takes the terminal back, and the
    editor can no longer read from it, and exits.
    """
    async with terminal:
        argv = [*shlex.split(command), str(path)]
        done = await trio.run_process(argv, stdin=None, check=False, env=dict(environ))
    return f"exited with {done.returncode}" if done.returncode else ""
