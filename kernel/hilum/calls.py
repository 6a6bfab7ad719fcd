"""Tool calls: all calls of an answer at once, each with verdicts, approval, a time limit, and
exactly one end.

The order of one call: its turn? known? arguments right? not the same failure again? allowed? asked?
then *logged*, run, checked, logged.
"""

from __future__ import annotations

import time
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from hilum_hooks import FAULTS, Fault, single
from hilum_signature import nesting

from hilum.arguments import CUT_OFF, MAX_DEPTH, NO_TOOL
from hilum.bounds import BoundCall, is_interrupt
from hilum.errors import RESULT_WITHHELD, NeedsUser, PluginError, ToolDenied, ToolError, unknown
from hilum.events import CallDone, CallStarted, UserNeeded
from hilum.late import PAIR, unwrap, wrap
from hilum.messages import Image, Text, ToolCall, ToolResult, writable
from hilum.order import Claims, Place, claims_of, places, shown_paths
from hilum.repetition import ADVICE
from hilum.state import CallState
from hilum.tools import Call, Output, Tool
from hilum.verdicts import permit

if TYPE_CHECKING:
    from hilum.agents import Agent
    from hilum.session import Session

RESULT_LIMIT = 200_000
# Seconds after its limit in which a call may still end without being a fault: a loaded machine is
# late, too
LATE = 1.0


class Prepared(msgspec.Struct, frozen=True):
    """A call with its tool and its checked arguments."""

    call: ToolCall
    tool: Tool
    arguments: dict[str, Any]
    limit: float
    claims: Claims
    aim: str


async def run_calls(agent: Agent) -> None:
    """Run the open calls of the last answer, in parallel where they do not meet, until all have
    ended.
    """
    calls = agent.conversation.open_calls()
    if len(calls) == 1:
        await _one(agent, calls[0], Place(Claims()))
        return
    # All take their places before the first one begins: trio starts tasks in any order.
    found = [_claims(agent, state) for state in calls]
    queue = places(claims for claims, _ in found)
    async with trio.open_nursery() as nursery:
        for state, place, (_, fault) in zip(calls, queue, found, strict=True):
            nursery.start_soon(_one, agent, state, place, fault, name=f"call {state.call.name}")


def _claims(agent: Agent, state: CallState) -> tuple[Claims, ToolError | None]:
    """Return what a call touches, and the fault of its tool's plugin in telling that, which is
    logged by now.

    A call that will be refused touches nothing.
    """
    if state.lost:
        return Claims(), None
    try:
        return _prepare(agent, state.to_run).claims, None
    except ToolError as error:
        return Claims(), error if error.code == "E_PLUGIN" else None


def end_calls(agent: Agent, code: str, text: str) -> None:
    """Log an end for every open call: it was stopped, or its run was given up."""
    for state in agent.conversation.open_calls():
        agent.emit(CallDone(result=_failure(state.call, code, text), seconds=_seconds(state)))


async def _one(
    agent: Agent, state: CallState, place: Place, fault: ToolError | None = None
) -> None:
    call = state.to_run
    try:
        await place.wait()
        try:
            if not call.problem:
                call = unwrap(call)
            if fault is not None:
                raise fault
            output = await _execute(agent, state, place)
            result = _result(state.call, output)
        except ToolError as error:
            if isinstance(error, NeedsUser):
                agent.emit(UserNeeded(code=error.code, message=error.message))
            result = _failure(state.call, error.code, str(error))
        if state.began is not None and (reason := agent.session.hooks.refusal("check_result")):
            result = _failure(state.call, "E_PLUGIN", f"{RESULT_WITHHELD}. {reason}")
        result = await _checked(agent, call, result)
        done = CallDone(result=result, seconds=_seconds(state))
        with suppress(PluginError):  # then the text is withheld
            await agent.session.redaction.prepare(done)
        agent.emit(done)
    finally:
        place.end()


def _seconds(state: CallState) -> float:
    """Return how long a call has run.

    Waiting for the user is not its time, and neither is an earlier process's.
    """
    if state.began is None:
        return 0.0
    return trio.current_time() - state.began


def _result(call: ToolCall, output: Output) -> ToolResult:
    text = writable(output.text)
    if output.code and not text.startswith(output.code):
        text = f"{output.code}: {text}"
    if len(text) > RESULT_LIMIT:
        text = f"{text[:RESULT_LIMIT]}\n… cut: {len(text) - RESULT_LIMIT} characters more."
    parts: tuple[Text | Image, ...] = (Text(text, f"tool:{call.name}"), *output.images)
    return ToolResult(call.id, call.name, parts, output.code, dict(output.data))


def _failure(call: ToolCall, code: str, text: str) -> ToolResult:
    return ToolResult(call.id, call.name, (Text(writable(f"{code}: {text}"), "kernel"),), code)


async def _execute(agent: Agent, state: CallState, place: Place) -> Output:
    session = agent.session
    if state.started and state.started.effect == "once":
        cut_off = "The call was cut off by a crash and may or may not have had its effect."
        raise ToolError(
            cut_off, code="E_INTERRUPTED", hint="Look at what is there before you repeat it."
        )
    if state.lost:
        unknown_now = (
            "The call was cut off. Its arguments held a secret, which is not stored, so it cannot"
            " be carried out."
        )
        raise ToolError(
            unknown_now,
            code="E_INTERRUPTED",
            hint="Ask the user for what is missing, or do without it.",
        )
    refusal = agent.conversation.failures.refusal(state.call)
    try:
        prepared = _prepare(agent, state.to_run)
    except ToolError as error:
        if refusal and error.code == "E_BAD_ARGS":
            raise ToolError(f"{refusal} {error.message}", code="E_REPEATED", hint=ADVICE) from None
        raise
    if refusal:
        raise ToolError(refusal, code="E_REPEATED", hint=ADVICE)

    async def before_asking(call: ToolCall) -> None:
        # Later calls need not wait for the answer, unless they touch what this one will touch.
        if call != prepared.call:
            _move(place, _prepare(agent, call).claims)
        await place.asking()

    judged = await permit(agent, state, prepared.call, prepared.tool, before_asking)
    if judged.call != prepared.call:
        prepared = _prepare(agent, judged.call)
        _move(place, prepared.claims)
    await place.turn()
    tool = prepared.tool
    async with AsyncExitStack() as stack:
        for lock in session.underway.locks.of(tool.paths_written(prepared.arguments)):
            await stack.enter_async_context(lock)
        reason = session.hooks.refusal()
        if reason:  # a gate may have closed while the call waited for its turn
            raise ToolDenied(reason)
        # A stop cannot cancel a wait that is already over. Without this check the tool would run up
        # to its first await.
        await trio.lowlevel.checkpoint_if_cancelled()
        seq = agent.emit(
            CallStarted(
                call=wrap(state.to_run, prepared.call) if judged.rewritten_by else state.to_run,
                risk=tool.risk,
                effect=tool.effect,
                plugin=tool.plugin,
                original=state.to_run.arguments if judged.rewritten_by else None,
                rewritten_by=judged.rewritten_by,
                paths=shown_paths(prepared.claims, session.workspace),
                aim=prepared.aim,
            )
        )
        state.began = trio.current_time()
        output = await _run(agent, prepared, place, seq)
    if judged.rewritten_by:
        told = (
            f"[Ran with other arguments, by {', '.join(judged.rewritten_by)}:"
            f" {prepared.call.arguments[:1000]}]"
        )
        output = msgspec.structs.replace(output, text=f"{output.text}\n{told}")
    return output


def _move(place: Place, claims: Claims) -> None:
    """Note that gates had a call touch something else.

    Raises:
        ToolError: A later call has begun that should have waited for it.
    """
    place.claims = claims
    if place.overtaken():
        problem = (
            "A plugin changed the arguments, and a later call has used what this one would read or"
            " write."
        )
        raise ToolError(problem, code="E_STALE", hint="Send the call again if it is still needed.")


def _prepare(agent: Agent, call: ToolCall) -> Prepared:
    """Find the tool of a call and check its arguments.

    Raises:
        ToolError: There is no such tool for this agent, the arguments do not fit, or the tool's
            plugin failed.
    """
    if call.problem.startswith(NO_TOOL):
        error = unknown("tool", call.name, (tool.name for tool in agent.tools()))
        raise ToolError(
            call.problem,
            code="E_UNKNOWN_TOOL",
            hint=f"{error.hint}{_unloaded_plugins(agent.session)}",
        )
    if call.problem:
        raise ToolError(
            call.problem,
            code="E_BAD_ARGS",
            hint="" if call.problem == CUT_OFF else "Send the call again, corrected.",
        )
    call = unwrap(call)
    tool = _find(agent, call)
    try:
        arguments = tool.check(call.arguments)
        limit = tool.time_limit(arguments)
        claims = claims_of(tool, arguments, agent.session.workspace)
        aim = tool.aim(arguments) if tool.aim is not None else ""
    except BaseException as failure:
        if is_interrupt(failure):
            raise
        raise _error_for_model(agent.session, tool, failure) from None
    return Prepared(call, tool, arguments, limit, claims, aim)


def _find(agent: Agent, call: ToolCall) -> Tool:
    session = agent.session
    tool = session.tools.get(call.name)
    if tool is None and call.name in PAIR:
        return PAIR[call.name]
    if tool is None:
        reason = session.halves.withdrawn.get(call.name)
        if reason:
            raise ToolError(reason, code="E_UNKNOWN_TOOL", hint="Do without it, and tell the user.")
        error = unknown("tool", call.name, (tool.name for tool in agent.tools()))
        raise ToolError(
            error.message, code="E_UNKNOWN_TOOL", hint=f"{error.hint}{_unloaded_plugins(session)}"
        )
    if not agent.mode.tools.admits(tool.name, tool.risk):
        raise ToolDenied(
            f"{tool.name} is not available in {agent.mode.name} mode.",
            hint="The user can switch it.",
        )
    if not agent.profile.tools.admits(tool.name, tool.risk) or not tool.serves(agent):
        raise ToolDenied(f"The agent {agent.name} may not use {tool.name}.", hint="Do without it.")
    return tool


def _unloaded_plugins(session: Session) -> str:
    """Return a sentence that names the plugins that are not loaded, because their tools cannot be
    known by name.
    """
    plugins = session.kernel.host.plugins.values()
    names = sorted(plugin.name for plugin in plugins if plugin.module is None)
    if not names:
        return ""
    return f" Plugins that are not loaded, so that their tools are missing: {', '.join(names)}."


async def _run(agent: Agent, prepared: Prepared, place: Place, seq: int) -> Output:
    """Run a call within its time limit.

    Raises:
        ToolError: It failed, or did not end in time.
    """
    session = agent.session
    tool = prepared.tool
    call = prepared.call
    began = time.perf_counter()
    deadline = trio.current_time() + prepared.limit
    bound = BoundCall(tool.plugin, deadline, tool.grace)

    def show(text: str) -> None:
        if not bound.abandoned:
            session.delta(seq, agent, "output", text, call.id)

    running = Call(
        call.id,
        call.name,
        prepared.arguments,
        agent,
        session,
        session.workspace,
        session.processes,
        deadline,
        show,
        place.released.set,
    )
    try:
        with session.underway.call(bound):
            await bound.run(lambda: tool.run(running))
    finally:
        failure = single(bound.error) if bound.error is not None else None
        for observe in session.kernel.observers:
            observe("tool", tool.name, tool.plugin, time.perf_counter() - began, failure)
    late = bound.abandoned or bound.ended_at >= deadline
    if bound.error is not None and is_interrupt(bound.error):
        raise bound.error
    if bound.error is not None and not late:
        raise _error_for_model(session, tool, bound.error) from None
    if late:
        raise _timed_out(session, tool, bound, prepared.limit)
    if bound.cancelled:
        raise ToolError(f"The plugin {tool.plugin} crashed during the call.", code="E_PLUGIN")
    output: Output = bound.value
    return output


def _timed_out(session: Session, tool: Tool, bound: BoundCall, limit: float) -> ToolError:
    """Return what the model is told of a call that outlived its limit.

    A tool that did not heed it is at fault.

    What such a tool returned in the end is left out: the model would take it for a call that went
    well.
    """
    heeded = bound.cancelled or bound.ended_at <= bound.deadline + LATE
    if bound.abandoned or not heeded:
        if bound.abandoned:
            what = "did not end when it was cancelled"
        else:
            what = "ended long after its time limit"
        fault = TimeoutError(f"it {what} ({limit:g} seconds)")
        session.hooks.report(Fault(tool.plugin, f"tool {tool.name}", fault))
    if bound.abandoned:
        how = "was left behind; it may still be working"
    else:
        how = "was cancelled"
    return ToolError(
        f"{tool.name} did not end within {limit:g} seconds and {how}.", code="E_TIMEOUT"
    )


def _error_for_model(session: Session, tool: Tool, error: BaseException) -> ToolError:
    """Return the error that the model reads for one in a tool's own code: the tool's own, else that
    its plugin failed.
    """
    error = single(error)
    if isinstance(error, ToolError):
        return error
    fault = Fault(tool.plugin, f"tool {tool.name}", error)
    session.hooks.report(fault)
    return ToolError(
        f"{tool.name} failed, which is a fault of the plugin {tool.plugin}: {fault}.",
        code="E_PLUGIN",
    )


async def _checked(agent: Agent, call: ToolCall, result: ToolResult) -> ToolResult:
    """Let plugins change the result before anyone sees it; if one fails, nobody sees it."""
    try:
        hooks = agent.session.hooks
        checked: ToolResult = await hooks.pipe(
            "check_result", "result", agent=agent, call=call, result=result
        )
        if checked.call_id != result.call_id:
            raise ValueError("A plugin that checks results gave that of another call.")
    except FAULTS as error:
        return _failure(
            call, "E_PLUGIN", f"{RESULT_WITHHELD}, which is a fault of a plugin. {error}"
        )
    # What cannot be read back must not be written: the log could not be opened any more.
    try:
        depth = nesting(msgspec.json.encode(checked).decode())
    except FAULTS as error:
        return _failure(
            call,
            "E_PLUGIN",
            f"The result cannot be written to the log, which is a fault of its plugin. {error}",
        )
    if depth > 2 * MAX_DEPTH:
        problem = f"The result is nested more than {2 * MAX_DEPTH} levels deep"
        return _failure(call, "E_PLUGIN", f"{problem}, which is a fault of its plugin.")
    return checked
