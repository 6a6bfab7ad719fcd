"""Bodies of responses: packed ones, bombs, bodies that break off, and the many names of
encodings.
"""

import gzip
import zlib
from functools import partial

import httpx
import pytest
from hilum import ToolError, errors
from hilum_web.body import STEP, read_body
from hilum_web.reader.charsets import decode
from hypothesis import given, settings
from hypothesis import strategies as st

URL = "https://pages.example/x"
TEXT = b"".join(b"line %d of a page\n" % i for i in range(2_000))
SHORT = TEXT[:6_000]


class Sent(httpx.AsyncByteStream):
    """A body that arrives in pieces, and how many of them were taken."""

    def __init__(self, data, size=65_536):
        self.data, self.size, self.taken, self.closed = data, size, 0, False

    def __aiter__(self):
        return self

    async def __anext__(self):
        start = self.taken * self.size
        if self.closed or start >= len(self.data):
            raise StopAsyncIteration
        self.taken += 1
        return self.data[start : start + self.size]

    async def aclose(self):
        self.closed = True


async def read(data, packed="", limit=10_000_000, size=65_536, **headers):
    stream = Sent(data, size)
    fields = {"content-encoding": packed} if packed else {}
    response = httpx.Response(
        200, headers=fields | {k.replace("_", "-"): v for k, v in headers.items()}, stream=stream
    )
    return await read_body(response, URL, limit), stream


zipped = partial(gzip.compress, mtime=0)


def raw(data):
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


PACKED = [
    ("", SHORT), ("identity", SHORT), ("gzip", zipped(SHORT)), ("GZIP", zipped(SHORT)),
    ("x-gzip", zipped(SHORT)),
    ("deflate", zlib.compress(SHORT)), ("deflate", raw(SHORT)), ("gzip", zlib.compress(SHORT)), ("deflate", zipped(SHORT)),
    ("gzip", zipped(SHORT[:1000]) + zipped(SHORT[1000:])), ("gzip", zipped(SHORT) + b"\0" * 512),
    ("gzip", zipped(SHORT) + b"trailing"), ("gzip", zipped(b"") + zipped(SHORT) + zipped(b"")),
]  # fmt: skip


@pytest.mark.parametrize(("packed", "data"), PACKED, ids=range(len(PACKED)))
@pytest.mark.parametrize("size", [1, 2, 3, 1000, 10**9])
async def test_body_is_unpacked_however_it_is_cut(packed, data, size):
    assert (await read(data, packed, size=size))[0] == SHORT


@given(
    st.integers(0, 3 * STEP),
    st.sampled_from([b"\0", b"ab", b"abc" * 90]),
    st.sampled_from(["gzip", "deflate", "raw"]),
)
@settings(max_examples=25, deadline=None)
def test_last_byte_is_there_at_every_border_of_a_step(count, unit, kind):
    import trio

    text = (unit * (count // len(unit) + 1))[:count]
    data = {"gzip": zipped, "deflate": zlib.compress, "raw": raw}[kind](text)
    body, _ = trio.run(lambda: read(data, "gzip" if kind == "gzip" else "deflate"))
    assert body == text


@pytest.mark.parametrize("packed", ["gzip", "deflate"])
async def test_bomb_stops_at_the_limit(packed):
    """A gigabyte in a megabyte: no more than a step beyond the limit is ever unpacked."""
    one = bytes(1 << 24)
    packer = zlib.compressobj(9, wbits=31 if packed == "gzip" else 15)
    first, more = (packer.compress(one) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    data = first + more * 63
    stream = Sent(data, 16_384)
    response = httpx.Response(200, headers={"content-encoding": packed}, stream=stream)
    with pytest.raises(ToolError, match=r"larger than 1 MB") as caught:
        await read_body(response, URL, 1_000_000)
    assert caught.value.code == errors.E_TOO_LARGE
    assert stream.taken == 1


@pytest.mark.parametrize(
    ("packed", "data"),
    [("gzip", zipped(b"") * 100_000), ("", TEXT * 100), ("gzip", zipped(TEXT * 100)),
    ("deflate", raw(b"")[:1] + b"\0\0\0\xff\xff" * 200_000)],
    ids=["nothing", "plain", "gzip", "empty-blocks"],
)  # fmt: skip
async def test_body_without_end_is_not_read_to_its_end(packed, data):
    with pytest.raises(ToolError) as caught:
        await read(data, packed, limit=500_000)
    assert caught.value.code in (errors.E_TOO_LARGE, errors.E_CONTENT)


async def test_announced_length_is_believed_when_it_is_too_much():
    for said in ("500001", "9" * 4000):
        with pytest.raises(ToolError) as caught:
            await read(b"", limit=500_000, content_length=said)
        assert caught.value.code == errors.E_TOO_LARGE
    assert (await read(b"abc", limit=3, content_length="x"))[0] == b"abc"
    assert (await read(b"", "gzip"))[0] == b""


@pytest.mark.parametrize(
    ("packed", "data"),
    [
        ("gzip", b"plain text"), ("gzip", zipped(TEXT)[:-1]), ("gzip", zipped(TEXT)[:-5]),
        ("gzip", zipped(TEXT)[:100]),
        ("gzip", b"\x1f"), ("deflate", zlib.compress(TEXT)[:-1]), ("deflate", raw(TEXT)[:-1]), ("deflate", b"\xff\xff\xff"),
        ("gzip", zipped(TEXT)[:-8] + b"12345678"), ("br", b"x"), ("zstd", b"x"),
        ("gzip, gzip", zipped(b"x")), ("compress", b"x"),
    ],
    ids=range(13),
)  # fmt: skip
async def test_damaged_or_strange_packing_is_an_error_that_names_the_site(packed, data):
    with pytest.raises(ToolError, match=r"^pages\.example ") as caught:
        await read(data, packed)
    assert caught.value.code == errors.E_CONTENT


TEXTS = [
    ("héllo", "utf-8", "text/html; charset=utf-8"), ("héllo", "utf-8", "text/html"), ("héllo", "cp1252", "text/plain"),
    ("“x” €", "cp1252", "text/html; charset=iso-8859-1"), ("“x”", "cp1252", 'text/html; charset="ISO-8859-1"'),
    ("日本", "cp932", "text/html; charset=Shift_JIS"),
    ("日本", "euc_jp", "text/html; charset=EUC-JP"), ("日本", "iso2022_jp", "text/html;charset=iso-2022-jp"),
    ("中文", "gb18030", "text/html; charset=GB2312"),
    ("中文", "big5", "text/html; charset=Big5"), ("한국", "cp949", "text/html; charset=euc-kr"),
    ("привет", "cp1251", "text/html; charset=windows-1251"),
    ("привет", "koi8-r", "text/html; charset=KOI8-R"), ("ğ", "cp1254", "text/html; charset=iso-8859-9"),
    ("x", "utf-16", "text/html"),
    ("\ufeffx"[1:], "utf-8-sig", "text/html; charset=latin1"), ("x", "utf-8", "text/html; charset=nonsense"),
    ("é", "utf-8", "text/html; charset="),
    ("<meta charset=windows-1251>привет", "cp1251", "text/html"), ("<meta charset='utf-16'>é", "utf-8", "text/html"),
    ('<?xml version="1.0" encoding="koi8-r"?>привет', "koi8-r", "application/xml"),
    ("<meta charset=koi8-r>é", "utf-8", "text/html; charset=utf-8"),
    ("<meta charset=cp1251>привет", "cp1251", "text/html; charset=nonsense"),
    ("a\\x41", "utf-8", "text/html; charset=unicode_escape"),
    ("+AGE-", "utf-8", "text/html; charset=utf-7"), ("uryyb", "utf-8", "text/html; charset=rot13"),
    ("YWI=", "utf-8", "text/html; charset=base64"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "codec", "header"), TEXTS)
def test_text_is_decoded_as_a_browser_would(text, codec, header):
    assert decode(text.encode(codec), header) == text


@pytest.mark.parametrize(
    "label",
    [
        "punycode",
        "idna",
        "unicode_escape",
        "raw_unicode_escape",
        "undefined",
        "zlib",
        "hex",
        "mbcs",
        "\ud800",
        "a" * 5000,
    ],
)
def test_codec_that_is_none_of_the_web_s_is_not_used(label):
    """Python's punycode takes minutes for some pages; a page's own word chooses the codec."""
    data = b"a" * 300_000 + b"-" + b"b" * 300_000
    assert decode(data, f"text/html; charset={label}") == data.decode()


@given(st.binary(max_size=300), st.text(max_size=60))
def test_no_bytes_and_no_header_break_the_decoder(data, header):
    assert isinstance(decode(data, header), str)
    assert isinstance(decode(b"<meta charset=" + data, f"text/html; charset={header}"), str)
