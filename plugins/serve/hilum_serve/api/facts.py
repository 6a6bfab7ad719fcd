"""Operations that show facts: agents, todo lists, usage, the timeline, entries, events and choices."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import msgspec
import trio
from hilum import HilumError, ModelAccess
from hilum.errors import E_BAD_ARGS, E_UNKNOWN
from hilum.messages import Usage
from hilum.settings import FILE, change, config_folder
from hilum.window import WindowPart, measure_window
from hilum_view import Answer, Card, Spending, Spent, ToolUse

from hilum_serve.api.shared_types import Seq, require_right
from hilum_serve.api.work import find_card, needs_administer
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
from hilum_serve.users import Rights

MAX_ENTRIES = 500
MAX_EVENTS = 1_000
MAX_RESULT = 200_000
"""Maximum number of characters of a result in one answer."""
MAX_SPANS = 5_000
MAX_COMPLETIONS = 50
MAX_MODELS = 1_000


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


# --- the conversation -------------------------------------------------------------------------------


class EntriesQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which entries to return.

    Attributes:
        before: Id of the entry before which they are; 0 for the newest ones.
        limit: Maximum number of entries.
    """

    before: Seq = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_ENTRIES)] = 200


class EntryPage(msgspec.Struct, frozen=True):
    """Entries of a conversation, oldest first, as in the vocabulary ``view``.

    Attributes:
        entries: The entries; long texts are cut.
        first: Id of the first entry; 0 if there are none before it.
        last: Last sequence number that the entries contain.
    """

    entries: list[dict[str, Any]]
    first: int
    last: int


class EventsQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which events to return.

    Attributes:
        after: Sequence number of the last event that the client has.
        limit: Maximum number of events.
    """

    after: Seq = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_EVENTS)] = 500


class EventPage(msgspec.Struct, frozen=True):
    """Events of a session, in order.

    Attributes:
        events: The events.
        last: Last sequence number of the session.
    """

    events: list[dict[str, Any]]
    last: int


class ResultQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which part of a result to return.

    Attributes:
        offset: Number of characters to leave out at the beginning.
        limit: Maximum number of characters.
        entry: Id of the call's entry; null for the last call with the id.
    """

    offset: Seq = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_RESULT)] = MAX_RESULT
    entry: Seq | None = None


class ResultText(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the result of a call.

    Attributes:
        call: Id of the call.
        name: Name of the tool.
        arguments: The arguments with which the call runs, as JSON text.
        code: The error code; empty for success.
        text: The part of the text.
        offset: Number of characters before it.
        total: Number of characters of the whole text.
        data: The tool's data for faces.
    """

    call: str
    name: str
    arguments: str
    code: str
    text: str
    offset: int
    total: int
    data: dict[str, Any]


@operation(
    "GET",
    "/api/sessions/{session}/entries",
    rights="watch",
    query=EntriesQuery,
    returns=EntryPage,
)
async def list_entries(call: Call[EntriesQuery, None]) -> EntryPage:
    """Return a page of the conversation's entries."""
    hosted = call.hosted
    await hosted.catch_up()
    # An entry's id is its index.
    entries = hosted.view.entries
    end = call.query.before or len(entries)
    found = entries[max(end - call.query.limit, 0) : end]
    first = found[0].id if found else 0
    return EntryPage(hosted.feed.describe_entries(found), first, hosted.view.seq)


@operation(
    "GET",
    "/api/sessions/{session}/events",
    rights="watch",
    query=EventsQuery,
    returns=EventPage,
)
async def list_events(call: Call[EventsQuery, None]) -> EventPage:
    """Return a page of the session's events."""
    hosted = call.hosted
    events = await call.hub.store.read(hosted.id, call.query.after, call.query.limit)
    return EventPage([msgspec.to_builtins(event) for event in events], hosted.last)


@operation(
    "GET",
    "/api/sessions/{session}/calls/{call}/result",
    rights="watch",
    query=ResultQuery,
    returns=ResultText,
)
async def get_result(call: Call[ResultQuery, None]) -> ResultText:
    """Return the whole text of a call's result, in parts."""
    await call.hosted.catch_up()
    offset = call.query.offset
    card = find_card(call.hosted, call.path["call"], call.query.entry)
    if card is None:
        raise Problem(404, E_UNKNOWN, "There is no such call in this session.")
    text = card.text
    return ResultText(
        call=card.call.id,
        name=card.call.name,
        arguments=card.arguments,
        code=card.code,
        text=text[offset : offset + call.query.limit],
        offset=offset,
        total=len(text),
        data=card.data,
    )


# --- what can be chosen -----------------------------------------------------------------------------


class CommandFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A command that a prompt can begin with, or a name that it can mention.

    Attributes:
        name: The name, without the mark.
        mark: ``/`` or ``@``.
        summary: What it does.
        arguments: Its arguments, as shown to users.
        words: Possible first words of the arguments.
        plugin: The plugin that carries it out.
        rights: The right that it needs.
    """

    name: str
    mark: Literal["/", "@"]
    summary: str
    arguments: str
    words: tuple[str, ...]
    plugin: str
    rights: Rights


class CommandList(msgspec.Struct, frozen=True):
    """The commands and names of the session's plugins."""

    commands: list[CommandFacts]


class ModeFacts(msgspec.Struct, frozen=True):
    """A mode.

    Attributes:
        name: Its name.
        description: What the agent may do in it.
        current: Whether the session is in it.
    """

    name: str
    description: str
    current: bool


class ModeList(msgspec.Struct, frozen=True):
    """The modes of the session."""

    modes: list[ModeFacts]


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A model.

    Attributes:
        name: Its name, as provider/name.
        window: Size of its context window in tokens; 0 if unknown.
        input: Price of a million input tokens in US dollars; null if unknown.
        output: Price of a million output tokens in US dollars; null if unknown.
        usable: Whether nothing is known to be missing.
        problem: What is missing; empty if nothing is.
        current: Whether the session uses it.
    """

    name: str
    window: int
    input: float | None
    output: float | None
    usable: bool
    problem: str
    current: bool


class ModelList(msgspec.Struct, frozen=True):
    """The known models, those that can be used first; no server is contacted."""

    models: list[ModelFacts]


class CompleteQuery(msgspec.Struct, forbid_unknown_fields=True):
    """What to complete.

    Attributes:
        text: The text after ``@``.
        limit: Maximum number of completions.
    """

    text: Annotated[str, msgspec.Meta(max_length=500)] = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_COMPLETIONS)] = 20


class Completion(msgspec.Struct, frozen=True):
    """A possible completion.

    Attributes:
        text: The text to insert after ``@``; a folder ends with a slash.
        kind: Whether it is a file, a folder or an agent.
        description: What it is.
    """

    text: str
    kind: Literal["file", "folder", "agent"]
    description: str = ""


class CompletionList(msgspec.Struct, frozen=True):
    """Completions, best first."""

    completions: list[Completion]


@operation("GET", "/api/sessions/{session}/commands", rights="watch", returns=CommandList)
async def list_commands(call: Call[None, None]) -> CommandList:
    """List the commands that prompts can begin with."""
    found = []
    for plugin, command in call.hosted.session.list_commands():
        found.append(
            CommandFacts(
                name=command.name,
                mark=command.mark,
                summary=command.summary,
                arguments=command.arguments,
                words=tuple(command.words),
                plugin=plugin,
                rights="administer" if needs_administer(plugin, command) else "prompt",
            )
        )
    return CommandList(found)


@operation("GET", "/api/sessions/{session}/modes", rights="watch", returns=ModeList)
async def list_modes(call: Call[None, None]) -> ModeList:
    """List the modes of a session."""
    session = call.hosted.session
    current = session.mode.name
    modes = session.modes.values()
    return ModeList(
        [ModeFacts(mode.name, mode.description, mode.name == current) for mode in modes]
    )


@operation("GET", "/api/sessions/{session}/models", rights="watch", returns=ModelList)
async def list_models(call: Call[None, None]) -> ModelList:
    """List the known models, with window and price."""
    session = call.hosted.session
    kernel = session.kernel
    current = await _find_current_model(call.hosted)
    found: dict[str, ModelFacts] = {}
    access = kernel.plugin(ModelAccess)
    if access is not None:
        statuses = await access.survey_models(kernel, known_only=True)
        for status in sorted(statuses, key=lambda status: not status.usable):
            for info in status.models:
                price = info.price
                found[info.name] = ModelFacts(
                    name=info.name,
                    window=info.window,
                    input=price.input if price is not None else None,
                    output=price.output if price is not None else None,
                    usable=status.usable,
                    problem="" if status.usable else status.found,
                    current=info.name == current,
                )
    if current and current not in found:
        found = {current: _describe_model(call.hosted, current), **found}
    return ModelList(list(found.values())[:MAX_MODELS])


async def _find_current_model(hosted: HostedSession) -> str:
    """Return the name of the session's model; empty if there is none."""
    router = hosted.session.kernel.router
    name = router.resolve(hosted.session.model)
    if name:
        return name
    try:
        return await router.default()
    except HilumError:
        return ""


def _describe_model(hosted: HostedSession, name: str) -> ModelFacts:
    """Return the session's model, which its provider does not list."""
    window = 0
    problem = ""
    try:
        window = hosted.session.kernel.router.model(name).info.window
    except HilumError as error:
        problem = error.message
    return ModelFacts(
        name=name,
        window=window,
        input=None,
        output=None,
        usable=not problem,
        problem=problem,
        current=True,
    )


@operation(
    "GET",
    "/api/sessions/{session}/complete",
    rights="watch",
    query=CompleteQuery,
    returns=CompletionList,
)
async def complete(call: Call[CompleteQuery, None]) -> CompletionList:
    """Complete a mention of a file, a folder or an agent."""
    hosted = call.hosted
    text = call.query.text
    limit = call.query.limit
    found = []
    for _, command in hosted.session.list_commands():
        if command.mark == "@" and command.name.casefold().startswith(text.casefold()):
            found.append(Completion(command.name, "agent", command.summary))
    index = await hosted.files.index(hosted.session)
    ranked = await trio.to_thread.run_sync(index.rank, text, limit)
    for number in ranked:
        path = index.texts[number]
        found.append(Completion(path, "folder" if path.endswith("/") else "file"))
    return CompletionList(found[:limit])


# --- settings ---------------------------------------------------------------------------------------


class SettingFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that a face may change.

    Attributes:
        name: Its name in ``PATCH …/settings``.
        value: Its value in this session; null if its plugin is not installed.
        key: Its key in the user's settings file; empty for a value of the session alone.
        help: What it means.
        rights: The right that changing it needs.
        at_once: Whether a change has an effect at once, and not when a session is opened next.
    """

    name: Literal["approve", "web_search", "images", "tool_protocol"]
    value: bool | str | None
    key: str
    help: str
    rights: Rights
    at_once: bool


class SettingList(msgspec.Struct, frozen=True):
    """The settings that a face may change."""

    settings: list[SettingFacts]


class SettingsChange(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """New values of settings; null leaves a value as it is.

    Attributes:
        approve: The approval policy of this session.
        web_search: Whether agents have the tools for the web.
        images: Whether images may be generated.
        tool_protocol: How the session's model calls tools.
    """

    approve: Annotated[str, msgspec.Meta(pattern="^(ask_first|auto|readonly)$")] | None = None
    web_search: bool | None = None
    images: bool | None = None
    tool_protocol: Literal["auto", "native", "text"] | None = None


@operation("GET", "/api/sessions/{session}/settings", rights="watch", returns=SettingList)
async def list_settings(call: Call[None, None]) -> SettingList:
    """List the settings that a face may change."""
    return await _list_settings(call.hosted)


async def _list_settings(hosted: HostedSession) -> SettingList:
    session = hosted.session
    explained = {row.key: row.value for row in session.kernel.explain()}
    model = await _find_current_model(hosted)
    protocol = explained.get(f"models.models.{model}.tool_protocol", "auto")
    return SettingList(
        [
            SettingFacts(
                name="approve",
                value=session.approve,
                key="",
                help="Which calls need approval, in this session.",
                rights="approve",
                at_once=True,
            ),
            SettingFacts(
                name="web_search",
                value=_as_bool(explained.get("web.enabled")),
                key="web.enabled",
                help="Whether the agent has the tools for searching and reading the web.",
                rights="administer",
                at_once=False,
            ),
            SettingFacts(
                name="images",
                value=_as_bool(explained.get("image.enabled")),
                key="image.enabled",
                help="Whether images may be generated; they cost money or time.",
                rights="administer",
                at_once=False,
            ),
            SettingFacts(
                name="tool_protocol",
                value=str(protocol),
                key=f"models.models.{model}.tool_protocol" if model else "",
                help="How the model calls tools: with its vendor's protocol or as text.",
                rights="administer",
                at_once=False,
            ),
        ]
    )


def _as_bool(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


@operation(
    "PATCH",
    "/api/sessions/{session}/settings",
    rights="prompt",
    body=SettingsChange,
    returns=SettingList,
)
async def change_settings(call: Call[None, SettingsChange]) -> SettingList:
    """Change settings; except for the approval policy, they apply to sessions opened later."""
    hosted = call.hosted
    wanted = call.body
    stored: list[tuple[list[str], object]] = []
    if wanted.web_search is not None:
        stored.append((["web", "enabled"], wanted.web_search))
    if wanted.images is not None:
        stored.append((["image", "enabled"], wanted.images))
    if wanted.tool_protocol is not None:
        model = await _find_current_model(hosted)
        if not model:
            raise Problem(400, E_BAD_ARGS, "The session has no model.", "Choose a model first.")
        stored.append((["models", "models", model, "tool_protocol"], wanted.tool_protocol))
    if stored:
        require_right(call, "administer", "Changing the user's settings")
    if wanted.approve is not None:
        require_right(call, "approve", "Changing the approval policy")
        hosted.session.set(approve=wanted.approve)
    path = config_folder(hosted.session.kernel.environ) / FILE
    for key, value in stored:
        await trio.to_thread.run_sync(change, path, key, value)
    return await _list_settings(hosted)
