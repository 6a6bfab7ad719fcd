"""A model behind HTTP: sends the body, reads the stream, gives chunks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager

import msgspec
import trio
from hilum.errors import ModelError
from hilum.models import Alive, Chunk, ModelInfo, Request, Wire

from hilum_models.answer import Reader
from hilum_models.failures import Who, clean, own_words
from hilum_models.sse import SseDecoder
from hilum_models.transport import Response, Transport

# Seconds to wait, once the answer is whole, for what may still follow: the usage, and the end of the stream, without
# which the connection cannot be used again.
AFTER_COMPLETE = 2.0
AFTER_END = 0.05
ALIVE = Alive()
_BLANK = b" \t\r\n\xef\xbb\xbf"  # what may stand before the first character that counts, a byte order mark too


class HttpModel(msgspec.Struct, frozen=True):
    """A model behind HTTP. Implements ``Model``.

    Attributes:
        info: Name, window, price.
        wire: How messages are encoded.
        url: Where requests go.
        headers: Headers of each request, the key among them.
        read: Makes a reader for one response from the model's name, the request body and ``who``.
    """

    info: ModelInfo
    wire: Wire
    url: str
    headers: Mapping[str, str]
    who: Who
    read: Callable[[str, bytes, Who], Reader]
    transport: Transport

    def __repr__(self) -> str:
        return f"HttpModel({self.info.name})"  # and never the headers, or an address that may hold a password

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Chunk]]:
        """Send the request; the chunks end with ``Done``.

        Raises:
            ModelError: In the context manager or while iterating.
        """
        async with self.transport.send("POST", self.url, self.headers, self.who, request.body) as response:
            if response.status != 200:
                raise await response.refusal()
            if response.type == "text/html":
                raise self._page(response.status)
            reader = self.read(self.info.name, request.body, self.who)
            async with aclosing(response.chunks()) as data, aclosing(self._chunks(response, data, reader)) as chunks:
                yield chunks

    async def _chunks(self, response: Response, data: AsyncIterator[bytes], reader: Reader) -> AsyncGenerator[Chunk]:
        begin = b""  # what it is shows in the first character: servers name the wrong type, both ways
        piece: bytes | None = b""
        while not begin.strip(_BLANK) and (piece := await anext(data, None)) is not None:
            begin += piece
            yield ALIVE
        if begin.lstrip(_BLANK).startswith((b"{", b"[")):
            for chunk in self._whole(begin + b"".join([piece async for piece in data]), reader):
                yield chunk
            return
        if begin.lstrip(_BLANK).startswith(b"<"):
            raise self._page(response.status)
        decoder = SseDecoder()
        piece = begin
        while True:
            events = decoder.rest() if piece is None else decoder.feed(piece)
            content = False
            for event, value in events:
                if reader.ended or not value.strip():  # an empty event keeps the connection alive and says nothing
                    continue
                for chunk in reader.feed(event, value):
                    content = True
                    yield chunk
            if piece is None:
                break
            if not content:
                yield ALIVE
            piece = await self._next(data, reader)
        yield reader.finish()

    def _whole(self, body: bytes, reader: Reader) -> Iterator[Chunk]:
        """Read an answer that came as one document, or the error in its place."""
        yield from reader.feed(b"", body)
        if not reader.complete:
            words = clean(own_words(body)[0], self.who)
            hint = "Check the base URL, and that the server can stream."
            raise ModelError(f"{self.who.provider} gave no answer but this: {words}", kind="request", hint=hint)
        yield reader.finish()

    def _page(self, status: int) -> ModelError:
        message = f"{self.who.provider} answered with an HTML page instead of a stream."
        return ModelError(message, kind="request", status=status, hint="Check the base URL: it often ends in /v1.")

    async def _next(self, data: AsyncIterator[bytes], reader: Reader) -> bytes | None:
        """Give the next piece, ``None`` at the end. Once the answer is whole, nothing that happens can spoil it."""
        if not reader.complete:
            return await anext(data, None)
        piece = None
        with trio.move_on_after(AFTER_END if reader.ended else AFTER_COMPLETE):
            try:
                piece = await anext(data, None)
            except ModelError:
                pass
        return piece
