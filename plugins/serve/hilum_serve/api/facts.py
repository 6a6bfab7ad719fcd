"""Operations that show facts: agents, todo lists, usage and the timeline."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import msgspec
import trio
from hilum import HilumError
from hilum.errors import E_UNKNOWN
from hilum.messages import Usage
from hilum.window import WindowPart, measure_window
from hilum_view import Answer, Card, Spending, Spent, ToolUse

from hilum_serve.hub import HostedSession
from hilum_serve.operations import Call, operation
from hilum_serve.problems import Problem
from hilum_serve.session_state import (
    AgentState,
    StartedAgent,
    TodoState,
    describe_actor,
    describe_start,
    list_todos,
)

MAX_SPANS = 5_000


# --- agents and todo lists --------------------------------------------------------------------------


class AgentList(msgspec.Struct, frozen=True):
    """The agents of a session, and each start of one."""

    agents: list[AgentState]
    started: list[StartedAgent]


class TodoLists(msgspec.Struct, frozen=True):
    """The todo lists of the agents that have one."""

    todo: list[TodoState]


@operation("GET", "/api/sessions/{session}/agents", rights="watch", returns=AgentList)
async def list_agents(call: Call[None, None]) -> AgentList:
    """List the agents of a session and what they do."""
    await call.hosted.catch_up()
    view = call.hosted.view
    agents = [describe_actor(call.hosted, actor) for actor in view.actors.values()]
    return AgentList(agents, [describe_start(each) for each in view.agents.all.values()])


@operation("GET", "/api/sessions/{session}/todo", rights="watch", returns=TodoLists)
async def get_todo(call: Call[None, None]) -> TodoLists:
    """Return the todo lists of a session's agents."""
    await call.hosted.catch_up()
    return TodoLists(list_todos(call.hosted.view.actors.values()))


# --- usage ------------------------------------------------------------------------------------------


class WindowFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What fills the context window of the main agent.

    Attributes:
        model: The model.
        window: Size of its window in tokens.
        reserved: Tokens that are reserved for the response.
        compact_at: Number of tokens at which the conversation is compacted.
        total: Number of tokens of the next request.
        free: Number of tokens that can be added before the conversation is compacted.
        parts: The parts of the next request, in order.
        counted: Whether the provider's counts correct the estimates.
    """

    model: str
    window: int
    reserved: int
    compact_at: int
    total: int
    free: int
    parts: list[WindowPart]
    counted: bool


class UsageFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens and cost of a session.

    Attributes:
        usage: Tokens and cost of all agents.
        runs: Number of runs of the main agent.
        models: By model.
        agents: By agent.
        purposes: By purpose: ``conversation``, or what a plugin called a model for.
        tools: By tool.
        plugins: By the plugin that provides the tool.
        window: What fills the context window; null if there is no model that can be called.
    """

    usage: Usage
    runs: int
    models: dict[str, Spent]
    agents: dict[str, Spent]
    purposes: dict[str, Spent]
    tools: dict[str, ToolUse]
    plugins: dict[str, ToolUse]
    window: WindowFigures | None


@operation("GET", "/api/sessions/{session}/usage", rights="watch", returns=UsageFacts)
async def get_usage(call: Call[None, None]) -> UsageFacts:
    """Return tokens and cost of a session, and what fills the context window."""
    hosted = call.hosted
    await hosted.catch_up()
    spending = Spending()
    last = 0
    while page := await call.hub.store.read(hosted.id, last):
        for event in page:
            spending.apply(event)
        last = page[-1].seq
        await trio.lowlevel.checkpoint()
    totals = hosted.view.totals
    return UsageFacts(
        usage=totals.usage,
        runs=totals.runs,
        models=spending.models,
        agents=spending.agents,
        purposes=spending.purposes,
        tools=spending.tools,
        plugins=spending.plugins,
        window=await _measure(hosted),
    )


async def _measure(hosted: HostedSession) -> WindowFigures | None:
    try:
        use = await measure_window(hosted.session.agents["main"])
    except HilumError:
        return None
    return WindowFigures(
        model=use.model,
        window=use.window,
        reserved=use.reserved,
        compact_at=use.compact_at,
        total=use.total,
        free=use.free,
        parts=list(use.parts),
        counted=use.counted,
    )


# --- the timeline -----------------------------------------------------------------------------------


class TimelineQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which part of the timeline to return.

    Attributes:
        run: The only run, with what other agents did meanwhile; empty for the whole session.
    """

    run: Annotated[str, msgspec.Meta(max_length=200)] = ""


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """Something that took time.

    Attributes:
        kind: ``model`` for a request to a model, ``call`` for a tool call.
        entry: Id of the entry in the conversation.
        agent: The agent.
        run: Id of the run.
        name: The model or the tool.
        title: What it was about, in a few words.
        asked: Unix time at which the call was made; for a request, when it was sent.
        began: Unix time at which it began to run; 0 if it has not.
        seconds: Duration; 0 while it lasts.
        state: State of the entry.
    """

    kind: Literal["model", "call"]
    entry: int
    agent: str
    run: str
    name: str
    title: str
    asked: float
    began: float
    seconds: float
    state: str


class Timeline(msgspec.Struct, frozen=True):
    """Requests and calls in the order in which they began; at most the newest 5,000."""

    spans: list[Span]


@operation(
    "GET",
    "/api/sessions/{session}/timeline",
    rights="watch",
    query=TimelineQuery,
    returns=Timeline,
)
async def get_timeline(call: Call[TimelineQuery, None]) -> Timeline:
    """Return when requests and calls ran, for a chart."""
    await call.hosted.catch_up()
    entries = call.hosted.view.entries
    if call.query.run:
        own = [entry.at for entry in entries if entry.run == call.query.run]
        if not own:
            raise Problem(404, E_UNKNOWN, "There is no such run in this session.")
        # While a run waits for the agents that it started, their entries are newer than its own.
        end = math.inf if call.query.run in call.hosted.session.runs else own[-1]
        entries = [entry for entry in entries if own[0] <= entry.at <= end]
    spans = []
    for entry in entries:
        if isinstance(entry, Answer) and entry.state != "dropped":
            spans.append(
                Span(
                    kind="model",
                    entry=entry.id,
                    agent=entry.agent,
                    run=entry.run,
                    name=entry.model,
                    title=f"turn {entry.turn}",
                    asked=entry.at,
                    began=entry.at,
                    seconds=entry.seconds,
                    state=entry.state,
                )
            )
        elif isinstance(entry, Card):
            spans.append(
                Span(
                    kind="call",
                    entry=entry.id,
                    agent=entry.agent,
                    run=entry.run,
                    name=entry.call.name,
                    title=entry.title[:200],
                    asked=entry.at,
                    began=entry.began,
                    seconds=entry.seconds,
                    state=entry.state,
                )
            )
    return Timeline(spans[-MAX_SPANS:])
