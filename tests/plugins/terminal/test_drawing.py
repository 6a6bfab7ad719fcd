"""What is drawn first when the terminal is slow, and what is loaded before the first answer."""

import subprocess
import sys

import pytest
import trio
from hilum_terminal.drawing import HOLD_SECONDS, MAX_WAITING_ROWS, Drawing, Layout
from hilum_terminal.full_view import FullView, Page
from hilum_terminal.pace import Pace
from hilum_terminal.styles import find_theme
from hilum_terminal.transcript import Block

THEME = find_theme({"TERM": "xterm-256color"})
WAIT = 10.0


@pytest.fixture(autouse=True)
def no_threads(monkeypatch):
    """Carry out what runs in threads at once, because the simulated clock does not wait for it."""

    async def run(function, *arguments):
        await trio.lowlevel.checkpoint()
        return function(*arguments)

    monkeypatch.setattr(trio.to_thread, "run_sync", run)


class SlowTty:
    """A terminal that records frames; its pace is that of a terminal of 25 kB/s."""

    def __init__(self):
        self.pace = Pace()
        self.frames = []
        self.has_output = False
        self._buffer = b""

    def slow_down(self):
        now = trio.current_time()
        self.pace.record_full(now - 1.0)
        self.pace.record_sent(25_000, now - 0.5)
        self.pace.record_full(now)

    def size(self):
        return (80, 24)

    def write(self, data):
        self._buffer += data
        self.has_output = bool(self._buffer)

    async def flush(self):
        self.pace.record_sent(len(self._buffer), trio.current_time())
        self.frames.append((trio.current_time(), self._buffer.decode()))
        self._buffer = b""
        self.has_output = False
        await trio.lowlevel.checkpoint()

    def first(self, text):
        """Return the time of the first frame that contains a text; infinite if there is none."""
        return min((at for at, frame in self.frames if text in frame), default=float("inf"))


def make_block(*rows):
    return Block("card", lambda width, theme: list(rows))


async def test_the_end_of_the_work_is_drawn_before_finished_rows(autojump_clock, nursery):
    tty = SlowTty()
    layout = Layout(["working"], None, parked=True)
    drawing = Drawing(tty, THEME, lambda size: layout)
    nursery.start_soon(drawing.draw)
    nursery.start_soon(drawing.paint)
    drawing.redraw(at_once=True)
    await trio.sleep(1)
    tty.slow_down()
    for number in range(2000):
        drawing.commit(make_block(f"row {number} of the answer"))
    await trio.sleep(1.5)
    assert tty.first("row 0 of") < float("inf")
    assert tty.first("row 1999 of") == float("inf")
    assert drawing.is_behind
    layout = Layout(["stopped"], None, parked=False)
    stopped = trio.current_time()
    drawing.redraw()
    count = len(tty.frames)
    await trio.sleep(HOLD_SECONDS * 0.9)
    assert [frame for _, frame in tty.frames[count:] if " of the" in frame] == []
    assert tty.first("stopped") < stopped + HOLD_SECONDS
    await drawing.settle()
    text = "".join(frame for _, frame in tty.frames)
    assert [text.count(f"row {number} of") for number in range(2000)] == [1] * 2000
    assert not drawing.is_behind


async def test_a_key_that_is_held_down_does_not_stop_finished_rows(autojump_clock, nursery):
    tty = SlowTty()
    drawing = Drawing(tty, THEME, lambda size: Layout([f"key {trio.current_time():.2f}"]))
    nursery.start_soon(drawing.draw)
    nursery.start_soon(drawing.paint)
    await trio.sleep(1)
    tty.slow_down()
    for number in range(20):
        drawing.commit(make_block(f"row {number} of the answer"))
    with trio.fail_after(60):
        while tty.first("row 19 of") == float("inf"):
            drawing.redraw(at_once=True)
            await trio.sleep(0.03)


async def test_rendered_rows_are_bounded_while_the_terminal_does_not_read(autojump_clock, nursery):
    made = []

    def make(width, theme):
        made.append(1)
        return ["row"] * 100

    drawing = Drawing(SlowTty(), THEME, lambda size: Layout(["live"]))
    nursery.start_soon(drawing.paint)
    for _ in range(50):
        drawing.commit(Block("card", make))
    await trio.sleep(5)
    assert len(made) <= MAX_WAITING_ROWS // 100 + 1
    # Once frames are drawn, all the rest follows.
    nursery.start_soon(drawing.draw)
    with trio.fail_after(WAIT):
        await drawing.settle()
    assert len(made) == 50


LOADING = """
import sys
import trio
from hilum_terminal.drawing import Drawing, Layout
from hilum_terminal.styles import find_theme
from hilum_terminal.transcript import Block

class Tty:
    def size(self):
        return (80, 24)

async def main():
    drawing = Drawing(Tty(), find_theme({}), lambda size: Layout([]))
    print("rich" in sys.modules, "pygments" in sys.modules)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drawing.paint)
        drawing.commit(Block("note", lambda width, theme: ["hello"]))
        drawing.commit(Block("note", lambda width, theme: [print(
            "rich.markdown" in sys.modules, "pygments.lexers.python" in sys.modules
        ), nursery.cancel_scope.cancel(), ""][-1:]))

trio.run(main)
"""


def test_the_renderer_is_loaded_behind_the_greeting():
    """Importing it takes 60 ms, in which keys would wait while the first answer arrives."""
    done = subprocess.run(
        [sys.executable, "-c", LOADING], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "False False\nTrue True\n"


class AlternateTty(SlowTty):
    """A terminal that records when the alternate screen is shown."""

    def enter_alternate(self):
        self.write(b"<alternate>")

    def leave_alternate(self):
        self.write(b"</alternate>")


async def test_finished_rows_wait_while_the_full_screen_view_is_open(autojump_clock, nursery):
    """They would be written to the alternate screen, which has no scrollback, and be lost."""
    tty = AlternateTty()
    drawing = Drawing(tty, THEME, lambda size: Layout(["the input"]))
    nursery.start_soon(drawing.draw)
    nursery.start_soon(drawing.paint)
    await trio.sleep(1.0)
    drawing.open_full(FullView([Page("title", lambda *_: ["the page"])]))
    await trio.sleep(1.0)
    for number in range(3):
        drawing.commit(Block("note", lambda *_, number=number: [f"arrived {number}"]))
    await trio.sleep(WAIT)
    assert tty.first("the page") < WAIT
    assert tty.first("arrived") == float("inf")
    assert not drawing._commits
    drawing.close_full()
    await trio.sleep(1.0)
    after = "".join(frame for _, frame in tty.frames).partition("</alternate>")[2]
    assert [f"arrived {number}" in after for number in range(3)] == [True] * 3
    nursery.cancel_scope.cancel()
