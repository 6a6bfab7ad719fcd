"""Frames, positions and URIs."""

from pathlib import Path

import pytest
from hilum_lsp.framing import FrameError, FrameReader, encode_frame
from hilum_lsp.positions import TextLines
from hilum_lsp.uris import make_uri, read_uri
from hypothesis import given
from hypothesis import strategies as st

TEXTS = st.text(st.sampled_from("ab é😀\u2028\x0c\r\n\t中"), max_size=40)


@given(st.lists(st.binary(max_size=50), max_size=5), st.integers(1, 7))
def test_frames_arrive_in_pieces_of_any_size(bodies, size):
    stream = b"".join(map(encode_frame, bodies))
    reader = FrameReader()
    found = []
    for begin in range(0, len(stream), size):
        found += reader.feed(stream[begin : begin + size])
    assert found == bodies


@pytest.mark.parametrize(
    "stream",
    [
        b"Content-Length: x\r\n\r\n",
        b"Content-Length: 1_0\r\n\r\n",
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: 99999999999999999999\r\n\r\n",
        b"Content-Type: text\r\n\r\n",
        b"y" * 5_000,
    ],
)
def test_what_is_no_frame_is_an_error(stream):
    with pytest.raises(FrameError):
        FrameReader().feed(stream)


@given(TEXTS, st.sampled_from(["utf-8", "utf-16", "utf-32"]))
def test_every_offset_has_a_position_and_back(text, encoding):
    """Only inside a CRLF there is none of its own."""
    lines = TextLines(text, encoding)
    for offset in range(len(text) + 1):
        if text[offset - 1 : offset + 1] != "\r\n":
            assert lines.offset(*lines.position(offset)) == offset


def test_lines_end_only_where_the_protocol_says():
    lines = TextLines("a\u2028b\x0cc\r\n😀x\ry\n", "utf-16")
    assert [lines.line(number) for number in range(lines.count)] == [
        "a\u2028b\x0cc",
        "😀x",
        "y",
        "",
    ]
    assert lines.text[lines.offset(1, 2)] == "x"
    assert TextLines(lines.text, "utf-8").text[lines.offset(1, 2)] == "x"
    assert lines.offset(1, 99) == lines.text.index("x") + 1
    with pytest.raises(ValueError):
        lines.offset(9, 0)


@pytest.mark.parametrize("path", ["/a/b.py", "/a b/ü😀#?%41.py"])
def test_uris_and_paths(path):
    assert read_uri(make_uri(Path(path))) == Path(path)


@pytest.mark.parametrize(
    "uri",
    [
        "http://x/a",
        "file://host/a",
        "file:a",
        "untitled:a",
        "file:///a?b",
        "file:///a%00b",
        "[",
        "",
    ],
)
def test_other_uris_are_no_files(uri):
    assert read_uri(uri) is None
