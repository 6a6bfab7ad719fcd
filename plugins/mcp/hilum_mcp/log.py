"""What a server says beside the protocol, in a file of its own: ``hilum mcp logs NAME`` shows
it.
"""

from __future__ import annotations

import os
import time
from collections import deque
from pathlib import Path

import trio
from hilum import data_folder

MOST_BYTES = 1 << 20
"""Bytes of a log; then it is kept as the one before, and a new one begins."""

MOST_PENDING = 1 << 18


def log_file(name: str) -> Path:
    """Return the file of a server.

    Args:
        name: The server's ``prefix``.
    """
    return data_folder() / "mcp" / "logs" / f"{name}.log"


class Log:
    """The log of one server.

    What is added is written by ``flush``, in a thread; a flood is cut, not kept.

    Args:
        name: The server's ``prefix``.
        file: Where it is written, if not in its usual place.
    """

    def __init__(self, name: str, file: Path | None = None) -> None:
        self.file = file or log_file(name)
        self._pending = bytearray()
        self._dropped = 0
        self._line = b""
        self._last: deque[bytes] = deque(maxlen=3)
        self._lock = trio.Lock()

    def add(self, data: bytes) -> None:
        """Take something in."""
        *lines, self._line = (self._line + data).split(b"\n")
        self._line = self._line[-1000:]
        self._last.extend(line[-1000:] for line in lines[-3:] if line.strip())
        self._keep(data)

    def _keep(self, data: bytes) -> None:
        room = max(MOST_PENDING - len(self._pending), 0)
        self._pending += data[:room]
        self._dropped += len(data) - min(room, len(data))

    def begin(self) -> None:
        """Forget what was said last: the server starts anew."""
        self._last.clear()
        self._line = b""

    def say(self, text: str) -> None:
        """Write a line of hilum's own."""
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        self._keep(f"[{stamp} hilum {os.getpid()}] {text}\n".encode(errors="replace"))

    def last(self, most: int = 300) -> str:
        """Return what was said last, on one line."""
        said = b" / ".join([*self._last, *([self._line] if self._line.strip() else [])][-2:])
        text = " ".join(said.decode(errors="replace").split())
        return text if len(text) <= most else "…" + text[-most:]

    async def flush(self) -> None:
        """Write what is pending. A disk that is full costs the log and nothing else."""
        if self._lock.statistics().tasks_waiting:
            return  # who waits writes this, too
        async with self._lock:
            data = bytes(self._pending)
            if data:
                if self._dropped:
                    data += b"\n[%d bytes left out]\n" % self._dropped
                self._pending.clear()
                self._dropped = 0
                await trio.to_thread.run_sync(self._write, data)

    def _write(self, data: bytes) -> None:
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(
                self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600
            )
            with os.fdopen(descriptor, "ab") as file:
                file.write(data)
                full = file.tell() > MOST_BYTES
            if full:
                os.replace(self.file, self.file.with_suffix(".log.1"))
        except OSError:
            pass
