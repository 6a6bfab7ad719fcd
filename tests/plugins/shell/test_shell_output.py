"""The text that is made of a command's output."""

import time

import pytest
from hilum_shell.output import OutputBuffer, cut_middle, strip_escapes


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("plain\n\ttext\n", "plain\n\ttext\n"),
        ("\x1b[38;5;196mred\x1b[m", "red"),
        ("\x9b31mred\x9b0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]0;never ended", "0;never ended"),
        ("\x1b[?25lhidden\x1b[?25h", "hidden"),
        ("a\rb\r\nc\r", "b\nc"),
        ("50%\r\r\n", "50%\n"),
        ("_\x08u_\x08n", "un"),
        ("\x00\x07\x7f\x85", ""),
        ("\x1b", ""),
        ("dürüm 🥙", "dürüm 🥙"),
    ],
)
def test_clean(raw: str, text: str) -> None:
    """Escapes and control characters go, everything else stays."""
    assert strip_escapes(raw) == text


@pytest.mark.parametrize(
    "piece", ["\x1b]", "\x1bP", "\x1b[", "\r", "\x1b[1;", "x\x08", "\x1b]0;" + "y" * 5000]
)
def test_clean_takes_linear_time(piece: str) -> None:
    """Output made to be slow is not."""
    begun = time.process_time()
    strip_escapes(piece * (300_000 // len(piece)))
    assert time.process_time() - begun < 2


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 400, 401, 1200, 5000, 500_000])
@pytest.mark.parametrize("chunk", [1000, 65536])
def test_kept(size: int, chunk: int) -> None:
    """Whatever the length and the chunks, head, tail and the number left out are right."""
    data = bytes(97 + n * 7 % 26 for n in range(size))
    kept = OutputBuffer(100)
    shown = "".join(kept.add(data[at : at + chunk]) for at in range(0, size, chunk))
    assert shown == data.decode()
    text, left_out = cut_middle(kept.text(), 100)
    if size <= 100:
        assert (text, left_out) == (data.decode(), 0)
    else:
        assert left_out == size - 100
        note = f"[… {left_out:,} of {size:,} characters left out …]"
        assert text == f"{data[:50].decode()}\n{note}\n{data[-50:].decode()}"


@pytest.mark.parametrize(("text", "lines"), [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2)])
@pytest.mark.parametrize("before", [0, 400_000])
def test_the_whole_is_counted(text: str, lines: int, before: int) -> None:
    """Characters and lines of all that was written are known, also of what is kept no longer."""
    kept = OutputBuffer(100)
    for _ in range(before // 4000):
        kept.add(("äö\n\n" * 1000).encode())
    kept.add(text.encode())
    written = kept.text()
    assert (written.characters, written.lines) == (before + len(text), before // 2 + lines)


def test_many_returns_take_no_time() -> None:
    """A run of carriage returns is looked at once: the event loop must not wait for it."""
    began = time.process_time()
    assert strip_escapes("\r" * 200_000 + "x") == "x"
    assert time.process_time() - began < 5
