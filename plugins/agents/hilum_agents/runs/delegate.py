"""The tools by which an agent has others work: ``task``, ``handover``, ``get_agent_result``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec
import trio
from hilum import Agent, Call, Output, Profile, Session, ToolError, ToolFilter, UsageError, tool

from hilum_agents.runs import results
from hilum_agents.runs.records import Entry

if TYPE_CHECKING:
    from hilum_agents.definitions.definition import Definition
    from hilum_agents.runs.half import Runs

READ_ONLY = ("read_file", "search_files", "glob_search", "list_directory", "read_lints")
COPIES = ("general-purpose", "general", "task")
"""Names that other programs give to a copy of the agent itself."""
DAY = 86_400.0
TITLE = 80


def _half(session: Session) -> Runs:
    from hilum_agents.runs.half import Runs

    half = session.half(Runs)
    if half is None:
        raise ToolError("Agents are off.", hint="Do it yourself.")
    return half


# A stopped sub-agent ends its own calls first, and those have a grace of their own, at each depth.
@tool(risk="read", effect="idempotent", timeout=DAY, grace=30.0, queues="agents")
async def task(
    call: Call,
    description: str,
    prompt: str,
    model: Literal["default", "fast"] = "default",
    readonly: bool = False,
    background: bool = False,
    agent: str = "",
) -> Output:
    """Start a sub-agent with its own context and your tools: to explore much code, or for
    independent parts in parallel.

    Args:
        description: 3 to 5 words.
        prompt: Complete instructions. It does not see this conversation.
        model: "fast" for simple tasks.
        readonly: It may only read and search.
        background: Do not wait; its end is announced.
        agent: A defined agent to do it, such as explore or review.
    """
    agents = _half(call.session)
    own = call.agent
    ledger = agents.scheduler.ledger
    key = f"{own.name}/{own.run.id}/{own.run.turn}/{call.id}"
    entry = ledger.by_key(key)  # a call that a crash has cut off finds what it had started
    if entry is None:
        if not description.strip() or not prompt.strip():
            raise ToolError("A task needs a description and a prompt.", code="E_BAD_ARGS")
        depth = _depth(agents, own)
        definition, profile = await _wanted(agents, own, agent.strip())
        profile = _limited(agents, own, profile, model, readonly, depth)
        identity = agents.begin(
            profile,
            prompt,
            title=" ".join(description.split())[:TITLE],
            urgent=not background,
            owner=own.name,
            owner_run=own.run.id,
            lane=own.name,
            key=key,
            depth=depth,
            wakes=background,
            definition=definition,
        )
        entry = ledger.entries[identity]
    call.release_queues()  # it has taken its place: the next one of this answer may follow it
    if background:
        started = (
            f"Started in the background as {entry.id}. You are told when it has ended; do not wait"
            " for it."
        )
        return Output(started, data={"agent_id": entry.id})
    await _ended(agents, own, call, entry)
    return await _output(agents, entry)


async def _wanted(agents: Runs, own: Agent, name: str) -> tuple[Definition | None, Profile]:
    """Return who is to do a task, with no tool that the agent that wants it done has not: a named
    agent, or a copy of it.

    Raises:
        ToolError: There is no such agent, or it cannot work here.
    """
    if not name or name.casefold() in COPIES:
        prompt = own.profile.prompt if own.name != "main" else ""
        return None, Profile("task", prompt, own.profile.model, own.profile.tools)
    try:
        definition, profile = await agents.prepare(name)
    except UsageError as error:
        raise ToolError(error.message, code=error.code, hint=error.hint) from None
    return definition, msgspec.structs.replace(profile, tools=narrow(own, profile.tools))


def _limited(
    agents: Runs, own: Agent, profile: Profile, model: str, readonly: bool, depth: int
) -> Profile:
    """Return a profile with the limits of a sub-agent: of its own and of these the smaller ones
    hold.
    """
    settings = agents.settings
    tools = profile.tools
    if readonly:
        risks = {name: found.risk for name, found in own.session.tools.items()}
        tools = ToolFilter(
            allow=tuple(name for name in READ_ONLY if tools.admits(name, risks.get(name, "read")))
        )
    if depth >= settings.depth:
        tools = ToolFilter(tools.allow, (*tools.deny, "task", "handover"))
    tokens, dollars = _grant(agents, own)
    return msgspec.structs.replace(
        profile,
        model="fast" if model == "fast" else profile.model,
        tools=tools,
        turns=min(profile.turns or settings.task_turns, settings.task_turns),
        timeout=min(profile.timeout or settings.task_timeout, settings.task_timeout),
        token_limit=min(
            (each for each in (profile.token_limit, tokens) if each is not None), default=None
        ),
        cost_limit=dollars,
    )


def _depth(agents: Runs, agent: Agent) -> int:
    """How deep what an agent starts now stands.

    Raises:
        ToolError: Too deep.
    """
    own = agents.scheduler.ledger.by_run.get(agent.run.id)
    depth = own.depth + 1 if own is not None else 1
    if depth > agents.settings.depth:
        raise ToolError(
            f"Agents start agents {agents.settings.depth} deep and no deeper.",
            hint="Do it yourself.",
        )
    return depth


def _grant(agents: Runs, agent: Agent) -> tuple[int | None, float | None]:
    """Grant a task tokens and money out of what the agent has left itself: half, so that there is
    some for the next one.

    Raises:
        ToolError: There is none left.
    """
    tokens, dollars = agents.scheduler.owners.free(agent)
    if tokens is not None and tokens < 2:
        raise ToolError(
            "No tokens are left for a task.", code="E_TOKEN_LIMIT", hint="Do it yourself, or end."
        )
    if dollars is not None and dollars <= 0:
        raise ToolError(
            "No money is left for a task.", code="E_TOKEN_LIMIT", hint="Do it yourself, or end."
        )
    return None if tokens is None else tokens // 2, None if dollars is None else dollars / 2


async def _ended(agents: Runs, agent: Agent, call: Call, entry: Entry) -> None:
    """Wait for the end of a task.

    If the run that waits is stopped, so is the task, before the run ends.
    """
    try:
        await entry.ended.wait()
    except trio.Cancelled:
        scope = agent.scope
        if (scope is not None and scope.cancel_called) or trio.current_time() >= call.deadline:
            if agents.scheduler.closed:
                raise
            agents.scheduler.stop(entry)
            with trio.CancelScope(shield=True):
                await entry.ended.wait()
        raise  # else the session closes: a resume goes on with both


async def _output(agents: Runs, entry: Entry) -> Output:
    try:
        result = await agents.result(entry.id)
    except UsageError as error:
        raise ToolError(error.message, code="E_INTERRUPTED") from None
    from hilum import Usage

    agents.scheduler.owners.charge(entry, msgspec.convert(result["usage"], Usage))
    data: dict[str, Any] = {
        "agent_id": entry.id,
        "status": result["status"],
        "content": result["text"],
        "turns": result["turns"],
        "tools_used": result["tools_used"],
    }
    failed = result["error"] or {}
    if result["status"] in ("completed", "partial_success"):
        code = ""
    else:
        code = failed.get("code") or "E_FAILED"
    used = f"\n\n[{result['turns']} turns, {result['tools_used']} tool calls]"
    return Output(results.tell(result) + used, data=data, code=code)


@tool(risk="execute", effect="idempotent", queues="agents", deferred=True)
async def handover(call: Call, agent: str, brief: str) -> Output:
    """Hand the rest of the work over to another agent, which reports to the user itself.

    End your work after it.

    Args:
        agent: Name of a defined agent, such as test or review.
        brief: The goal, what is done, what is left and where to look. It does not see this
            conversation.
    """
    agents = _half(call.session)
    own = call.agent
    key = f"{own.name}/{own.run.id}/{own.run.turn}/{call.id}"
    entry = agents.scheduler.ledger.by_key(key)
    if entry is None:
        depth = _depth(agents, own)
        try:
            if agent.casefold() == own.profile.name:
                raise UsageError(
                    "An agent cannot hand over to itself.",
                    code="E_BAD_ARGS",
                    hint="Go on with the work.",
                )
            definition, profile = await agents.prepare(agent)
            tools = narrow(own, profile.tools)
            identity = agents.begin(
                msgspec.structs.replace(profile, tools=tools),
                brief,
                keep=True,
                owner=own.name,
                definition=definition,
                owner_run=own.run.id,
                key=key,
                depth=depth,
            )
        except UsageError as error:
            raise ToolError(error.message, code=error.code, hint=error.hint) from None
        entry = agents.scheduler.ledger.entries[identity]
    told = (
        f"Handed over to {agent} as {entry.id}. It reports to the user; get_agent_result gives what"
        " it found."
    )
    return Output(told, data={"agent_id": entry.id})


def narrow(giver: Agent, wanted: ToolFilter) -> ToolFilter:
    """Return a filter that admits what both the other agent's and the giver's own admit: handing
    over gains nothing.
    """
    own = giver.profile.tools
    if own == ToolFilter():
        return wanted
    if wanted == ToolFilter():
        return own
    both = (
        name
        for name, t in giver.session.tools.items()
        if own.admits(name, t.risk) and wanted.admits(name, t.risk)
    )
    return ToolFilter(allow=tuple(both))


def _nothing_started(agent: Agent) -> bool:
    """Return whether no agent was started in the session, so that there is no result to read."""
    from hilum_agents.runs.half import Runs

    runs = agent.session.half(Runs)
    return runs is None or not runs.scheduler.ledger.entries


@tool(risk="read", effect="pure", deferred=_nothing_started)
async def get_agent_result(session: Session, agent_id: str) -> Output:
    """Read the result of an agent that was started earlier: its text, files, what is done and what
    is not.

    Args:
        agent_id: Its id, or the beginning of it.
    """
    try:
        result = await _half(session).result(agent_id)
    except UsageError as error:
        raise ToolError(error.message, code=error.code, hint=error.hint) from None
    return Output(
        results.tell(result), data={key: value for key, value in result.items() if key != "text"}
    )
