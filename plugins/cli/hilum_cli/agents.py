"""The agents of a session as a face shows them: a fold over their events, and how each is written
in a line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from hilum.events import FINAL, CallDone, CallStarted, Event, ModelStarted, PluginEvent

from hilum_cli.terminal import cells, cut, line

MARKS = {"completed": "✓", "partial_success": "◐", "queued": "·", "waiting_for_approval": "?"}
NAME = 24
NARROW = 60
"""Columns below which what an agent does stands on a line of its own."""


class AgentView(msgspec.Struct):
    """One start of an agent: who, where it stands, and what it does.

    Attributes:
        id: What it is stopped and read again by.
        agent: Name of its definition.
        actor: Its name in the session.
        title: What it is about.
        owner: Name of the agent that started it, empty for the user.
        reports: Whether its answer is for the user, and not for the agent that started it.
        status: As the event ``agents.status`` has it.
        place: In the queue, 0 where it does not wait.
        progress: 0 to 1.
        since: When it was started, or has begun, Unix time.
        seconds: How long it took, once it has ended.
        turns: The most it has, 0 where nobody says.
        calls: How many tool calls have ended.
        doing: What it does now.
        result: The result, once it has ended.
    """

    id: str
    agent: str
    actor: str
    title: str = ""
    owner: str = ""
    reports: bool = True
    status: str = "queued"
    place: int = 0
    progress: float = 0.0
    since: float = 0.0
    seconds: float = 0.0
    turns: int = 0
    calls: int = 0
    doing: str = ""
    result: dict[str, Any] = {}

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return bool(self.result)

    @property
    def mark(self) -> str:
        """One character that says where it stands."""
        return MARKS.get(self.status, "✗" if self.over else "▸")

    @property
    def name(self) -> str:
        """What it is called on a screen."""
        return line(self.title or self.agent, 80)

    @property
    def activity(self) -> str:
        """What it does or waits for, in a few words."""
        if self.status == "queued":
            if self.place:
                return f"waits, place {self.place}"
            return "begins"
        if self.status == "waiting_for_approval":
            return "waits for your approval"
        return self.doing or "thinking"

    @property
    def said(self) -> str:
        """Its answer; what went wrong where it has none."""
        error = self.result.get("error")
        return str(
            self.result.get("text") or (error.get("message", "") if isinstance(error, dict) else "")
        )

    def ending(self) -> str:
        """How it ended, with the id that it is read again by."""
        how = [] if self.status == "completed" else [self.status.replace("_", " ")]
        calls = [f"{self.calls} call{'s' if self.calls > 1 else ''}"] if self.calls else []
        return " · ".join([f"{self.id} {self.name}", *how, took(self.seconds), *calls])


class _Told(msgspec.Struct):
    """What the events tell that is shown."""

    agent_id: str
    agent: str = ""
    actor: str = ""
    title: str = ""
    owner: str = ""
    lane: str = ""
    wakes: bool = False
    profile: dict[str, Any] = {}
    status: str = "queued"
    place: int = 0
    progress: float = 0.0
    seconds: float = 0.0


class AgentViews:
    """The fold."""

    def __init__(self) -> None:
        self.all: dict[str, AgentView] = {}
        self._by_actor: dict[str, AgentView] = {}

    def apply(self, event: Event) -> AgentView | None:
        """Fold an event; gives the agent whose state has changed by it."""
        if isinstance(event, PluginEvent) and event.name in (
            "agents.queued",
            "agents.status",
            "agents.result",
        ):
            return self._told(event)
        view = self._by_actor.get(event.agent)
        if view is not None:
            match event:
                case ModelStarted(turn=turn):
                    view.doing = f"turn {turn}: thinking"
                case CallStarted(call=call):
                    from hilum_cli.progress import arguments

                    view.doing = line(f"{call.name} {arguments(call.arguments)}", 200)
                case CallDone():
                    view.calls += 1
        return None

    def _told(self, event: PluginEvent) -> AgentView | None:
        try:
            data = msgspec.convert(event.data, _Told)
        except msgspec.ValidationError:  # any plugin may write an event of this name
            return None
        if event.name == "agents.queued":
            view = AgentView(
                id=data.agent_id,
                agent=data.agent,
                actor=data.actor,
                title=data.title,
                owner=data.owner,
                reports=not data.lane and not data.wakes,
                turns=int(data.profile.get("turns") or 0),
                since=event.at,
            )
            self.all[view.id] = self._by_actor[view.actor] = view
            return None  # where it stands is told next
        known = self.all.get(data.agent_id)
        if known is None or known.over:
            return None
        before = known.status, known.place > 0
        if known.status == "queued" and data.status != "queued":
            known.since = event.at
        known.status = data.status
        known.progress = max(known.progress, data.progress)
        known.place = data.place
        if event.name == "agents.result":
            known.result = event.data
            known.seconds = data.seconds
        if before != (known.status, known.place > 0) or known.over:
            return known
        return None

    def open(self) -> list[AgentView]:
        """Those that run and wait: first those that wait for the user, then those at work, then the
        queue.
        """
        rank = {"waiting_for_approval": 0, "queued": 2}
        views = [view for view in self.all.values() if view.status not in FINAL]
        return sorted(views, key=lambda view: (rank.get(view.status, 1), view.place))

    def ended(self) -> list[AgentView]:
        """Those that have ended, in the order in which they were started."""
        return [view for view in self.all.values() if view.over]

    def of(self, actor: str) -> AgentView | None:
        """The one that an agent of the session works for."""
        return self._by_actor.get(actor)

    def started_by(self, owner: str, title: str) -> bool:
        """Return whether an agent has started one about this."""
        return any(view.owner == owner and view.title == title for view in self.all.values())


def took(seconds: float) -> str:
    """Write how long something took; see ``progress.duration``."""
    from hilum_cli.progress import duration

    return duration(seconds)


def change(view: AgentView) -> str:
    """Say in one line that an agent waits, has begun, or waits for the user.

    Nothing for what need not be told.
    """
    told = {
        "queued": view.place and view.activity,
        "running": "begins",
        "waiting_for_approval": view.activity,
    }
    said = told.get(view.status)
    if said:
        return f"{view.mark} {view.id} {view.name}: {said}"
    return ""


def rows(views: Sequence[AgentView], width: int, most: int, spin: str, now: float) -> Iterator[str]:
    """Write those that are open, one or two lines each.

    Args:
        views: Which.
        width: Columns there are.
        most: Lines there are.
        spin: The mark of what moves.
        now: Unix time.
    """
    each = 1 if width >= NARROW else 2
    fitting = max(most // each, 1)
    column = min(max((cells(view.name) for view in views), default=0), NAME)
    for view in views[:fitting]:
        mark = spin if view.mark == "▸" else view.mark
        share = f"{view.progress:4.0%}" if view.status != "queued" else "    "
        age = f"{took(float(int(max(now - view.since, 0)))).replace('.0', ''):>5}"
        if each == 1:
            name = cut(view.name, column)
            padded = name + " " * (column - cells(name))
            yield cut(f"{mark} {view.id[:4]} {padded} {share} {age}  {view.activity}", width)
        else:
            name = cut(view.name, width - 18)
            yield cut(f"{mark} {view.id[:4]} {name} {share.strip()} {age.strip()}", width)
            yield cut(f"    {view.activity}", width)
    if len(views) > fitting:
        yield cut(f"  … and {len(views) - fitting} more", width)


def again(views: Sequence[AgentView]) -> str:
    """Return how one that the user called is answered, and how results are found again.

    Empty where there are none.
    """
    if not views:
        return ""
    if len(views) == 1:
        one = views[0]
        found = f"To read what {one.name} found again: hilum agents result {one.id}"
        if one.owner:
            return found
        return f'To answer {one.agent}: hilum run "@{one.agent} …". {found}'
    return (
        f"{len(views)} agents have ended. To read one again: hilum agents result ID, for example"
        f" {views[0].id}"
    )
