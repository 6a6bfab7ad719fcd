"""The body of a response, within bounds: packed bytes are unpacked by ourselves, so that a bomb stops at the limit."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from hilum import ToolError, errors

from hilum_web.failures import site

if TYPE_CHECKING:
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
    if packed in ("", "identity"):
        if said.isdecimal() and int(said) > limit:
            raise _large(url, limit)
        unpacked = response.aiter_raw()
    elif packed in ("gzip", "x-gzip", "deflate"):
        unpacked = _unpacked(response.aiter_raw(), packed, url)
    else:
        raise ToolError(
            f"{site(url)} packs its pages with {packed[:40]}, which was not asked for.", code=errors.E_CONTENT
        )
    body = bytearray()
    async for chunk in unpacked:
        body += chunk
        if len(body) > limit:
            raise _large(url, limit)
    return bytes(body)


async def _unpacked(source: AsyncIterator[bytes], packed: str, url: str) -> AsyncIterator[bytes]:
    # zlib's 32 takes gzip and zlib; some servers call raw deflate "deflate", too.
    unpack, first = zlib.decompressobj(zlib.MAX_WBITS | 32), True
    async for chunk in source:
        while chunk:
            try:
                yield unpack.decompress(chunk, STEP)
            except zlib.error as error:
                if packed != "deflate" or not first:
                    raise ToolError(
                        f"{site(url)} sent a damaged {packed} body: {error}.", code=errors.E_CONTENT
                    ) from None
                unpack = zlib.decompressobj(-zlib.MAX_WBITS)
                first = False
                continue
            chunk, first = unpack.unconsumed_tail, False


def _large(url: str, limit: int) -> ToolError:
    return ToolError(f"What {site(url)} sends is larger than {limit / 1e6:g} MB; it was not read to its end.",
                     code=errors.E_TOO_LARGE, hint="Look for a smaller page on the same thing.")  # fmt: skip


# Names that people write for what really is a larger encoding (the Encoding Standard of the WHATWG has the list).
_REALLY = {
    "iso-8859-1": "cp1252", "latin1": "cp1252", "latin-1": "cp1252", "us-ascii": "cp1252", "ascii": "cp1252",
    "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "shift-jis": "cp932", "x-sjis": "cp932", "euc-kr": "cp949",
    "ks_c_5601-1987": "cp949", "big5": "big5hkscs", "iso-8859-9": "cp1254", "tis-620": "cp874", "utf8": "utf-8",
    "unicode": "utf-16",
}  # fmt: skip
_BOMS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


def decode(data: bytes, content_type: str) -> str:
    """Decode a text: by its byte order mark, its header, what HTML says of itself, as UTF-8, at last as windows-1252.

    Args:
        data: The body.
        content_type: The header ``Content-Type``.
    """
    import codecs
    import re

    for mark, name in _BOMS:
        if data.startswith(mark):
            return data.decode(name, errors="replace")
    said = re.search(r"charset\s*=\s*[\"']?([\w.:-]+)", content_type, re.I)
    inside = re.search(rb"(?:charset|encoding)\s*=\s*[\"']?([\w.:-]+)", data[:2048], re.I)
    for label in (said and said[1], inside and inside[1].decode("ascii", errors="replace")):
        name = _REALLY.get((label or "").lower(), (label or "").lower())
        try:
            if name and codecs.lookup(name)._is_text_encoding:
                return data.decode(name, errors="replace")
        except (LookupError, UnicodeError):
            continue
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace")
