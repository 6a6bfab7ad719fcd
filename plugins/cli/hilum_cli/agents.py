"""Displays agents on a terminal: a row for each running agent, and a line when an agent ends."""

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
    """Return an agent's display name; empty for the agent that the user talks to."""
    return line(view.name_of(agent), 80)


def ending(view: AgentView) -> str:
    """Return a line that describes how an agent ended, with the id for reading the result again."""
    parts = [f"{mark_of(view)} {view.id} {name_of(view)}"]
    if view.status != "completed":
        parts.append(view.status.replace("_", " "))
    parts.append(format_duration(view.seconds))
    if view.calls:
        parts.append("1 call" if view.calls == 1 else f"{view.calls} calls")
    return " · ".join(parts)


def change(view: AgentView) -> str:
    """Return a line about an agent that is queued, has begun, or is waiting for the user.

    The line is empty for any other change in an agent's state.
    """
    activities = {"waiting_for_approval": view.activity}
    # An agent is also running again after each of its calls.
    if view.previous == "queued":
        activities["running"] = "begins"
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
    is_wide = width >= NARROW
    fitting = max(most if is_wide else most // 2, 1)
    names = [name_of(view) for view in views]
    column = min(max(map(cells, names), default=0), MAX_NAME)
    for view, name in zip(views[:fitting], names, strict=False):
        mark = mark_of(view)
        if mark == RUNNING:
            mark = spin
        head = f"{mark} {view.id[:4]}"
        share = "" if view.status == "queued" else f"{view.progress:.0%}"
        age = _age(view, now)
        activity = line(view.activity, 200)
        if is_wide:
            short = cut(name, column)
            padded = short + " " * (column - cells(short))
            yield cut(f"{head} {padded} {share:>4} {age:>5}  {activity}", width)
        else:
            yield cut(f"{head} {cut(name, width - 18)} {share} {age}", width)
            yield cut(f"    {activity}", width)
    left_out = len(views) - fitting
    if left_out > 0:
        yield cut(f"  … and {left_out} more", width)


def _age(view: AgentView, now: float) -> str:
    """Return the time that an agent has run or waited, in whole seconds."""
    seconds = float(int(max(now - view.since, 0)))
    return format_duration(seconds).replace(".0", "")


def again(views: Sequence[AgentView]) -> str:
    """Return the commands that let the user answer an agent or read results again.

    The text is empty if there are no agents.
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
