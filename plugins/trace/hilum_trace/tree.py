"""The trace of a session as a tree of lines, and as a list of its slowest spans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hilum_cli.terminal import cells, cut, escape_terminal

from hilum_trace.formatting import describe_details, format_seconds, make_title
from hilum_trace.languages import ENGLISH, Language
from hilum_trace.reading import describe_damaged
from hilum_trace.spans import Span, Trace

# A tree with more lines than this shows only the last run with its turns.
MAX_LINES = 200
MAX_SLOWEST = 20
"""Number of slowest spans on the page."""
# Shorter spans of these kinds explain nothing, and every run and many calls have one.
_MIN_SECONDS = {"queue": 0.1, "order": 0.001}
_WAITING_KINDS = ("queue", "order", "approval", "question", "hook")
_LEAVES = ("model", "plugin_model", "compaction", "tool", *_WAITING_KINDS)
_RED = "\x1b[31m"
_DIM = "\x1b[2m"
_BOLD = "\x1b[1m"
_PLAIN = "\x1b[0m"


class Painter:
    """The width and the colors of the output.

    Args:
        width: Number of columns; 0 for any.
        color: Whether to write color sequences.
    """

    def __init__(self, width: int = 0, *, color: bool = False) -> None:
        self.width = width
        self.color = color

    def line(
        self, seconds: str, indent: int, title: str, details: Sequence[str], style: str
    ) -> str:
        """Return a line: the duration, the title, and the details in a fainter style."""
        start = f"{seconds:>11}  {'  ' * indent}"
        title = _one_line(title)
        rest = _one_line(" · ".join(details))
        if self.width:
            title = cut(title, max(self.width - len(start), 10))
            left = self.width - len(start) - cells(title) - 2
            rest = cut(rest, left) if left >= 8 else ""
        if not self.color:
            return f"{start}{title}  {rest}".rstrip()
        painted = f"{style}{title}{_PLAIN}" if style else title
        return f"{start}{painted}  {_DIM}{rest}{_PLAIN}" if rest else f"{start}{painted}"


def list_runs(trace: Trace) -> list[Span]:
    """Return the runs of a trace in the order of their starts, those of sub-agents included."""
    return [span for span in trace.spans if span.kind == "run"]


def render_tree(
    trace: Trace, painter: Painter, *, run: Span | None = None, complete: bool = False
) -> Iterator[str]:
    """Yield the lines of the tree.

    Args:
        trace: The trace.
        painter: Width and colors.
        run: The only run to show; by default the whole session.
        complete: Whether to show the turns of all runs, however many there are.
    """
    children = trace.children()
    totals = trace.totals()
    waits = trace.total_waits()
    collapsed: set[int] = set()
    if run is None and not complete and len(trace.spans) > MAX_LINES:
        collapsed = _find_collapsed(trace)
    # A stack instead of recursion: nothing limits how deep agents start agents.
    stack: list[tuple[Span, int]] = [(run or trace.root, 0)]
    while stack:
        span, indent = stack.pop()
        if span.end is not None and span.seconds < _MIN_SECONDS.get(span.kind, 0.0):
            continue
        details = describe_details(span, totals[span.id], waits[span.id])
        yield _render_span(trace, span, details, painter, indent)
        if span.id not in collapsed:
            stack += [(child, indent + 1) for child in reversed(children[span.id])]
    if collapsed:
        yield ""
        yield f"{len(collapsed)} runs are shown without their turns: --run N shows one, --all shows all."


def _find_collapsed(trace: Trace) -> set[int]:
    """Return the runs to show without their turns: all except the last run."""
    runs = [span.id for span in list_runs(trace) if span.parent == 0]
    return set(runs[:-1])


def _render_span(
    trace: Trace, span: Span, details: list[str], painter: Painter, indent: int
) -> str:
    seconds = format_seconds(trace.seconds(span))
    title = make_title(span)
    if span.end is None and span.kind != "session":
        details.insert(0, "running")
    if span.kind == "session":
        details.insert(0, f"{trace.events:,} events")
    style = ""
    if span.error:
        style = _RED
    elif span.kind in ("session", "run", "agent"):
        style = _BOLD
    return painter.line(seconds, indent, title, details, style)


def render_slowest(
    trace: Trace, painter: Painter, count: int, run: Span | None = None
) -> Iterator[str]:
    """Yield a line for each of the slowest model calls, tool calls, waits and hooks.

    Args:
        trace: The trace.
        painter: Width and colors.
        count: Maximum number of lines.
        run: The only run to look at; by default the whole session.
    """
    numbers = {span.run: number for number, span in enumerate(list_runs(trace), 1)}
    for span in find_slowest(trace, count, run):
        details = describe_details(span, span.usage)
        if span.run in numbers:
            details.insert(0, f"run {numbers[span.run]}{_find_turn(trace, span)}")
        style = _RED if span.error else ""
        yield painter.line(format_seconds(trace.seconds(span)), 0, make_title(span), details, style)


def find_slowest(trace: Trace, count: int, run: Span | None = None) -> list[Span]:
    """Return the slowest model calls, tool calls, waits and hooks, the slowest first.

    Args:
        trace: The trace.
        count: Maximum number of spans.
        run: The only run to look at; by default the whole session.
    """
    leaves = [span for span in trace.spans if span.kind in _LEAVES]
    if run is not None:
        leaves = [span for span in leaves if span.run == run.run]
    leaves.sort(key=trace.seconds, reverse=True)
    return leaves[:count]


def _find_turn(trace: Trace, span: Span) -> str:
    while span.parent is not None:
        span = trace.spans[span.parent]
        if span.kind == "turn":
            return f", {span.name}"
    return ""


def describe_unread(trace: Trace, t: Language = ENGLISH) -> list[str]:
    """Return sentences about the entries of the log that could not be read."""
    lines = []
    if trace.unknown:
        lines.append(describe_unknown(trace, t))
    if trace.damaged:
        lines.append(describe_damaged(trace, t))
    return lines


def describe_unknown(trace: Trace, t: Language = ENGLISH) -> str:
    """Return a sentence about the events that a newer hilum or a removed plugin wrote."""
    count = sum(trace.unknown.values())
    text = "{count} events are of types that this version does not know: {types}."
    if count == 1:
        text = "{count} event is of a type that this version does not know: {types}."
    return t(
        text,
        count=f"{count:,}",
        types=", ".join(f"{name} ({count})" for name, count in sorted(trace.unknown.items())),
    )


def _one_line(text: str) -> str:
    """Return a text of a model or tool that is harmless on a terminal, on one line."""
    return escape_terminal(" ".join(text.split()))
