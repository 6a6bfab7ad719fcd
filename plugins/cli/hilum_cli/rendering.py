"""Formats the view of a session for a terminal: calls, notices, todo lists, status line."""

from __future__ import annotations

import re

from hilum_view import (
    Card,
    Notice,
    SessionView,
    Todo,
    TodoList,
    format_cost,
    format_duration,
    format_tokens,
)

from hilum_cli.terminal import cells, escape_terminal, line

CARD_MARKS = {"completed": "✓", "failed": "✗", "running": "▸"}
TODO_MARKS = {
    "pending": "○",
    "in_progress": "▸",
    "completed": "✓",
    "failed": "✗",
    "blocked": "!",
    "skipped": "–",
    "cancelled": "–",
}
MAX_TODOS = 8
"""Maximum number of items to name at once."""
UNPRINTED = ("settings", "undo")
"""Kinds of notices that are not printed, because the command reports them."""
LEAVING_ORDER = (5, 3, 4, 1, 2, 6)
"""The parts to drop from a status line that is too long, in this order."""


def card_mark(card: Card) -> str:
    """Return the character that shows the state of a call."""
    return CARD_MARKS.get(card.state, "·")


def card_title(card: Card, width: int = 80) -> str:
    """Return the name and arguments of a call, truncated to a number of columns."""
    return line(card.title, width)


def card_summary(card: Card, width: int = 100) -> str:
    """Return a summary of a call's result, truncated to a number of columns."""
    return line(card.summary, width)


def notice_line(notice: Notice | None) -> str:
    """Return the line to print for a notice; empty if it is not printed."""
    if notice is None or notice.about in UNPRINTED or notice.is_in_outcome:
        return ""
    mark = "·" if notice.level == "info" else "!"
    text = f"{mark} {escape_terminal(notice.text)}"
    # Nothing else says what to do about an error during a run.
    if notice.about == "error" and notice.hint:
        text += f" {escape_terminal(notice.hint)}"
    # Only the first line has the mark, so the others are indented below it.
    return re.sub(r"\n(?=[^ \n])", "\n  ", text)


def todo_rows(todos: TodoList) -> list[str]:
    """Return the changes to a todo list: a line per item for a new list, otherwise one line."""
    if not todos.changed:
        return []
    head = f"· todo {todo_count(todos)}".rstrip()
    named = [_todo(item) for item in todos.changed[:MAX_TODOS]]
    if len(todos.changed) > MAX_TODOS:
        named.append(f"… and {len(todos.changed) - MAX_TODOS} more")
    if todos.is_new:
        return [head, *(f"  {each}" for each in named)]
    return ["  ".join([head, *named])]


def todo_count(todos: TodoList) -> str:
    """Return the progress of a todo list, such as ``2/5``; empty if there is no list."""
    if not todos.total:
        return ""
    return f"{todos.completed}/{todos.total}"


def _todo(item: Todo) -> str:
    return f"{TODO_MARKS.get(item.status, '·')} {line(item.content, 200)}"


def status_line(
    view: SessionView,
    seconds: float,
    *,
    turns: int = 0,
    width: int = 0,
    before: str = "",
    after: str = "",
) -> str:
    """Return the status line: turn, todo list, tokens, cost, model and time.

    Args:
        view: The session.
        seconds: Elapsed time of the run in seconds.
        turns: Maximum number of turns, 0 for no limit.
        width: Maximum width in columns, 0 for no limit; the least important parts are left out
            first.
        before: Text at the beginning of the line.
        after: Text at the end of the line.
    """
    actor = view.lead_actor
    todo = todo_count(actor.todos)
    parts = [
        before,
        _turn(actor.turn, turns),
        f"todo {todo}" if todo else "",
        format_tokens(view.totals.usage),
        format_cost(view.totals.usage),
        line(actor.model, 50),
        format_duration(seconds),
        after,
    ]
    for number in LEAVING_ORDER:
        if not width or cells(_joined(parts)) <= width:
            break
        parts[number] = ""
    return _joined(parts)


def _turn(turn: int, turns: int) -> str:
    if not turn:
        return ""
    return f"turn {turn}/{turns}" if turns else f"turn {turn}"


def _joined(parts: list[str]) -> str:
    return " · ".join(part for part in parts if part)
