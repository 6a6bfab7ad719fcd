"""Transfers messages and byte streams over a pair of pipes, the only connection out of the sandbox.

::

    hilum                      the browser's process
      messages  ◄───────────────►  messages
      channels  ◄──── opened by ─  channels        one for each connection of a page

A frame consists of a channel number, a kind, a length and a payload. A channel sends at most
``WINDOW`` bytes that the other end has not consumed, so an unread stream blocks only itself. The
module runs on trio and on asyncio.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
import anyio.abc
import msgspec

# Maximum number of bytes that one end may send before the other end consumes them. This is large
# enough for a fast local network, but small enough that hundreds of channels need little memory.
WINDOW = 1 << 18
MAX_DATA = 1 << 15  # maximum number of stream bytes in one frame
MAX_FRAME = 1 << 28  # in bytes; the largest frames are downloads

_HEAD = struct.Struct("!IcI")
_MESSAGE = b"M"
_OPEN = b"O"
_DATA = b"D"
_END = b"E"
_CONSUMED = b"T"
_CLOSE = b"X"

# The exceptions that a stream raises when the other end is closed.
STREAM_ERRORS = (
    OSError,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.EndOfStream,
)


class LinkError(Exception):
    """The other end violates the protocol."""


class Channel(anyio.abc.ByteStream):
    """A byte stream in a link."""

    def __init__(self, link: Link, number: int) -> None:
        self._link = link
        self._number = number
        self._buffer = bytearray()
        self._consumed = 0
        self._window = WINDOW
        self._has_ended = False
        self._is_closed = False
        self._has_news = anyio.Event()
        self._has_room = anyio.Event()

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Return the next bytes of the stream."""
        while not self._buffer:
            if self._has_ended:
                raise anyio.EndOfStream
            if self._is_closed:
                raise anyio.BrokenResourceError
            self._has_news = anyio.Event()
            await self._has_news.wait()
        data = bytes(self._buffer[:max_bytes])
        del self._buffer[:max_bytes]
        self._consumed += len(data)
        # Consumed bytes are reported in batches, because most reads are small.
        if self._consumed >= WINDOW // 4:
            self._link.put(self._number, _CONSUMED, self._consumed.to_bytes(4))
            self._consumed = 0
        return data

    async def send(self, item: bytes) -> None:
        """Send bytes at the rate at which the other end consumes them."""
        # The bytes are sent in small frames, so that channels share the pipe fairly.
        rest = memoryview(item)
        while rest:
            if self._is_closed:
                raise anyio.BrokenResourceError
            if self._window <= 0:
                self._has_room = anyio.Event()
                await self._has_room.wait()
                continue
            piece = rest[: min(MAX_DATA, self._window)]
            self._window -= len(piece)
            self._link.put(self._number, _DATA, bytes(piece))
            rest = rest[len(piece) :]

    async def send_eof(self) -> None:
        """Notify the other end that no more bytes will be sent."""
        if not self._is_closed:
            self._link.put(self._number, _END)

    async def aclose(self) -> None:
        """Close both directions."""
        if not self._is_closed:
            self._link.put(self._number, _CLOSE)
        self.handle(_CLOSE, b"")
        self._link.forget(self._number)

    def handle(self, kind: bytes, data: bytes) -> None:
        """Handle a frame from the other end.

        Raises:
            LinkError: The other end sends more than the window allows.
        """
        if kind == _DATA:
            self._buffer += data
            # The sandboxed end could otherwise fill hilum's memory.
            if len(self._buffer) + self._consumed > WINDOW:
                raise LinkError("The other end sends more than the window allows.")
        elif kind == _CONSUMED:
            self._window += int.from_bytes(data)
            self._has_room.set()
        elif kind == _END:
            self._has_ended = True
        else:
            self._is_closed = True
            self._has_room.set()
        self._has_news.set()


class Link:
    """One end of the pair of pipes.

    Args:
        read: Function that returns the next bytes, or no bytes at the end.
        write: Writes bytes.
        on_message: Function that is called with each message.
        serve_channel: Function that serves a channel that the other end opened with a request. The
            channel is closed afterwards. ``None`` if the other end must not open channels.
    """

    def __init__(
        self,
        read: Callable[[], Awaitable[bytes | bytearray]],
        write: Callable[[bytes], Awaitable[None]],
        on_message: Callable[[Any], None],
        serve_channel: Callable[[Channel, bytes], Awaitable[None]] | None = None,
    ) -> None:
        self._read = read
        self._write = write
        self._on_message = on_message
        self._serve_channel = serve_channel
        self._channels: dict[int, Channel] = {}
        self._count = 0
        self._outgoing = deque[bytes]()
        self._has_outgoing = anyio.Event()

    async def run(self) -> None:
        """Transfer frames until the other end closes the link.

        Raises:
            LinkError: The other end violates the protocol.
        """
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._send)
                with suppress(*STREAM_ERRORS):
                    await self._receive(tasks)
                tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            # Callers catch LinkError, which the task group has wrapped.
            raise group.exceptions[0] from None
        finally:
            # If the channels were not closed, their readers would wait forever.
            for channel in list(self._channels.values()):
                channel.handle(_CLOSE, b"")

    def send_message(self, message: object) -> None:
        """Send a message, which must consist of plain data."""
        self.put(0, _MESSAGE, msgspec.msgpack.encode(message))

    def open_channel(self, request: bytes) -> Channel:
        """Open a channel. Only one end of a link opens channels, so their numbers are unique."""
        self._count += 1
        channel = self._channels[self._count] = Channel(self, self._count)
        self.put(self._count, _OPEN, request)
        return channel

    def put(self, number: int, kind: bytes, data: bytes = b"") -> None:
        """Queue a frame."""
        # Sending never blocks, so that callbacks and closing tasks can call this method. The
        # channels' windows limit the length of the queue.
        self._outgoing.append(_HEAD.pack(number, kind, len(data)) + data)
        self._has_outgoing.set()

    def forget(self, number: int) -> None:
        """Ignore further frames for a channel."""
        self._channels.pop(number, None)

    async def _send(self) -> None:
        with suppress(*STREAM_ERRORS):  # the reader also detects this
            while True:
                while self._outgoing:
                    await self._write(self._outgoing.popleft())
                self._has_outgoing = anyio.Event()
                await self._has_outgoing.wait()

    async def _receive(self, tasks: anyio.abc.TaskGroup) -> None:
        buffer = bytearray()
        while chunk := await self._read():
            buffer += chunk
            at = 0
            while len(buffer) - at >= _HEAD.size:
                number, kind, length = _HEAD.unpack_from(buffer, at)
                if length > MAX_FRAME:
                    raise LinkError("The other end sends a frame that is too large.")
                start = at + _HEAD.size
                if len(buffer) - start < length:
                    break
                at = start + length
                self._handle(tasks, number, kind, bytes(buffer[start:at]))
            # All frames in a chunk are deleted together, because each deletion moves the remaining
            # bytes.
            del buffer[:at]

    def _handle(self, tasks: anyio.abc.TaskGroup, number: int, kind: bytes, data: bytes) -> None:
        if kind == _MESSAGE:
            try:
                self._on_message(msgspec.msgpack.decode(data))
            except msgspec.DecodeError as error:
                raise LinkError(f"The other end sends an invalid message: {error}.") from None
        elif kind == _OPEN:
            if self._serve_channel is None or number in self._channels:
                raise LinkError("The other end opens a channel that it must not open.")
            channel = self._channels[number] = Channel(self, number)
            tasks.start_soon(self._serve, channel, data)
        elif number in self._channels:
            self._channels[number].handle(kind, data)
        # Frames for a channel that was closed here may still be in transit.

    async def _serve(self, channel: Channel, request: bytes) -> None:
        assert self._serve_channel is not None
        try:
            with suppress(*STREAM_ERRORS):
                await self._serve_channel(channel, request)
        finally:
            await channel.aclose()  # never waits, so it works in a cancelled task


async def splice(one: anyio.abc.ByteStream, other: anyio.abc.ByteStream) -> None:
    """Copy in both directions until both streams have ended or one fails."""

    async def copy(source: anyio.abc.ByteStream, target: anyio.abc.ByteStream) -> None:
        try:
            while True:
                try:
                    data = await source.receive()
                except anyio.EndOfStream:
                    break
                await target.send(data)
            await target.send_eof()
        except STREAM_ERRORS:
            tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(copy, one, other)
        tasks.start_soon(copy, other, one)
