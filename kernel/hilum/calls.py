"""Tool calls: all calls of an answer at once, each with verdicts, approval, a time limit, and exactly one end.

The order of one call: known? arguments right? not the same failure again? allowed? asked? then *logged*, run, checked, logged.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from hilum.errors import NeedsUser, PluginError, ToolDenied, ToolError, unknown
from hilum.events import ApprovalAnswered, ApprovalAsked, CallDone, CallStarted, UserNeeded
from hilum.hooks import FAULTS, Fault, single
from hilum.hookspecs import Verdict, ask, deny
from hilum.late import PAIR, unwrap
from hilum.messages import Text, ToolCall, ToolResult, writable
from hilum.state import THREE, CallState
from hilum.tools import Call, Output, Tool

if TYPE_CHECKING:
    from hilum.agents import Agent
    from hilum.session import Session

RESULT_LIMIT = 200_000


async def run_calls(agent: Agent) -> None:
    """Run the open calls of the last answer, in parallel, until all have ended."""
    calls = agent.conversation.open_calls()
    if len(calls) == 1:
        await _one(agent, calls[0])
        return
    async with trio.open_nursery() as nursery:
        for state in calls:
            nursery.start_soon(_one, agent, state, name=f"call {state.call.name}")


def end_calls(agent: Agent, code: str, text: str) -> None:
    """Log an end for every open call: it was stopped, or its run was given up."""
    for state in agent.conversation.open_calls():
        agent.session.emit(CallDone(result=_failure(state.call, code, text)), agent)


async def _one(agent: Agent, state: CallState) -> None:
    call = state.call
    try:
        call = unwrap(state.call)
        output = await _settle(agent, state, call)
        text = output.text
        if len(text) > RESULT_LIMIT:
            output = Output(
                f"{text[:RESULT_LIMIT]}\n… cut: {len(text) - RESULT_LIMIT} characters more.", code=output.code
            )
        source = f"tool:{state.call.name}"
        result = ToolResult(call.id, state.call.name, output.parts(source), output.code, dict(output.data))
    except ToolError as error:
        if isinstance(error, NeedsUser):
            agent.session.emit(UserNeeded(code=error.code, message=error.message), agent)
        result = _failure(state.call, error.code, str(error))
    result = await _checked(agent, call, result)
    # Waiting for the user is not the call's time.
    seconds = 0.0 if state.began is None else trio.current_time() - state.began
    agent.session.emit(CallDone(result=result, seconds=seconds), agent)


def _failure(call: ToolCall, code: str, text: str) -> ToolResult:
    return ToolResult(call.id, call.name, (Text(writable(f"{code}: {text}"), "kernel"),), code)


async def _settle(agent: Agent, state: CallState, call: ToolCall) -> Output:
    session = agent.session
    if state.started and state.started.effect == "once":
        raise ToolError(
            "The call was cut off by a crash and may or may not have had its effect.",
            code="E_INTERRUPTED",
            hint="Look at what is there before you repeat it.",
        )
    tool = _find(agent, call)
    try:
        arguments = tool.check(call.arguments)
    except ToolError as error:
        if agent.conversation.strikes.of(state.call.name, "E_BAD_ARGS") >= THREE - 1:
            error.hint += " That was the third time: the call is skipped. Go on without it."
        raise
    except FAULTS as error:
        raise _crash(session, tool, error) from error
    if agent.conversation.strikes.repeated(state.call) >= THREE:
        raise ToolError("This very call has failed three times.", code="E_REPEATED", hint="Change it, or do without.")
    verdict = await _verdict(agent, call, tool)
    if verdict and verdict.kind == "deny":
        raise ToolDenied(verdict.reason or "The call was refused.")
    if verdict and verdict.kind == "ask":
        await _approve(agent, state, call, tool, verdict.reason)
    async with AsyncExitStack() as stack:
        for path in sorted({session.write_key(arguments[name]) for name in tool.writes if arguments.get(name)}):
            await stack.enter_async_context(session.write_lock(path))
        started = CallStarted(call=state.call, risk=tool.risk, effect=tool.effect, plugin=tool.plugin)
        seq, state.began = session.emit(started, agent), trio.current_time()
        return await _run(agent, tool, call, arguments, seq)


def _find(agent: Agent, call: ToolCall) -> Tool:
    session = agent.session
    tool = session.tools.get(call.name)
    if tool is None and session.expects_tools:
        tool = next((tool for tool in PAIR if tool.name == call.name), None)
        if tool is not None:
            return tool
    if tool is None:
        error = unknown("tool", call.name, (tool.name for tool in agent.tools()))
        raise ToolError(error.message, code="E_UNKNOWN_TOOL", hint=error.hint)
    if not agent.mode.tools.admits(tool.name, tool.risk):
        raise ToolDenied(
            f"{tool.name} is not available in {agent.mode.name} mode.", hint="The user can switch the mode."
        )
    if not agent.profile.tools.admits(tool.name, tool.risk):
        raise ToolDenied(f"The agent {agent.name} may not use {tool.name}.", hint="Do without it.")
    return tool


def _policy(agent: Agent, tool: Tool) -> Verdict | None:
    """What the approval policy and the mode say, before any plugin is heard."""
    if tool.risk == "read":
        return None
    approve = agent.session.approve
    if approve == "readonly":
        return deny(f"The session is read-only, and {tool.name} can {tool.risk}.")
    if tool.risk in agent.mode.ask:
        return ask(f"In {agent.mode.name} mode calls that {tool.risk} are confirmed by the user.")
    return ask("Calls that change something are confirmed (approve = ask_first).") if approve == "ask_first" else None


async def _verdict(agent: Agent, call: ToolCall, tool: Tool) -> Verdict | None:
    policy = _policy(agent, tool)
    if policy and policy.kind == "deny":
        return policy
    gates = await agent.session.hooks.judge("on_tool_call", agent=agent, call=call, tool=tool)
    if gates and (policy is None or gates.rank >= policy.rank):
        return gates
    return policy


async def _approve(agent: Agent, state: CallState, call: ToolCall, tool: Tool, reason: str) -> None:
    """Wait for the user's answer.

    Raises:
        ToolDenied: It was no, came too late, or nobody is there to ask.
    """
    session = agent.session
    if call.name in session.grants:
        return
    canonical = json.dumps([call.name, msgspec.json.decode(call.arguments or "{}")], sort_keys=True)
    digest = hashlib.sha256(canonical.encode()).hexdigest()[:16]
    answer = state.answered if state.asked and state.asked.digest == digest else None
    if answer is None and session.kind == "headless":
        raise ToolDenied(f"It needs the user's approval and nobody is there to give it: {reason}")
    if answer is None:
        limit = session.options.approval_timeout
        asked = ApprovalAsked(
            id=uuid.uuid4().hex[:12],
            call=call,
            risk=tool.risk,
            reason=reason,
            digest=digest,
            deadline=time.time() + limit,
        )
        with session.waiting(asked.id) as answered:
            session.emit(asked, agent)
            with trio.move_on_after(limit):
                await answered.wait()
        answer = state.answered
    if answer is None:
        reason = f"Nobody answered within {session.options.approval_timeout:g} seconds."
        answer = ApprovalAnswered(id=asked.id, accepted=False, reason=reason, by="timeout")
        session.emit(answer, agent)
    if not answer.accepted:
        code = "E_APPROVAL_TIMEOUT" if answer.by == "timeout" else "E_REJECTED"
        said = answer.reason or "no reason given"
        raise ToolDenied(f"The user rejected the call: {said}", code=code, hint="Change your plan.")


async def _run(agent: Agent, tool: Tool, call: ToolCall, arguments: dict[str, Any], seq: int) -> Output:
    session = agent.session
    try:
        limit = tool.time_limit(arguments)
    except FAULTS as error:
        raise _crash(session, tool, error) from error
    running = Call(
        id=call.id,
        name=call.name,
        arguments=arguments,
        agent=agent,
        session=session,
        workspace=session.workspace,
        processes=session.processes,
        deadline=trio.current_time() + limit,
        emit=lambda text: session.delta(seq, agent, "output", text, call.id),
    )
    began = time.perf_counter()
    failure: BaseException | None = None
    with session.in_flight(tool.plugin) as scope:
        with trio.move_on_after(limit) as deadline:
            try:
                return await tool.run(running)
            except FAULTS as error:
                failure = single(error)
                if isinstance(failure, ToolError):
                    raise failure from error
                raise _crash(session, tool, failure) from error
            finally:
                for observe in session.kernel.observers:
                    observe("tool", tool.name, tool.plugin, time.perf_counter() - began, failure)
        if deadline.cancelled_caught:
            raise ToolError(f"{tool.name} did not end within {limit:g} seconds and was cancelled.", code="E_TIMEOUT")
    if scope.cancelled_caught:
        raise ToolError(f"The plugin {tool.plugin} crashed during the call.", code="E_PLUGIN")
    raise AssertionError("unreachable")


def _crash(session: Session, tool: Tool, error: BaseException) -> ToolError:
    fault = Fault(tool.plugin, f"tool {tool.name}", error)
    session.hooks.report(fault)
    return ToolError(f"{tool.name} failed, which is a fault of the plugin {tool.plugin}: {fault}.", code="E_PLUGIN")


async def _checked(agent: Agent, call: ToolCall, result: ToolResult) -> ToolResult:
    """Let plugins change the result before anyone sees it; if one fails, nobody sees it."""
    try:
        checked: ToolResult = await agent.session.hooks.pipe(
            "check_result", "result", agent=agent, call=call, result=result
        )
    except PluginError as error:
        return _failure(call, "E_PLUGIN", f"The result is withheld. {error.message}")
    if checked.call_id != result.call_id:
        return _failure(
            call, "E_PLUGIN", "The result is withheld: a plugin that checks results gave that of another call."
        )
    try:
        msgspec.json.encode(checked)
    except FAULTS as error:
        return _failure(call, "E_PLUGIN", f"The result cannot be written down, which is a fault of a plugin: {error}.")
    return checked
