"""Following a running session: a line when a span begins, and one when it ends."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import aclosing

import trio
from hilum.store import UPDATE_HINT, Store
from hilum_cli.terminal import Out, escape_terminal

from hilum_trace.formatting import describe_details, format_seconds, make_title
from hilum_trace.reading import Entry, check_complete, iterate_entries
from hilum_trace.spans import Span, SpanFold, UnreadableEvent
from hilum_trace.tree import Painter

POLL_SECONDS = 0.3
# A quiet session is checked for its end no more often than this.
CHECK_SECONDS = 5.0
# These are shown when they begin, so that the lines that follow have a place.
_CONTAINERS = ("run", "agent")
# These too, because the session may wait for them for a long time.
_SHOWN_AT_START = (*_CONTAINERS, "model", "tool", "approval", "question")
_HIDDEN = ("session", "queue", "order")


class Follower:
    """The lines of a session that is being followed.

    Args:
        painter: Width and colors.
    """

    def __init__(self, painter: Painter) -> None:
        # Lines that were printed are not needed any more, and a session may run for days.
        self.fold = SpanFold(forget=True)
        self._painter = painter
        self._seen = 0
        self._open: list[Span] = []
        # Turns that have not been shown. A turn gets its number after its first event, so it is
        # shown with the first span that is part of it.
        self._turns: dict[int, Span] = {}
        self._problems: list[str] = []

    def apply(self, entries: Iterable[Entry]) -> list[str]:
        """Add entries of the log, and return the lines to print."""
        lines: list[str] = []
        for entry in entries:
            self.fold.apply(entry)
            self._add_lines(lines)
            if isinstance(entry, UnreadableEvent):
                self._add_problem(entry)
        return lines

    def finish(self) -> list[str]:
        """Return the lines to print after the last process has closed the session."""
        lines: list[str] = []
        self.fold.finish()
        self._add_lines(lines)
        return lines

    def take_problems(self) -> list[str]:
        """Return sentences about entries that cannot be read, each of which is returned once."""
        problems = [escape_terminal(problem) for problem in self._problems]
        self._problems = []
        return problems

    def _add_problem(self, entry: UnreadableEvent) -> None:
        if not entry.type:
            problem = entry.problem.rstrip(".")
            self._problems.append(f"E_STORE: The log is damaged: {problem}.")
        elif self.fold.trace.unknown[entry.type] == 1:
            # One line for each type, because a newer version may write thousands of them.
            self._problems.append(
                f"This version does not know events of the type {entry.type!r}. {UPDATE_HINT}"
            )

    def _add_lines(self, lines: list[str]) -> None:
        spans = self.fold.trace.spans
        for span in spans[self._seen :]:
            if span.kind in _HIDDEN:
                continue
            if span.kind == "turn":
                self._turns[span.id] = span
                continue
            if span.parent in self._turns:
                lines.append(self._line(self._turns.pop(span.parent), ""))
            if span.kind in _SHOWN_AT_START:
                lines.append(self._line(span, ""))
            self._open.append(span)
        self._seen = len(spans)
        ended = [span for span in self._open if span.end is not None]
        if ended:
            self._open = [span for span in self._open if span.end is None]
            # What is part of a span ends before it.
            ended.sort(key=lambda span: (span.end or 0.0, -span.id))
            lines += [self._line(span, format_seconds(span.seconds)) for span in ended]

    def _line(self, span: Span, seconds: str) -> str:
        spans = self.fold.trace.spans
        depth = 0
        above = span
        while above.parent is not None:
            above = spans[above.parent]
            depth += 1
        title = make_title(span)
        details: list[str] = []
        if seconds:
            details = describe_details(span, span.usage)
            if span.kind in _CONTAINERS:
                title = f"end of {title}"
        elif span.kind == "tool":
            details = describe_details(span, span.usage)
        style = "\x1b[31m" if span.error and seconds else ""
        return self._painter.line(seconds, max(depth - 1, 0), title, details, style)


async def follow(store: Store, session: str, painter: Painter, out: Out) -> None:
    """Print what a session does until no process has it open any more.

    Entries that cannot be read are reported at once, on standard error; the rest is shown.

    Args:
        store: The store.
        session: The complete id of the session.
        painter: Width and colors.
        out: Where to print.

    Raises:
        StoreError: The session was deleted, the store cannot be read, or, at the end, a part of the
            log is damaged.
    """
    follower = Follower(painter)
    last = 0
    checked = time.monotonic()
    is_closed = False
    while not out.gone:
        # What the log should have by now. Without it, a damaged end would look like a quiet
        # session, and would be read again and again.
        expected = (await store.info(session)).events
        known = last
        async with aclosing(iterate_entries(store, session, known, expected)) as entries:
            async for entry in entries:
                last = max(entry.seq, expected)
                for line in follower.apply([entry]):
                    await out.write(f"{line}\n".encode(errors="backslashreplace"))
                for problem in follower.take_problems():
                    Out(2).say(f"hilum: {problem}")
        if last > known:
            checked = time.monotonic()
            is_closed = False
        elif is_closed:
            for line in follower.finish():
                await out.write(f"{line}\n".encode(errors="backslashreplace"))
            check_complete(follower.fold.trace)
            return
        elif time.monotonic() - checked > CHECK_SECONDS:
            checked = time.monotonic()
            is_closed = not await store.is_open(session)
            if is_closed:
                # The last process may have written its last events since the log was read.
                continue
        await trio.sleep(POLL_SECONDS)
