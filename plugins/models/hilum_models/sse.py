"""Server-sent events, decoded as the bytes arrive.

Lines are split in bytes and data stays bytes, so a chunk may end anywhere: inside a line ending, inside a character.
"""

from __future__ import annotations

from hilum.errors import ModelError

MAX_EVENT = 64 << 20


class SseDecoder:
    """Turns chunks of bytes into events."""

    __slots__ = ("_buffer", "_data", "_event", "_skip_newline", "_started")

    def __init__(self) -> None:
        self._buffer = b""
        self._data: list[bytes] = []
        self._event = b""
        self._skip_newline = False
        self._started = False

    def feed(self, chunk: bytes) -> list[tuple[bytes, bytes]]:
        """Take a chunk and give the events it completes, as pairs of event name (may be empty) and data.

        Comments and events without data give nothing.

        Raises:
            ModelError: ``broken``, one event is larger than 64 MiB.
        """
        if not chunk:
            return []
        buffer = self._buffer + chunk if self._buffer else chunk
        if not self._started:
            if len(buffer) < 3 and b"\xef\xbb\xbf".startswith(buffer):
                self._buffer = buffer
                return []
            self._started = True
            buffer = buffer.removeprefix(b"\xef\xbb\xbf")
        if b"\r" in buffer or self._skip_newline:
            buffer = self._plain_newlines(buffer)
        if b"\n" not in chunk and b"\r" not in chunk:
            self._buffer = buffer
            self._check_size()
            return []
        lines = buffer.split(b"\n")
        self._buffer = lines.pop()
        events: list[tuple[bytes, bytes]] = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif not line:
                if self._data:
                    data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
                    events.append((self._event, data))
                    self._data = []
                self._event = b""
            elif line.startswith(b"event:"):
                self._event = line[6:].strip()
        self._check_size()
        return events

    def rest(self) -> list[tuple[bytes, bytes]]:
        """Give the event that the end of the stream left without its blank line, as some servers do."""
        return self.feed(b"\n\n") if self._buffer or self._data else []

    def _plain_newlines(self, buffer: bytes) -> bytes:
        # A carriage return at the end may be half of a pair: it is an ending, and a line feed after it is dropped.
        if self._skip_newline and buffer.startswith(b"\n"):
            buffer = buffer[1:]
        self._skip_newline = buffer.endswith(b"\r")
        return buffer.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _check_size(self) -> None:
        if len(self._buffer) > MAX_EVENT or (self._data and sum(map(len, self._data)) > MAX_EVENT):
            raise ModelError("An event of the stream is larger than 64 MiB.", kind="broken")
