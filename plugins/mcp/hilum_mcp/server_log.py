"""Logs a server's output that is not part of the protocol; ``hilum mcp logs NAME`` shows it."""

from __future__ import annotations

import os
import time
from collections import deque
from pathlib import Path

import trio
from hilum import data_folder, make_private_folder
from trio.to_thread import run_sync as in_thread

# Maximum size of a log file in bytes. A full file is kept as the previous log, and a new file is
# started.
MAX_BYTES = 1 << 20

MAX_PENDING = 1 << 18
MAX_LINE = 1_000


def log_file(name: str) -> Path:
    """Return the path of a server's log file.

    Args:
        name: The server's ``prefix``.
    """
    return data_folder() / "mcp" / "logs" / f"{name}.log"


class ServerLog:
    """The log of one server.

    ``flush`` writes the added output in a thread. Output beyond ``MAX_PENDING`` is dropped.

    Args:
        name: The server's ``prefix``.
        file: The path of the log file, if it is not the default.
    """

    def __init__(self, name: str, file: Path | None = None) -> None:
        self.file = file or log_file(name)
        self._pending = bytearray()
        self._dropped = 0
        self._line = b""
        self._last: deque[bytes] = deque(maxlen=3)
        self._lock = trio.Lock()

    def add(self, data: bytes) -> None:
        """Add output from the server."""
        *lines, self._line = (self._line + data).split(b"\n")
        # A program that draws a progress bar may never write a line break.
        self._line = self._line[-MAX_LINE:]
        for line in lines[-3:]:
            if line.strip():
                self._last.append(line[-MAX_LINE:])
        self._append(data)

    def _append(self, data: bytes) -> None:
        room = max(MAX_PENDING - len(self._pending), 0)
        self._pending += data[:room]
        self._dropped += max(len(data) - room, 0)

    def restart(self) -> None:
        """Forget the last lines, because the server is restarting."""
        self._last.clear()
        self._line = b""

    def note(self, text: str) -> None:
        """Add a line from hilum itself."""
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        line = f"[{stamp} hilum {os.getpid()}] {text}\n"
        self._append(line.encode(errors="replace"))

    def last_lines(self, max_length: int = 300) -> str:
        """Return the server's last output, on one line."""
        lines = [*self._last]
        if self._line.strip():
            lines.append(self._line)
        joined = b" / ".join(lines[-2:]).decode(errors="replace")
        text = " ".join(joined.split())
        return text if len(text) <= max_length else "…" + text[-max_length:]

    async def flush(self) -> None:
        """Write pending output. If the disk is full, only log lines are lost."""
        if self._lock.statistics().tasks_waiting:
            return  # the task that waits for the lock also writes this output
        async with self._lock:
            data = bytes(self._pending)
            if not data:
                return
            if self._dropped:
                data += b"\n[%d bytes left out]\n" % self._dropped
            self._pending.clear()
            self._dropped = 0
            await in_thread(self._write, data)

    def _write(self, data: bytes) -> None:
        # A server without a sandbox can write to the log folder. O_NOFOLLOW prevents the server
        # from redirecting the log with a symbolic link.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        try:
            make_private_folder(self.file.parent)
            with os.fdopen(os.open(self.file, flags, 0o600), "ab") as file:
                file.write(data)
                is_full = file.tell() > MAX_BYTES
            if is_full:
                os.replace(self.file, self.file.with_suffix(".log.1"))
        except OSError:
            pass


def read_log(name: str, lines: int) -> list[str]:
    """Return the last lines of a server's log, including its previous file. Blocks.

    Args:
        name: The server's ``prefix``.
        lines: The number of lines.
    """
    path = log_file(name)
    text = ""
    for file in (path.with_suffix(".log.1"), path):
        try:
            text += file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
    return text.splitlines()[-lines:]
