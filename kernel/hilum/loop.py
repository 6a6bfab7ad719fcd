"""The reason–act loop: do the step for the phase, until the run is over. The phase is a function of the log.

::

    seal ──► think ──► call ──► round ──► think …
               │                  ▲
               └────► check ──────┘ (objection)      check ──► the run ends
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import trio

from hilum.calls import end_calls, run_calls
from hilum.context import cut_point, plain_trim, tokens
from hilum.errors import HilumError
from hilum.events import ErrorRaised, ModelFailed, RoundEnded, RunEnded, RunStarted, State, Trimmed, UserNeeded
from hilum.hooks import FAULTS, Fault
from hilum.messages import AssistantMessage, Text, Trim, UserMessage
from hilum.prompt import pieces, round_end, seal
from hilum.routing import attempt
from hilum.state import THREE

if TYPE_CHECKING:
    from hilum.agents import Agent

MAX_OBJECTIONS = 3
FULL = 0.8


Begin = Callable[["Agent", dict[str, object]], Awaitable[None]]


async def drive(agent: Agent, begin: Begin, state: dict[str, object]) -> None:
    """Work on the agent's run, or on its next waiting prompt, until it is over, stopped, or out of time.

    Args:
        agent: The agent.
        begin: Starts the run of the next waiting prompt.
        state: What it takes beside the agent.
    """
    conversation = agent.conversation
    agent.starting = conversation.run.id if conversation.run else conversation.queue[0][0]
    limit = agent.limit("timeout")
    deadline = trio.current_time() + limit if limit else float("inf")
    agent.scope = trio.CancelScope(deadline=deadline)
    try:
        with agent.scope:
            await agent.session.kernel.router.ready(agent)
            if conversation.run is None:
                await begin(agent, state)
            while conversation.phase != "idle":
                await _STEPS[conversation.phase](agent)
        if agent.scope.cancelled_caught:
            if trio.current_time() >= deadline:
                error = f"The run took longer than {limit:g} seconds."
                agent.session.emit(ErrorRaised(code="E_TIMEOUT", message=error, hint="Give it more time."), agent)
                give_up(agent, "timed_out", "E_TIMEOUT", error)
            else:
                give_up(agent, "stopped", "E_STOPPED", "The run was stopped.")
    except FAULTS as error:
        if (broken := agent.session.journal.broken) is not None:
            raise broken from error
        if isinstance(error, HilumError):
            give_up(agent, "failed", error.code, error.message, error.hint)
            return
        # A fault of the kernel itself: the run ends, the session and its other agents go on.
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
        agent.session.emit(RoundEnded(), agent)
    end(agent, state, code=code, error=error, hint=hint)


def end(agent: Agent, state: State, *, code: str = "", error: str = "", hint: str = "", left: str = "") -> None:
    """Log the end of the agent's run."""
    run = agent.conversation.run
    if run is None:
        return
    seconds = agent.session.now() - run.began
    ended = RunEnded(
        state=state, text=run.answer, code=code, error=error, hint=hint, left=left,
        turns=run.turn, seconds=seconds, usage=run.usage,
    )  # fmt: skip
    agent.session.emit(ended, agent)


async def _seal(agent: Agent) -> None:
    run = agent.conversation.run
    assert run is not None
    model = run.model or agent.session.kernel.router.chain(agent)[0]
    agent.session.emit(await seal(agent, run.cause, model), agent)


async def _think(agent: Agent) -> None:
    conversation = agent.conversation
    run, sealed = conversation.run, conversation.sealed
    assert run is not None
    assert sealed is not None
    if _limit_reached(agent):
        return
    model = run.model or agent.session.kernel.router.chain(agent)[0]
    if sealed.mode != agent.mode.name or sealed.model != model:
        cause = "mode" if sealed.mode != agent.mode.name else "model"
        agent.session.emit(await seal(agent, cause, model), agent)  # type: ignore[arg-type]
    failed = run.failed
    forced = failed is not None and failed.action == "trim"
    if await _trim(agent, model, forced):
        return
    failed = await attempt(agent)
    if failed is None:
        return
    if failed.action == "retry":
        await trio.sleep(failed.wait)
    elif failed.action == "give_up":
        _no_answer(agent, failed)


def _no_answer(agent: Agent, failed: ModelFailed) -> None:
    if failed.code == "E_LLM_AUTH" or failed.kind in ("timeout", "rate_limit", "connect"):
        agent.session.emit(UserNeeded(code=failed.code, message=f"{failed.message} {failed.hint}".strip()), agent)
    give_up(agent, "failed", failed.code, failed.message, failed.hint)


def _limit_reached(agent: Agent) -> bool:
    """End the run as a partial success if it used up its turns or tokens."""
    run = agent.conversation.run
    assert run is not None
    turns, most = agent.limit("turns"), agent.limit("token_limit")
    if run.turn >= turns:
        code, what = "E_TURN_LIMIT", f"The limit of {turns} turns is reached"
    elif most and run.usage.total >= most:
        code, what = "E_TOKEN_LIMIT", f"The limit of {most} tokens is reached"
    else:
        return False
    left = (
        f"{what}. All finished work is kept; what the last answer announced may not be done. Send a message to go on."
    )
    end(agent, "partial_success", code=code, error=f"{what}.", hint="Send a message to go on.", left=left)
    return True


async def _trim(agent: Agent, name: str, forced: bool) -> bool:
    """Make the conversation fit the model's window, if it does not; says whether anything changed."""
    conversation, session = agent.conversation, agent.session
    run = conversation.run
    assert run is not None
    try:
        model = session.kernel.router.model(name)
    except FAULTS:
        return False  # The attempt that follows says what is wrong with the model.
    known = pieces(agent, model)
    room = int((model.info.window - model.info.max_output) * FULL) - tokens(len(known.head), conversation.factor)
    before = tokens(known.size, conversation.factor)
    if (before <= room and not forced) or run.trims >= THREE:
        return False
    budget = min(room, before // 2)
    messages = conversation.messages
    trim: Trim = (
        await session.hooks.first("trim_context", agent=agent, messages=tuple(messages), budget=budget) or Trim()
    )
    upto = cut_point(messages, max(min(trim.upto, len(messages) - 1), 0))
    if not upto and not trim.thinned:
        trim = plain_trim(messages, [len(piece) for piece in known.messages], budget, conversation.factor)
        upto = trim.upto
    if not upto and not trim.thinned:
        return False
    session.emit(Trimmed(upto=upto, summary=trim.summary if upto else "", thinned=trim.thinned, before=before), agent)
    return True


async def _call(agent: Agent) -> None:
    await run_calls(agent)


async def _round(agent: Agent) -> None:
    """Close a round of calls: what plugins remind of, what changed, and who must be told of repeated failures."""
    conversation, hooks = agent.conversation, agent.session.hooks
    run = conversation.run
    assert run is not None
    results = [state.done.result for state in run.calls.values() if state.done]
    notes = []
    reminders = await hooks.gather("remind", agent=agent, results=results)
    notes += [text for _, text in reminders if text and not isinstance(text, Fault)]
    failed = Counter((result.name, result.code) for result in results if result.code)
    for (name, code), count in failed.items():
        if conversation.strikes.of(name, code) >= THREE > conversation.strikes.of(name, code) - count:
            told = f"{name} failed three times in a row with {code}."
            agent.session.emit(UserNeeded(code=code, message=told), agent)
            notes.append(f"{told} Do not try it a fourth time: explain what is wrong and ask the user.")
    turns = agent.limit("turns")
    if run.turn == turns - 1 and turns > 1:
        notes.append("One turn is left. Call no more tools: say what is done and what is left to do.")
    agent.session.emit(await round_end(agent, notes), agent)


async def _check(agent: Agent) -> None:
    """Let plugins object to the final answer; after three objections it is given, marked as partial."""
    conversation = agent.conversation
    run = conversation.run
    message = conversation.messages[-1]
    assert run is not None
    assert isinstance(message, AssistantMessage)
    objections = []
    for plugin, value in await agent.session.hooks.gather("check_answer", agent=agent, message=message):
        if isinstance(value, Fault):
            objections.append(f"The plugin {plugin}, which checks answers, failed: {value}.")
        elif value:
            objections.append(value)
    gone = [
        f"The plugin {name}, which checks answers, is off ({why})."
        for name, why in agent.session.hooks.unchecked.items()
    ]
    if message.stop == "length" and not objections and run.objections < MAX_OBJECTIONS:
        objections.append("Your answer was cut off at the output limit. Continue where it stopped.")
    elif message.stop == "end" and not message.text.strip():
        objections.append("Your answer was empty. Go on with the task, or say what you found.")
    if objections and run.objections < MAX_OBJECTIONS:
        agent.session.emit(await round_end(agent, objections, objected=True), agent)
    elif objections or gone:
        why = [*objections, *gone]
        end(agent, "partial_success", code="E_PLUGIN" if gone else "E_FAILED", error=why[0], left="; ".join(why))
    elif message.stop == "refusal":
        end(agent, "failed", code="E_FAILED", error="The model refused to answer.", hint="Say it differently.")
    else:
        end(agent, "completed")


_STEPS = {"seal": _seal, "think": _think, "call": _call, "round": _round, "check": _check}
