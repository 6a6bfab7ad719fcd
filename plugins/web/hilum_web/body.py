"""The body of a response, within bounds: packed bytes are unpacked by ourselves, so that a bomb stops at the limit."""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from hilum import ToolError, errors

from hilum_web.failures import site

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    import httpx

# What we ask for, and all that we unpack: of other encodings a few bytes can become gigabytes in one step.
ENCODINGS = "gzip, deflate"
STEP = 1 << 20


async def read_body(response: httpx.Response, url: str, limit: int) -> bytes:
    """Read and unpack a body.

    Args:
        response: A response whose body has not been read.
        url: Where it comes from, for messages.
        limit: Bytes that it may have, unpacked.

    Raises:
        ToolError: ``E_TOO_LARGE``; or ``E_CONTENT``, it is packed in another way, or damaged.
    """
    said = response.headers.get("content-length", "")
    packed = response.headers.get("content-encoding", "").strip().lower()
    if packed not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise ToolError(
            f"{site(url)} packs its pages with {packed[:40]}, which was not asked for.", code=errors.E_CONTENT
        )
    if said.isdecimal() and (len(said) > 18 or int(said) > limit):
        raise _large(url, limit)
    unpacker = None if packed in ("", "identity") else _Unpacker(packed)
    body, received = bytearray(), 0
    source = cast("AsyncGenerator[bytes, None]", response.aiter_raw())
    try:
        async for chunk in source:
            # Packed bytes are counted as well: they can go on for ever and unpack to nothing.
            received += len(chunk)
            for piece in unpacker.feed(chunk) if unpacker else (chunk,):
                body += piece
                if len(body) > limit:
                    raise _large(url, limit)
            if received > limit:
                raise _large(url, limit)
    except zlib.error as error:
        raise ToolError(f"{site(url)} sent a damaged {packed} body: {error}.", code=errors.E_CONTENT) from None
    finally:
        await _end(response, source)
    if unpacker and not unpacker.whole:
        raise ToolError(f"{site(url)} sent a {packed} body that breaks off.", code=errors.E_CONTENT, hint="Try again.")
    return bytes(body)


async def _end(response: httpx.Response, source: AsyncGenerator[bytes, None]) -> None:
    """End what is read in part. Below the source are more of its kind, which end when they find the connection closed."""
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
        self._packed, self._rest = packed, b""
        self._unpack: zlib._Decompress | None = None
        self._parts, self._over = 0, False

    @property
    def whole(self) -> bool:
        """Whether what was fed ends where a part does; an empty body does, too."""
        return self._unpack is None and (self._parts > 0 or not self._rest)

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Unpack what came."""
        data, full = self._rest + chunk, False
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
            data, full = self._unpack.unconsumed_tail, len(piece) == STEP
            if self._unpack.eof:
                data, full = self._unpack.unused_data, False
                self._unpack, self._parts = None, self._parts + 1

    def _window(self, data: bytes) -> int:
        # zlib's 32 takes gzip and zlib; some servers call raw deflate "deflate", which has neither's first two bytes.
        zlibs = data[0] & 15 == 8 and (data[0] << 8 | data[1]) % 31 == 0
        raw = self._packed == "deflate" and not zlibs and data[:2] != b"\x1f\x8b"
        return -zlib.MAX_WBITS if raw else zlib.MAX_WBITS | 32


def _large(url: str, limit: int) -> ToolError:
    return ToolError(f"What {site(url)} sends is larger than {limit / 1e6:g} MB; it was not read to its end.",
                     code=errors.E_TOO_LARGE, hint="Look for a smaller page on the same thing.")  # fmt: skip


# Names that people write for what really is a larger encoding (the Encoding Standard of the WHATWG has the list).
_REALLY = {
    "iso-8859-1": "cp1252", "latin1": "cp1252", "latin-1": "cp1252", "us-ascii": "cp1252", "ascii": "cp1252",
    "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "shift-jis": "cp932", "x-sjis": "cp932", "euc-kr": "cp949",
    "ks_c_5601-1987": "cp949", "big5": "big5hkscs", "iso-8859-9": "cp1254", "tis-620": "cp874", "utf8": "utf-8",
    "unicode": "utf-16", "windows-31j": "cp932", "windows-949": "cp949", "windows-874": "cp874", "x-gbk": "gb18030",
    "x-user-defined": "cp1252", "macintosh": "mac-roman", "x-mac-cyrillic": "mac-cyrillic", "x-euc-jp": "euc_jp",
}  # fmt: skip
# What that standard knows. Python has more, among them some that take minutes for a page made for it (punycode).
_KNOWN = frozenset(
    "utf-8 utf-16 utf-16-le utf-16-be cp866 cp874 cp932 cp949 koi8-r koi8-u mac-roman mac-cyrillic gb18030 big5hkscs euc_jp"
    " iso2022_jp cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 iso8859-2 iso8859-3 iso8859-4 iso8859-5"
    " iso8859-6 iso8859-7 iso8859-8 iso8859-10 iso8859-13 iso8859-14 iso8859-15 iso8859-16".split()
)
_BOMS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


def decode(data: bytes, content_type: str) -> str:
    """Decode a text: by its byte order mark, its header, what HTML says of itself, as UTF-8, at last as windows-1252.

    Args:
        data: The body.
        content_type: The header ``Content-Type``.
    """
    for mark, name in _BOMS:
        if data.startswith(mark):
            return data.decode(name, errors="replace")
    said = re.search(r"charset\s*=\s*[\"']?([\w.:-]+)", content_type, re.I)
    inside = re.search(rb"(?:charset|encoding)\s*=\s*[\"']?([\w.:-]+)", data[:2048], re.I)
    if name := _codec(said[1]) if said else "":
        return data.decode(name, errors="replace")
    name = _codec(inside[1].decode("ascii", errors="replace")) if inside else ""
    if name and not name.startswith("utf-16"):  # who can read that it is UTF-16 reads no UTF-16
        return data.decode(name, errors="replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace")


def _codec(label: str) -> str:
    """Give the name of Python's decoder for what a page calls its encoding; empty where it is none of the web's."""
    try:
        name = codecs.lookup(_REALLY.get(label.lower(), label)).name
    except (LookupError, UnicodeError):
        return ""
    return name if name in _KNOWN else ""
