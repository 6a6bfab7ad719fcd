"""Shows the progress of a measurement on standard error."""

from __future__ import annotations

import time

import hilum.command
from hilum_cli.terminal import Out, cut

from hilum_eval.attempt import Attempt
from hilum_eval.driver import Progress


class PlainProgress(Progress):
    """Writes a line for each attempt.

    Args:
        out: Standard error.
    """

    def __init__(self, out: Out) -> None:
        self._out = out
        self._total = 0
        self._done = 0
        self._made = 0
        self._failed = 0
        self._begun = 0.0

    def begin(self, total: int, reused: int) -> None:
        """Say how many attempts there are."""
        self._total = total
        self._done = reused
        self._begun = time.monotonic()
        if reused:
            self._out.say(f"{reused} of {total} attempts were made before.")

    def add(self, attempt: Attempt) -> None:
        """Write the line of an attempt."""
        self._count(attempt)
        self._out.say(f"[{self._done}/{self._total}] {describe_attempt(attempt)}")

    def _count(self, attempt: Attempt) -> None:
        self._done += 1
        self._made += 1
        self._failed += not attempt.passed

    def _estimate(self) -> str:
        """Return the estimated rest of the time."""
        if not self._made or self._done == self._total:
            return ""
        seconds = (time.monotonic() - self._begun) / self._made * (self._total - self._done)
        if seconds < 90:
            return f"about {seconds:.0f} s left"
        return f"about {seconds / 60:.0f} min left"


class LiveProgress(PlainProgress):
    """Keeps a line with the progress at the bottom of a terminal, below failed attempts.

    Args:
        out: Standard error, a terminal.
        columns: Width of the terminal.
    """

    def __init__(self, out: Out, columns: int) -> None:
        super().__init__(out)
        self._columns = columns

    def begin(self, total: int, reused: int) -> None:
        """Show that nothing has been done yet."""
        super().begin(total, reused)
        self._draw()

    def add(self, attempt: Attempt) -> None:
        """Update the line; a failed attempt gets a line of its own."""
        self._count(attempt)
        if not attempt.passed:
            self._clear()
            self._out.say(cut(describe_attempt(attempt), self._columns - 1))
        self._draw()

    def end(self) -> None:
        """Remove the line."""
        self._clear()

    def _draw(self) -> None:
        parts = [f"{self._done} of {self._total} attempts", f"{self._failed} not passed"]
        text = " · ".join(filter(None, [*parts, self._estimate()]))
        self._out.put(f"\r\x1b[K{cut(text, self._columns - 1)}".encode())

    def _clear(self) -> None:
        self._out.put(b"\r\x1b[K")


def describe_attempt(attempt: Attempt) -> str:
    """Return a line about an attempt, harmless on a terminal."""
    name = f"{attempt.case} {attempt.arm} #{attempt.repeat}"
    if attempt.state != "verified":
        text = f"{name} {attempt.state}: {attempt.reason}"
    else:
        usage = attempt.usage
        state = "passed" if attempt.passed else "failed"
        text = f"{name} {state}, {usage.turns} turns, {usage.seconds:.1f} s"
        if not attempt.passed:
            text += f": {attempt.reason}"
    return hilum.command.escape_terminal(" ".join(text.split()))
