"""Server-sent events, decoded as the bytes arrive.

The format is https://html.spec.whatwg.org/multipage/server-sent-events.html. Lines are split as
bytes, and data remains bytes, so a chunk may end inside a line ending or inside a character.
"""

from __future__ import annotations

from hilum.errors import ModelError

# Maximum size, in bytes, of an event. The largest legitimate events contain a call's complete
# arguments or encrypted reasoning.
MAX_EVENT = 16 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

Event = tuple[bytes, bytes]
"""The name of an event, which may be empty, and its data."""


class SseDecoder:
    """A decoder of one stream of events.

    Attributes:
        comments: Number of comments so far, which servers send to keep a connection alive.
    """

    __slots__ = (
        "_data",
        "_data_size",
        "_name",
        "_pending",
        "_skip_newline",
        "_started",
        "comments",
    )

    def __init__(self) -> None:
        self.comments = 0
        self._pending = bytearray()  # the beginning of an incomplete line
        self._data: list[bytes] = []
        self._data_size = 0
        self._name = b""
        self._skip_newline = False
        self._started = False

    def feed(self, chunk: bytes) -> list[Event]:
        """Decode a chunk and return the events that it completes.

        Comments and events without data are ignored.

        Raises:
            ModelError: ``runaway`` if one event is larger than 16 MiB.
        """
        if not self._started:
            chunk = self._strip_byte_order_mark(chunk)
        if b"\r" in chunk or self._skip_newline:
            chunk = self._normalize_newlines(chunk)
        events: list[Event] = []
        if b"\n" in chunk:
            lines = (bytes(self._pending) + chunk).split(b"\n")
            self._pending = bytearray(lines.pop())
            for line in lines:
                if line:
                    self._read_line(line)
                else:
                    self._end_event(events)
        else:
            # Only the new bytes are searched: a line may come in a million pieces, and searching
            # all of it each time would take quadratic time.
            self._pending += chunk
        self._check_size()
        return events

    def flush(self) -> list[Event]:
        """Return a final event that is not followed by a blank line, as some servers send."""
        if self._pending or self._data:
            return self.feed(b"\n\n")
        return []

    def _read_line(self, line: bytes) -> None:
        if line.startswith(b"data:"):
            value = line[5:].removeprefix(b" ")
            self._data.append(value)
            self._data_size += len(value) + 1
        elif line.startswith(b"event:"):
            self._name = line[6:].strip()
        elif line.startswith(b":"):
            self.comments += 1

    def _end_event(self, events: list[Event]) -> None:
        if self._data:
            events.append((self._name, b"\n".join(self._data)))
            self._data = []
            self._data_size = 0
        self._name = b""

    def _strip_byte_order_mark(self, chunk: bytes) -> bytes:
        """Strip the byte order mark from the beginning of the stream; hold back a partial mark."""
        chunk = bytes(self._pending) + chunk
        self._pending.clear()
        if len(chunk) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(chunk):
            self._pending += chunk
            return b""
        self._started = True
        return chunk.removeprefix(_BYTE_ORDER_MARK)

    def _normalize_newlines(self, chunk: bytes) -> bytes:
        # A carriage return at the end of a chunk ends the line at once. If it belongs to a CRLF
        # pair, the line feed at the beginning of the next chunk is dropped.
        if self._skip_newline and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._skip_newline = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _check_size(self) -> None:
        if len(self._pending) + self._data_size > MAX_EVENT:
            message = f"An event of the stream is larger than {MAX_EVENT >> 20} MiB."
            raise ModelError(message, kind="runaway", hint="Try again, or choose another model.")
