"""Displays agents on a terminal: one row each while they run, and a line when one ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hilum_view import AgentView, SessionView, format_duration

from hilum_cli.terminal import cells, cut, line

MARKS = {"completed": "✓", "partial_success": "◐", "queued": "·", "waiting_for_approval": "?"}
RUNNING = "▸"
MAX_NAME = 24
"""Width of the name column in a row."""
NARROW = 60
"""Minimum width, in columns, at which an agent's activity is on the same line as its name."""


def mark_of(view: AgentView) -> str:
    """Return the character that shows an agent's state."""
    return MARKS.get(view.status, "✗" if view.ended else RUNNING)


def name_of(view: AgentView) -> str:
    """Return an agent's display name."""
    return line(view.name, 80)


def shown_as(view: SessionView, agent: str) -> str:
    """Return the display name of a session agent; empty for the one that the user talks to."""
    return line(view.name_of(agent), 80)


def ending(view: AgentView) -> str:
    """Return a line that says how an agent ended, with the id for reading its result again."""
    parts = [f"{mark_of(view)} {view.id} {name_of(view)}"]
    if view.status != "completed":
        parts.append(view.status.replace("_", " "))
    parts.append(format_duration(view.seconds))
    if view.calls:
        parts.append("1 call" if view.calls == 1 else f"{view.calls} calls")
    return " · ".join(parts)


def change(view: AgentView) -> str:
    """Return a line that says that an agent is waiting, has begun, or is waiting for the user.

    The line is empty for other changes.
    """
    activities = {"running": "begins", "waiting_for_approval": view.activity}
    if view.place:
        activities["queued"] = view.activity
    activity = activities.get(view.status)
    if activity:
        return f"{mark_of(view)} {view.id} {name_of(view)}: {activity}"
    return ""


def rows(views: Sequence[AgentView], width: int, most: int, spin: str, now: float) -> Iterator[str]:
    """Format the agents that have not ended, using one or two lines each.

    Args:
        views: The agents.
        width: Available columns.
        most: Maximum number of lines.
        spin: The current frame of the progress spinner.
        now: Unix time.
    """
    each = 1 if width >= NARROW else 2
    fitting = max(most // each, 1)
    column = min(max((cells(name_of(view)) for view in views), default=0), MAX_NAME)
    for view in views[:fitting]:
        mark = mark_of(view)
        head = f"{spin if mark == RUNNING else mark} {view.id[:4]}"
        if each == 1:
            yield cut(_wide_row(view, head, column, now), width)
        else:
            name = cut(name_of(view), width - 18)
            yield cut(f"{head} {name} {_share(view).strip()} {_age(view, now).strip()}", width)
            yield cut(f"    {line(view.activity, 200)}", width)
    if len(views) > fitting:
        yield cut(f"  … and {len(views) - fitting} more", width)


def _wide_row(view: AgentView, head: str, column: int, now: float) -> str:
    name = cut(name_of(view), column)
    padded = name + " " * (column - cells(name))
    return f"{head} {padded} {_share(view)} {_age(view, now)}  {line(view.activity, 200)}"


def _share(view: AgentView) -> str:
    if view.status == "queued":
        return "    "
    return f"{view.progress:4.0%}"


def _age(view: AgentView, now: float) -> str:
    """Return how long an agent has run or waited, in whole seconds."""
    seconds = float(int(max(now - view.since, 0)))
    return f"{format_duration(seconds).replace('.0', ''):>5}"


def again(views: Sequence[AgentView]) -> str:
    """Return how to answer an agent that the user called, and how to read results again.

    Empty if there are no agents.
    """
    if not views:
        return ""
    if len(views) > 1:
        return (
            f"{len(views)} agents have ended. To read a result again: hilum agents result ID, for"
            f" example {views[0].id}"
        )
    one = views[0]
    found = f"To read the result of {name_of(one)} again: hilum agents result {one.id}"
    if one.owner:
        return found
    return f'To answer {one.agent}: hilum run "@{one.agent} …". {found}'
