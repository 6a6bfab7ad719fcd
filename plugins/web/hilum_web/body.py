"""The body of a response, within bounds: packed bytes are unpacked by ourselves, so that a bomb
stops at the limit.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from hilum import ToolError, errors

from hilum_web.failures import site
from hilum_web.reader.unseen import line

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    import httpx

# What we ask for, and all that we unpack: of other encodings a few bytes can become gigabytes in
# one step.
ENCODINGS = "gzip, deflate"
STEP = 1 << 20


async def read_body(response: httpx.Response, url: str, limit: int, *, cut: bool = False) -> bytes:
    """Read and unpack a body.

    Args:
        response: A response whose body has not been read.
        url: Where it comes from, for messages.
        limit: Bytes that it may have, unpacked.
        cut: Whether of a larger one the beginning is given.

    Raises:
        ToolError: ``E_TOO_LARGE``; or ``E_CONTENT``, it is packed in another way, or damaged.
    """
    said = response.headers.get("content-length", "")
    packed = response.headers.get("content-encoding", "").strip().lower()
    if packed not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise ToolError(
            f"{site(url)} packs its answer with {line(packed, 40)}, which was not asked for.",
            code=errors.E_CONTENT,
            hint="Use another source.",
        )
    if not cut and said.isdecimal() and (len(said) > 18 or int(said) > limit):
        raise _large(url, limit)
    unpacker = None if packed in ("", "identity") else _Unpacker(packed)
    body = bytearray()
    received = 0
    source = cast("AsyncGenerator[bytes, None]", response.aiter_raw())
    try:
        async for chunk in source:
            # Packed bytes are counted as well: they can go on for ever and unpack to nothing.
            received += len(chunk)
            for piece in unpacker.feed(chunk) if unpacker else (chunk,):
                body += piece
                if len(body) > limit:
                    break
            if max(received, len(body)) > limit:
                if cut:
                    return bytes(body[:limit])
                raise _large(url, limit)
    except zlib.error as error:
        raise ToolError(
            f"{site(url)} sent a damaged {packed} body: {error}.",
            code=errors.E_CONTENT,
            hint="Use another source.",
        ) from None
    finally:
        await _end(response, source)
    if unpacker and not unpacker.whole:
        raise ToolError(
            f"{site(url)} sent a {packed} body that breaks off.",
            code=errors.E_CONTENT,
            hint="Try again.",
        )
    return bytes(body)


async def _end(response: httpx.Response, source: AsyncGenerator[bytes, None]) -> None:
    """End what is read in part.

    Below the source are more of its kind, which end when they find the connection closed.
    """
    if not response.is_closed:
        await response.aclose()
        with suppress(Exception):
            await anext(source)
    await source.aclose()


class _Unpacker:
    """Unpacks in steps of at most ``STEP`` bytes.

    Parts of gzip may follow each other (RFC 1952); other bytes after a part are left.
    """

    def __init__(self, packed: str) -> None:
        self._packed = packed
        self._rest = b""
        self._unpack: zlib._Decompress | None = None
        self._parts = 0
        self._over = False

    @property
    def whole(self) -> bool:
        """Whether what was fed ends where a part does; an empty body does, too."""
        return self._unpack is None and (self._parts > 0 or not self._rest)

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Unpack what came."""
        data = self._rest + chunk
        full = False
        self._rest = b""
        while (data or full) and not self._over:
            if self._unpack is None:
                if len(data) < 2:
                    self._rest = data
                    return
                if self._parts and data[:2] != b"\x1f\x8b":
                    self._over = True
                    return
                self._unpack = zlib.decompressobj(self._window(data))
            piece = self._unpack.decompress(data, STEP)
            yield piece
            data = self._unpack.unconsumed_tail
            full = len(piece) == STEP
            if self._unpack.eof:
                data = self._unpack.unused_data
                full = False
                self._unpack = None
                self._parts = self._parts + 1

    def _window(self, data: bytes) -> int:
        # zlib's 32 takes gzip and zlib; some servers call raw deflate "deflate", which has
        # neither's first two bytes.
        zlibs = data[0] & 15 == 8 and (data[0] << 8 | data[1]) % 31 == 0
        raw = self._packed == "deflate" and not zlibs and data[:2] != b"\x1f\x8b"
        return -zlib.MAX_WBITS if raw else zlib.MAX_WBITS | 32


def _large(url: str, limit: int) -> ToolError:
    return ToolError(
        f"What {site(url)} sends is larger than {limit / 1e6:g} MB; it was not read to its end.",
        code=errors.E_TOO_LARGE,
        hint="Look for a smaller page on the same thing.",
    )
