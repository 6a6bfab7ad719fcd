"""Reads the body of a response within size limits.

Compressed data is decompressed in steps, so that a decompression bomb is stopped at the limit.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from hilum import ToolError, errors

from hilum_web.messages import format_site
from hilum_web.reader.visible_text import to_line

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from hilum_web.http_client import Response

# Maximum number of bytes that one decompression step may produce.
STEP = 1 << 20
_PLAIN = ("", "identity")
_COMPRESSED = ("gzip", "x-gzip", "deflate")


async def read_body(response: Response, url: str, limit: int, *, cut: bool = False) -> bytes:
    """Read and decompress a body.

    Args:
        response: A response whose body has not been read.
        url: The URL of the response, for messages.
        limit: The maximum size of the decompressed body, in bytes.
        cut: Whether to truncate a larger body at the limit instead of raising an error.

    Raises:
        ToolError: ``E_TOO_LARGE``; or ``E_CONTENT`` if the body is damaged or has an encoding that
            was not requested.
    """
    encoding = _read_encoding(response, url)
    # A body whose declared length is too large is refused before it is transferred.
    if not cut and _declares_more(response, limit):
        raise _too_large(url, limit)
    decompressor = None if encoding in _PLAIN else _Decompressor(encoding)
    try:
        body, exceeds = await _read(response, decompressor, limit)
    except zlib.error as error:
        raise ToolError(
            f"{format_site(url)} sent a damaged {encoding} body: {error}.",
            code=errors.E_CONTENT,
            hint="Use another source.",
        ) from None
    if exceeds:
        if cut:
            return bytes(body[:limit])
        raise _too_large(url, limit)
    # httpx detects a truncated body only if the response declared its length.
    if decompressor and not decompressor.is_complete:
        raise ToolError(
            f"{format_site(url)} sent an incomplete {encoding} body.",
            code=errors.E_CONTENT,
            hint="Try again.",
        )
    return bytes(body)


def _read_encoding(response: Response, url: str) -> str:
    encoding: str = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in _PLAIN and encoding not in _COMPRESSED:
        raise ToolError(
            f"{format_site(url)} compressed its response with {to_line(encoding, 40)}, which was "
            "not requested.",
            code=errors.E_CONTENT,
            hint="Use another source.",
        )
    return encoding


def _declares_more(response: Response, limit: int) -> bool:
    length = response.headers.get("content-length", "")
    if not length.isdecimal():
        return False
    # int() rejects very long numbers.
    return len(length) > 18 or int(length) > limit


async def _read(
    response: Response, decompressor: _Decompressor | None, limit: int
) -> tuple[bytearray, bool]:
    """Return a body, and whether it exceeded the limit and was therefore not fully read."""
    body = bytearray()
    received = 0
    source = cast("AsyncGenerator[bytes, None]", response.aiter_raw())
    try:
        async for chunk in source:
            # Compressed bytes count as well, because an endless stream may decompress to nothing.
            received += len(chunk)
            for piece in decompressor.feed(chunk) if decompressor else (chunk,):
                body += piece
                if len(body) > limit:
                    break
            if max(received, len(body)) > limit:
                return body, True
    finally:
        await _close(response, source)
    return body, False


async def _close(response: Response, source: AsyncGenerator[bytes, None]) -> None:
    # httpx nests generators that do not close one another. An attempt to read from the closed
    # connection ends the inner generators.
    if not response.is_closed:
        await response.aclose()
        with suppress(Exception):
            await anext(source)
    await source.aclose()


class _Decompressor:
    """A decompressor that works in steps of at most ``STEP`` bytes.

    A gzip body may have several members (RFC 1952, section 2.2). Any other bytes after a member are
    ignored.
    """

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._rest = b""
        self._member: zlib._Decompress | None = None
        self._members = 0
        self._has_trailer = False

    @property
    def is_complete(self) -> bool:
        """Whether the bytes so far end with a complete member. An empty body is also complete."""
        return self._member is None and (self._members > 0 or not self._rest)

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Decompress a chunk."""
        data = self._rest + chunk
        self._rest = b""
        has_more = False  # whether zlib buffers output that did not fit into the last step
        while (data or has_more) and not self._has_trailer:
            if self._member is None:
                if len(data) < 2:
                    self._rest = data
                    return
                if self._members and data[:2] != b"\x1f\x8b":
                    self._has_trailer = True
                    return
                self._member = zlib.decompressobj(self._choose_window(data))
            piece = self._member.decompress(data, STEP)
            yield piece
            data = self._member.unconsumed_tail
            has_more = len(piece) == STEP
            if self._member.eof:
                data = self._member.unused_data
                has_more = False
                self._member = None
                self._members += 1

    def _choose_window(self, data: bytes) -> int:
        # MAX_WBITS | 32 accepts gzip and zlib. Some servers send raw deflate data as "deflate"; its
        # first two bytes match neither format (RFC 1950, section 2.2).
        header = int.from_bytes(data[:2])
        is_zlib = header >> 8 & 15 == zlib.DEFLATED and header % 31 == 0
        is_gzip = data[:2] == b"\x1f\x8b"
        if self._encoding == "deflate" and not is_zlib and not is_gzip:
            return -zlib.MAX_WBITS
        return zlib.MAX_WBITS | 32


def _too_large(url: str, limit: int) -> ToolError:
    return ToolError(
        f"The response from {format_site(url)} is larger than {limit / 1e6:g} MB; it was not read "
        "completely.",
        code=errors.E_TOO_LARGE,
        hint="Look for a smaller page on the same subject.",
    )
