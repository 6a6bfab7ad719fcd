"""Describes waiting items as rows and short texts."""

from __future__ import annotations

from hilum_terminal.approval_items import Item, WaitingCall, WaitingPlan, WaitingQuestion
from hilum_terminal.diff_rows import MAX_LINE
from hilum_terminal.row_layout import exact_rows, paragraph
from hilum_terminal.styles import Style, Theme
from hilum_terminal.text_width import ELLIPSIS, cut, one_line

MAX_DESCRIPTION = 40_000
"""Maximum number of characters to lay out in the prompt; the middle of a longer description is left
out."""


def describe_item(item: Item, width: int, theme: Theme, *, is_brief: bool = False) -> list[str]:
    """Return the rows that describe an item.

    Args:
        item: The item.
        width: Available width in columns.
        theme: The colors.
        is_brief: Whether to leave out the unchanged lines of a change.
    """
    if is_brief and isinstance(item, WaitingCall) and item.make_brief_rows is not None:
        return [cut(row, width) for row in item.make_brief_rows(width, theme)]
    if isinstance(item, WaitingCall) and item.make_rows is not None:
        return [cut(row, width) for row in item.make_rows(width, theme)]
    match item:
        case WaitingCall():
            text = item.description
        case WaitingPlan():
            text = item.text
        case WaitingQuestion():
            return paragraph(item.question, width)
    return text_rows(text, width, theme)


def whole_rows(item: Item, width: int, theme: Theme) -> list[str]:
    """Return everything about an item as rows: what is dangerous, the place, and the whole text.

    Unlike ``describe_item``, this leaves out nothing, and may take a while for a long text.
    """
    if isinstance(item, WaitingQuestion):
        return exact_rows("\n".join([item.question, *item.options]), width)
    rows: list[str] = []
    if isinstance(item, WaitingCall):
        # The scrollback shows neither the head of the question nor why hilum asked.
        rows += [theme.paint(row, "bold") for row in exact_rows(title_of(item), width)]
        if item.tool and not title_of(item).startswith(item.tool):
            rows += [theme.paint(row, "dim") for row in exact_rows(f"tool: {item.tool}", width)]
        if item.why:
            rows += [theme.paint(row, "dim") for row in paragraph(f"Why: {item.why}", width)]
        style: Style = "bad" if item.dangerous else "warning"
        for mark in item.marks:
            rows += [theme.paint(row, style) for row in paragraph(f"! {mark}", width)]
        place = " · ".join(part for part in (item.folder, item.sandbox) if part)
        rows += [theme.paint(row, "dim") for row in exact_rows(f"in {place}", width) if place]
        rows.append("")
    text = item.description if isinstance(item, WaitingCall) else item.text
    # A diff is colored, unless this would leave out a part of the text.
    is_short = len(text) <= MAX_DESCRIPTION and max(map(len, text.split("\n"))) <= MAX_LINE
    if isinstance(item, WaitingCall) and item.make_rows is not None and is_short:
        return [*rows, *item.make_rows(width, theme)]
    return [*rows, *exact_rows(text.strip("\n"), width)]


def text_rows(text: str, width: int, theme: Theme) -> list[str]:
    """Return untrusted text as rows, of which no padding can push a part out of sight."""
    if len(text) <= MAX_DESCRIPTION:
        return exact_rows(text.strip("\n"), width)
    # Laying out a description of one megabyte would take too long, and nobody reads that much text
    # here.
    half = MAX_DESCRIPTION // 2
    left_out = len(text) - 2 * half
    note = theme.paint(cut(f"{ELLIPSIS} {left_out:,} characters left out", width), "warning")
    return [*exact_rows(text[:half], width), note, *exact_rows(text[-half:], width)]


def title_of(item: Item) -> str:
    """Return the title of an item, on one line."""
    match item:
        case WaitingCall():
            return one_line(item.title or item.tool)
        case WaitingPlan():
            return "Your version of the plan" if item.edited else "Carry out this plan?"
    return "A question"


def count_calls(count: int) -> str:
    """Return a number of calls as text."""
    return "1 call" if count == 1 else f"{count} calls"
