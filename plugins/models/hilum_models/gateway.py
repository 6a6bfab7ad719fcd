"""A model behind HTTP: sends the body, reads the stream, gives chunks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager

import msgspec
import trio
from hilum.errors import ModelError
from hilum.models import Alive, Chunk, ModelInfo, Request, Wire

from hilum_models.answer import Reader
from hilum_models.failures import Who, clean, own_words, refuses_tools
from hilum_models.sse import SseDecoder
from hilum_models.transport import Response, Transport

# Seconds to wait, once the answer is whole, for what may still follow: the usage, and the end of
# the stream, without which the connection cannot be used again.
AFTER_COMPLETE = 2.0
AFTER_END = 0.05
# Bytes of one response: the longest answers have 130,000 tokens, each an event of up to 500 bytes.
MAX_STREAM = 128 << 20
# Bytes of an answer that comes as one document.
MAX_DOCUMENT = 32 << 20
ALIVE = Alive()
# What may stand before the first character that counts, a byte order mark too
_BLANK = b" \t\r\n\xef\xbb\xbf"


class HttpModel(msgspec.Struct, frozen=True):
    """A model behind HTTP. Implements ``Model``.

    Attributes:
        info: Name, window, price.
        wire: How messages are encoded.
        url: Where requests go.
        headers: Headers of each request, the key among them.
        read: Makes a reader for one response from the model's name, the request body and ``who``.
        describe_tools: Has the provider describe tools in the text for this model from now on;
            ``None`` where the protocol was chosen by the user, or is the textual one already.
    """

    info: ModelInfo
    wire: Wire
    url: str
    headers: Mapping[str, str]
    who: Who
    read: Callable[[str, bytes, Who], Reader]
    transport: Transport
    describe_tools: Callable[[], None] | None = None

    def __repr__(self) -> str:
        # And never the headers, or an address that may hold a password
        return f"HttpModel({self.info.name})"

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Chunk]]:
        """Send the request; the chunks end with ``Done``.

        Raises:
            ModelError: In the context manager or while iterating.
        """
        async with self.transport.send(
            "POST", self.url, self.headers, self.who, request.body
        ) as response:
            if response.status != 200:
                raise self._without_tools(await response.refusal())
            if response.type == "text/html":
                raise self._page(response.status)
            reader = self.read(self.info.name, request.body, self.who)
            async with (
                aclosing(response.chunks()) as data,
                aclosing(self._chunks(response, data, reader)) as chunks,
            ):
                yield chunks

    async def _chunks(
        self, response: Response, data: AsyncIterator[bytes], reader: Reader
    ) -> AsyncGenerator[Chunk]:
        begin = (
            b""  # what it is shows in the first character: servers name the wrong type, both ways
        )
        received = 0
        piece: bytes | None = b""
        while not begin.strip(_BLANK) and (piece := await anext(data, None)) is not None:
            # Blanks before the first character are no sign of life; of them a byte order mark alone
            # matters.
            begin = begin[:8] + piece
        if begin.lstrip(_BLANK).startswith((b"{", b"[")):
            for chunk in self._whole(await _all(begin, data, self.who), reader):
                yield chunk
            return
        if begin.lstrip(_BLANK).startswith(b"<"):
            raise self._page(response.status)
        decoder = SseDecoder()
        piece = begin
        while True:
            comments = decoder.comments
            events = decoder.rest() if piece is None else decoder.feed(piece)
            content = False
            for event, value in events:
                if (
                    reader.ended or not value.strip()
                ):  # an empty event keeps the connection alive and says nothing
                    continue
                for chunk in reader.feed(event, value):
                    content = True
                    yield chunk
            if piece is None:
                break
            # Single bytes of an event and blank lines are no sign of life.
            if not content and (events or decoder.comments > comments):
                yield ALIVE
            received += len(piece)
            if received > MAX_STREAM and not reader.complete:
                raise _too_large(self.who)
            piece = await self._next(data, reader)
        yield reader.finish()

    def _whole(self, body: bytes, reader: Reader) -> Iterator[Chunk]:
        """Read an answer that came as one document, or the error in its place."""
        yield from reader.feed(b"", body)
        if not reader.complete:
            words = clean(own_words(body)[0], self.who)
            hint = "Check the base URL, and that the server can stream."
            raise ModelError(
                f"{self.who.provider} gave no answer but this: {words}", kind="request", hint=hint
            )
        yield reader.finish()

    def _without_tools(self, error: ModelError) -> ModelError:
        """Return the error to raise for a refusal: where tools were refused, they will be described
        in the text.
        """
        if (
            self.describe_tools is None
            or error.kind not in ("request", "server")
            or not refuses_tools(error.message)
        ):
            return error
        self.describe_tools()
        message = f"{error.message.rstrip('.')}. The tools are described in the text from now on."
        return ModelError(message, kind="protocol", status=error.status)

    def _page(self, status: int) -> ModelError:
        message = f"{self.who.provider} answered with an HTML page instead of a stream."
        return ModelError(
            message, kind="request", status=status, hint="Check the base URL: it often ends in /v1."
        )

    async def _next(self, data: AsyncIterator[bytes], reader: Reader) -> bytes | None:
        """Return the next piece, ``None`` at the end.

        Once the answer is whole, nothing that happens can spoil it.
        """
        if not reader.complete:
            return await anext(data, None)
        piece = None
        with trio.move_on_after(AFTER_END if reader.ended else AFTER_COMPLETE):
            try:
                piece = await anext(data, None)
            except ModelError:
                pass
        return piece


async def _all(begin: bytes, data: AsyncIterator[bytes], who: Who) -> bytes:
    """Read a document to its end.

    Raises:
        ModelError: ``runaway``, it is too large.
    """
    pieces = [begin]
    size = len(begin)
    async for piece in data:
        pieces.append(piece)
        size += len(piece)
        if size > MAX_DOCUMENT:
            raise _too_large(who)
    return b"".join(pieces)


def _too_large(who: Who) -> ModelError:
    message = f"{who.provider} sent an answer without an end."
    return ModelError(message, kind="runaway", hint="Try again, or choose another model.")
