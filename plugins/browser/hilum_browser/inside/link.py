"""Messages and many byte streams over one pair of pipes: the only way out of the sandbox that the
browser is in.

::

    hilum                     the browser's process
      messages  ◄──────────────►  messages
      channels  ◄──── dialled ──  channels        one for each connection of a page

A frame is a channel's number, a kind, a length and so many bytes. A channel sends no more than
``WINDOW`` bytes that the other end has not taken, so a stream that nobody reads holds up nothing
but itself. Runs on trio and on asyncio.
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

WINDOW = 1 << 18
PIECE = 1 << 15
LONGEST = 1 << 28  # bytes of a frame; a download is the largest there is

_HEAD = struct.Struct("!IcI")
_MESSAGE, _DIAL, _DATA, _END, _TAKEN, _GONE = (bytes((code,)) for code in b"MODETX")

GONE = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)
"""What a stream raises when it cannot be gone on with."""


class Broken(Exception):
    """The other end does not speak as it should."""


class Channel(anyio.abc.ByteStream):
    """A byte stream in a link."""

    def __init__(self, link: Link, number: int) -> None:
        self._link = link
        self._number = number
        self._held = bytearray()
        self._taken = 0
        self._window = WINDOW
        self._ended = self._gone = False
        self._news = anyio.Event()
        self._room = anyio.Event()

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Return the next bytes."""
        while not self._held:
            if self._ended:
                raise anyio.EndOfStream
            if self._gone:
                raise anyio.BrokenResourceError
            self._news = anyio.Event()
            await self._news.wait()
        data = bytes(self._held[:max_bytes])
        del self._held[:max_bytes]
        self._taken += len(data)
        if self._taken >= WINDOW // 4:
            self._link.put(self._number, _TAKEN, self._taken.to_bytes(4))
            self._taken = 0
        return data

    async def send(self, item: bytes) -> None:
        """Send bytes, as the other end takes them."""
        rest = memoryview(item)
        while rest:
            if self._gone:
                raise anyio.BrokenResourceError
            if self._window <= 0:
                self._room = anyio.Event()
                await self._room.wait()
                continue
            piece = rest[: min(PIECE, self._window)]
            self._window -= len(piece)
            self._link.put(self._number, _DATA, bytes(piece))
            rest = rest[len(piece) :]

    async def send_eof(self) -> None:
        """Say that nothing more is sent."""
        if not self._gone:
            self._link.put(self._number, _END)

    async def aclose(self) -> None:
        """Give it up, both ways."""
        if not self._gone:
            self._link.put(self._number, _GONE)
        self.heard(_GONE, b"")
        self._link.forget(self._number)

    def heard(self, kind: bytes, data: bytes) -> None:
        """Take a frame from the other end."""
        if kind == _DATA:
            self._held += data
            if len(self._held) + self._taken > WINDOW:
                raise Broken("It sends more than it may.")
        elif kind == _TAKEN:
            self._window += int.from_bytes(data)
            self._room.set()
        else:
            self._ended = self._ended or kind == _END
            self._gone = self._gone or kind == _GONE
            self._room.set()
        self._news.set()


class Link:
    """One end of the pair of pipes.

    Args:
        read: Gives the next bytes, none at the end.
        write: Writes bytes.
        heard: Takes each message.
        dialled: Serves a channel that the other end opened, with the words that it gave; the
            channel is closed after it.
    """

    def __init__(
        self,
        read: Callable[[], Awaitable[bytes | bytearray]],
        write: Callable[[bytes], Awaitable[None]],
        heard: Callable[[Any], None],
        dialled: Callable[[Channel, bytes], Awaitable[None]] | None = None,
    ) -> None:
        self._read = read
        self._write = write
        self._heard = heard
        self._dialled = dialled
        self._channels: dict[int, Channel] = {}
        self._count = 0
        self._out = deque[bytes]()
        self._wanted = anyio.Event()

    async def run(self) -> None:
        """Carry everything until the other end closes.

        Raises:
            Broken: What it sends is no frame.
        """
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._send)
                with suppress(*GONE):
                    await self._receive(tasks)
                tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        finally:
            for channel in [*self._channels.values()]:
                channel.heard(_GONE, b"")

    def say(self, message: object) -> None:
        """Send a message: plain data."""
        self.put(0, _MESSAGE, msgspec.msgpack.encode(message))

    def dial(self, words: bytes) -> Channel:
        """Open a channel; only one end of a link does that."""
        self._count += 1
        channel = self._channels[self._count] = Channel(self, self._count)
        self.put(self._count, _DIAL, words)
        return channel

    def put(self, number: int, kind: bytes, data: bytes = b"") -> None:
        """Have a frame sent."""
        self._out.append(_HEAD.pack(number, kind, len(data)) + data)
        self._wanted.set()

    def forget(self, number: int) -> None:
        """Take nothing more for a channel."""
        self._channels.pop(number, None)

    async def _send(self) -> None:
        with suppress(*GONE):  # the reader learns of it, too
            while True:
                while self._out:
                    await self._write(self._out.popleft())
                self._wanted = anyio.Event()
                await self._wanted.wait()

    async def _receive(self, tasks: anyio.abc.TaskGroup) -> None:
        held = bytearray()
        while chunk := await self._read():
            held += chunk
            at = 0
            while len(held) - at >= _HEAD.size:
                number, kind, length = _HEAD.unpack_from(held, at)
                if length > LONGEST:
                    raise Broken("It sends a frame that is too large.")
                if len(held) - at - _HEAD.size < length:
                    break
                data = bytes(held[at + _HEAD.size : at + _HEAD.size + length])
                at += _HEAD.size + length
                self._frame(tasks, number, kind, data)
            del held[:at]

    def _frame(self, tasks: anyio.abc.TaskGroup, number: int, kind: bytes, data: bytes) -> None:
        if kind == _MESSAGE:
            try:
                self._heard(msgspec.msgpack.decode(data))
            except msgspec.DecodeError as error:
                raise Broken(f"It sends what is no message: {error}.") from None
        elif kind == _DIAL:
            if self._dialled is None or number in self._channels:
                raise Broken("It opens a channel that it may not.")
            channel = self._channels[number] = Channel(self, number)
            tasks.start_soon(self._serve, channel, data)
        elif known := self._channels.get(number):  # one that was closed here may still be spoken to
            known.heard(kind, data)

    async def _serve(self, channel: Channel, words: bytes) -> None:
        assert self._dialled is not None
        try:
            with suppress(*GONE):
                await self._dialled(channel, words)
        finally:
            await channel.aclose()  # does not wait


async def splice(one: anyio.abc.ByteStream, other: anyio.abc.ByteStream) -> None:
    """Copy both ways until both have ended, or one breaks."""

    async def copy(source: anyio.abc.ByteStream, target: anyio.abc.ByteStream) -> None:
        try:
            while True:
                try:
                    data = await source.receive()
                except anyio.EndOfStream:
                    break
                await target.send(data)
            await target.send_eof()
        except GONE:
            tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(copy, one, other)
        tasks.start_soon(copy, other, one)
