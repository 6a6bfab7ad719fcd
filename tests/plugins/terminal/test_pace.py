"""How the speed of a terminal is measured, with a simulated terminal and clock."""

import pytest
from hilum_terminal.pace import AHEAD_SECONDS, BUFFER, MAX_ROW_BYTES, Pace


class Link:
    """A terminal that reads at a fixed rate behind a buffer."""

    def __init__(self, rate):
        self.rate = rate
        self.pace = Pace()
        self.now = 100.0
        self.waiting = 0.0

    def move(self, seconds):
        self.now += seconds
        self.waiting = max(self.waiting - seconds * self.rate, 0.0)

    def send(self, size):
        """Send bytes in pieces, and wait while the buffer is full."""
        while size > 0:
            piece = min(size, 500)
            while self.waiting + piece > BUFFER:
                self.pace.record_full(self.now)
                self.move(0.02)
            self.waiting += piece
            size -= piece
            self.pace.record_sent(piece, self.now)


def test_a_fast_terminal_is_not_limited():
    link = Link(10_000_000)
    for _ in range(100):
        assert link.pace.row_bytes(link.now) == MAX_ROW_BYTES
        assert link.pace.next_frame(link.now) == link.now
        link.send(MAX_ROW_BYTES)
        link.move(1 / 30)
    assert not link.pace.is_slow(link.now)


@pytest.mark.parametrize("rate", [10_000, 25_000, 60_000])
def test_a_slow_terminal_is_used_to_the_full_with_a_buffer_that_is_not_full(rate):
    link = Link(rate)
    delays = []
    sent = 0
    began = link.now
    while link.now < began + 60:
        size = link.pace.row_bytes(link.now)
        link.send(size)
        sent += size
        if link.now > began + 20:
            delays.append(link.waiting / rate)
        link.move(max(link.pace.next_frame(link.now) - link.now, 1 / 30))
    assert link.pace.is_slow(link.now)
    assert link.pace.rate(link.now) == pytest.approx(rate, rel=0.7)
    # Bytes that are on their way make up for the waits in between.
    assert sent > 0.75 * rate * 60
    delays.sort()
    assert delays[len(delays) // 2] < max(3 * AHEAD_SECONDS, BUFFER / rate / 2)


def test_a_terminal_that_becomes_fast_counts_as_fast_again():
    link = Link(25_000)
    for _ in range(20):
        link.send(MAX_ROW_BYTES)
    assert link.pace.is_slow(link.now)
    link.rate = 10_000_000
    link.move(60)
    assert not link.pace.is_slow(link.now)
    assert link.pace.row_bytes(link.now) == MAX_ROW_BYTES


def test_some_rows_are_always_sent_in_the_end():
    """Even a terminal that reads almost nothing gets rows, and finite numbers come out."""
    link = Link(10)
    link.send(BUFFER + 1000)
    assert link.pace.row_bytes(link.now) == 0
    link.move(10_000)
    assert link.pace.row_bytes(link.now) > 0
    link.move(1e9)
    assert link.pace.row_bytes(link.now) == MAX_ROW_BYTES
