"""Server-sent events, decoded as the bytes arrive.

Lines are split in bytes and data stays bytes, so a chunk may end anywhere: inside a line ending,
inside a character.
"""

from __future__ import annotations

from hilum.errors import ModelError

# The largest legitimate event holds the arguments of a whole call, or reasoning in its encrypted
# form.
MAX_EVENT = 16 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class SseDecoder:
    """Turns chunks of bytes into events.

    Attributes:
        comments: Comments so far; servers send them to keep a connection alive.
    """

    __slots__ = (
        "_data",
        "_data_size",
        "_event",
        "_pending",
        "_skip_newline",
        "_started",
        "comments",
    )

    def __init__(self) -> None:
        self.comments = 0
        self._pending = bytearray()  # a line that has not ended
        self._data: list[bytes] = []
        self._data_size = 0
        self._event = b""
        self._skip_newline = False
        self._started = False

    def feed(self, chunk: bytes) -> list[tuple[bytes, bytes]]:
        """Take a chunk and return the events it completes, as pairs of event name (may be empty)
        and data.

        Comments and events without data give nothing.

        Raises:
            ModelError: ``runaway``, one event is larger than 16 MiB.
        """
        if not chunk:
            return []
        if not self._started:
            chunk = bytes(self._pending) + chunk
            self._pending.clear()
            if len(chunk) < 3 and _BYTE_ORDER_MARK.startswith(chunk):
                self._pending += chunk
                return []
            self._started = True
            chunk = chunk.removeprefix(_BYTE_ORDER_MARK)
        if b"\r" in chunk or self._skip_newline:
            chunk = self._plain_newlines(chunk)
        if b"\n" not in chunk:
            # Nothing but the new bytes is looked at: a line may come in a million pieces.
            self._pending += chunk
            self._check_size()
            return []
        lines = (bytes(self._pending) + chunk).split(b"\n")
        self._pending = bytearray(lines.pop())
        events: list[tuple[bytes, bytes]] = []
        for line in lines:
            if line.startswith(b"data:"):
                value = line[6:] if line[5:6] == b" " else line[5:]
                self._data.append(value)
                self._data_size += len(value) + 1
            elif not line:
                if self._data:
                    data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
                    events.append((self._event, data))
                    self._data = []
                    self._data_size = 0
                self._event = b""
            elif line.startswith(b"event:"):
                self._event = line[6:].strip()
            elif line.startswith(b":"):
                self.comments += 1
        self._check_size()
        return events

    def rest(self) -> list[tuple[bytes, bytes]]:
        """Return the event that the end of the stream left without its blank line, as some servers
        do.
        """
        if self._pending or self._data:
            return self.feed(b"\n\n")
        return []

    def _plain_newlines(self, chunk: bytes) -> bytes:
        # A carriage return at the end may be half of a pair: it is an ending, and a line feed after
        # it is dropped.
        if self._skip_newline and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._skip_newline = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _check_size(self) -> None:
        if len(self._pending) + self._data_size > MAX_EVENT:
            message = f"An event of the stream is larger than {MAX_EVENT >> 20} MiB."
            raise ModelError(message, kind="runaway", hint="Try again, or choose another model.")
