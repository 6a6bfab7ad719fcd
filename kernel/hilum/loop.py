"""The reason–act loop: do the step for the phase, until the run is over. The phase is a function of the log.

::

    seal ──► think ──► call ──► round ──► think …
               │                  ▲
               └────► check ──────┘ (objection)      check ──► the run ends
"""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import TYPE_CHECKING, Literal

import trio
from hilum_hooks import FAULTS, Fault

from hilum.calls import end_calls, run_calls
from hilum.context import ContextRequest, cut_point, fit, plain_trim, render
from hilum.errors import HilumError
from hilum.events import ErrorRaised, RoundEnded, RunEnded, RunStarted, State, Trimmed, UserNeeded
from hilum.messages import AssistantMessage, Block, Text, Trim, UserMessage
from hilum.prompt import pieces, round_end, seal
from hilum.routing import attempt
from hilum.state import THREE

if TYPE_CHECKING:
    from hilum.agents import Agent

MAX_OBJECTIONS = 3
FULL = 0.8


async def drive(agent: Agent) -> None:
    """Work on the agent's run, or on its next waiting prompt, until it is over, stopped, or out of time."""
    conversation = agent.conversation
    agent.starting, agent.began = conversation.pending[0], trio.current_time()
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
                await _STEPS[conversation.phase](agent)
        if agent.scope.cancelled_caught:
            if trio.current_time() >= agent.scope.deadline:
                error = f"The run took longer than {limit:g} seconds."
                agent.emit(ErrorRaised(code="E_TIMEOUT", message=error, hint="Give it more time."))
                give_up(agent, "timed_out", "E_TIMEOUT", error)
            else:
                give_up(agent, "stopped", "E_STOPPED", "The run was stopped.")
    except FAULTS as error:
        if (broken := agent.session.journal.broken) is not None:
            raise broken from error
        if isinstance(error, HilumError):
            give_up(agent, "failed", error.code, error.message, error.hint)
        else:  # a fault of the kernel itself: the run ends, the session and its other agents go on
            agent.session.report(Fault("kernel", conversation.phase, error))
            give_up(agent, "failed", "E_FAILED", f"The kernel failed: {type(error).__name__}: {error}")
    finally:
        agent.scope, agent.starting = None, ""


def give_up(agent: Agent, state: State, code: str, error: str, hint: str = "") -> None:
    """End a run that cannot go on, leaving a conversation that a later prompt can continue."""
    conversation = agent.conversation
    if conversation.run is None:
        identity, text = conversation.queue[0]
        agent.session.emit(RunStarted(text=text, message=UserMessage((Text(text),))), agent, identity)
    end_calls(agent, code, "The call was not carried out to its end, because the run ended.")
    if conversation.phase == "round":
        agent.emit(RoundEnded())
    end(agent, state, code=code, error=error, hint=hint)


def end(agent: Agent, state: State, *, code: str = "", error: str = "", hint: str = "", left: str = "") -> None:
    """Log the end of the agent's run."""
    run = agent.run
    agent.emit(RunEnded(state=state, text=run.answer, code=code, error=error, hint=hint, left=left,
                        turns=run.turn, seconds=max(trio.current_time() - agent.began, 0.0), usage=run.usage))  # fmt: skip


async def _begin(agent: Agent) -> None:
    """Start the run of the next waiting prompt, with the context gathered for it."""
    session, (identity, text) = agent.session, agent.conversation.queue[0]
    model = session.kernel.router.chain(agent)[0]
    window = session.kernel.router.model(model).info.window
    run = session.runs.get(identity)  # None for a prompt that waited when hilum died, and was not resumed
    request = ContextRequest(text, window // 4, dict(run.state) if run else {})
    given = await session.hooks.gather("gather_context", agent=agent, request=request)
    found = [[each] if isinstance(each, Block) else each for _, each in given if not isinstance(each, Fault)]
    blocks = fit((block for each in found for block in each), request.budget)
    parts = [Text(render(block), f"context:{block.type}") for block in blocks]
    message = UserMessage((Text(text), *parts))
    session.emit(RunStarted(text=text, message=message, model=model, mode=agent.mode.name), agent, identity)


async def _seal(agent: Agent) -> None:
    agent.emit(await seal(agent, agent.run.cause, agent.session.kernel.router.current(agent)))


async def _think(agent: Agent) -> None:
    """Ask the model once, unless a limit is reached or the conversation must be cut first."""
    run, sealed, model = agent.run, agent.conversation.sealed, agent.session.kernel.router.current(agent)
    turns, most = agent.limit("turns"), agent.limit("token_limit")
    if run.turn >= turns:
        return _limit_reached(agent, "E_TURN_LIMIT", f"The limit of {turns} turns is reached")
    if most and run.usage.total >= most:
        return _limit_reached(agent, "E_TOKEN_LIMIT", f"The limit of {most} tokens is reached")
    if (dollars := agent.profile.cost_limit) is not None and (run.usage.cost or 0.0) > dollars:
        return _limit_reached(agent, "E_TOKEN_LIMIT", f"The limit of {dollars:g} US dollars is reached")
    if (sealed.mode, sealed.model) != (agent.mode.name, model):
        agent.emit(await seal(agent, "mode" if sealed.mode != agent.mode.name else "model", model))
    if await _trim(agent, model):
        return None
    failed = await attempt(agent)
    if failed is not None and failed.action == "retry":
        await trio.sleep(failed.wait)
    elif failed is not None and failed.action == "give_up":
        if failed.code == "E_LLM_AUTH" or failed.kind in ("timeout", "rate_limit", "connect"):
            agent.emit(UserNeeded(code=failed.code, message=f"{failed.message} {failed.hint}".strip()))
        give_up(agent, "failed", failed.code, failed.message, failed.hint)
    return None


def _limit_reached(agent: Agent, code: str, what: str) -> None:
    hint = "Send a message to go on."
    left = f"{what}. All finished work is kept; what the last answer announced may not be done. {hint}"
    end(agent, "partial_success", code=code, error=f"{what}.", hint=hint, left=left)


async def trim_at_rest(agent: Agent) -> None:
    """Carry out a trim that was asked for while the agent has nothing to do. One that changes nothing is logged, too."""
    try:
        with trio.CancelScope() as agent.scope:
            await agent.session.kernel.router.ready(agent)
            await _trim(agent, agent.session.kernel.router.current(agent))
    except FAULTS as error:
        told = f"Nothing was trimmed: {str(error) or repr(error)}"
        agent.emit(ErrorRaised(code=getattr(error, "code", "E_FAILED"), message=told))
    agent.scope = None
    if agent.conversation.trim_asked is not None:
        agent.emit(Trimmed(cause="asked"))


async def _trim(agent: Agent, name: str) -> bool:
    """Make the conversation fit the model's window, if it does not or somebody asks; says whether anything changed."""
    conversation, run, hooks = agent.conversation, agent.conversation.run, agent.session.hooks
    try:
        model = agent.session.kernel.router.model(name)
    except FAULTS:
        return False  # The attempt that follows says what is wrong with the model.
    known, gauge = pieces(agent, model), conversation.gauge(name)
    before, cause = gauge.tokens(known.size), _cause(agent)
    room = int((model.info.window - model.info.max_output) * FULL) - (gauge.total(known.total) - before)
    if not known.sizes or (before <= room and cause in ("window", "model")) or (run and run.trims >= THREE):
        return False
    messages, budget = tuple(conversation.messages), max(min(room, before) // 2, 0)
    sizes = tuple(gauge.tokens(size) + 1 for size in known.sizes)
    trim: Trim | None = await hooks.first("trim_context", agent=agent, messages=messages, sizes=sizes, budget=budget)
    upto = cut_point(messages, max(min(trim.upto, len(messages) - 1), 0)) if trim else 0
    if trim is None or not (upto or trim.thinned):
        if before <= room and cause == "asked":
            return False  # Nobody knows how to do it well, and it need not be done.
        trim = plain_trim(messages, sizes, budget)
        upto = trim.upto
    if not upto and not trim.thinned:
        return False
    summary, thinned = trim.summary if upto else "", trim.thinned
    agent.emit(Trimmed(upto=upto, summary=summary, thinned=thinned, before=before, cause=cause))
    return True


def _cause(agent: Agent) -> Literal["window", "model", "too_long", "asked"]:
    """Why a trim would be made now."""
    conversation, run = agent.conversation, agent.conversation.run
    if run is not None and run.failed is not None and run.failed.action == "trim":
        return "too_long"
    if conversation.trim_asked is not None:
        return "asked"
    return "model" if conversation.sealed.cause == "model" and not any(agent.run.size) else "window"


async def _round(agent: Agent) -> None:
    """Close a round of calls: what plugins remind of, what changed, and who must be told of repeated failures."""
    run, strikes = agent.run, agent.conversation.strikes
    results = [state.done.result for state in run.calls.values() if state.done]
    reminders = await agent.session.hooks.gather("remind", agent=agent, results=results)
    notes = [text for _, text in reminders if text and not isinstance(text, Fault)]
    failed = Counter((result.name, result.code) for result in results if result.code)
    for (name, code), count in failed.items():
        if strikes.of(name, code) >= THREE > strikes.of(name, code) - count:
            told = f"{name} failed three times in a row with {code}."
            agent.emit(UserNeeded(code=code, message=told))
            notes.append(f"{told} Do not try it a fourth time: explain what is wrong and ask the user.")
    turns = agent.limit("turns")
    if run.turn == turns - 1 and turns > 1:
        notes.append("One turn is left. Call no more tools: say what is done and what is left to do.")
    agent.emit(await round_end(agent, notes))


async def _check(agent: Agent) -> None:
    """Let plugins object to the final answer; after three objections it is given, marked as partial."""
    run, hooks, message = agent.run, agent.session.hooks, agent.conversation.messages[-1]
    assert isinstance(message, AssistantMessage)
    objections = []
    for plugin, value in await hooks.gather("check_answer", agent=agent, message=message):
        failed = f"The plugin {plugin}, which checks answers, failed: {value}."
        objections += [failed if isinstance(value, Fault) else value] if value else []
    gone = [
        f"The plugin {name}, which checks answers, is off ({why})."
        for name, why in hooks.closed.get("check_answer", {}).items()
    ]
    if message.stop == "length" and not objections and run.objections < MAX_OBJECTIONS:
        objections.append("Your answer was cut off at the output limit. Continue where it stopped.")
    elif message.stop == "end" and not message.text.strip():
        objections.append("Your answer was empty. Go on with the task, or say what you found.")
    if objections and run.objections < MAX_OBJECTIONS:
        agent.emit(await round_end(agent, objections, objected=True))
    elif objections or gone:
        why = [*objections, *gone]
        end(agent, "partial_success", code="E_PLUGIN" if gone else "E_FAILED", error=why[0], left="; ".join(why))
    elif message.stop == "refusal":
        end(agent, "failed", code="E_FAILED", error="The model refused to answer.", hint="Say it differently.")
    else:
        end(agent, "completed")


_STEPS = {"seal": _seal, "think": _think, "call": run_calls, "round": _round, "check": _check}
