"""The real program on a terminal that reads 25 kB/s, as over a bad connection."""

import os
import pty
import re
import tty
from collections import Counter
from contextlib import suppress

import pytest
import trio
from hilum.messages import AssistantMessage, Text
from hilum_replay import Answer, serve
from terminal_programs import on_screen

RATE = 25_000  # bytes a second
LIMIT = 0.25  # seconds from Esc to the stopped state, besides the buffer
ESC = "\x1b"


def make_answer(paragraphs):
    """Return an answer whose paragraphs are numbered, with wide letters and colored code."""
    parts = []
    for number in range(paragraphs):
        parts.append(
            f"Paragraph <{number}> with **bold** words, 中文字符 and `code_{number}`. " * 3
        )
        parts.append(f"```python\nx = {number}  # [{number}]\n```")
    return AssistantMessage((Text("\n\n".join(parts), "model"),), stop="end")


def measure_buffer():
    """Return how many bytes this system keeps for a pseudo-terminal that is not read."""
    ours, theirs = pty.openpty()
    try:
        tty.setraw(theirs)
        os.set_blocking(theirs, False)
        size = 0
        with suppress(BlockingIOError):
            while True:
                size += os.write(theirs, b"x" * 500)
        return size
    finally:
        os.close(ours)
        os.close(theirs)


def find_numbers(text):
    """Return how often each numbered line of code is in a text."""
    return Counter(int(number) for number in re.findall(r"# \[(\d+)\]", text))


@pytest.mark.slow
@pytest.mark.parametrize("wait", [2.0, 1.0, 3.0, 4.0])
async def test_a_stop_shows_at_once_and_the_scrollback_is_complete(warm, tmp_path, wait):
    """The model writes 60 kB/s, more than twice what the terminal reads."""
    answer = Answer(make_answer(1200), seconds=4.5)
    allowed = LIMIT + measure_buffer() / RATE
    async with (
        serve(lambda request: answer, pace=1.0) as server,
        on_screen(warm, tmp_path, server.url, rate=RATE) as screen,
    ):
        await screen.wait_for("ready")
        await screen.type("Write\r")
        await screen.wait_for("# [5]")
        # The rows that wait for the terminal become more and more.
        await trio.sleep(wait)
        await screen.type(ESC)

        def shows(text):
            return any(text in row for row in screen.rows)

        with trio.fail_after(allowed):
            await screen.wait_until(
                lambda: shows("stopped ·") and shows("ready · agent"), "the stopped state"
            )
            assert "Everything it had started has ended" not in screen.text
        # The prompt is there, and keys work, before the rest of the answer.
        await screen.type("a draft")
        with trio.fail_after(allowed):
            await screen.wait_until(lambda: shows("a draft"), "the draft")
        await screen.wait_until(
            lambda: shows("Everything it had started") and not shows("still being written"),
            "all rows",
            seconds=60,
        )
        seen = find_numbers(screen.text)
    last = max(seen)
    assert last > 20
    assert [number for number in range(last) if seen[number] != 1] == []
