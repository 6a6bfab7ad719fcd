"""The named pipe through which a guest's standard output arrives.

The processes of the sandbox around a guest keep its ordinary standard output open as long as they
run, so that it would not end when the guest closes it. Only the guest's own processes open this
pipe.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import trio

# The empty line, which is no message, shows that the program holds the pipe from now on.
_SCRIPT = 'exec >"$0"; echo; exec "$@"'


class OutputPipe(trio.abc.ReceiveStream):
    """The reading end of the pipe, and a writing end until the guest has its own.

    Args:
        path: The pipe in the file system.

    Raises:
        OSError: There is no pipe at the path.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        reader = _open_pipe(path, os.O_RDONLY)
        try:
            # Without any writing end, the pipe would end before the guest has started.
            self._writer: int | None = _open_pipe(path, os.O_WRONLY)
        except OSError:
            os.close(reader)
            raise
        self._stream = trio.lowlevel.FdStream(reader)

    def wrap_command(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Return a command that runs another one with the pipe as its standard output."""
        return ("/bin/sh", "-c", _SCRIPT, str(self._path), *argv)

    def close_writer(self) -> None:
        """Close this end of the pipe, so that it ends when the guest has closed it."""
        if self._writer is not None:
            os.close(self._writer)
            self._writer = None

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return what has arrived; empty at the end."""
        data = bytes(await self._stream.receive_some(max_bytes))
        self.close_writer()
        return data

    async def aclose(self) -> None:
        """Close both ends."""
        self.close_writer()
        await self._stream.aclose()


def _open_pipe(path: Path, mode: int) -> int:
    """Return a descriptor for one end; another process of the guest may have replaced the pipe."""
    end = os.open(path, mode | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    if not stat.S_ISFIFO(os.fstat(end).st_mode):
        os.close(end)
        raise OSError(f"{path} is not a pipe")
    return end


@contextmanager
def create_pipe(folder: Path) -> Iterator[OutputPipe]:
    """Create a pipe in a folder that the guest may write to; remove it on exit.

    Raises:
        OSError: The pipe cannot be created.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f".output-{secrets.token_hex(8)}"
    os.mkfifo(path, 0o600)
    try:
        yield OutputPipe(path)
    finally:
        with suppress(OSError):
            path.unlink()
