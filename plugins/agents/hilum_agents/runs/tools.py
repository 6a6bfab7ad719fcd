"""The tools with which agents start other agents: ``task``, ``handover``, ``get_agent_result``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import msgspec
import trio
from hilum import (
    Agent,
    Call,
    Output,
    Profile,
    Session,
    ToolError,
    ToolFilter,
    Usage,
    UsageError,
    tool,
)

from hilum_agents.runs import results
from hilum_agents.runs.budgets import Budget
from hilum_agents.runs.jobs import Job
from hilum_agents.runs.runs import Runs

if TYPE_CHECKING:
    from hilum_agents.definitions.definition import Definition

READ_ONLY = ("read_file", "search_files", "glob_search", "list_directory", "read_lints")
# Names that other programs use to request a copy of the calling agent.
COPY_NAMES = ("general-purpose", "general", "task")
# The kernel's time limit for a call must not end a task, whose run has its own limit.
CALL_TIMEOUT = 86_400.0
# A stopped sub-agent ends its own calls first. Each call has a grace period, at every depth.
STOP_GRACE = 30.0
MAX_TITLE = 80
_FALLBACK = "Do the work yourself."


def _runs(session: Session) -> Runs:
    runs = session.plugin(Runs)
    if runs is None:
        raise ToolError("Agents are switched off.", hint=_FALLBACK)
    return runs


def _key(call: Call) -> str:
    """Return a key by which a tool call that is repeated after a crash finds its job."""
    agent = call.agent
    return f"{agent.name}/{agent.run.id}/{agent.run.turn}/{call.id}"


@tool(risk="read", effect="idempotent", timeout=CALL_TIMEOUT, grace=STOP_GRACE, queues="agents")
async def task(
    call: Call,
    description: str,
    prompt: str,
    model: Literal["default", "fast"] = "default",
    readonly: bool = False,
    background: bool = False,
    agent: str = "",
) -> Output:
    """Start a sub-agent with its own context and your tools: to explore a lot of code, or to do
    independent parts in parallel.

    Args:
        description: 3 to 5 words.
        prompt: Complete instructions. It does not see this conversation.
        model: "fast" for simple tasks.
        readonly: It may only read and search.
        background: Do not wait; you are notified when it ends.
        agent: A defined agent to do it, such as explore or review.
    """
    runs = _runs(call.session)
    job = runs.scheduler.jobs.by_key.get(_key(call))
    if job is None:
        if not description.strip() or not prompt.strip():
            raise ToolError("A task needs a description and a prompt.", code="E_BAD_ARGS")
        depth = _depth(runs, call.agent)
        definition, profile = await _choose_agent(runs, call.agent, agent.strip())
        profile = _limit(runs, call.agent, profile, depth, readonly=readonly)
        if model == "fast":
            profile = msgspec.structs.replace(profile, model="fast")
        identity = runs.begin(
            profile,
            prompt,
            title=" ".join(description.split())[:MAX_TITLE],
            urgent=not background,
            owner=call.agent.name,
            owner_run=call.agent.run.id,
            lane=call.agent.name,
            key=_key(call),
            call=call.id,
            depth=depth,
            notify_owner=background,
            definition=definition,
        )
        job = runs.scheduler.jobs.by_id[identity]
    call.release_queues()  # this job is queued, so the next call in the response may be queued, too
    if background:
        text = (
            f"Started in the background as {job.id}. You will be notified when it ends; do not"
            " wait for it."
        )
        return Output(text, data={"agent_id": job.id})
    await _wait_for_end(runs, call, job)
    return await _output(runs, job)


async def _choose_agent(runs: Runs, caller: Agent, name: str) -> tuple[Definition | None, Profile]:
    """Return the agent for a task: a defined agent, or a copy of the caller.

    The agent has no tool that its caller lacks.

    Raises:
        ToolError: The agent does not exist, or cannot run here.
    """
    own = caller.profile
    if not name or name.casefold() in COPY_NAMES:
        prompt = own.prompt if caller.name != "main" else ""
        return None, Profile("task", prompt, own.model, own.tools)
    with _errors_for_model():
        definition, profile = await runs.prepare(name)
    tools = common_tools(caller, profile.tools)
    return definition, msgspec.structs.replace(profile, tools=tools)


@contextmanager
def _errors_for_model() -> Iterator[None]:
    """Convert a user-facing error that is raised inside this context into one for the model."""
    try:
        yield
    except UsageError as error:
        raise ToolError(error.message, code=error.code, hint=error.hint) from None


def _limit(runs: Runs, caller: Agent, profile: Profile, depth: int, *, readonly: bool) -> Profile:
    """Return a sub-agent's profile, limited by the settings and by the caller's budget."""
    settings = runs.settings
    tools = profile.tools
    if readonly:
        tools = _read_only(caller.session, tools)
    # Agents at the maximum depth are not shown tools that could only fail.
    if depth >= settings.depth:
        tools = ToolFilter(tools.allow, (*tools.deny, "task", "handover"))
    grant = _grant(runs, caller)
    tokens = [limit for limit in (profile.token_limit, grant.tokens) if limit is not None]
    return msgspec.structs.replace(
        profile,
        tools=tools,
        turns=min(profile.turns or settings.task_turns, settings.task_turns),
        timeout=min(profile.timeout or settings.task_timeout, settings.task_timeout),
        token_limit=min(tokens, default=None),
        cost_limit=grant.dollars,
    )


def _read_only(session: Session, tools: ToolFilter) -> ToolFilter:
    """Return a filter that passes only the read-only tools of another filter."""
    risks = {name: found.risk for name, found in session.tools.items()}
    admitted = [name for name in READ_ONLY if tools.admits(name, risks.get(name, "read"))]
    return ToolFilter(allow=tuple(admitted))


def _depth(runs: Runs, agent: Agent) -> int:
    """Return the depth of a new agent that another agent starts.

    Raises:
        ToolError: The limit is reached.
    """
    own = runs.scheduler.jobs.by_run.get(agent.run.id)
    depth = own.depth + 1 if own is not None else 1
    limit = runs.settings.depth
    if depth > limit:
        raise ToolError(f"Sub-agents can be at most {limit} levels deep.", hint=_FALLBACK)
    return depth


def _grant(runs: Runs, agent: Agent) -> Budget:
    """Return the budget for a task: half of the owner's remaining budget.

    The other half remains available to the owner and for further tasks.

    Raises:
        ToolError: No budget is left.
    """
    hint = "Do the work yourself, or end."
    tokens, dollars = runs.scheduler.budgets.available(agent)
    if tokens is not None:
        # Half of a single token would round down to no budget.
        if tokens < 2:
            raise ToolError("No tokens are left for a task.", code="E_TOKEN_LIMIT", hint=hint)
        tokens //= 2
    if dollars is not None:
        if dollars <= 0:
            raise ToolError(
                "The cost limit is reached; no budget is left for a task.",
                code="E_COST_LIMIT",
                hint=hint,
            )
        dollars /= 2
    return Budget(tokens, dollars)


async def _wait_for_end(runs: Runs, call: Call, job: Job) -> None:
    """Wait for a task to end. If the waiting run is stopped, stop the task first.

    If the session closes instead, the task stays open, and resuming the session continues both.
    """
    try:
        await job.ended.wait()
    except trio.Cancelled:
        scope = call.agent.scope
        stopped = scope is not None and scope.cancel_called
        timed_out = trio.current_time() >= call.deadline
        if (stopped or timed_out) and not runs.scheduler.closed:
            runs.scheduler.stop(job)
            # The task's result must be logged before its owner's run ends.
            with trio.CancelScope(shield=True):
                await job.ended.wait()
        raise


async def _output(runs: Runs, job: Job) -> Output:
    try:
        result = await runs.result(job.id)
    except UsageError as error:
        raise ToolError(error.message, code="E_INTERRUPTED") from None
    runs.scheduler.budgets.charge(job, msgspec.convert(result["usage"], Usage))
    data = {
        "agent_id": job.id,
        "status": result["status"],
        "content": result["text"],
        "turns": result["turns"],
        "tools_used": result["tools_used"],
    }
    code = ""
    if result["status"] not in ("completed", "partial_success"):
        error_data = result["error"] or {}
        code = error_data.get("code") or "E_FAILED"
    used = f"\n\n[{result['turns']} turns, {result['tools_used']} tool calls]"
    return Output(results.tell(result) + used, data=data, code=code)


@tool(risk="execute", effect="idempotent", queues="agents", deferred=True)
async def handover(call: Call, agent: str, brief: str) -> Output:
    """Hand the rest of the work over to another agent, which reports to the user directly.

    Then end your work.

    Args:
        agent: Name of a defined agent, such as test or review.
        brief: The goal, what is done, what is left, and where to look. It does not see this
            conversation.
    """
    runs = _runs(call.session)
    job = runs.scheduler.jobs.by_key.get(_key(call))
    if job is None:
        depth = _depth(runs, call.agent)
        with _errors_for_model():
            identity = await _begin_handover(runs, call, agent, brief, depth)
        job = runs.scheduler.jobs.by_id[identity]
    text = (
        f"Handed over to {agent} as {job.id}. It reports to the user; get_agent_result returns its"
        " result."
    )
    return Output(text, data={"agent_id": job.id})


async def _begin_handover(runs: Runs, call: Call, name: str, brief: str, depth: int) -> str:
    """Start the agent of a handover, and return the id of the agent's job.

    Raises:
        UsageError: The agent cannot take over.
    """
    caller = call.agent
    if name.casefold() == caller.profile.name:
        raise UsageError(
            "An agent cannot hand over to itself.",
            code="E_BAD_ARGS",
            hint="Continue the work.",
        )
    definition, profile = await runs.prepare(name)
    tools = common_tools(caller, profile.tools)
    return runs.begin(
        msgspec.structs.replace(profile, tools=tools),
        brief,
        keep=True,
        owner=caller.name,
        definition=definition,
        owner_run=caller.run.id,
        key=_key(call),
        call=call.id,
        depth=depth,
    )


def common_tools(caller: Agent, wanted: ToolFilter) -> ToolFilter:
    """Return a filter for the tools that are allowed by both an agent and another filter.

    An agent must not gain tools by starting another agent.
    """
    own = caller.profile.tools
    everything = ToolFilter()
    if own == everything:
        return wanted
    if wanted == everything:
        return own
    # Two filters with patterns cannot be combined, so the common tools are listed by name.
    common = []
    for name, found in caller.session.tools.items():
        if own.admits(name, found.risk) and wanted.admits(name, found.risk):
            common.append(name)
    return ToolFilter(allow=tuple(common))


def _has_no_jobs(agent: Agent) -> bool:
    """Return whether the session has no jobs and therefore no results to read."""
    runs = agent.session.plugin(Runs)
    return runs is None or not runs.scheduler.jobs.by_id


@tool(risk="read", effect="pure", deferred=_has_no_jobs)
async def get_agent_result(session: Session, agent_id: str) -> Output:
    """Read the result of an agent that was started earlier: its text, files, what is done and what
    is not.

    Args:
        agent_id: Its id, or the beginning of its id.
    """
    with _errors_for_model():
        result = await _runs(session).result(agent_id)
    data = {key: value for key, value in result.items() if key != "text"}
    return Output(results.tell(result), data=data)
