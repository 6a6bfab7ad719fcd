"""The agents in a session, and each start of an agent by the user or another agent."""

from __future__ import annotations

from typing import Any

import msgspec
from hilum.events import FINAL, PluginEvent, State
from hilum.messages import Usage

from hilum_view.plan import Proposal, TodoList

QUEUED = "agents.queued"
STATUS = "agents.status"
RESULT = "agents.result"
EVENTS = (QUEUED, STATUS, RESULT)
_RANKS = {"waiting_for_approval": 0, "queued": 2}


class Actor(msgspec.Struct, kw_only=True):
    """An agent in a session and its current activity.

    Attributes:
        name: Name of the agent in the session; ``main`` is the user's main agent.
        parent: Name of the agent that started this agent.
        state: State of the agent in the kernel.
        activity: Activity of the agent: ``preparing``, ``thinking``, ``working`` (calls run),
            ``answering``, or the outcome of the agent's last run.
        run: Id of the agent's current or last run.
        turn: Number of the current model call in the run, 0 before the first.
        model: Model that the agent uses, as ``provider/name``.
        mode: Mode that the agent runs in.
        retry: What hilum does about a failed model call; empty if none has failed.
        began: Unix time at which the agent's run began.
        usage: Tokens and cost of all the agent's runs.
        last_words: The last text that the agent's model wrote.
        queued: Waiting prompts, by run.
        steering: Messages for the current run that the agent has not read yet, by id.
        todos: The agent's todo list.
        proposal: The agent's plan that awaits the user's decision.
    """

    name: str
    parent: str = ""
    state: State = "idle"
    activity: str = "preparing"
    run: str = ""
    turn: int = 0
    model: str = ""
    mode: str = ""
    retry: str = ""
    began: float = 0.0
    usage: Usage = Usage()
    last_words: str = ""
    queued: dict[str, str] = {}
    steering: dict[str, str] = {}
    todos: TodoList = msgspec.field(default_factory=TodoList)
    proposal: Proposal | None = None


class AgentView(msgspec.Struct):
    """One start of an agent: its task, its progress and its result.

    Attributes:
        id: Id of the start, used to stop the agent and to read its result again.
        agent: Name of the agent's definition.
        actor: Name of the agent in the session.
        title: Task of the agent.
        owner: Name of the agent that started this one; empty if the user did.
        call: Id of the owner's call that started this one; empty if no call did.
        owner_run: Id of the run that the call belongs to.
        reports: Whether the answer is for the user instead of the agent that started this one.
        status: Status of the agent in the last ``agents.status`` event.
        previous: The status before this one; empty if the agent has had no other.
        place: Position of the agent in the queue, 0 if the agent is not waiting.
        progress: Progress from 0 to 1.
        since: Unix time at which the agent was queued or began.
        seconds: Duration in seconds, once the agent has ended.
        turns: Maximum number of turns, 0 if unknown.
        calls: Number of tool calls that have ended.
        doing: Current activity of the agent.
        usage: Tokens and cost, excluding those of agents that this one started.
        last_words: The last text that the agent's model wrote.
        result: The result, once the agent has ended.
    """

    id: str
    agent: str
    actor: str
    title: str = ""
    owner: str = ""
    call: str = ""
    owner_run: str = ""
    reports: bool = True
    status: str = "queued"
    previous: str = ""
    place: int = 0
    progress: float = 0.0
    since: float = 0.0
    seconds: float = 0.0
    turns: int = 0
    calls: int = 0
    doing: str = ""
    usage: Usage = Usage()
    last_words: str = ""
    # msgspec gives each instance its own copy of an empty default.
    result: dict[str, Any] = {}

    @property
    def ended(self) -> bool:
        """Whether the agent has ended."""
        return bool(self.result)

    @property
    def name(self) -> str:
        """The agent's display name."""
        return self.title or self.agent

    @property
    def activity(self) -> str:
        """The agent's current activity, or the reason why it is waiting, in a few words."""
        if self.status == "queued":
            if self.place:
                return f"waiting, position {self.place}"
            return "begins"
        if self.status == "waiting_for_approval":
            return "waiting for your approval"
        return self.doing or "thinking"

    @property
    def answer(self) -> str:
        """The agent's answer, or the message of the error that ended the agent."""
        text = self.result.get("text")
        if text:
            return str(text)
        error = self.result.get("error")
        # The result is plain data from an event, and any plugin can write such an event.
        if isinstance(error, dict):
            return str(error.get("message", ""))
        return ""


class _EventData(msgspec.Struct):
    """The part of an event's data that faces display."""

    agent_id: str
    agent: str = ""
    actor: str = ""
    title: str = ""
    owner: str = ""
    owner_run: str = ""
    call: str = ""
    lane: str = ""
    wakes: bool = False
    profile: dict[str, Any] = {}
    status: str = "queued"
    place: int = 0
    progress: float = 0.0
    seconds: float = 0.0


class AgentViews:
    """The started agents, built from the events that the ``agents`` plugin writes.

    Attributes:
        all: Every start of an agent, by id, oldest first.
    """

    def __init__(self) -> None:
        self.all: dict[str, AgentView] = {}
        self._open: dict[str, AgentView] = {}
        self._by_actor: dict[str, AgentView] = {}
        self._titles: set[tuple[str, str]] = set()

    def apply(self, event: PluginEvent) -> AgentView | None:
        """Apply an event whose name is one of ``EVENTS``.

        Returns:
            The agent whose status or queue position changed, or ``None`` for other changes.
        """
        try:
            data = msgspec.convert(event.data, _EventData)
        except msgspec.ValidationError:  # any plugin can write an event with this name
            return None
        if event.name == QUEUED:
            self._add(data, event.at)
            return None  # an event with the agent's status follows
        view = self._open.get(data.agent_id)
        # The agent has ended, or the log was not read from the start and lacks the agent's start.
        if view is None:
            return None
        before = (view.status, view.place > 0)
        self._update(view, data, event.at)
        if event.name == RESULT:
            view.result = event.data
            view.seconds = data.seconds
            del self._open[view.id]
        # ``Changes`` reports that an agent is waiting, but not each change in its queue position.
        if view.ended or before != (view.status, view.place > 0):
            return view
        return None

    def _add(self, data: _EventData, at: float) -> None:
        turns = data.profile.get("turns")
        view = AgentView(
            id=data.agent_id,
            agent=data.agent,
            actor=data.actor,
            title=data.title,
            owner=data.owner,
            call=data.call,
            owner_run=data.owner_run,
            reports=not data.lane and not data.wakes,
            # Any plugin may have written this event, with any data.
            turns=turns if isinstance(turns, int) else 0,
            since=at,
        )
        self.all[view.id] = view
        self._open[view.id] = view
        self._by_actor[view.actor] = view
        self._titles.add((view.owner, view.title))

    def _update(self, view: AgentView, data: _EventData, at: float) -> None:
        # The duration starts here, because it excludes the time in the queue.
        if view.status == "queued" and data.status != "queued":
            view.since = at
        if view.status != data.status:
            view.previous = view.status
        view.status = data.status
        # A retried step may report less progress, but a progress bar that moves backwards would
        # look like a bug.
        view.progress = max(view.progress, data.progress)
        view.place = data.place

    def open(self) -> list[AgentView]:
        """Return the agents that have not ended: waiting for the user, running, then queued."""
        views = [view for view in self._open.values() if view.status not in FINAL]
        return sorted(views, key=lambda view: (_RANKS.get(view.status, 1), view.place))

    def ended(self) -> list[AgentView]:
        """Return the agents that have ended, in the order in which they started."""
        return [view for view in self.all.values() if view.ended]

    def started_by(self, owner: str) -> list[AgentView]:
        """Return the agents started by an agent or, for an empty name, by the user."""
        return [view for view in self.all.values() if view.owner == owner]

    def of_actor(self, actor: str) -> AgentView | None:
        """Return the start of an agent in the session, or ``None`` if nobody started it."""
        return self._by_actor.get(actor)

    def has_started(self, owner: str, title: str) -> bool:
        """Return whether an agent has started another agent with this title."""
        return (owner, title) in self._titles
