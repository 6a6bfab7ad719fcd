"""Limits how much is on its way to a slow terminal, so that keys and stops take effect on time."""

from __future__ import annotations

import math

MAX_ROW_BYTES = 4096
"""Maximum number of bytes of finished rows in one frame."""
MIN_ROW_BYTES = 512
"""Minimum number of bytes of finished rows, unless there are none."""
AHEAD_SECONDS = 0.15
"""Seconds that everything on its way to the terminal may take, when finished rows are added."""
FAST_RATE = 120_000
"""Bytes a second above which a terminal is fast: 30 frames a second with the most rows."""
BUFFER = 16_384
"""Estimated bytes between the program and the terminal when the system accepts no more (Linux:
21 kB; macOS: less). Too high an estimate only lets the terminal wait for a moment."""
MEASURED_SECONDS = 0.05
"""Minimum number of seconds in which the speed is measured."""
GROWTH = 1.05
"""Factor per second by which the estimated speed grows, because the connection may improve."""


class Pace:
    """The speed of the terminal, and how much is on its way to it.

    The system accepts bytes until its buffer is full. Between two moments at which the buffer is
    full, the terminal has read as many bytes as were sent, so its speed is known. Everything that
    is sent waits behind the buffer, so the buffer is kept as empty as possible from then on.
    """

    def __init__(self) -> None:
        self._sent = 0
        self._sent_when_full = 0
        self._rate = math.inf
        self._full_at = -math.inf
        # The time at which the terminal will have read everything.
        self._read_at = -math.inf

    def rate(self, now: float) -> float:
        """Return the estimated speed of the terminal in bytes a second; infinite if unknown.

        Args:
            now: The time in seconds, from the same clock for all methods.
        """
        if math.isinf(self._rate):
            return self._rate
        # A longer time makes no difference, but too large a number.
        elapsed = min(max(now - self._full_at, 0.0), 1000.0)
        return float(self._rate * GROWTH**elapsed)

    def is_slow(self, now: float) -> bool:
        """Return whether the terminal reads more slowly than rows may have to be written."""
        return self.rate(now) < FAST_RATE

    def row_bytes(self, now: float) -> int:
        """Return the number of bytes of finished rows that may be sent now, possibly 0."""
        if not self.is_slow(now):
            return MAX_ROW_BYTES
        left = now + AHEAD_SECONDS - max(self._read_at, now)
        # Smaller frames would consist mostly of live rows.
        if left < AHEAD_SECONDS / 2:
            return 0
        return max(MIN_ROW_BYTES, min(MAX_ROW_BYTES, int(left * self.rate(now))))

    def next_frame(self, now: float) -> float:
        """Return the time before which a frame that is not urgent should be skipped."""
        if not self.is_slow(now):
            return now
        return max(now, min(self._read_at - AHEAD_SECONDS / 2, now + AHEAD_SECONDS))

    def record_sent(self, size: int, now: float) -> None:
        """Record that the system has accepted bytes."""
        self._sent += size
        self._read_at = max(self._read_at, now) + size / self.rate(now)

    def record_full(self, now: float) -> None:
        """Record that the system accepts no more bytes."""
        elapsed = now - self._full_at
        size = self._sent - self._sent_when_full
        if elapsed < MEASURED_SECONDS or size == 0:
            return
        if not math.isinf(elapsed):
            self._rate = size / elapsed
        self._full_at = now
        self._sent_when_full = self._sent
        self._read_at = now + BUFFER / self.rate(now)
