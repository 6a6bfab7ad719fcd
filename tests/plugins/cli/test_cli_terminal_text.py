"""Foreign text on its way to a terminal."""

import io
import os

import pytest
from hilum.events import PluginEvent
from hilum_cli.live import LiveFace
from hilum_cli.terminal import Out, escape_terminal, line
from rich.console import Console


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text", "plain text"),
        ("tabs\tand\nlines", "tabs\tand\nlines"),
        ("grüße 你好 “x” — ✓", "grüße 你好 “x” — ✓"),
        ("wide\u3000space", "wide\u3000space"),
        ("\x1b[31mred\x1b[0m \x1b[1;38;5;9mbold\x1b[m", "red bold"),
        ("windows\r\nlines", "windows\nlines"),
        ("over\rwritten", "over\\rwritten"),
        ("\x1b[2J\x1b[H", "\\x1b[2J\\x1b[H"),
        ("\x1b]52;c;ZXZpbA==\x07", "\\x1b]52;c;ZXZpbA==\\x07"),
        ("\x9b2J \x90 \x85", "\\x9b2J \\x90 \\x85"),
        ("\x00 \x08 \x7f", "\\x00 \\x08 \\x7f"),
        ("user\u202etxt.exe", "user\\u202etxt.exe"),
        ("a\u200bb\u200dc\ufeff", "a\\u200bb\\u200dc\\ufeff"),
        ("\u2028\u2029", "\\u2028\\u2029"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("half \ud800", "half \\ud800"),
    ],
)
def test_only_newlines_and_tabs_act(text, shown):
    """Colours vanish.

    Whatever else a terminal would obey, or what misleads the eye, is shown as an escape.
    """
    assert escape_terminal(text) == shown


def test_every_character_that_acts_is_shown():
    """C0 without tab and newline, DEL, C1."""
    acting = [chr(n) for n in (*range(32), *range(0x7F, 0xA0)) if chr(n) not in "\n\t"]
    assert all("\\" in escape_terminal(f"a{character}b") for character in acting)


def test_a_line_is_the_first_that_says_something():
    """Cut to a width, on one line whatever it holds."""
    assert line("\n\n  first \nsecond") == "first"
    assert line("") == ""
    assert line("x" * 50, 10) == "x" * 9 + "…"
    assert line("a\tb\x1b[2J") == "a b\\x1b[2J"


async def test_a_reader_that_goes_away_is_noted():
    """And nothing is written any more."""
    reading, writing = os.pipe()
    out = Out(writing)
    await out.write(b"one")
    os.close(reading)
    await out.write(b"two")
    assert out.gone
    await out.write(b"three")
    os.close(writing)


async def test_a_slow_reader_does_not_hold_up_the_loop():
    """A write that waits can be cancelled."""
    import trio

    reading, writing = os.pipe()
    out = Out(writing)
    with trio.move_on_after(0.2) as scope:
        await out.write(b"x" * 1_000_000)
    assert scope.cancelled_caught
    os.close(reading)  # lets the thread end
    os.close(writing)


def test_a_full_disk_is_noted():
    """The reason is kept for the message."""
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    fd = os.open("/dev/full", os.O_WRONLY)
    out = Out(fd)
    out.put(b"x")
    assert out.error is not None
    os.close(fd)


async def test_what_happens_while_a_question_stands_there_is_printed_after_the_answer(monkeypatch):
    """Nothing is written into the line on which the user answers."""
    monkeypatch.setenv("TERM", "xterm")
    out = io.StringIO()
    face = LiveFace()
    face.console = Console(file=out, force_terminal=True, width=80)
    with face.held():
        await face.show(PluginEvent(name="mcp.down", data={"say": "The server gone is down."}))
        assert out.getvalue() == ""
    face.close()
    assert out.getvalue().count("The server gone is down.") == 1
