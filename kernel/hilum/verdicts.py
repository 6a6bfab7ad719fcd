"""The verdict on a call, which depends on approval policy, mode, the plugins' gates and the user.

A gate may rewrite the arguments of a call. All gates then judge the rewritten call, until no gate
rewrites it again. In this way, every gate has judged the exact call that is approved, logged and
run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
import trio
from msgspec.structs import replace

from hilum.arguments import encode_arguments, normalized, problem_of
from hilum.errors import (
    GATE_FAILED,
    UNATTENDED,
    ToolDenied,
    ToolError,
    unknown_name_error,
)
from hilum.events import ApprovalAnswered, ApprovalAsked
from hilum.hooks import PluginFailure
from hilum.hookspecs import Verdict, allow, ask, deny
from hilum.identifiers import make_id
from hilum.messages import ToolCall
from hilum.shared_reads import share_reads
from hilum.state import CallState
from hilum.tools import Tool

if TYPE_CHECKING:
    from hilum.agents import Agent

_CHANGED = "The effect of the call changed after approval was requested."
# Maximum number of rewrites, because two gates might keep undoing each other's changes.
MAX_REWRITES = 8


class Judgement(msgspec.Struct, frozen=True):
    """The outcome of judging a call.

    Attributes:
        verdict: The strictest verdict.
        call: The call after all rewriting by the gates.
        rewritten_by: The plugins that rewrote it, in order.
        effects: What the call does although its arguments do not say so, according to all gates.
        dangers: The dangerous ones of such effects.
    """

    verdict: Verdict
    call: ToolCall
    rewritten_by: tuple[str, ...] = ()
    effects: frozenset[str] = frozenset()
    dangers: frozenset[str] = frozenset()


async def permit(
    agent: Agent,
    state: CallState,
    call: ToolCall,
    tool: Tool,
    before_asking: Callable[[ToolCall], Awaitable[None]],
    precheck: Callable[[ToolCall], Awaitable[None]],
) -> Judgement:
    """Judge a call, and request the user's approval if necessary.

    Args:
        agent: The agent that makes the call.
        state: The state of the call.
        call: The call.
        tool: Its tool.
        before_asking: Called before the user is asked, with the call as rewritten by the gates;
            waits until the user may be asked about this call.
        precheck: Called before a new question; raises an error if the call cannot succeed.

    Returns:
        The call that may run.

    Raises:
        ToolDenied: The call must not run.
        ToolError: The precheck found that the call cannot succeed.
    """
    approved: Verdict | None = None
    shown: frozenset[str] = frozenset()
    rewritten_by: tuple[str, ...] = ()
    while True:
        judged = await _judge(agent, call, tool)
        rewritten_by += judged.rewritten_by
        verdict = judged.verdict
        if verdict.kind == "deny":
            raise ToolDenied(verdict.reason or "The call was refused.", code=verdict.code)
        same = approved is not None and judged.call == call
        # The verdict may be the same although, for example, a script that the call runs contains
        # other commands than when the user was asked.
        if same and not judged.effects <= shown:
            raise ToolDenied(_CHANGED)
        if verdict.kind == "allow" and (approved is None or same):
            return Judgement(verdict, judged.call, rewritten_by)
        if same and verdict == approved:
            return Judgement(verdict, judged.call, rewritten_by)
        # After the approval, the gates judge the call again. If the gates now rewrite the call
        # differently, the user has approved something else.
        if approved is not None and (approved.scope or call.name) not in agent.session.grants:
            raise ToolDenied(_CHANGED, code=verdict.code)
        if verdict.kind == "ask":
            # The precheck comes after the gates, because its error may tell the model about a file
            # that a gate does not let it see. It comes before the wait for earlier calls, because
            # the questions must be asked in the order of the calls.
            if agent.session.attended and _find_answer(state, judged) is None:
                await precheck(judged.call)
            await before_asking(judged.call)
            await _approve(agent, state, judged, tool)
            approved = verdict
            shown = judged.effects
            if state.edited is not None:
                edited = replace(judged.call, arguments=state.edited)
                return await _permit_edited(agent, edited, tool, rewritten_by, judged.dangers)
        call = judged.call


async def _permit_edited(
    agent: Agent,
    call: ToolCall,
    tool: Tool,
    rewritten_by: tuple[str, ...],
    shown_dangers: frozenset[str],
) -> Judgement:
    """Judge a call whose arguments the user wrote when approving it.

    The user is not asked about the edited call again, but the gates can still refuse it.

    Args:
        agent: The agent that makes the call.
        call: The call with the user's arguments.
        tool: Its tool.
        rewritten_by: The plugins that rewrote the call before the user was asked.
        shown_dangers: The dangerous effects of the call that the user was asked about.

    Raises:
        ToolDenied: A gate refuses the edited call, or the edited call is dangerous in a way that
            neither the user's arguments nor the question showed.
    """
    judged = await _judge(agent, call, tool)
    if judged.verdict.kind == "deny":
        reason = judged.verdict.reason or "The edited call was refused."
        raise ToolDenied(reason, code=judged.verdict.code)
    if not judged.dangers <= shown_dangers:
        raise ToolDenied(_CHANGED)
    names = (*rewritten_by, "the user", *judged.rewritten_by)
    return Judgement(judged.verdict, judged.call, names)


async def judge_call(agent: Agent, name: str, arguments: str) -> Verdict:
    """Return the verdict on a call that the user, and not the model, makes.

    The tools of the current mode do not matter, because they only restrict the model. The user is
    not asked; a face decides what ``ask`` means for a call that the user typed.

    Args:
        agent: The agent for which the user makes the call.
        name: Name of the tool.
        arguments: Its arguments, as JSON.

    Raises:
        UsageError: The tool does not exist.
    """
    judged = await judge_whole_call(agent, name, arguments)
    return judged.verdict


async def judge_whole_call(agent: Agent, name: str, arguments: str) -> Judgement:
    """Return the verdict of ``judge_call`` with the call as the gates rewrite it, and its effects.

    Code that runs the call must run it as rewritten.

    Args:
        agent: The agent for which the user makes the call.
        name: Name of the tool.
        arguments: Its arguments, as JSON.

    Raises:
        UsageError: The tool does not exist.
    """
    tool = agent.session.tools.get(name)
    if tool is None:
        raise unknown_name_error("tool", name, agent.session.tools)
    return await _judge(agent, ToolCall(make_id("judged"), name, arguments), tool)


async def _judge(agent: Agent, call: ToolCall, tool: Tool) -> Judgement:
    """Judge a call, and repeat this as long as gates rewrite it.

    If the approval policy refuses the call, no plugin is called.
    """
    hooks = agent.session.hooks
    approve = agent.session.approve
    # The policy is checked before the gates, because a plugin must not be able to allow what the
    # user has excluded.
    if tool.risk != "read" and approve == "readonly":
        return Judgement(deny(f"The session is read-only, and {tool.name} can {tool.risk}."), call)
    reason = hooks.refusal()
    if reason:
        return Judgement(deny(reason), call)
    rewritten_by: list[str] = []
    # A plugin that rewrites a call and requests approval need not repeat the request for the
    # rewritten call.
    kept: list[Verdict] = []
    for _ in range(MAX_REWRITES + 1):
        with share_reads():
            answers = await hooks.gather("on_tool_call", agent=agent, call=call, tool=tool)
        for plugin, value in answers:
            # Gates fail closed, because the plugin that failed might have refused the call.
            if isinstance(value, PluginFailure):
                return Judgement(deny(f"The plugin {plugin}, {GATE_FAILED}: {value}."), call)
        found = _first_rewriting(call, tool, answers)
        if found is None:
            verdicts = [verdict for _, verdict in answers]
            verdict = _strictest(agent, call, tool, [*kept, *verdicts])
            return Judgement(
                verdict,
                call,
                tuple(dict.fromkeys(rewritten_by)),
                effects=frozenset().union(*(each.effects for each in verdicts)),
                dangers=frozenset().union(*(each.dangers for each in verdicts)),
            )
        plugin, verdict, rewritten = found
        if isinstance(rewritten, Exception):
            fault = hooks.record_failure(plugin, "on_tool_call", rewritten)
            problem = f"The plugin {plugin}, {GATE_FAILED}: it rewrote the call wrongly."
            return Judgement(deny(f"{problem} {fault}."), call)
        call = rewritten
        rewritten_by.append(plugin)
        if verdict.kind == "ask":
            kept.append(replace(verdict, arguments=None))
    plugins = ", ".join(sorted(set(rewritten_by)))
    return Judgement(deny(f"Plugins keep rewriting the call: {plugins}."), call)


def _first_rewriting(
    call: ToolCall, tool: Tool, answers: Sequence[tuple[str, Verdict]]
) -> tuple[str, Verdict, ToolCall | Exception] | None:
    """Return the first plugin whose gate rewrites a call, its verdict, and the new call.

    If the new arguments do not fit, the error is returned in place of the new call. Later gates
    judge the new call before they rewrite it.
    """
    for plugin, verdict in answers:
        if verdict.arguments is None:
            continue
        try:
            rewritten = _rewritten(call, tool, verdict)
        except (ToolError, TypeError, ValueError, RecursionError) as error:
            return plugin, verdict, error
        if rewritten is not call:
            return plugin, verdict, rewritten
    return None


def _rewritten(call: ToolCall, tool: Tool, verdict: Verdict) -> ToolCall:
    """Return the call with the arguments of a verdict.

    If the arguments equal those of the call, the same call object is returned.

    Raises:
        ToolError: The arguments do not fit the tool.
        TypeError: The arguments cannot be encoded as JSON.
        ValueError: The arguments cannot be stored.
    """
    assert verdict.arguments is not None
    text = encode_arguments(verdict.arguments)
    reason = problem_of(text)
    if reason:
        raise ValueError(f"the arguments {reason}")
    # A different spelling of the same JSON does not count as a rewrite; otherwise two gates could
    # rewrite a call forever.
    if normalized(text) == normalized(call.arguments):
        return call
    # Arguments from a gate are checked in the same way as a model's.
    tool.check(text)
    return replace(call, arguments=text)


def _strictest(agent: Agent, call: ToolCall, tool: Tool, verdicts: list[Verdict]) -> Verdict:
    """Return the strictest verdict of gates, mode and approval policy.

    A lasting approval covers only the question that the user was asked, not other questions about
    the same call. No lasting approval covers a call that may be approved only once.
    """
    # Whichever gate asks, no answer may cover more calls than another gate permits.
    once_only = any(verdict.once_only for verdict in verdicts)
    # A wide approval such as `git checkout *` was given for a harmless call, perhaps long ago, and
    # the user did not see what the dangerous call does.
    grants = frozenset() if once_only else agent.session.grants
    left = [
        verdict
        for verdict in verdicts
        if verdict.kind != "ask" or (verdict.scope or call.name) not in grants
    ]
    is_granted = len(left) < len(verdicts) or call.name in grants
    if tool.risk != "read" and not is_granted:
        is_settled = any(verdict.settled for verdict in verdicts)
        left += _session_questions(agent, tool, is_settled)
    strictest = max([allow(), *left], key=lambda verdict: verdict.rank)
    # The new arguments are already part of the call, and the effects of all verdicts count.
    return replace(
        strictest,
        arguments=None,
        effects=frozenset(),
        dangers=frozenset(),
        once_only=once_only,
        rule=_find_common_rule(left),
        by_policy=all(verdict.by_policy for verdict in left if verdict.kind == "ask"),
    )


def _find_common_rule(verdicts: Sequence[Verdict]) -> str:
    """Return the rule with which no verdict would ask; empty if there is none.

    What asks besides the gate that knows the rule, such as a mode or another gate, asks with the rule
    as well. The approval policy does not.
    """
    asking = [each for each in verdicts if each.kind == "ask"]
    rules = {each.rule for each in asking if each.rule or not each.by_policy}
    return rules.pop() if len(rules) == 1 else ""


def _session_questions(agent: Agent, tool: Tool, is_settled: bool) -> Iterator[Verdict]:
    """Yield the mode's and the approval policy's reasons to ask for approval of a call.

    Args:
        agent: The agent that makes the call.
        tool: The tool to call.
        is_settled: Whether a gate has already decided, so that the approval policy does not apply.
    """
    if tool.risk in agent.mode.ask:
        mode = agent.mode.name
        yield ask(f"In {mode} mode calls of the category {tool.risk} need the user's approval.")
    if agent.session.approve == "ask_first" and not is_settled:
        reason = "Calls that change something need approval (approve = ask_first)."
        yield replace(ask(reason), by_policy=True)


_WITHOUT_APPROVAL = (
    "Continue with work that needs no approval, and tell the user which calls need it."
)


async def _approve(agent: Agent, state: CallState, judged: Judgement, tool: Tool) -> None:
    """Wait for the user's answer.

    Raises:
        ToolDenied: The user refused, did not answer in time, or is not present.
    """
    session = agent.session
    verdict = judged.verdict
    answer = _find_answer(state, judged)
    if answer is None:
        # The call is denied immediately, because nobody would answer within the time limit.
        if not session.attended:
            denied = ToolDenied(f"{UNATTENDED}: {verdict.reason}", hint=_WITHOUT_APPROVAL)
            denied.rule = verdict.rule
            denied.by_policy = verdict.by_policy
            raise denied
        answer = await _ask(agent, state, judged, tool)
    if answer.accepted:
        return
    if answer.by == "timeout":
        message = f"{answer.reason or 'Nobody answered in time.'} The call was not run."
        raise ToolDenied(message, code="E_APPROVAL_TIMEOUT", hint=_WITHOUT_APPROVAL)
    who = "Nobody could approve" if answer.by == "headless" else "The user rejected"
    reason = answer.reason.strip() or "no reason given"
    if not reason.endswith((".", "!", "?", "…")):
        reason += "."
    raise ToolDenied(f"{who} the call: {reason}", code="E_REJECTED", hint="Change your plan.")


def _find_answer(state: CallState, judged: Judgement) -> ApprovalAnswered | None:
    """Return the user's answer from before a resume, if there is one."""
    asked = state.asked
    verdict = judged.verdict
    # The answer counts only if the question is exactly the same.
    if asked is None or asked.call != judged.call or asked.scope != verdict.scope:
        return None
    if asked.reason != verdict.reason or asked.effects != _hash_effects(judged.effects):
        return None
    # The question did not say that the call is dangerous.
    if verdict.once_only and not asked.once_only:
        return None
    answer = state.answered
    # The log contains the edited arguments without their secrets, so the edited call cannot run
    # after a resume.
    if answer is not None and answer.arguments is not None and state.edited is None:
        return None
    return answer


def _hash_effects(effects: frozenset[str]) -> str:
    """Return a hash of effects, which tells nothing about them; empty if there are none."""
    if not effects:
        return ""
    text = "\0".join(sorted(effects))
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


async def _ask(agent: Agent, state: CallState, judged: Judgement, tool: Tool) -> ApprovalAnswered:
    """Request the user's approval. If the user does not answer in time, a refusal is logged."""
    session = agent.session
    # A stop may arrive after the gates have decided, and the user must not be asked about a call
    # in a stopped run.
    await trio.lowlevel.checkpoint_if_cancelled()
    # The id is random, because an answer to a question from before a resume must not match a new
    # question.
    identity = make_id("approval")
    seconds = session.options.approval_timeout
    with session._calls_in_flight.approval(agent, identity, seconds) as opened:
        question = ApprovalAsked(
            id=identity,
            call=judged.call,
            risk=tool.risk,
            reason=judged.verdict.reason,
            scope=judged.verdict.scope,
            seconds=seconds,
            effects=_hash_effects(judged.effects),
            once_only=judged.verdict.once_only,
        )
        agent.emit(question)
        session._calls_in_flight.start_oldest()
        await opened.wait()
    if state.answered is None:
        late = f"Nobody answered within {seconds:g} seconds."
        agent.emit(ApprovalAnswered(id=identity, accepted=False, reason=late, by="timeout"))
    assert state.answered is not None
    return state.answered
