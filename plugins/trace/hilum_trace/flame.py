"""A run as a flame view in the terminal: time from left to right, what contains what downwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hilum_cli.terminal import cells, cut, escape_terminal

from hilum_trace.formatting import format_seconds, make_title
from hilum_trace.spans import Kind, Span, Trace

MIN_WIDTH = 20
_PLAIN = "\x1b[0m"
# Black text on a background of the terminal's palette.
_COLORS: dict[Kind, str] = {
    "run": "\x1b[30;47m",
    "turn": "\x1b[30;46m",
    "model": "\x1b[30;44m",
    "plugin_model": "\x1b[30;44m",
    "tool": "\x1b[30;42m",
    "agent": "\x1b[30;45m",
    "approval": "\x1b[30;43m",
    "question": "\x1b[30;43m",
    "queue": "\x1b[30;43m",
    "order": "\x1b[30;43m",
    "hook": "\x1b[30;43m",
    "compaction": "\x1b[30;45m",
}
_FAILED = "\x1b[30;41m"


class _Placed(NamedTuple):
    """A span with its row, its first column, and the column after its last."""

    span: Span
    row: int
    first: int
    last: int


def render_flame(trace: Trace, run: Span, width: int, *, color: bool = False) -> Iterator[str]:
    """Yield the lines of the flame view of a run.

    Spans that overlap, such as parallel calls, are drawn in rows of their own. A span that is
    narrower than a column is drawn if nothing else is in the column.

    Args:
        trace: The trace.
        run: The run.
        width: Number of columns.
        color: Whether to draw with colors instead of brackets.
    """
    width = max(width, MIN_WIDTH)
    seconds = trace.seconds(run)
    # A run that takes no time that a clock could measure has no scale.
    scale = width / seconds if seconds > 1e-9 else 0.0
    placed = _place(trace, run, width, scale)
    rows: dict[int, list[_Placed]] = {}
    for each in placed:
        rows.setdefault(each.row, []).append(each)
    for row in sorted(rows):
        yield _render_row(trace, rows[row], color)
    yield _render_axis(seconds, width)


def _place(trace: Trace, run: Span, width: int, scale: float) -> list[_Placed]:
    """Return the spans of a run that can be drawn, each with its place."""
    children = trace.children()
    # The column up to which a row is occupied. Rows are added as spans need them.
    occupied: list[int] = []
    placed = []
    stack = [(run, 0)]
    while stack:
        # All children of a span come before its siblings, so columns within a row only grow where
        # time does; a span that would go backwards moves to the next free row.
        span, least = stack.pop()
        first = max(round((span.start - run.start) * scale), 0)
        last = round((span.start + trace.seconds(span) - run.start) * scale)
        first = min(first, width - 1)
        last = min(max(last, first + 1), width)
        if least < len(occupied) and occupied[least] == first + 1 < last:
            # Rounding has made the span before one column too long.
            first += 1
        row = _find_row(occupied, least, first)
        is_tiny = last - first == 1 and trace.seconds(span) * scale < 0.5
        if is_tiny and row != least:
            continue
        occupied[row] = last
        placed.append(_Placed(span, row, first, last))
        stack += [(child, row + 1) for child in reversed(children[span.id])]
    return placed


def _find_row(occupied: list[int], least: int, first: int) -> int:
    row = least
    while row < len(occupied) and occupied[row] > first:
        row += 1
    while len(occupied) <= row:
        occupied.append(0)
    return row


def _render_row(trace: Trace, placed: list[_Placed], color: bool) -> str:
    line = ""
    column = 0
    for each in sorted(placed, key=lambda each: each.first):
        line += " " * (each.first - column)
        line += _render_bar(trace, each, color)
        column = each.last
    return line.rstrip() if not color else line


def _render_bar(trace: Trace, placed: _Placed, color: bool) -> str:
    span = placed.span
    size = placed.last - placed.first
    title = " ".join(make_title(span).split())
    label = f"{escape_terminal(title)} {format_seconds(trace.seconds(span))}"
    if color:
        text = _fit(label, size, " ")
        # A space at the end separates a bar from the next one.
        style = _FAILED if span.error else _COLORS.get(span.kind, "")
        if size == 1:
            return f"{style} {_PLAIN}"
        return f"{style}{_fit(label, size - 1, ' ')}{_PLAIN} "
    if size < 3:
        return ("!" if span.error else "|") * size
    text = _fit(label, size - 2, "-")
    return f"[{text}]"


def _fit(text: str, width: int, fill: str) -> str:
    """Return a text with exactly this number of columns."""
    if width < 3:
        return fill * width
    text = cut(text, width)
    return text + fill * (width - cells(text))


def _render_axis(seconds: float, width: int) -> str:
    """Return the line with the times below the bars."""
    line = ""
    steps = max(min(width // 16, 8), 1)
    for step in range(steps):
        column = round(width * step / steps)
        line += " " * (column - len(line)) + format_seconds(seconds * step / steps)
    end = format_seconds(seconds)
    return line.ljust(width - len(end))[: width - len(end)] + end
