"""Tool calls: all calls of an answer at once, each with verdicts, approval, a time limit, and exactly one end.

The order of one call: known? arguments right? not the same failure again? allowed? asked? then *logged*, run, checked, logged.
"""

from __future__ import annotations

import os
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from hilum_hooks import FAULTS, Fault, single

from hilum.errors import NeedsUser, ToolDenied, ToolError, unknown
from hilum.events import ApprovalAnswered, ApprovalAsked, CallDone, CallStarted, UserNeeded
from hilum.hookspecs import Verdict, allow, ask, deny
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
        agent.emit(CallDone(result=_failure(state.call, code, text)))


async def _one(agent: Agent, state: CallState) -> None:
    call, name = state.call, state.call.name
    try:
        call = unwrap(state.call)
        output = await _settle(agent, state, call)
        text = writable(output.text)
        if len(text) > RESULT_LIMIT:
            text = f"{text[:RESULT_LIMIT]}\n… cut: {len(text) - RESULT_LIMIT} characters more."
        result = ToolResult(call.id, name, (Text(text, f"tool:{name}"), *output.images), output.code, dict(output.data))
    except ToolError as error:
        if isinstance(error, NeedsUser):
            agent.emit(UserNeeded(code=error.code, message=error.message))
        third = error.code == "E_BAD_ARGS" and agent.conversation.strikes.of(name, error.code) >= THREE - 1
        skipped = " That was the third time: the call is skipped. Go on without it." if third else ""
        result = _failure(state.call, error.code, f"{error}{skipped}")
    result = await _checked(agent, call, result)
    # Waiting for the user is not the call's time.
    seconds = 0.0 if state.began is None else trio.current_time() - state.began
    agent.emit(CallDone(result=result, seconds=seconds))


def _failure(call: ToolCall, code: str, text: str) -> ToolResult:
    return ToolResult(call.id, call.name, (Text(writable(f"{code}: {text}"), "kernel"),), code)


async def _settle(agent: Agent, state: CallState, call: ToolCall) -> Output:
    session = agent.session
    if state.started and state.started.effect == "once":
        cut_off = "The call was cut off by a crash and may or may not have had its effect."
        raise ToolError(cut_off, code="E_INTERRUPTED", hint="Look at what is there before you repeat it.")
    tool = _find(agent, call)
    try:
        arguments = tool.check(call.arguments)
        limit = tool.time_limit(arguments)
    except FAULTS as error:
        raise _told(session, tool, error) from None
    if agent.conversation.strikes.repeated(state.call) >= THREE:
        raise ToolError("This very call has failed three times.", code="E_REPEATED", hint="Change it, or do without.")
    heard: Verdict | None = None
    while (verdict := await _verdict(agent, call, tool)).kind == "ask" and verdict != heard:
        if heard and (heard.scope or call.name) not in session.grants:
            raise ToolDenied("What the call would do has changed since it was asked.", code=verdict.code)
        await _approve(agent, state, call, tool, heard := verdict)
    if verdict.kind == "deny":
        raise ToolDenied(verdict.reason or "The call was refused.", code=verdict.code)
    async with AsyncExitStack() as stack:
        for lock in session.underway.locks.of(arguments[name] for name in tool.writes if arguments.get(name)):
            await stack.enter_async_context(lock)
        seq = agent.emit(CallStarted(call=state.call, risk=tool.risk, effect=tool.effect, plugin=tool.plugin))
        state.began = trio.current_time()
        return await _run(agent, tool, call, arguments, limit, seq)


def _find(agent: Agent, call: ToolCall) -> Tool:
    tool = agent.session.tools.get(call.name)
    if tool is None and agent.session.expects_tools and call.name in PAIR:
        return PAIR[call.name]
    if tool is None:
        error = unknown("tool", call.name, (tool.name for tool in agent.tools()))
        raise ToolError(error.message, code="E_UNKNOWN_TOOL", hint=error.hint)
    if not agent.mode.tools.admits(tool.name, tool.risk):
        raise ToolDenied(f"{tool.name} is not available in {agent.mode.name} mode.", hint="The user can switch it.")
    if not agent.profile.tools.admits(tool.name, tool.risk) or not tool.serves(agent):
        raise ToolDenied(f"The agent {agent.name} may not use {tool.name}.", hint="Do without it.")
    return tool


async def _verdict(agent: Agent, call: ToolCall, tool: Tool) -> Verdict:
    """The strictest of what approval policy, mode and plugins say; where the policy refuses, no plugin is heard.

    A lasting yes of the user's answers what he was asked, and nothing else that is asked of the same call.
    """
    hooks, approve, grants = agent.session.hooks, agent.session.approve, agent.session.grants
    changes = tool.risk != "read"
    if changes and approve == "readonly":
        return deny(f"The session is read-only, and {tool.name} can {tool.risk}.")
    if reason := hooks.refusal():
        return deny(reason)
    verdicts = [allow()]
    for plugin, value in await hooks.gather("on_tool_call", agent=agent, call=call, tool=tool):
        failed = f"The plugin {plugin}, which guards this, failed: {value}."
        verdicts.append(deny(failed) if isinstance(value, Fault) else value)
    left = [verdict for verdict in verdicts if verdict.kind != "ask" or (verdict.scope or call.name) not in grants]
    if changes and len(left) == len(verdicts) and call.name not in grants:
        if tool.risk in agent.mode.ask:
            left.append(ask(f"In {agent.mode.name} mode calls that {tool.risk} are confirmed by the user."))
        if approve == "ask_first" and not any(verdict.settled for verdict in verdicts):
            left.append(ask("Calls that change something are confirmed (approve = ask_first)."))
    return max(left, key=lambda verdict: verdict.rank)


async def _approve(agent: Agent, state: CallState, call: ToolCall, tool: Tool, verdict: Verdict) -> None:
    """Wait for the user's answer.

    Raises:
        ToolDenied: It was no, came too late, or nobody is there to ask.
    """
    session, reason = agent.session, verdict.reason
    known = state.asked and (state.asked.call, state.asked.scope) == (call, verdict.scope)
    answer = state.answered if known else None
    if answer is None and session.kind == "headless":
        raise ToolDenied(f"It needs the user's approval and nobody is there to give it: {reason}")
    if answer is None:
        identity, limit = os.urandom(6).hex(), session.options.approval_timeout
        asked = ApprovalAsked(
            id=identity, call=call, risk=tool.risk, reason=reason, scope=verdict.scope, deadline=time.time() + limit
        )
        with session.underway.approval(agent, identity) as answered, trio.move_on_after(limit):
            agent.emit(asked)
            await answered.wait()
        answer = state.answered
    if answer is None:
        late = f"Nobody answered within {limit:g} seconds."
        agent.emit(answer := ApprovalAnswered(id=identity, accepted=False, reason=late, by="timeout"))
    if not answer.accepted:
        code = "E_APPROVAL_TIMEOUT" if answer.by == "timeout" else "E_REJECTED"
        who = "Nobody could approve" if answer.by == "headless" else "The user rejected"
        raise ToolDenied(f"{who} the call: {answer.reason or 'no reason given'}", code=code, hint="Change your plan.")


async def _run(agent: Agent, tool: Tool, call: ToolCall, arguments: dict[str, Any], limit: float, seq: int) -> Output:
    session = agent.session
    deadline, began = trio.current_time() + limit, time.perf_counter()
    failure: BaseException | None = None

    def show(text: str) -> None:
        session.delta(seq, agent, "output", text, call.id)

    running = Call(call.id, call.name, arguments, agent, session, session.workspace, session.processes, deadline, show)
    with session.underway.call(tool.plugin, deadline) as scope:
        try:
            return await tool.run(running)
        except FAULTS as error:
            failure = single(error)
            raise _told(session, tool, failure) from None
        finally:
            for observe in session.kernel.observers:
                observe("tool", tool.name, tool.plugin, time.perf_counter() - began, failure)
    if trio.current_time() >= scope.deadline:
        raise ToolError(f"{tool.name} did not end within {limit:g} seconds and was cancelled.", code="E_TIMEOUT")
    raise ToolError(f"The plugin {tool.plugin} crashed during the call.", code="E_PLUGIN")


def _told(session: Session, tool: Tool, error: BaseException) -> ToolError:
    """Give what the model is told of an error in a tool's own code: what the tool says, else that its plugin failed."""
    error = single(error)
    if isinstance(error, ToolError):
        return error
    fault = Fault(tool.plugin, f"tool {tool.name}", error)
    session.hooks.report(fault)
    return ToolError(f"{tool.name} failed, which is a fault of the plugin {tool.plugin}: {fault}.", code="E_PLUGIN")


async def _checked(agent: Agent, call: ToolCall, result: ToolResult) -> ToolResult:
    """Let plugins change the result before anyone sees it; if one fails, nobody sees it."""
    try:
        hooks = agent.session.hooks
        checked: ToolResult = await hooks.pipe("check_result", "result", agent=agent, call=call, result=result)
        if checked.call_id != result.call_id:
            raise ValueError("A plugin that checks results gave that of another call.")
        msgspec.json.encode(checked)
        return checked
    except FAULTS as error:
        return _failure(call, "E_PLUGIN", f"The result is withheld, which is a fault of a plugin. {error}")
