"""Whether a call may run: what the approval policy, the mode and the plugins' gates say, and what
the user answers.

A gate may rewrite the arguments. Then all gates judge the rewritten call, until none rewrites it
any more: what is approved, logged and run is what every gate has seen.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec
import trio
from hilum_hooks import Fault

from hilum.arguments import encode_arguments, normalized, problem_of
from hilum.errors import GATE_FAILED, UNATTENDED, ToolDenied, ToolError
from hilum.events import ApprovalAnswered, ApprovalAsked
from hilum.hookspecs import Verdict, allow, ask, deny
from hilum.messages import ToolCall
from hilum.state import CallState
from hilum.tools import Tool

if TYPE_CHECKING:
    from hilum.agents import Agent

MAX_REWRITES = 8


class Judgement(msgspec.Struct, frozen=True):
    """What came of judging a call.

    Attributes:
        verdict: The strictest verdict.
        call: The call as the gates have rewritten it.
        rewritten_by: The plugins that did so, in order.
    """

    verdict: Verdict
    call: ToolCall
    rewritten_by: tuple[str, ...] = ()


async def permit(
    agent: Agent,
    state: CallState,
    call: ToolCall,
    tool: Tool,
    before_asking: Callable[[ToolCall], Awaitable[None]],
) -> Judgement:
    """Judge a call, and have the user asked where need be.

    Args:
        agent: Whose call it is.
        state: How far it has come.
        call: The call.
        tool: Its tool.
        before_asking: Called with the call as the gates have rewritten it, before the user is
            asked; waits for its turn.

    Returns:
        The call that may run.

    Raises:
        ToolDenied: It may not.
    """
    approved: Verdict | None = None
    rewritten_by: tuple[str, ...] = ()
    while True:
        judged = await _judge(agent, call, tool)
        rewritten_by += judged.rewritten_by
        verdict = judged.verdict
        if verdict.kind == "deny":
            raise ToolDenied(verdict.reason or "The call was refused.", code=verdict.code)
        same = approved is not None and judged.call == call
        if verdict.kind == "allow" and (approved is None or same):
            return Judgement(verdict, judged.call, rewritten_by)
        if same and verdict == approved:
            return Judgement(verdict, judged.call, rewritten_by)
        if approved is not None and (approved.scope or call.name) not in agent.session.grants:
            raise ToolDenied(
                "What the call would do has changed since it was asked.", code=verdict.code
            )
        if verdict.kind == "ask":
            await before_asking(judged.call)
            await _approve(agent, state, judged.call, tool, verdict)
            approved = verdict
        call = judged.call


async def _judge(agent: Agent, call: ToolCall, tool: Tool) -> Judgement:
    """Judge a call, again and again while gates rewrite it.

    Where the policy refuses it, no plugin is heard.
    """
    hooks = agent.session.hooks
    approve = agent.session.approve
    if tool.risk != "read" and approve == "readonly":
        return Judgement(deny(f"The session is read-only, and {tool.name} can {tool.risk}."), call)
    reason = hooks.refusal()
    if reason:
        return Judgement(deny(reason), call)
    rewritten_by: list[str] = []
    kept: list[
        Verdict
    ] = []  # who rewrites a call and has the user asked about it need not ask again
    for _ in range(MAX_REWRITES + 1):
        verdicts: list[Verdict] = []
        rewritten = call
        for plugin, value in await hooks.gather("on_tool_call", agent=agent, call=call, tool=tool):
            if isinstance(value, Fault):
                return Judgement(deny(f"The plugin {plugin}, {GATE_FAILED}: {value}."), call)
            verdicts.append(value)
            if value.arguments is None or rewritten is not call:
                continue  # the rewriting of a later gate comes when it has judged that of the first
            try:
                rewritten = _rewritten(call, tool, value)
            except (ToolError, TypeError, ValueError, RecursionError) as error:
                fault = hooks.fault(plugin, "on_tool_call", error)
                return Judgement(
                    deny(
                        f"The plugin {plugin}, {GATE_FAILED}: it rewrote the call wrongly. {fault}."
                    ),
                    call,
                )
            if rewritten is not call:
                rewritten_by.append(plugin)
                if value.kind == "ask":
                    kept.append(msgspec.structs.replace(value, arguments=None))
        if rewritten is call:
            verdict = _strictest(agent, call, tool, [*kept, *verdicts])
            return Judgement(verdict, call, tuple(dict.fromkeys(rewritten_by)))
        call = rewritten
    plugins = ", ".join(sorted(set(rewritten_by)))
    return Judgement(deny(f"Plugins rewrite the call without end: {plugins}."), call)


def _rewritten(call: ToolCall, tool: Tool, verdict: Verdict) -> ToolCall:
    """Return the call with the arguments of a verdict.

    The very same call where they are the ones that it has.

    Raises:
        ToolError: They do not fit the tool.
        TypeError: They are no JSON.
        ValueError: They cannot be kept.
    """
    assert verdict.arguments is not None
    text = encode_arguments(verdict.arguments)
    reason = problem_of(text)
    if reason:
        raise ValueError(f"the arguments {reason}")
    if normalized(text) == normalized(call.arguments):
        return call
    tool.check(text)
    return msgspec.structs.replace(call, arguments=text)


def _strictest(agent: Agent, call: ToolCall, tool: Tool, verdicts: list[Verdict]) -> Verdict:
    """Return the strictest of what gates, mode and approval policy say.

    A lasting yes of the user's answers what he was asked, and nothing else that is asked of the
    same call.
    """
    grants = agent.session.grants
    left = [
        verdict
        for verdict in verdicts
        if verdict.kind != "ask" or (verdict.scope or call.name) not in grants
    ]
    if tool.risk != "read" and len(left) == len(verdicts) and call.name not in grants:
        if tool.risk in agent.mode.ask:
            left.append(
                ask(f"In {agent.mode.name} mode calls that {tool.risk} are confirmed by the user.")
            )
        if agent.session.approve == "ask_first" and not any(
            verdict.settled for verdict in verdicts
        ):
            left.append(ask("Calls that change something are confirmed (approve = ask_first)."))
    strictest = max([allow(), *left], key=lambda verdict: verdict.rank)
    return msgspec.structs.replace(strictest, arguments=None)


async def _approve(
    agent: Agent, state: CallState, call: ToolCall, tool: Tool, verdict: Verdict
) -> None:
    """Wait for the user's answer.

    Raises:
        ToolDenied: It was no, came too late, or nobody is there to ask.
    """
    session = agent.session
    known = state.asked is not None and (state.asked.call, state.asked.scope) == (
        call,
        verdict.scope,
    )
    answer = state.answered if known else None
    if answer is None:
        if not session.attended:
            raise ToolDenied(f"{UNATTENDED}: {verdict.reason}")
        answer = await _ask(agent, state, call, tool, verdict)
    if answer.accepted:
        return
    if answer.by == "timeout":
        message = f"{answer.reason or 'Nobody answered in time.'} The call was not run."
        hint = "Go on with what needs no approval, and tell the user what waits for one."
        raise ToolDenied(message, code="E_APPROVAL_TIMEOUT", hint=hint)
    who = "Nobody could approve" if answer.by == "headless" else "The user rejected"
    reason = answer.reason.strip() or "no reason given"
    stop = "" if reason.endswith((".", "!", "?", "…")) else "."
    raise ToolDenied(f"{who} the call: {reason}{stop}", code="E_REJECTED", hint="Change your plan.")


async def _ask(
    agent: Agent, state: CallState, call: ToolCall, tool: Tool, verdict: Verdict
) -> ApprovalAnswered:
    """Ask the user; where nobody answers in time, that is written down as the answer."""
    session = agent.session
    # A stop cannot cancel a gate that has already decided. Nobody is asked about a call of a
    # stopped run.
    await trio.lowlevel.checkpoint_if_cancelled()
    identity = os.urandom(6).hex()
    seconds = session.options.approval_timeout
    with session.underway.approval(agent, identity, seconds) as opened:
        agent.emit(
            ApprovalAsked(
                id=identity,
                call=call,
                risk=tool.risk,
                reason=verdict.reason,
                scope=verdict.scope,
                seconds=seconds,
            )
        )
        session.underway.ask()
        await opened.wait()
    if state.answered is None:
        late = f"Nobody answered within {seconds:g} seconds."
        agent.emit(ApprovalAnswered(id=identity, accepted=False, reason=late, by="timeout"))
    assert state.answered is not None
    return state.answered
