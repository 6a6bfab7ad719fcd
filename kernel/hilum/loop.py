"""The reason–act loop: do the step for the phase, until the run is over.

The phase is a function of the log.

::

    seal ──► think ──► call ──► round ──► think …
               │                  ▲
               └────► check ──────┘ (objection)      check ──► the run ends
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Literal

import msgspec
import trio
from hilum_hooks import FAULTS, Fault, is_failure

from hilum.calls import end_calls, run_calls
from hilum.compaction import (
    RECALL,
    TARGET,
    cut_point,
    fit_request,
    least_room,
    message_size,
    plain_trim,
    room,
    shorten_results,
    window_error,
    without_context,
)
from hilum.context import ContextRequest, fit, render
from hilum.errors import HilumError
from hilum.events import ErrorRaised, RoundEnded, RunEnded, RunStarted, State, Trimmed, UserNeeded
from hilum.messages import AssistantMessage, Block, Message, Text, Trim, UserMessage
from hilum.models import Model
from hilum.prompt import pieces, round_end, seal
from hilum.refusals import find_refusal
from hilum.repetition import failed_note
from hilum.routing import attempt
from hilum.state import FinishedCall

if TYPE_CHECKING:
    from hilum.agents import Agent

MAX_OBJECTIONS = 3
EMPTY_ANSWER = "Your answer was empty. Go on with the task, or say what you found."
MAX_CONTINUATIONS = 3
# Compactions in a row, before one request: the plugin's, then the kernel's own.
MAX_COMPACTIONS = 3
# Files that the end of a run names.
MAX_FILES = 10
# Windows below this get less gathered context than a quarter.
SMALL_WINDOW = 32_768


async def drive(agent: Agent) -> None:
    """Work on the agent's run, or on its next waiting prompt, until it is over, stopped, or out of
    time.
    """
    conversation = agent.conversation
    agent.starting = conversation.pending[0]
    agent.began = trio.current_time()
    limit = agent.limit("timeout") or inf
    agent.scope = trio.CancelScope(deadline=trio.current_time() + limit)
    try:
        with agent.scope:
            if agent.starting == conversation.stopped:  # hilum died while it was being stopped
                agent.scope.cancel()
                await trio.lowlevel.checkpoint()
            await agent.session.kernel.router.ready(agent)
            if conversation.run is None:
                await _begin(agent)
            while conversation.phase != "idle":
                # A stop that came while a step could not be cancelled holds before the next one: no
                # request is sent any more.
                await trio.lowlevel.checkpoint_if_cancelled()
                await _STEPS[conversation.phase](agent)
        if agent.scope.cancelled_caught:
            if trio.current_time() >= agent.scope.deadline:
                error = f"The run took longer than {limit:g} seconds."
                agent.emit(ErrorRaised(code="E_TIMEOUT", message=error, hint="Give it more time."))
                give_up(agent, "timed_out", "E_TIMEOUT", error)
            else:
                give_up(agent, "stopped", "E_STOPPED", "The run was stopped.")
    except BaseException as error:
        if not is_failure(error):
            raise
        broken = agent.session.journal.broken
        if broken is not None:
            raise broken from error
        if isinstance(error, HilumError):
            give_up(agent, "failed", error.code, error.message, error.hint)
        else:  # a fault of the kernel itself: the run ends, the session and its other agents go on
            agent.session.report(Fault("kernel", conversation.phase, error))
            give_up(
                agent, "failed", "E_FAILED", f"The kernel failed: {type(error).__name__}: {error}"
            )
    finally:
        agent.scope = None
        agent.starting = ""


def give_up(agent: Agent, state: State, code: str, error: str, hint: str = "") -> None:
    """End a run that cannot go on, leaving a conversation that a later prompt can continue."""
    conversation = agent.conversation
    if conversation.run is None:
        identity, text = conversation.queue[0]
        agent.session.emit(
            RunStarted(text=text, message=UserMessage((Text(text),))), agent, identity
        )
    end_calls(agent, code, "The call was not carried out to its end, because the run ended.")
    if conversation.phase == "round":
        agent.emit(RoundEnded(shortened=_shortened(agent)))
    end(agent, state, code=code, error=error, hint=hint)


def end(
    agent: Agent, state: State, *, code: str = "", error: str = "", hint: str = "", left: str = ""
) -> None:
    """Log the end of the agent's run."""
    run = agent.run
    # What the model says beside its calls is no answer.
    final = agent.conversation.phase == "check"
    complete = state == "completed"
    agent.emit(
        RunEnded(
            state=state,
            text=run.answer if final else "",
            commentary="" if final else run.answer,
            done="" if complete else _done(agent),
            code=code,
            error=error,
            hint=hint,
            left=left if final or complete else _left(agent, left),
            turns=run.turn,
            seconds=max(trio.current_time() - agent.began, 0.0),
            usage=run.usage,
        )
    )


def _done(agent: Agent) -> str:
    """Return what the run has done: the files that its tools wrote, and how often each tool ran."""
    tools: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    files: dict[str, None] = {}
    for call in agent.run.finished:
        tools[call.name] += 1
        failed[call.name] += bool(call.code)
        if not call.code:
            files |= dict.fromkeys(_written(agent, call))
    if not tools:
        return ""
    parts = []
    if files:
        more = f" and {len(files) - MAX_FILES} more" if len(files) > MAX_FILES else ""
        parts.append(f"Files written: {', '.join(list(files)[:MAX_FILES])}{more}.")
    counts = []
    for name, count in tools.most_common():
        failures = f" ({failed[name]} failed)" if failed[name] else ""
        counts.append(f"{name} × {count}{failures}")
    parts.append(f"Tools run: {', '.join(counts)}.")
    return " ".join(parts)


def _written(agent: Agent, call: FinishedCall) -> list[str]:
    """Return the paths that a call has written."""
    tool = agent.session.tools.get(call.name)
    if tool is None or not tool.writes:
        return []
    return [call.texts[name] for name in tool.writes if name in call.texts]


def _left(agent: Agent, left: str) -> str:
    """Return what is left to do: the step that the model announced last, and calls that were not
    carried out.
    """
    run = agent.run
    parts = [left] if left else []
    cut_off = [call.name for call in run.finished if call.code in ("E_STOPPED", "E_INTERRUPTED")]
    if run.answer.strip():
        parts.append(f"The last announced step may not be done: {_one_line(run.answer, 300)}")
    if cut_off:
        parts.append(f"Calls that were cut off: {', '.join(dict.fromkeys(cut_off))}.")
    return " ".join(parts)


def _one_line(text: str, limit: int) -> str:
    joined = " ".join(text.split())
    if len(joined) <= limit:
        return joined
    return joined[: limit - 1] + "…"


async def _begin(agent: Agent) -> None:
    """Start the run of the next waiting prompt, with the context gathered for it."""
    session, (identity, text) = agent.session, agent.conversation.queue[0]
    model = session.kernel.router.chain(agent)[0]
    window = session.kernel.router.model(model).info.window
    run = session.runs.get(
        identity
    )  # None for a prompt that waited when hilum died, and was not resumed
    budget = window // 4 if window >= SMALL_WINDOW else window // 16
    request = ContextRequest(text, budget, dict(run.state) if run else {})
    given = await session.hooks.gather("gather_context", agent=agent, request=request)
    found = [
        [each] if isinstance(each, Block) else each
        for _, each in given
        if not isinstance(each, Fault)
    ]
    blocks = fit((block for each in found for block in each), request.budget)
    parts = [Text(render(block), f"context:{block.type}") for block in blocks]
    message = UserMessage((Text(text), *parts))
    started = RunStarted(text=text, message=message, model=model, mode=agent.mode.name)
    await session.redaction.prepare(started, by_model=bool(agent.parent))
    session.emit(started, agent, identity)


async def _seal(agent: Agent) -> None:
    agent.emit(await seal(agent, agent.run.cause, agent.session.kernel.router.current(agent)))


async def _think(agent: Agent) -> None:
    """Ask the model once, unless a limit is reached or the conversation must be cut first."""
    run = agent.run
    sealed = agent.conversation.sealed
    model = agent.session.kernel.router.current(agent)
    turns = agent.limit("turns")
    most = agent.limit("token_limit")
    if run.turn >= turns:
        return _limit_reached(agent, "E_TURN_LIMIT", f"The limit of {turns} turns is reached")
    if most and run.usage.total >= most:
        return _limit_reached(agent, "E_TOKEN_LIMIT", f"The limit of {most} tokens is reached")
    dollars = agent.profile.cost_limit
    if dollars is not None and (run.usage.cost or 0.0) > dollars:
        return _limit_reached(
            agent, "E_TOKEN_LIMIT", f"The limit of {dollars:g} US dollars is reached"
        )
    if (sealed.mode, sealed.model) != (agent.mode.name, model):
        agent.emit(await seal(agent, "mode" if sealed.mode != agent.mode.name else "model", model))
    if await _compact(agent, model):
        return None
    failed = await attempt(agent)
    if failed is not None and failed.action == "retry":
        await trio.sleep(failed.wait)
    elif failed is not None and failed.action == "give_up":
        if failed.code == "E_LLM_AUTH" or failed.kind in (
            "timeout",
            "too_slow",
            "rate_limit",
            "quota",
            "connect",
        ):
            agent.emit(
                UserNeeded(code=failed.code, message=f"{failed.message} {failed.hint}".strip())
            )
        error = failed.message
        if run.first_failure and run.first_failure != error:
            error = f"{run.first_failure} The fallback {failed.model} failed, too: {error}"
        give_up(agent, "failed", failed.code, error, failed.hint)
    return None


def _limit_reached(agent: Agent, code: str, what: str) -> None:
    hint = "All finished work is kept. Send a message to continue."
    end(agent, "partial_success", code=code, error=f"{what}.", hint=hint)


async def trim_at_rest(agent: Agent) -> None:
    """Carry out a trim that was asked for while the agent has nothing to do.

    One that changes nothing is logged, too.
    """
    try:
        with trio.CancelScope() as agent.scope:
            await agent.session.kernel.router.ready(agent)
            await _compact(agent, agent.session.kernel.router.current(agent))
    except FAULTS as error:
        told = f"Nothing was trimmed: {str(error) or repr(error)}"
        agent.emit(ErrorRaised(code=getattr(error, "code", "E_FAILED"), message=told))
    agent.scope = None
    if agent.conversation.trim_asked is not None:
        agent.emit(Trimmed(cause="asked"))


async def _compact(agent: Agent, name: str) -> bool:
    """Create the conversation fit the model's window, if it does not or somebody asks.

    Return whether anything changed.

    Raises:
        UsageError: ``"E_WINDOW"``, the window cannot hold prompt, tools and request.
    """
    run = agent.conversation.run
    conversation = agent.conversation
    try:
        model = agent.session.kernel.router.model(name)
    except FAULTS:
        return False  # The attempt that follows says what is wrong with the model.
    known = pieces(agent, model)
    gauge = conversation.gauge(name)
    used = gauge.tokens(known.size)
    head = gauge.total(known.total) - used
    space = room(model.info, head)
    if run is not None:
        _check_window(agent, model, head, space)
    cause = _cause(agent)
    forced = cause in ("too_long", "asked")
    if not known.sizes or (used <= space and not forced) or (run and run.trims >= MAX_COMPACTIONS):
        return False
    # What the request may take follows from the window. A provider that refuses a small
    # conversation counts otherwise, and quoting a request of a few words would only lose it.
    share = space
    if used > space or cause == "too_long":
        space = min(space, used)
    elif cause == "asked":
        space = used
    messages = list(conversation.messages)
    sizes = [gauge.tokens(size) + 1 for size in known.sizes]
    index = conversation.kept_request
    quoted = None
    if (
        index is not None
        and cause != "asked"
        and isinstance(request := messages[index], UserMessage)
    ):
        fitted = fit_request(request, share, gauge.text)
        if fitted != request:
            messages[index] = quoted = fitted
            sizes[index] = message_size(fitted, gauge.text) + 1
    budget = int(space * TARGET)
    trim = await _planned(agent, messages, sizes, budget)
    if trim is None:
        if used <= space and cause == "asked":
            return False  # Nobody knows how to do it well, and it need not be done.
        trim = plain_trim(
            messages, sizes, budget, request=index, measure=gauge.text, recall=_recall(agent)
        )
    if not trim.upto and not trim.thinned and quoted is None:
        return False
    summary = trim.summary if trim.upto else ""
    trimmed = Trimmed(
        upto=trim.upto,
        summary=summary,
        thinned=trim.thinned,
        before=used,
        cause=cause,
        request=quoted,
    )
    await agent.session.redaction.prepare(trimmed)
    agent.emit(trimmed)
    return True


def _check_window(agent: Agent, model: Model, head: int, space: int) -> None:
    """See that prompt, tools and request fit the window of the model.

    Raises:
        UsageError: They do not.
    """
    conversation = agent.conversation
    run = agent.run
    gauge = conversation.gauge(model.info.name)
    index = conversation.request
    size = 0
    if index is not None and isinstance(request := conversation.messages[index], UserMessage):
        size = message_size(without_context(request), gauge.text)
    # Later in the run the request is quoted where it takes over half of the room.
    if run.turn:
        wanted = min(size, space // 2)
    else:
        wanted = size
    if wanted + least_room(model.info) <= space:
        return
    sealed = conversation.sealed
    prompt = sum(gauge.text(layer.text) for layer in sealed.layers)
    error = window_error(model.info, prompt, max(head - prompt, 0), size)
    if run.first_failure:
        error.message = f"{run.first_failure} The fallback cannot be used: {error.message}"
    raise error


async def _planned(
    agent: Agent, messages: Sequence[Message], sizes: Sequence[int], budget: int
) -> Trim | None:
    """Ask the plugins how to compact; ``None`` where they have nothing that helps.

    Where a plugin's own plan, just carried out, was not enough, it is not asked again.
    """
    run = agent.conversation.run
    if run is not None and run.trims:
        return None
    trim: Trim | None = await agent.session.hooks.first(
        "trim_context", agent=agent, messages=tuple(messages), sizes=tuple(sizes), budget=budget
    )
    if trim is None:
        return None
    upto = cut_point(messages, trim.upto)
    if upto or trim.thinned:
        return Trim(upto, trim.summary if upto else "", trim.thinned)
    return None


def _cause(agent: Agent) -> Literal["window", "model", "too_long", "asked"]:
    """Return why the conversation would be compacted now."""
    run = agent.conversation.run
    conversation = agent.conversation
    if run is not None and run.failed is not None and run.failed.action == "trim":
        return "too_long"
    if conversation.trim_asked is not None:
        return "asked"
    if conversation.sealed.cause == "model" and not any(agent.run.size):
        return "model"
    return "window"


async def _round(agent: Agent) -> None:
    """Close a round of calls: what plugins remind of, what changed, and what was repeated in
    vain.
    """
    run = agent.run
    failures = agent.conversation.failures
    results = [state.done.result for state in run.calls.values() if state.done]
    reminders = await agent.session.hooks.gather("remind", agent=agent, results=results)
    notes = [text for _, text in reminders if text and not isinstance(text, Fault)]
    for failed in failures.reached():
        agent.emit(UserNeeded(code=failed.code, message=failed_note(failed)))
    notes += failures.due()
    turns = agent.limit("turns")
    if run.turn == turns - 1 and turns > 1:
        notes.append(
            "One turn is left. Call no more tools: say what is done and what is left to do."
        )
    ended = await round_end(agent, notes)
    ended = msgspec.structs.replace(ended, shortened=_shortened(agent))
    await agent.session.redaction.prepare(ended)
    agent.emit(ended)


def _shortened(agent: Agent) -> dict[str, str]:
    """Shorten the results of the round that are too large for the window of the model that reads
    them.
    """
    results = [state.done.result for state in agent.run.calls.values() if state.done]
    if not results:
        return {}
    try:
        name = agent.session.kernel.router.current(agent)
        model = agent.session.kernel.router.model(name)
        known = pieces(agent, model)
    except FAULTS:
        return {}  # The next request says what is wrong with the model.
    gauge = agent.conversation.gauge(name)
    total = gauge.total(known.total)
    used = gauge.tokens(known.size)
    free = room(model.info, total - used) - used
    return shorten_results(results, model.info.window, free, gauge.text, recall=_recall(agent))


def _recall(agent: Agent) -> str:
    """Return how the agent calls the tool that fetches results back; empty where it has none."""
    if RECALL not in {tool.name for tool in agent.tools()}:
        return ""
    listed = RECALL in {spec.name for spec in agent.conversation.sealed.tools}
    return RECALL if listed else f"call_tool with {RECALL}"


async def _check(agent: Agent) -> None:
    """Continue an answer that was cut off.

    Let plugins object to a whole one, at most three times.
    """
    run = agent.run
    hooks = agent.session.hooks
    message = agent.conversation.messages[-1]
    assert isinstance(message, AssistantMessage)
    if run.cut and run.continued < MAX_CONTINUATIONS:
        note = (
            "Your answer was cut off at the output limit. Continue exactly where it stopped; repeat"
            " nothing."
        )
        agent.emit(msgspec.structs.replace(await round_end(agent, [note]), continued=True))
        return
    if run.continued:
        others = tuple(part for part in message.parts if not isinstance(part, Text))
        message = msgspec.structs.replace(message, parts=(*others, Text(run.answer, "model")))
    objections = []
    for plugin, value in await hooks.gather("check_answer", agent=agent, message=message):
        failed = f"The plugin {plugin}, which checks answers, failed: {value}."
        objections += [failed if isinstance(value, Fault) else value] if value else []
    gone = [
        f"The plugin {name}, which checks answers, is off ({why})."
        for name, why in hooks.closed.get("check_answer", {}).items()
    ]
    if message.stop == "end" and not message.text.strip():
        objections.append(EMPTY_ANSWER)
    if objections and run.objections < MAX_OBJECTIONS and not run.cut:
        agent.emit(await round_end(agent, objections, objected=True))
    elif objections or gone:
        told = "The model gave an empty answer, and again after it was asked to go on."
        why = [
            told if objection == EMPTY_ANSWER else objection for objection in (*objections, *gone)
        ]
        end(
            agent,
            "partial_success",
            code="E_PLUGIN" if gone else "E_FAILED",
            error=why[0],
            left="; ".join(why),
        )
    elif run.cut:
        error = (
            f"The answer is not complete: it was cut off at the output limit {run.continued + 1}"
            " times."
        )
        hint = "Ask for the rest, or for a shorter answer."
        end(
            agent,
            "partial_success",
            code="E_OUTPUT_LIMIT",
            error=error,
            hint=hint,
            left="The end of the answer.",
        )
    elif message.stop == "refusal":
        end(
            agent,
            "failed",
            code="E_FAILED",
            error="The model refused to answer.",
            hint="Say it differently.",
        )
    elif refusal := find_refusal(run.outcomes, agent.session.approve):
        end(
            agent,
            "partial_success",
            code=refusal.code,
            error=refusal.error,
            hint=refusal.hint,
            left=refusal.left,
        )
    else:
        end(agent, "completed")


_STEPS = {"seal": _seal, "think": _think, "call": run_calls, "round": _round, "check": _check}
