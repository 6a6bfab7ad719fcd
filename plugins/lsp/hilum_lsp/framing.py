"""The frames of the Language Server Protocol: a header with the length, then the message.

A frame is read in pieces of any size and has a limit, because a server is a program that may write
anything.
"""

from __future__ import annotations

# Maximum size of a message in bytes. The references of a name in a large project need a few
# megabytes.
MAX_FRAME = 32_000_000
# Maximum size of a header in bytes. Servers send two lines.
MAX_HEADER = 4_000
_END = b"\r\n\r\n"


class FrameError(ValueError):
    """The bytes from a server are not a frame, or the frame is too large."""


def encode_frame(body: bytes) -> bytes:
    """Return a message as a frame."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class FrameReader:
    """Collects the bytes of a stream and returns the complete messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        # The length of the message whose header has been read; -1 before that.
        self._length = -1

    def feed(self, chunk: bytes) -> list[bytes]:
        """Add bytes, and return the messages that are now complete.

        Raises:
            FrameError: The header is invalid, or the message is too large.
        """
        self._buffer += chunk
        messages: list[bytes] = []
        while True:
            if self._length < 0 and not self._read_header():
                return messages
            if len(self._buffer) < self._length:
                return messages
            messages.append(bytes(self._buffer[: self._length]))
            del self._buffer[: self._length]
            self._length = -1

    def _read_header(self) -> bool:
        """Read the header of the next message, and return whether it is complete."""
        end = self._buffer.find(_END, 0, MAX_HEADER)
        if end < 0:
            if len(self._buffer) >= MAX_HEADER:
                raise FrameError("It writes something that is not the protocol.")
            return False
        self._length = _parse_length(bytes(self._buffer[:end]))
        del self._buffer[: end + len(_END)]
        return True


def _parse_length(header: bytes) -> int:
    """Return the length that a header states."""
    for line in header.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() != b"content-length":
            continue
        digits = value.strip()
        # `int` would accept signs and underscores.
        if not digits.isdigit() or len(digits) > 12:
            raise FrameError("Its header has no valid length.")
        length = int(digits)
        if length > MAX_FRAME:
            raise FrameError(f"It sent a message of more than {MAX_FRAME // 1_000_000} MB.")
        return length
    raise FrameError("It writes something that is not the protocol.")
