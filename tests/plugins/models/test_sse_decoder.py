"""Server-sent events are decoded the same wherever the bytes are cut."""

from __future__ import annotations

import pytest
from hilum.errors import ModelError
from hilum_models import sse
from hilum_models.sse import SseDecoder

STREAM = (
    "\ufeff: hello\n"
    "data: one\n\n"
    "event: named\ndata: zwei ü 🌍\ndata:  indented\r\n\r\n"
    "id: 7\nretry: 10\ndata:three\r\r"
    ": comment only\n\n"
    "event: lost\n\n"
    "data\ndata: \n\n"
    "data: [DONE]\r\n\r\n"
).encode()
EVENTS = [
    (b"", b"one"),
    (b"named", "zwei ü 🌍\n indented".encode()),
    (b"", b"three"),
    (b"", b""),
    (b"", b"[DONE]"),
]


def test_whole_stream_is_decoded() -> None:
    """Names, several data lines, comments, a byte order mark and all three line endings are
    understood.
    """
    assert SseDecoder().feed(STREAM) == EVENTS


def test_cut_at_any_byte_changes_nothing() -> None:
    """Two chunks give the same events as one, wherever the cut is."""
    for cut in range(len(STREAM) + 1):
        decoder = SseDecoder()
        assert decoder.feed(STREAM[:cut]) + decoder.feed(STREAM[cut:]) == EVENTS, cut


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_small_chunks_change_nothing(size: int) -> None:
    """Chunks of a few bytes give the same events, empty ones in between are ignored."""
    decoder, events = SseDecoder(), []
    for start in range(0, len(STREAM), size):
        events += decoder.feed(STREAM[start : start + size]) + decoder.feed(b"")
    assert events == EVENTS


def test_last_event_without_blank_line_is_given_at_the_end() -> None:
    """A server that ends its stream without the last blank line loses nothing."""
    decoder = SseDecoder()
    assert decoder.feed(b"data: a\n\ndata: b") == [(b"", b"a")]
    assert decoder.flush() == [(b"", b"b")]
    assert decoder.flush() == []


def test_endless_event_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is not filled by an event that never ends, in one line or in many."""
    monkeypatch.setattr(sse, "MAX_EVENT", 1000)
    for piece in (b"x" * 100, b"data: " + b"x" * 100 + b"\n"):
        decoder = SseDecoder()
        for _ in range(9):
            decoder.feed(piece)
        with pytest.raises(ModelError, match="larger"):
            decoder.feed(piece + piece)
