"""A stream in a real terminal program that changes its size all the time."""

import os
import random
import re
import shutil
import sys
from collections import Counter

import pytest
import trio

pytestmark = pytest.mark.skipif(
    shutil.which("tmux") is None, reason="tmux is missing: install the package `tmux`"
)

# Rows are first live, then final. The tail of the stream is above an input with a cursor.
PROGRAM = """
import sys, time
import trio
from hilum_terminal.screen import Screen
from hilum_terminal.tty import Tty

SECONDS = float(sys.argv[1])

async def main():
    screen = Screen()
    async with Tty(on_leave=screen.leave) as tty:
        tail = []
        number = 0
        frame = 0
        # As in most of a session, the window is full. While lines below the live region are blank,
        # tmux moves as many lines into its history as a narrower window makes it wrap, and that
        # may be live ones: they are then there twice, whatever the program writes.
        tty.write(screen.frame(["before"] * 60, [], tty.size(), None, parked=True))
        end = trio.current_time() + SECONDS
        while trio.current_time() < end or tail:
            commits = []
            if trio.current_time() < end:
                for _ in range(4):
                    number += 1
                    tail.append(f"<{number}>" + " word" * (number * 7 % 21))
                while len(tail) > 8:
                    commits.append(tail.pop(0))
            else:
                commits = tail
                tail = []
            frame += 1
            columns, lines = tty.size()
            rows = [row[:columns] for row in tail]
            rows.append("> draft")
            rows.append(f"status {frame} ".ljust(columns, "-"))
            rows = rows[-(lines // 2):]
            cursor = (len(rows) - 2, 7)
            size = (columns, lines)
            now = trio.current_time()
            tty.write(screen.frame(commits, rows, size, cursor, parked=True, now=now))
            await tty.flush()
            await trio.sleep(1 / 30)
    print(f"end of {number}", flush=True)

trio.run(main)
time.sleep(1000)
"""


class Tmux:
    """A tmux server of its own."""

    def __init__(self, folder):
        self.command = ["tmux", "-L", "hilum-test", "-f", os.devnull]
        self.env = dict(os.environ, TMUX_TMPDIR=str(folder), LC_ALL="C.UTF-8")
        self.env.pop("TMUX", None)

    async def __call__(self, *arguments):
        done = await trio.run_process(
            [*self.command, *arguments], env=self.env, capture_stdout=True
        )
        return done.stdout.decode()

    async def content(self):
        return await self("capture-pane", "-p", "-J", "-S", "-")


async def resize_while_streaming(folder, sizes, seconds=4):
    """Run the program in tmux, and return what its scrollback contains at the end.

    Args:
        folder: Folder for the program and the socket.
        sizes: Columns and lines of the window, which change every 200 ms.
        seconds: How long the program writes rows.

    Returns:
        The number of rows, the missing ones, and those that are there several times.
    """
    program = folder / "program.py"
    program.write_text(PROGRAM)
    tmux = Tmux(folder)
    options = (
        "set -g history-limit 100000 ; set -g status off ; new-session -d -x 120 -y 40".split()
    )
    await tmux(*options, sys.executable, str(program), str(seconds))
    try:
        with trio.fail_after(60):
            for columns, lines in sizes:
                await tmux("resize-window", "-x", str(columns), "-y", str(lines))
                await trio.sleep(0.2)
            content = ""
            while "end of " not in content:
                await trio.sleep(0.1)
                content = await tmux.content()
    finally:
        with trio.CancelScope(shield=True):
            await tmux("kill-server")
    count = int(re.search(r"end of (\d+)", content)[1])
    assert count > 200
    seen = Counter(int(number) for number in re.findall(r"<(\d+)>", content))
    missing = [number for number in range(1, count + 1) if not seen[number]]
    double = [number for number, times in seen.items() if times > 1]
    return count, missing, double


async def check_rows(folder, sizes):
    """Check that no row is missing and at most one is there twice.

    On a busy machine, the program may not get to run for a while after a change of the size, and then
    writes for the former size, so that rows are there twice. They count only if this happens again.
    """
    for attempt in range(3):
        place = folder / str(attempt)
        place.mkdir()
        count, missing, double = await resize_while_streaming(place, sizes)
        assert missing == []
        if len(double) <= 1:
            return
    raise AssertionError(f"there twice: {double} of {count}")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
async def test_no_row_is_lost_while_the_window_changes_its_size(tmp_path, seed):
    rng = random.Random(seed)
    sizes = [(rng.randint(60, 300), rng.randint(24, 60)) for _ in range(19)]
    await check_rows(tmp_path, sizes)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
async def test_no_row_is_lost_in_tiny_windows(tmp_path, seed):
    rng = random.Random(seed)
    choices = [(20, 5), (40, 8), (60, 15), (100, 30), (120, 40), (25, 20), (200, 6)]
    sizes = [rng.choice(choices) for _ in range(19)]
    await check_rows(tmp_path, sizes)
