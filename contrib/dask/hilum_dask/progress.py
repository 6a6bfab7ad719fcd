"""Shows the progress of a batch: a line that is renewed on a terminal, otherwise plain lines."""

from __future__ import annotations

from collections import Counter

import trio
from hilum_cli.terminal import Out, columns, cut, escape_terminal, line

from hilum_dask.records import Record

INTERVAL = 1.0
"""Seconds between two updates on a terminal."""
PLAIN_INTERVAL = 10.0
"""Seconds between two lines when there is no terminal."""
_CLEAR = "\r\x1b[K"


class Progress:
    """The progress of a batch, on standard error.

    Args:
        total: Number of tasks of the batch.
        is_quiet: Whether to show nothing.

    Attributes:
        running: Number of running tasks.
        counts: Number of finished tasks by state.
        unsolved: Number of tasks that completed, and whose verify command failed.
        cost: What was spent, in US dollars.
        workers: Number of workers of the cluster; ``None`` on this machine.
    """

    def __init__(self, total: int, *, is_quiet: bool = False) -> None:
        self.is_quiet = is_quiet
        self.total = total
        self.running = 0
        self.counts: Counter[str] = Counter()
        self.unsolved = 0
        self.cost = 0.0
        self.workers: int | None = None
        self._out = Out(2)
        self._began = 0.0
        self._done_now = 0
        self._shown = ""
        self._next = 0.0

    @property
    def done(self) -> int:
        """Number of finished tasks."""
        return self.counts.total()

    @property
    def solved(self) -> int:
        """Number of tasks that completed, and whose verify command, if any, succeeded."""
        return self.counts["completed"] - self.unsolved

    def skip(self, record: Record) -> None:
        """Count a task that an earlier driver has finished."""
        self.counts[record.state] += 1
        if record.state == "completed" and not record.solved:
            self.unsolved += 1

    def begin(self, count: int) -> None:
        """Begin to work on a number of open tasks."""
        self._began = trio.current_time()
        earlier = f", {self.done} are finished already" if self.done else ""
        self._say(f"{count} of {self.total} tasks are open{earlier}.")

    def finish(self, record: Record, spent: float) -> None:
        """Count a finished task, and show it if it was not solved."""
        self.counts[record.state] += 1
        self._done_now += 1
        self.cost = spent
        if record.state == "completed" and not record.solved:
            self.unsolved += 1
        if not record.solved:
            self._say(f"{_name(record)}: {describe_end(record)}")

    def repeat(self, record: Record, delay: float) -> None:
        """Show that a task will be repeated."""
        self._say(
            f"{_name(record)}: attempt {record.attempts} failed ({record.code}:"
            f" {line(record.error, 200)}); it is repeated in {delay:.0f} s"
        )

    def refuse(self, worker: str, reason: str) -> None:
        """Show that a worker of a cluster is not used."""
        self._say(f"the worker {worker} is not used: {reason}")

    def note(self, text: str) -> None:
        """Show what happened to the whole batch."""
        self._say(text)

    async def tick(self) -> None:
        """Renew the line until cancelled."""
        interval = INTERVAL if self._out.terminal else PLAIN_INTERVAL
        try:
            while not self.is_quiet:
                if self._out.terminal:
                    self._renew()
                await trio.sleep(interval)
                if not self._out.terminal:
                    self._out.say(f"hilum: {self.describe()}")
        finally:
            self._clear()

    def describe(self) -> str:
        """Return the progress as one line, with an estimate of the rest."""
        parts = [f"{self.done} of {self.total} tasks", f"{self.running} running"]
        if self.workers is not None:
            parts.append(_describe_workers(self.workers))
        failed = self.done - self.solved
        if failed:
            parts.append(f"{failed} not solved")
        if self.cost:
            parts.append(f"${self.cost:.2f}")
        seconds = self.estimate()
        if seconds is not None:
            parts.append(f"about {format_seconds(seconds)} left")
        return ", ".join(parts)

    def estimate(self) -> float | None:
        """Return the seconds that the rest will take; ``None`` if no task has finished yet."""
        left = self.total - self.done
        if not self._done_now or not left:
            return None
        return left * (trio.current_time() - self._began) / self._done_now

    def _say(self, text: str) -> None:
        if self.is_quiet:
            return
        self._clear()
        self._out.say(f"hilum: {escape_terminal(text)}")

    def _renew(self) -> None:
        text = cut(self.describe(), columns() - 1)
        self._shown = text
        self._out.put(f"{_CLEAR}{text}".encode())

    def _clear(self) -> None:
        if self._shown:
            self._shown = ""
            self._out.put(_CLEAR.encode())


def _describe_workers(number: int) -> str:
    if not number:
        return "waiting for workers"
    return "1 worker" if number == 1 else f"{number} workers"


def _name(record: Record) -> str:
    return line(record.id, 60)


def describe_end(record: Record) -> str:
    """Return how a task ended, as a part of a sentence."""
    state = record.state.replace("_", " ")
    if record.state == "completed" and record.passed is False:
        if record.code:
            return f"completed, but not verified ({record.code}: {line(record.error, 300)})"
        code = record.verification.exit_code if record.verification else 1
        return f"completed, but its verify command failed (exit code {code})"
    reason = f" ({record.code}: {line(record.error, 300)})" if record.code else ""
    return f"{state}{reason}"


def format_seconds(seconds: float) -> str:
    """Return a duration with one unit or two."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
