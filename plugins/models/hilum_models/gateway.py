"""A model that is reached over HTTP: sends the request body, reads the stream and yields chunks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

import msgspec
import trio
from hilum.errors import ModelError
from hilum.models import Chunk, KeepAlive, ModelInfo, Request, Wire

from hilum_models.answer_builder import Reader
from hilum_models.apis import CreateReader
from hilum_models.failures import Endpoint, clean_message, extract_error, refuses_tools
from hilum_models.sse import SseDecoder
from hilum_models.transport import Transport

if TYPE_CHECKING:
    from hilum_models.http_client import Response

# Seconds to wait after a complete answer for the token usage and for the end of the stream, without
# which the connection cannot be reused.
AFTER_COMPLETE_TIMEOUT = 2.0
AFTER_END_TIMEOUT = 0.05
# Maximum size, in bytes, of one response: the longest answers have 130,000 tokens, each in an event
# of up to 500 bytes.
MAX_STREAM = 128 << 20
# Maximum size, in bytes, of an answer that is sent as one document.
MAX_DOCUMENT = 32 << 20
KEEP_ALIVE = KeepAlive()
# Whitespace and a byte order mark, which may precede the first significant character.
_BLANK = b" \t\r\n\xef\xbb\xbf"
_BASE_URL_HINT = "Check the base URL: it often ends in /v1."


class HttpModel(msgspec.Struct, frozen=True):
    """A model that is reached over HTTP. Implements ``Model``.

    Attributes:
        info: Name, window, price.
        wire: The encoding of requests.
        url: The URL to which requests are sent.
        headers: Headers of each request, including the key.
        endpoint: The provider and the model, for messages.
        create_reader: Function that creates a reader for one response.
        transport: The connections.
        disable_native_tools: Function that makes the provider describe tools as text for this model
            from now on; ``None`` if the user chose the protocol, or if tools are already described
            as text.
    """

    info: ModelInfo
    wire: Wire
    url: str
    headers: Mapping[str, str]
    endpoint: Endpoint
    create_reader: CreateReader
    transport: Transport
    disable_native_tools: Callable[[], None] | None = None

    def __repr__(self) -> str:
        # Omit the headers and the URL, because they may contain the key or a password.
        return f"HttpModel({self.info.name})"

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Chunk]]:
        """Send the request; the chunks end with ``Done``.

        Raises:
            ModelError: The request failed; raised in the context manager or while iterating.
        """
        async with self.transport.send(
            "POST", self.url, self.headers, self.endpoint, request.body
        ) as response:
            if response.status != 200:
                raise self._handle_refused_tools(await response.read_error())
            # A web server or proxy sent a page, usually because the path is wrong.
            if response.media_type == "text/html":
                raise self._page_error(response.status)
            reader = self.create_reader(self.info.name, request.body, self.endpoint)
            async with (
                aclosing(response.chunks()) as data,
                aclosing(self._read(response, data, reader)) as chunks,
            ):
                yield chunks

    async def _read(
        self, response: Response, data: AsyncIterator[bytes], reader: Reader
    ) -> AsyncGenerator[Chunk]:
        # Servers declare wrong content types for both streams and documents. The first character of
        # the body distinguishes them.
        begin = await _read_beginning(data)
        if begin.lstrip(_BLANK).startswith((b"{", b"[")):
            for chunk in self._read_document(await self._read_all(begin, data), reader):
                yield chunk
            return
        if begin.lstrip(_BLANK).startswith(b"<"):
            raise self._page_error(response.status)
        decoder = SseDecoder()
        received = 0
        piece: bytes | None = begin
        while piece is not None:
            comments = decoder.comments
            events = decoder.feed(piece)
            has_content = False
            for chunk in _read_events(events, reader):
                has_content = True
                yield chunk
            # Single bytes of an event, and blank lines, do not show that the server is alive.
            if not has_content and (events or decoder.comments > comments):
                yield KEEP_ALIVE
            received += len(piece)
            if received > MAX_STREAM and not reader.complete:
                raise self._size_error()
            piece = await _read_piece(data, reader)
        for chunk in _read_events(decoder.flush(), reader):
            yield chunk
        yield reader.finish()

    async def _read_all(self, begin: bytes, data: AsyncIterator[bytes]) -> bytes:
        """Read a document to its end.

        Raises:
            ModelError: ``runaway`` if the document is too large.
        """
        pieces = [begin]
        size = len(begin)
        async for piece in data:
            pieces.append(piece)
            size += len(piece)
            if size > MAX_DOCUMENT:
                raise self._size_error()
        return b"".join(pieces)

    def _read_document(self, body: bytes, reader: Reader) -> Iterator[Chunk]:
        """Read an answer that was sent as one document, or the error in its place."""
        yield from reader.feed(b"", body)
        if not reader.complete:
            content = clean_message(extract_error(body)[0], self.endpoint)
            raise ModelError(
                f"{self.endpoint.provider} sent this instead of an answer: {content}",
                kind="request",
                hint="Check the base URL, and whether the server supports streaming.",
            )
        yield reader.finish()

    def _handle_refused_tools(self, error: ModelError) -> ModelError:
        """Return the error to raise; if tools were rejected, describe them as text from now on."""
        if self.disable_native_tools is None or error.kind not in ("request", "server"):
            return error
        if not refuses_tools(error.message):
            return error
        # After an error of the kind "protocol", the kernel retries immediately, with a body from
        # the new wire.
        self.disable_native_tools()
        message = f"{error.message.rstrip('.')}. From now on, tools are described in the prompt."
        return ModelError(message, kind="protocol", status=error.status)

    def _page_error(self, status: int) -> ModelError:
        message = f"{self.endpoint.provider} answered with an HTML page instead of a stream."
        return ModelError(message, kind="request", status=status, hint=_BASE_URL_HINT)

    def _size_error(self) -> ModelError:
        message = f"{self.endpoint.provider} sent an endless answer."
        return ModelError(message, kind="runaway", hint="Try again, or choose another model.")


async def _read_beginning(data: AsyncIterator[bytes]) -> bytes:
    """Read up to the first significant character.

    Whitespace before this character does not show that the server is alive. If the whitespace is
    endless, only its beginning is kept, because it may contain a byte order mark.
    """
    begin = b""
    while not begin.strip(_BLANK):
        piece = await anext(data, None)
        if piece is None:
            break
        begin = begin[:8] + piece
    return begin


async def _read_piece(data: AsyncIterator[bytes], reader: Reader) -> bytes | None:
    """Return the next piece of the body, or ``None`` at the end.

    Once the answer is complete, failures are no longer raised.
    """
    if not reader.complete:
        return await anext(data, None)
    piece = None
    with trio.move_on_after(AFTER_END_TIMEOUT if reader.ended else AFTER_COMPLETE_TIMEOUT):
        try:
            piece = await anext(data, None)
        except ModelError:
            # Some proxies break the connection after a complete answer.
            pass
    return piece


def _read_events(events: list[tuple[bytes, bytes]], reader: Reader) -> Iterator[Chunk]:
    for name, value in events:
        # Some servers keep the connection alive with empty events.
        if value.strip() and not reader.ended:
            yield from reader.feed(name, value)
