"""Formats the panels between the conversation and the input.

The panels show the todo list, the agents, the model's thinking, and the waiting messages.
"""

from __future__ import annotations

from collections.abc import Sequence

from hilum_view import AgentView, StreamedText, Todo, TodoList, format_count, format_duration

from hilum_terminal.call_descriptions import short_line
from hilum_terminal.status import format_number
from hilum_terminal.styles import Style, Theme
from hilum_terminal.text_width import cells, cut, escape_text, one_line, pad, wrap_text

MAX_ANSWER_ROWS = 3
"""Number of lines to show from an agent's answer when the agent ends."""
MAX_TODO_ROWS = 4
MAX_AGENT_ROWS = 6
MAX_QUEUE_ITEMS = 3
"""Maximum number of messages to show from one queue."""
STEERING_TITLE = "read after the current call"
QUEUED_TITLE = "sent when the agent has finished"
MIN_PROGRESS = 0.01
"""Minimum progress of an agent to show, from 0 to 1."""
MAX_NAME = 24
"""Width, in columns, of the agents' name column."""
MIN_WIDE = 60
"""Minimum width, in columns, at which rows have all their parts."""
MIN_TEXT = 10
"""Minimum width, in columns, of the text next to the keys in a row."""
TAIL = 2_000
"""Number of characters of streaming thinking to read for the collapsed panel."""
TODO_MARKS = {
    "pending": "○",
    "in_progress": "▸",
    "completed": "✓",
    "failed": "✗",
    "blocked": "!",
    "skipped": "–",
    "cancelled": "–",
}
_TODO_STYLES: dict[str, Style] = {
    "in_progress": "accent",
    "completed": "good",
    "failed": "bad",
    "blocked": "warning",
}
# The order of the open items in a collapsed panel.
_TODO_RANKS = {"in_progress": 0, "blocked": 1, "pending": 2}
OPEN_STATUSES = frozenset(_TODO_RANKS)
"""The statuses of todo items that are not finished."""
AGENT_MARKS = {"completed": "✓", "partial_success": "◐", "queued": "·", "waiting_for_approval": "?"}


# --- todo list ------------------------------------------------------------------------------------


def todo_rows(
    todos: TodoList,
    *,
    width: int,
    theme: Theme,
    max_rows: int = MAX_TODO_ROWS,
    unfolded: bool = False,
) -> list[str]:
    """Return the rows of a todo list; none if there is no list.

    Args:
        todos: The list.
        width: Available width in columns.
        theme: The styles.
        max_rows: Maximum number of rows in the collapsed panel.
        unfolded: Whether to show all items, in list order.
    """
    if not todos.items:
        return []
    count = f"{todos.completed}/{todos.total}"
    if unfolded:
        head = theme.paint(cut(f"todo {count}", width), "dim")
        return [head, *(_todo_row(item, width, theme) for item in todos.items)]
    open_items = [item for item in todos.items if item.status in _TODO_RANKS]
    # The sort is stable, so that items with the same status stay in order.
    open_items.sort(key=lambda item: _TODO_RANKS[item.status])
    if not open_items:
        return [theme.paint(cut(f"✓ todo {count}", width), "dim")]
    shown = open_items
    left = 0
    if len(open_items) > max_rows:
        # The last row says how many items are left out; the current item is always shown.
        shown = open_items[: max(max_rows - 1, 1)]
        left = len(open_items) - len(shown)
    rows = [_todo_row(shown[0], width, theme, count)]
    for number, item in enumerate(shown[1:]):
        rows.append(_todo_row(item, width, theme, "next:" if number == 0 else ""))
    if left and max_rows > 1:
        rows.append(theme.paint(cut(f"  … {left} more", width), "dim"))
    return rows


def _todo_row(item: Todo, width: int, theme: Theme, label: str = "") -> str:
    mark = theme.paint(TODO_MARKS.get(item.status, "·"), _TODO_STYLES.get(item.status, "dim"))
    before = f"{theme.paint(label, 'dim')} " if label else ""
    text = short_line(item.content, width)
    style: Style = "bold" if item.status == "in_progress" else "plain"
    if item.status in ("completed", "skipped", "cancelled"):
        style = "dim"
    return cut(f"{mark} {before}{theme.paint(text, style)}", width)


# --- agents ---------------------------------------------------------------------------------------


def agent_rows(
    views: Sequence[AgentView],
    *,
    width: int,
    now: float,
    theme: Theme,
    spinner: str,
    max_rows: int = MAX_AGENT_ROWS,
    background: int = 0,
) -> list[str]:
    """Return a row for each running agent, and a row for the background commands.

    Args:
        views: The agents, most important first (see ``AgentViews.open``).
        width: Available width in columns.
        now: Unix time.
        theme: The styles.
        spinner: The current frame of the progress spinner.
        max_rows: Maximum number of rows.
        background: Number of background commands.
    """
    room = max(max_rows - bool(background), 1)
    shown = views
    if len(views) > room:
        shown = views[: max(room - 1, 0)]
    names = [short_line(view.name, MAX_NAME) for view in shown]
    column = max(map(cells, names), default=0)
    rows = []
    for view, name in zip(shown, names, strict=True):
        rows.append(_agent_row(view, pad(name, column), width, now, theme, spinner))
    left = len(views) - len(shown)
    if left:
        rows.append(theme.paint(cut(f"  … {format_count(left, 'more agent')}", width), "dim"))
    if background:
        text = f"· {format_count(background, 'command')} in the background"
        rows.append(theme.paint(cut(text, width), "dim"))
    return rows


def _agent_row(
    view: AgentView, name: str, width: int, now: float, theme: Theme, spinner: str
) -> str:
    mark = AGENT_MARKS.get(view.status, "✗" if view.ended else spinner)
    is_waiting = view.status == "waiting_for_approval"
    style: Style = "warning" if is_waiting else "accent"
    # Before there is any progress, a number says nothing.
    is_measured = view.status != "queued" and view.progress >= MIN_PROGRESS
    progress = f"{view.progress:.0%} done" if is_measured else ""
    age = _format_age(now - view.since)
    activity = short_line(view.activity, width)
    if is_waiting:
        activity = theme.paint(activity, "warning")
    head = f"{theme.paint(mark, style)} {theme.paint(short_line(view.id[:4]), 'dim')} "
    if width < MIN_WIDE:
        # The reason why an agent waits is more important than its progress.
        short_name = cut(name.rstrip(), max(width // 3, 6))
        middle = activity if is_waiting else f"{progress} {age}  {activity}".strip()
        return cut(f"{head}{short_name} {middle}", width)
    row = f"{head}{theme.paint(name, 'bold')} {progress:>9} {age:>6}"
    tokens = f"{format_number(view.usage.total)} tokens" if view.usage.total else ""
    room = width - cells(row) - 2
    # The tokens are left out if the activity would have too little room.
    if tokens and room - cells(tokens) - 2 >= MIN_TEXT:
        activity = cut(activity, room - cells(tokens) - 2)
        row = f"{row}  {activity}  {theme.paint(tokens, 'dim')}"
    else:
        row = f"{row}  {activity}"
    return cut(row, width)


def _format_age(seconds: float) -> str:
    """Return a duration in whole seconds, 0 if the clock has jumped backwards."""
    return format_duration(float(int(max(seconds, 0)))).replace(".0", "")


# --- thinking -------------------------------------------------------------------------------------


def thinking_rows(
    thinking: StreamedText,
    *,
    width: int,
    theme: Theme,
    seconds: float,
    unfolded: bool = False,
    max_rows: int = 0,
    ended: bool = False,
) -> list[str]:
    """Return the rows of the model's thinking; none if the model has not been thinking.

    Args:
        thinking: The text so far.
        width: Available width in columns.
        theme: The styles.
        seconds: Duration of the model's thinking in seconds.
        unfolded: Whether to show the text; otherwise, only its last line is shown.
        max_rows: Maximum number of rows in the expanded panel, 0 for all; the last are shown.
        ended: Whether the model has finished thinking.
    """
    if not thinking:
        return []
    took = _format_age(seconds)
    head = f"thought for {took}" if ended else f"thinking… {took}"
    if not unfolded:
        # After the thinking has ended, its last line is of no interest.
        last = "" if ended else _last_line(thinking.tail(TAIL))
        room = width - cells(head) - 2
        text = f"{head}  {cut(last, room)}" if last and room >= MIN_TEXT else head
        return [theme.paint(cut(text, width), "dim")]
    # A row has at most two columns per character, so only the text that can be shown is wrapped.
    text = thinking.tail(2 * max_rows * width) if max_rows else str(thinking)
    rows = wrap_text(escape_text(text).strip("\n"), max(width - 2, 2))
    if max_rows:
        rows = rows[-max(max_rows - 1, 1) :]
    painted = [theme.paint(cut(f"  {row}", width), "dim") for row in rows]
    return [theme.paint(cut(head, width), "dim"), *painted]


def _last_line(text: str) -> str:
    lines = [line for line in text.split("\n") if line.strip()]
    return one_line(lines[-1]) if lines else ""


# --- waiting messages -----------------------------------------------------------------------------


def queue_rows(
    steering: Sequence[str],
    queued: Sequence[str],
    *,
    width: int,
    theme: Theme,
    edit_key: str = "",
    edits_queued: bool = True,
    max_rows: int = MAX_QUEUE_ITEMS,
) -> list[str]:
    """Return the rows of the messages that wait for the agent; none if no message is waiting.

    Each message has a row with its number, and the message that the key edits also shows the key.
    The numbering continues from the first list to the second one.

    Args:
        steering: Messages to be sent after the current call.
        queued: Prompts to run after the current run.
        width: Available width in columns.
        theme: The styles.
        edit_key: Name of the key that edits the message that was entered last; empty for none.
        edits_queued: Whether that message is in the second list, if both lists have messages.
        max_rows: Maximum number of messages to show from each list; the others are only counted.
    """
    rows: list[str] = []
    number = 1
    edited = queued if queued and (edits_queued or not steering) else steering
    for title, texts in ((STEERING_TITLE, steering), (QUEUED_TITLE, queued)):
        if not texts:
            continue
        key = f"{edit_key} edits" if edit_key and texts is edited else ""
        rows.append(theme.paint(cut(title, width), "dim"))
        for place, text in enumerate(texts[:max_rows], 1):
            shown_key = key if place == len(texts) else ""
            rows.append(_queue_row(number, text, shown_key, width, theme))
            number += 1
        left = len(texts) - max_rows
        if left > 0:
            more = f"  … {left} more"
            if key:
                more += f" · {key} the last"
            rows.append(theme.paint(cut(more, width), "dim"))
            number += left
    return rows


def _queue_row(number: int, text: str, keys: str, width: int, theme: Theme) -> str:
    head = f"  {number} "
    room = width - cells(head)
    shown = short_line(text)
    more = len(text.strip().splitlines()) - 1
    ending = f" (+{format_count(more, 'line')})" if more > 0 else ""
    # The keys are left out if the message itself would have too little room.
    if keys and room - cells(keys) - 2 >= max(MIN_TEXT, min(cells(shown), width // 3)):
        room -= cells(keys) + 2
        painted = "  " + theme.paint(keys, "dim")
    else:
        painted = ""
    if room - cells(ending) < MIN_TEXT:
        ending = ""
    message = cut(shown, room - cells(ending))
    return cut(f"{theme.paint(head, 'dim')}{message}{ending}{painted}", width)


def ended_agent_rows(
    agent: AgentView, *, width: int, theme: Theme, unfold_key: str = ""
) -> list[str]:
    """Return rows that say how an agent ended, and show the beginning of its answer.

    Args:
        agent: The agent.
        width: Available width in columns.
        theme: The styles.
        unfold_key: Name of the key that shows the agent's calls and whole answer; empty for none.
    """
    key = f" ({unfold_key})" if unfold_key else f" (/agents result {one_line(agent.id)})"
    # Only the beginning is laid out, because an answer may be very long.
    start = agent.answer.strip()[: MAX_ANSWER_ROWS * 2 * width]
    wrapped = wrap_text(escape_text(start), max(width - 4, 2))
    lines = [row for row in wrapped if row.strip()]
    is_cut = len(lines) > MAX_ANSWER_ROWS or len(start) < len(agent.answer.strip())
    rows = [describe_ended_agent(agent, width=width, theme=theme, key="" if is_cut else key)]
    shown = [f"    {row}" for row in lines[:MAX_ANSWER_ROWS]]
    if is_cut:
        shown.append(f"    … more{key}")
    return [*rows, *(theme.paint(cut(row, width), "dim") for row in shown)]


def describe_ended_agent(agent: AgentView, *, width: int, theme: Theme, key: str = "") -> str:
    """Return the row that says how an agent ended.

    Args:
        agent: The agent.
        width: Available width in columns.
        theme: The styles.
        key: What shows the agent's calls, in parentheses; left out if the agent made no calls.
    """
    is_good = agent.status == "completed"
    mark = theme.paint("✓", "good") if is_good else theme.paint("✗", "bad")
    facts = [f"agent {one_line(agent.name)}"]
    if not is_good:
        facts.append(agent.status.replace("_", " "))
    if agent.calls:
        facts.append(f"{format_count(agent.calls, 'call')}{theme.paint(key, 'dim')}")
    facts.append(format_duration(agent.seconds))
    return cut(f"{mark} {' · '.join(facts)}", width)
