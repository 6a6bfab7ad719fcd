"""Tool calls: all calls in a response run in parallel, and each ends exactly once.

A call first waits for earlier calls that use the same files or queues. After a check of its tool,
its arguments and its earlier failures, the gates, the mode, the approval policy and the user decide
whether it may run. The call's start is *logged*, the call runs within a time limit, and its result
is checked and logged.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from msgspec.structs import replace

from hilum.arguments import (
    CUT_OFF,
    MAX_DEPTH,
    NO_TOOL,
    BadArguments,
    decode_arguments,
    encode_arguments,
)
from hilum.deferred_tools import ACCESS_TOOLS, unwrap, wrap
from hilum.errors import (
    BY_POLICY,
    CALL_CUT_SHORT,
    CALL_LOST,
    CALL_NOT_RUN,
    CALL_UNCERTAIN,
    RESULT_WITHHELD,
    RULE,
    STOPPED_BY,
    NeedsUser,
    PluginError,
    ToolDenied,
    ToolError,
    unknown_name_error,
)
from hilum.events import CallDone, CallStarted, UserNeeded
from hilum.extras import advice_for_tool
from hilum.hooks import (
    PLUGIN_EXCEPTIONS,
    PluginFailure,
    running_call,
    running_plugin,
    unwrap_group,
)
from hilum.hooks.failures import is_interrupt
from hilum.messages import Image, Text, ToolCall, ToolResult, replace_surrogates
from hilum.model_calls import ModelCallDenied
from hilum.order import Claims, Place, claims_of, places, shown_paths
from hilum.refusals import describe_call
from hilum.repetition import ADVICE
from hilum.signature import nesting
from hilum.state import CallState
from hilum.time_limits import TimedCall
from hilum.tools import Call, Output, Tool
from hilum.verdicts import permit

if TYPE_CHECKING:
    from hilum.agents import Agent
    from hilum.session import Session

# Maximum number of characters of rewritten arguments that the model reads.
MAX_SHOWN_ARGUMENTS = 1_000
# Maximum number of characters in a result that the log keeps. The model may get a shorter text: see
# ``shorten_results``.
RESULT_LIMIT = 200_000
# Seconds by which a call may exceed its time limit before this counts as a failure of its plugin.
# On a loaded machine, a cancelled call may end late.
LATE = 1.0
# Seconds that plugins have to check the output of a stopped call. The limit is short, because a
# stop must be quick.
CHECK_TIMEOUT = 1.0
# Seconds that a tool has to check a call before the user is asked about it.
PRECHECK_TIMEOUT = 5.0


class Prepared(msgspec.Struct, frozen=True):
    """A call with its tool and its checked arguments."""

    call: ToolCall
    tool: Tool
    arguments: dict[str, Any]
    limit: float
    claims: Claims
    aim: str


async def run_calls(agent: Agent) -> None:
    """Run the open calls of the last response until all have ended.

    Calls that use the same files or queues run one after another, all others in parallel.
    """
    calls = agent.conversation.open_calls()
    # A single call, the common case, needs no place in an order and no separate task.
    if len(calls) == 1:
        await _run_one_call(agent, calls[0], Place(Claims()))
        return
    # All calls take their places before the first one begins: trio starts tasks in any order.
    found = [_claims(agent, state) for state in calls]
    queue = places(claims for claims, _ in found)
    async with trio.open_nursery() as nursery:
        for state, place, (_, fault) in zip(calls, queue, found, strict=True):
            nursery.start_soon(
                _run_one_call, agent, state, place, fault, name=f"call {state.call.name}"
            )


def _claims(agent: Agent, state: CallState) -> tuple[Claims, ToolError | None]:
    """Return a call's claims, or no claims and the error that its tool's plugin raised.

    The error is already in the log. A call that will be refused has no claims either.
    """
    if state.lost:
        return Claims(), None
    try:
        return _prepare(agent, state.to_run).claims, None
    except ToolError as error:
        fault = error if error.code == "E_PLUGIN" else None
        return Claims(), fault


def end_calls(agent: Agent, code: str, why: str) -> None:
    """Log the end of every open call when the run was stopped or cannot continue.

    Args:
        agent: The agent that made the calls.
        code: The error code of the calls' results.
        why: The reason why the run ended, as a clause.
    """
    for state in agent.conversation.open_calls():
        title = describe_call(state.call)
        if state.started is None:
            text = f"`{title}` {CALL_NOT_RUN} {why}."
        else:
            text = f"`{title}` {CALL_CUT_SHORT} {why}."
        result = _failure(state.call, code, text)
        if state.printed:
            introduction = Text(f"{result.text} Its output so far:", "kernel")
            # The output is a separate part, so that it is not mistaken for the kernel's text.
            output = Text(state.printed, f"tool:{state.call.name}")
            result = replace(result, parts=(introduction, output))
        agent.emit(CallDone(result=result, seconds=_seconds(state)))


async def _run_one_call(
    agent: Agent, state: CallState, place: Place, fault: ToolError | None = None
) -> None:
    """Run one call and log its end.

    Args:
        agent: The agent that made the call.
        state: The state of the call.
        place: The call's place among the calls of the response.
        fault: The error of the tool's plugin, if it prevents the call from running.
    """
    call = state.to_run
    try:
        asked = trio.current_time()
        await place.wait()
        state.waited = trio.current_time() - asked
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
            if isinstance(error, ToolDenied):
                result = replace(result, data=_describe_ways(error))
        reason = agent.session.hooks.refusal("check_result")
        # The call ran, but its result cannot be checked for secrets and injected instructions.
        if reason and state.began is not None:
            result = _failure(state.call, "E_PLUGIN", f"{RESULT_WITHHELD}. {reason}")
        result = await _check_result(agent, call, result)
        done = CallDone(result=result, seconds=_seconds(state))
        with suppress(PluginError):  # if the search for secrets fails, the text is withheld
            await agent.session.redaction.prepare(done)
        agent.emit(done)
    except trio.Cancelled:
        await _check_printed(agent, call, state)
        raise
    finally:
        place.end()


async def _check_printed(agent: Agent, call: ToolCall, state: CallState) -> None:
    """Pass a stopped call's output to the plugins that check results.

    Output that is not checked within ``CHECK_TIMEOUT`` seconds is not logged.
    """
    printed = state.printed
    state.printed = ""
    if not printed or agent.session.hooks.refusal("check_result"):
        return
    # A stop must not skip this check, and the check must not delay the stop for long.
    part = Text(replace_surrogates(printed), f"tool:{state.call.name}")
    result = ToolResult(state.call.id, state.call.name, (part,), "E_STOPPED")
    with trio.CancelScope(shield=True, deadline=trio.current_time() + CHECK_TIMEOUT):
        checked = await _check_result(agent, call, result)
        state.printed = checked.text


def _seconds(state: CallState) -> float:
    """Return how many seconds a call has run.

    The time that the call waited for the user or ran in an earlier process does not count.
    """
    if state.began is None:
        return 0.0
    return trio.current_time() - state.began


def _result(call: ToolCall, output: Output) -> ToolResult:
    """Create the result of a call from its output, cut to the length that the log keeps."""
    text = replace_surrogates(output.text)
    if output.code and not text.startswith(output.code):
        text = f"{output.code}: {text}"
    if len(text) > RESULT_LIMIT:
        lines = text.count("\n") + (not text.endswith("\n"))
        text = (
            f"{text[:RESULT_LIMIT]}\n[… cut after {RESULT_LIMIT:,} of {len(text):,} characters"
            f" ({lines:,} line{'s' * (lines != 1)}); the rest is not kept: ask for less at once …]"
        )
    parts: tuple[Text | Image, ...] = (Text(text, f"tool:{call.name}"), *output.images)
    data = dict(output.data)
    return ToolResult(call.id, call.name, parts, output.code, data, output.changed)


def _failure(call: ToolCall, code: str, text: str) -> ToolResult:
    """Create the result of a call that failed or did not run."""
    part = Text(replace_surrogates(f"{code}: {text}"), "kernel")
    return ToolResult(call.id, call.name, (part,), code)


async def _execute(agent: Agent, state: CallState, place: Place) -> Output:
    """Check whether a call may run, and run it.

    Raises:
        ToolError: The call was refused, failed, or did not end in time.
    """
    session = agent.session
    # Interrupted calls are refused first, because a call that may have had its effect must not be
    # judged again.
    _check_interrupted(state)
    prepared = _prepare_unless_repeated(agent, state)

    async def before_asking(call: ToolCall) -> None:
        # Later calls need not wait for the user's answer, unless they conflict with this one.
        if call != prepared.call:
            _move(place, _prepare(agent, call).claims)
        await place.asking()

    async def precheck(call: ToolCall) -> None:
        await _precheck(agent, prepared if call == prepared.call else _prepare(agent, call))

    judged = await permit(agent, state, prepared.call, prepared.tool, before_asking, precheck)
    if judged.call != prepared.call:
        prepared = _prepare(agent, judged.call)
        _move(place, prepared.claims)
    asked = trio.current_time()
    await place.turn()
    tool = prepared.tool
    # Places order the calls in one response; locks order calls from different agents.
    locks = session._calls_in_flight.locks.of(tool.paths_written(prepared.arguments))
    async with AsyncExitStack() as stack:
        for lock in locks:
            await stack.enter_async_context(lock)
        state.waited += trio.current_time() - asked
        reason = session.hooks.refusal()
        if reason:  # a gate may have closed while this call waited
            raise ToolDenied(reason)
        # A stop has no effect on waits that are already over; without this checkpoint, the tool
        # would run up to its first await.
        await trio.lowlevel.checkpoint_if_cancelled()
        started = CallStarted(
            call=state.to_run,
            risk=tool.risk,
            effect=tool.effect,
            plugin=tool.plugin,
            paths=shown_paths(prepared.claims, session.workspace),
            aim=prepared.aim,
            waited=round(state.waited, 3),
        )
        if judged.rewritten_by:
            started = replace(
                started,
                call=wrap(state.to_run, prepared.call),
                original=state.to_run.arguments,
                rewritten_by=judged.rewritten_by,
            )
        # The start is logged before the tool runs. If hilum ends while the tool runs, the log thus
        # shows that the call may have had its effect.
        seq = agent.emit(started)
        if tool.effect != "pure":
            await session.journal.flush(seq)
        state.began = trio.current_time()
        output = await _run(agent, state, prepared, place, seq)
    if not judged.rewritten_by:
        return output
    # Without a note, the model would attribute the result to the arguments that it wrote.
    run = wrap(state.to_run, prepared.call).arguments
    note = _describe_rewrite(state.to_run.arguments, run, judged.rewritten_by)
    return replace(output, text=f"{output.text}\n{note}")


def _describe_rewrite(written: str, run: str, plugins: Sequence[str]) -> str:
    """Return the note about a call that gates rewrote.

    Args:
        written: The arguments as the model wrote them.
        run: The arguments with which the call ran.
        plugins: The plugins with the gates.
    """
    by = ", ".join(plugins)
    try:
        before = decode_arguments(written)
        after = decode_arguments(run)
    except BadArguments:
        return f"[Ran with other arguments, by {by}: {run[:MAX_SHOWN_ARGUMENTS]}]"
    # In a call through `call_tool`, the gates judge what is inside.
    if isinstance(before.get("arguments"), dict) and isinstance(after.get("arguments"), dict):
        before, after = before["arguments"], after["arguments"]
    # What a gate only adds may be long, such as the diff of a rename, and the model did not write it.
    added = [name for name in after if name not in before]
    removed = [name for name in before if name not in after]
    kept = [name for name in before if name in after]
    changed = {name: after[name] for name in kept if before[name] != after[name]}
    if added and not changed and not removed:
        return f"[{by} added to the arguments of this call: {', '.join(added)}]"
    parts = []
    if changed:
        parts.append(encode_arguments(changed)[:MAX_SHOWN_ARGUMENTS])
    if removed:
        parts.append(f"without {', '.join(removed)}")
    if added:
        parts.append(f"with {', '.join(added)}")
    return f"[Ran with other arguments, by {by}: {'; '.join(parts)}]"


def _check_interrupted(state: CallState) -> None:
    """Check that a call that was interrupted by a crash may run again.

    Raises:
        ToolError: The call may already have had its effect, or its arguments are lost.
    """
    title = describe_call(state.call)
    if state.started and state.started.effect == "once":
        raise ToolError(
            f"`{title}` {CALL_UNCERTAIN}",
            code="E_INTERRUPTED",
            hint="Check the current state before you repeat it.",
        )
    if state.lost:
        raise ToolError(
            f"`{title}` {CALL_LOST}",
            code="E_INTERRUPTED",
            hint="Ask the user for the missing value, or continue without this call.",
        )


def _prepare_unless_repeated(agent: Agent, state: CallState) -> Prepared:
    """Prepare a call, unless it has been repeated too often.

    Raises:
        ToolError: The call failed too often, returned the same result too often, or cannot be
            prepared (see ``_prepare``).
    """
    # Failures are counted for the call as it is in the log, without its secrets.
    refusal = agent.conversation.failures.refusal(state.call)
    try:
        prepared = _prepare(agent, state.to_run)
    except ToolError as error:
        if refusal and error.code == "E_BAD_ARGS":
            raise ToolError(f"{refusal} {error.message}", code="E_REPEATED", hint=ADVICE) from None
        raise
    if refusal:
        raise ToolError(refusal, code="E_REPEATED", hint=ADVICE)
    return prepared


def _move(place: Place, claims: Claims) -> None:
    """Record that gates changed the files or queues that a call uses.

    Raises:
        ToolError: A later call, which should have waited for this one, has already begun.
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
        ToolError: The agent has no such tool, the arguments do not fit, or the tool's plugin
            failed.
    """
    if call.problem.startswith(NO_TOOL):
        raise ToolError(call.problem, code="E_UNKNOWN_TOOL", hint=_suggest_tools(agent, call.name))
    if call.problem:
        hint = "" if call.problem == CUT_OFF else "Send the call again, corrected."
        raise ToolError(call.problem, code="E_BAD_ARGS", hint=hint)
    call = unwrap(call)
    tool = _find(agent, call)
    try:
        arguments = tool.check(call.arguments)
        limit = tool.time_limit(arguments)
        claims = claims_of(tool, arguments, agent.session.workspace)
        aim = tool.aim(arguments) if tool.aim is not None else ""
    # ``aim``, ``reads`` and ``timeout`` may be functions that the plugin defines, and these may
    # raise any exception.
    except BaseException as failure:
        if is_interrupt(failure):
            raise
        raise _error_for_model(agent.session, tool, failure) from None
    return Prepared(call, tool, arguments, limit, claims, aim)


def _find(agent: Agent, call: ToolCall) -> Tool:
    """Return the tool of a call.

    Raises:
        ToolError: The tool does not exist, or the agent is not allowed to use it.
    """
    # A plugin's tool takes precedence over the kernel's own tool of the same name.
    tool = agent.session.tools.get(call.name) or ACCESS_TOOLS.get(call.name)
    if tool is None:
        raise _unknown_tool(agent, call.name)
    if tool is ACCESS_TOOLS.get(call.name):
        return tool
    # The tool list does not contain tools that are not admitted, but a model can call any name that
    # it remembers.
    if not agent.mode.tools.admits(tool.name, tool.risk):
        raise ToolDenied(
            f"{tool.name} is not available in {agent.mode.name} mode.",
            hint="The user can switch the mode.",
        )
    if not agent.profile.tools.admits(tool.name, tool.risk) or not tool.serves(agent):
        raise ToolDenied(
            f"The agent {agent.name} may not use {tool.name}.", hint="Continue without this tool."
        )
    return tool


def _unknown_tool(agent: Agent, name: str) -> ToolError:
    """Create the error for a call to a tool that the session does not have."""
    problem = f"There is no tool {name!r}."
    withdrawn = agent.session._instances.withdrawn.get(name)
    advice = advice_for_tool(name)
    if withdrawn:
        problem = withdrawn
        hint = "Continue without this tool, and tell the user."
    elif advice:
        # The name of the tool comes first, because a terminal cuts long lines.
        problem = f"{name} is not installed. {advice}"
        hint = "Continue without this tool, and tell the user."
    else:
        hint = _suggest_tools(agent, name)
    return ToolError(problem, code="E_UNKNOWN_TOOL", hint=hint)


def _suggest_tools(agent: Agent, name: str) -> str:
    """Return the hint for an unknown tool: similar names, and the plugins that are not loaded.

    The names of the tools that these plugins would provide are not known.
    """
    names = [tool.name for tool in agent.tools()]
    hint = unknown_name_error("tool", name, names).hint
    plugins = agent.session.kernel.host.plugins.values()
    unloaded = sorted(plugin.name for plugin in plugins if plugin.module is None)
    if not unloaded:
        return hint
    listed = ", ".join(unloaded)
    return f"{hint} These plugins are not loaded, so their tools are missing: {listed}."


async def _run(
    agent: Agent, state: CallState, prepared: Prepared, place: Place, seq: int
) -> Output:
    """Run a call within its time limit.

    Raises:
        ToolError: The call failed or did not end in time.
    """
    session = agent.session
    tool = prepared.tool
    call = prepared.call
    began = time.perf_counter()
    deadline = trio.current_time() + prepared.limit
    timed = TimedCall(tool.plugin, deadline, tool.grace)

    def show(text: str) -> None:
        # Faces have already shown that an abandoned call ended.
        if not timed.abandoned:
            session._writer.show_output(seq, agent, "output", text, call.id)

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
        in_flight = session._calls_in_flight.tool_call(timed, agent.name, call.id)
        with in_flight, running_plugin(tool.plugin), running_call(agent.name, call.id):
            await timed.run(lambda: session.kernel.run_tool(tool, running))
    except trio.Cancelled:
        state.printed = _output_so_far(session, tool, running)
        raise
    finally:
        failure = unwrap_group(timed.error) if timed.error is not None else None
        for observe in session.kernel.observers:
            observe("tool", tool.name, tool.plugin, time.perf_counter() - began, failure)
    late = timed.abandoned or timed.ended_at >= deadline
    # Ctrl-C must reach the program, even if it was pressed while a tool's code ran.
    if timed.error is not None and is_interrupt(timed.error):
        raise timed.error
    if timed.error is not None and not late:
        raise _error_for_model(session, tool, timed.error) from None
    # A call that ended normally before the stop took effect has its result.
    if timed.stopped and (timed.cancelled or timed.abandoned):
        return _make_stopped_output(session, prepared, running)
    if late:
        raise _timed_out(session, tool, timed, prepared.limit)
    if timed.cancelled:
        raise ToolError(f"The plugin {tool.plugin} crashed during the call.", code="E_PLUGIN")
    output: Output = timed.value
    return output


async def _precheck(agent: Agent, prepared: Prepared) -> None:
    """Check with the tool whether a call can succeed, before the user is asked to approve it.

    A precheck that fails or takes too long is a failure of its plugin, but does not keep the user
    from being asked: it is not a gate, and the tool itself checks the call again when it runs.

    Raises:
        ToolError: The call cannot succeed.
    """
    session = agent.session
    tool = prepared.tool
    if tool.precheck is None:
        return
    call = prepared.call
    deadline = trio.current_time() + PRECHECK_TIMEOUT
    timed = TimedCall(tool.plugin, deadline, tool.grace)
    running = Call(
        call.id,
        call.name,
        prepared.arguments,
        agent,
        session,
        session.workspace,
        session.processes,
        deadline,
        lambda text: None,
    )
    with session._calls_in_flight.call(timed):
        await timed.run(lambda: tool.check_before_asking(running))
    error = unwrap_group(timed.error) if timed.error is not None else None
    if error is not None and is_interrupt(error):
        raise error
    if isinstance(error, ToolError):
        raise error
    if timed.abandoned or timed.cancelled:
        error = TimeoutError(f"it did not end within {PRECHECK_TIMEOUT:g} seconds")
    if error is not None:
        session.hooks.report(PluginFailure(tool.plugin, f"precheck of {tool.name}", error))


def _output_so_far(session: Session, tool: Tool, call: Call) -> str:
    """Return the output of a stopped call; empty if the tool does not report its output."""
    if call.output_so_far is None:
        return ""
    try:
        printed = replace_surrogates(call.output_so_far())
    except PLUGIN_EXCEPTIONS as error:
        session.hooks.report(PluginFailure(tool.plugin, f"tool {tool.name}", error))
        return ""
    # The end of the output shows what the tool was doing when it was stopped.
    return printed[-RESULT_LIMIT:]


def _make_stopped_output(session: Session, prepared: Prepared, running: Call) -> Output:
    """Return the output of a call that the user stopped alone, while its run continues."""
    title = describe_call(prepared.call)
    text = (
        f"`{title}` was stopped by the user before it was complete."
        " Do not repeat it unless the user wants it."
    )
    printed = _output_so_far(session, prepared.tool, running)
    if printed:
        text = f"{text} Its output so far:\n{printed}"
    return Output(text, code="E_STOPPED", data={STOPPED_BY: "user"})


def _timed_out(session: Session, tool: Tool, timed: TimedCall, limit: float) -> ToolError:
    """Return the error for the model about a call that exceeded its time limit.

    A tool that ignored its cancellation is reported as a failure of its plugin. A result that
    arrives after the time limit is dropped, because the model would think that the call succeeded.
    """
    if timed.abandoned:
        outcome = "was abandoned; it may still be running"
        failure = "did not end when it was cancelled"
    else:
        outcome = "was cancelled"
        failure = ""
        if not timed.cancelled and timed.ended_at > timed.deadline + LATE:
            failure = "ended long after its time limit"
    if failure:
        error = TimeoutError(f"it {failure} ({limit:g} seconds)")
        session.hooks.report(PluginFailure(tool.plugin, f"tool {tool.name}", error))
    message = f"{tool.name} did not end within {limit:g} seconds and {outcome}."
    return ToolError(message, code="E_TIMEOUT")


def _error_for_model(session: Session, tool: Tool, error: BaseException) -> ToolError:
    """Return the error for the model about an exception that a tool's code raised.

    A ``ToolError`` is returned unchanged, and a refused request to a model with its code; any other
    exception is a failure of the tool's plugin.
    """
    error = unwrap_group(error)
    if isinstance(error, ToolError):
        return error
    if isinstance(error, ModelCallDenied):
        # A budget that is reached is no fault of the plugin that asks a model.
        return ToolError(error.message, code=error.code, hint="Continue without this tool.")
    fault = PluginFailure(tool.plugin, f"tool {tool.name}", error)
    session.hooks.report(fault)
    return ToolError(
        f"{tool.name} failed, which is a fault of the plugin {tool.plugin}: {fault}.",
        code="E_PLUGIN",
    )


async def _check_result(agent: Agent, call: ToolCall, result: ToolResult) -> ToolResult:
    """Return the result as plugins change it; if a plugin fails, the result is withheld."""
    hooks = agent.session.hooks
    try:
        checked: ToolResult = await hooks.pipe(
            "check_result", "result", agent=agent, call=call, result=result
        )
        # With another call's id, this call would have no result, and providers reject such a call.
        if checked.call_id != result.call_id:
            raise ValueError("A plugin that checks results returned the result of another call.")
    except PLUGIN_EXCEPTIONS as error:
        problem = f"{RESULT_WITHHELD}, which is a fault of a plugin. {error}"
        return _failure(call, "E_PLUGIN", problem)
    # A result that cannot be read back must not be written to the log, because the session could
    # then not be resumed.
    try:
        depth = nesting(msgspec.json.encode(checked).decode())
    except PLUGIN_EXCEPTIONS as error:
        problem = "The result cannot be written to the log because of a fault in its plugin."
        return _failure(call, "E_PLUGIN", f"{problem} {error}")
    if depth > 2 * MAX_DEPTH:
        problem = f"The result is nested more than {2 * MAX_DEPTH} levels deep"
        return _failure(call, "E_PLUGIN", f"{problem}, which is a fault of its plugin.")
    return checked


def _describe_ways(error: ToolDenied) -> dict[str, Any]:
    """Return what would let a denied call run, as data for faces."""
    data: dict[str, Any] = {}
    if error.rule:
        data[RULE] = error.rule
    if error.by_policy:
        data[BY_POLICY] = True
    return data
