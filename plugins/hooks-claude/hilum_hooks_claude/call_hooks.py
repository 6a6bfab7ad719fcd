"""Lets hooks judge tool calls before they run, and read their results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import hilum_guard
import msgspec
from hilum import Text, ToolError, ToolResult, Verdict, allow, ask, deny
from msgspec.structs import replace

from hilum_hooks_claude.approvals import JudgedHook
from hilum_hooks_claude.dispatch import Dispatcher, Finished, Job, describe_place
from hilum_hooks_claude.hook import (
    POST_TOOL_USE,
    POST_TOOL_USE_FAILURE,
    PRE_TOOL_USE,
    BrokenGuard,
)
from hilum_hooks_claude.matching import fits_condition, matches
from hilum_hooks_claude.settings import HooksSettings
from hilum_hooks_claude.tool_inputs import Part, View, describe_call

if TYPE_CHECKING:
    from hilum import Agent, Session, Tool, ToolCall

MAX_RESPONSE = 100_000
"""Maximum number of characters of a result that a hook reads."""


@attrs.define(eq=False)
class CallState:
    """What hooks have done to one call so far.

    Attributes:
        verdicts: The verdicts by the arguments of the call.
        rewriters: The hooks that have changed the call. They do not judge their own change, which
            they might change again.
        context: What the model is to read with the result.
        arguments: The arguments that were judged last, with which the call runs.
    """

    verdicts: dict[str, Verdict | None] = attrs.field(factory=dict)
    rewriters: set[str] = attrs.field(factory=set)
    context: list[str] = attrs.field(factory=list)
    arguments: str = ""


class CallHooks:
    """The hooks about tool calls in a session.

    Args:
        session: The session.
        settings: The plugin's settings.
        dispatcher: Runs the hooks.
    """

    def __init__(self, session: Session, settings: HooksSettings, dispatcher: Dispatcher) -> None:
        self._session = session
        self._settings = settings
        self._dispatcher = dispatcher
        self._calls: dict[tuple[str, str], CallState] = {}
        self._failed: set[str] = set()

    # --- before a call ----------------------------------------------------------------------------

    async def judge(
        self,
        agent: Agent,
        call: ToolCall,
        tool: Tool,
        hooks: Sequence[JudgedHook],
        broken: Sequence[BrokenGuard] = (),
    ) -> Verdict | None:
        """Return the verdict of the hooks on a call.

        The kernel asks again after an approval, and after a gate has changed the call. Hooks run
        once for the same arguments.

        Args:
            agent: The agent that makes the call.
            call: The call.
            tool: Its tool.
            hooks: The hooks of ``PreToolUse`` that run, and those that refuse calls.
            broken: The user's hooks of ``PreToolUse`` that a mistake keeps from running.
        """
        state = self._calls.setdefault((agent.name, call.id), CallState())
        state.arguments = call.arguments
        if call.arguments in state.verdicts:
            return state.verdicts[call.arguments]
        arguments = msgspec.json.decode(call.arguments or "{}")
        parts = self._describe(tool, arguments)
        for judged in hooks:
            if judged.refuses and any(_select_views(judged, parts)):
                name = describe_place(judged.hook)
                return deny(f"The hook {name} guards this call, but may not run: {judged.reason}")
        jobs = []
        views: list[View] = []
        for judged in hooks:
            if judged.hook.identity in state.rewriters or judged.refuses:
                continue
            for view in _select_views(judged, parts):
                jobs.append(Job(judged, {"tool_name": view.name, "tool_input": view.values}))
                if not judged.hook.runs_async:
                    views.append(view)
        finished = await self._dispatcher.run(
            PRE_TOOL_USE,
            jobs,
            {"tool_use_id": call.id},
            agent,
            subject=call.id,
            about=tool.name,
        )
        if self._dispatcher.recorded is not None:
            views = []  # the recorded verdicts do not say for which view they were given
        verdict = self._combine(agent, tool, arguments, finished, views, parts, state)
        if verdict is None or verdict.kind != "deny":
            verdict = self._ask_for_broken(broken, tool, arguments, parts) or verdict
        remembered = verdict
        if verdict is not None and verdict.arguments is not None:
            # If another gate brings the original arguments back, they are not changed again.
            remembered = replace(verdict, arguments=None)
        state.verdicts[call.arguments] = remembered
        return verdict

    def _describe(self, tool: Tool, arguments: Mapping[str, Any]) -> list[Part]:
        root = self._session.workspace.root
        return describe_call(tool.name, arguments, root, tool=tool)

    def _ask_for_broken(
        self,
        broken: Sequence[BrokenGuard],
        tool: Tool,
        arguments: Mapping[str, Any],
        parts: Sequence[Part],
    ) -> Verdict | None:
        """Return the question about a call that a guard with a mistake may be meant to judge."""
        for guard in broken:
            if guard.matcher is None:
                is_covered = self._may_change(tool, arguments)
            else:
                is_covered = _is_matched(guard.matcher, parts)
            if is_covered:
                reason = (
                    f"A guard in {guard.file} may deny it, but does not run, because the file has a"
                    f" mistake: {guard.problem} ({guard.place})"
                )
                return ask(reason, scope=f"broken guard {guard.file}")
        return None

    def _may_change(self, tool: Tool, arguments: Mapping[str, Any]) -> bool:
        """Return whether a call may change something, as far as its tool and command say it."""
        command = arguments.get("command")
        if tool.risk == "execute" and isinstance(command, str):
            root = self._session.workspace.root
            return hilum_guard.judge_command(command, workspace=root).kind != "auto"
        return tool.risk != "read"

    def _combine(
        self,
        agent: Agent,
        tool: Tool,
        arguments: dict[str, Any],
        finished: Sequence[Finished],
        views: Sequence[View],
        parts: Sequence[Part],
        state: CallState,
    ) -> Verdict | None:
        """Return the strictest verdict of the hooks; ``None`` if none has an opinion."""
        self._advise(finished)
        refusals = list(self._find_refusals(finished))
        if any(each.answer.stops for each in finished):
            self._session.stop(agent.name, run=agent.starting)
        if refusals:
            return deny(" ".join(refusals))
        state.context += [each.answer.context for each in finished if each.answer.context]
        changed: dict[str, Any] | None = None
        for each in finished:
            if each.answer.updated is None:
                continue
            view = views[each.job] if views else _find_changeable(parts)
            try:
                changed = _restore(tool, view, each.answer.updated)
            except (ToolError, TypeError, ValueError) as error:
                return deny(
                    f"The hook {each.name} changed the call to one that is invalid: {error}"
                )
            if changed == arguments:
                changed = None
                continue
            state.rewriters.add(each.hook)
            # The other hooks judge the changed call, and may change it further.
            break
        questions = [each for each in finished if each.answer.decision == "ask"]
        if questions:
            reasons = [f"The hook {each.name} asks: {each.answer.reason}" for each in questions]
            return ask(" ".join(reasons), scope=f"hook {questions[0].hook}", arguments=changed)
        # A project cannot spare the user a question.
        settled = any(
            each.answer.decision == "allow" and each.source == "user" for each in finished
        )
        if settled or changed is not None:
            return allow(settled=settled, arguments=changed)
        return None

    def _advise(self, finished: Iterable[Finished]) -> None:
        """Tell the user, once for each guard, what to do about one that fails."""
        if self._settings.failing_guard != "deny":
            return
        for each in finished:
            if not each.answer.failure or each.hook in self._failed:
                continue
            self._failed.add(each.hook)
            refuse = "" if each.source == "user" else " run `hilum hooks refuse`, or"
            say = (
                f"The guard {each.name} failed, so its calls are denied. Correct it. To let them"
                f' pass,{refuse} set hooks_claude.failing_guard = "pass".'
            )
            self._session.note("hooks_claude.guard_failed", say=say)

    def _find_refusals(self, finished: Iterable[Finished]) -> Iterator[str]:
        """Yield why a call is denied, one sentence for each hook that denies it."""
        for each in finished:
            answer = each.answer
            if answer.failure and self._settings.failing_guard == "deny":
                yield f"The hook {each.name}, which guards this call, failed. {answer.failure}"
            elif answer.decision == "deny" or answer.stops:
                yield f"The hook {each.name} denies it: {answer.reason or 'it gave no reason'}"

    # --- after a call -----------------------------------------------------------------------------

    async def check(
        self, agent: Agent, call: ToolCall, result: ToolResult, hooks: Sequence[JudgedHook]
    ) -> ToolResult | None:
        """Return the result of a call with what hooks add to it.

        Args:
            agent: The agent that made the call.
            call: The call.
            result: Its result.
            hooks: The hooks of ``PostToolUse`` and ``PostToolUseFailure`` that run.
        """
        state = self._calls.pop((agent.name, call.id), None)
        notes = [f"[Hook: {text}]" for text in state.context] if state is not None else []
        run = agent.conversation.run
        made = run.calls.get(call.id) if run is not None else None
        tool = self._session.tools.get(call.name)
        if made is not None and made.began is not None and tool is not None:
            if state is not None and state.arguments:
                call = replace(call, arguments=state.arguments)
            notes += await self._read_result(agent, call, tool, result, hooks)
        if not notes:
            return None
        # The text is data, as the output of the tool.
        added = Text("\n".join(notes), f"tool:{call.name}")
        return replace(result, parts=(*result.parts, added))

    async def _read_result(
        self,
        agent: Agent,
        call: ToolCall,
        tool: Tool,
        result: ToolResult,
        hooks: Sequence[JudgedHook],
    ) -> list[str]:
        """Run the hooks about a result, and return what the model is to read."""
        event = POST_TOOL_USE_FAILURE if result.code else POST_TOOL_USE
        arguments = _decode(call.arguments)
        parts = self._describe(tool, arguments)
        given: dict[str, Any] = {"tool_use_id": call.id}
        if result.code:
            given["error"] = result.text[:MAX_RESPONSE]
        jobs = []
        for judged in hooks:
            if judged.hook.event != event:
                continue
            for view in _select_views(judged, parts):
                values = {"tool_name": view.name, "tool_input": view.values}
                if not result.code:
                    values["tool_response"] = _describe_response(view, result)
                jobs.append(Job(judged, values))
        finished = await self._dispatcher.run(
            event, jobs, given, agent, subject=call.id, about=tool.name
        )
        if any(each.answer.stops for each in finished):
            self._session.stop(agent.name, run=agent.starting)
        notes = []
        for each in finished:
            answer = each.answer
            if answer.decision == "deny":
                notes.append(f"[Hook {each.title} objects: {answer.reason}]")
            if answer.context:
                notes.append(f"[Hook {each.title}: {answer.context}]")
        return notes


def _select_views(judged: JudgedHook, parts: Iterable[Part]) -> Iterator[View]:
    """Yield the views of a call for which a hook runs."""
    hook = judged.hook
    for part in parts:
        for choice in part:
            if any(matches(hook.matcher, view.name, view.values) for view in choice):
                for view in choice:
                    if fits_condition(hook.condition, view.name, view.values):
                        yield view
                break


def _is_matched(matcher: str, parts: Iterable[Part]) -> bool:
    """Return whether a matcher covers one of the views of a call."""
    for part in parts:
        for choice in part:
            if any(matches(matcher, view.name, view.values) for view in choice):
                return True
    return False


def _find_changeable(parts: Iterable[Part]) -> View:
    """Return the view of a call that can be changed.

    Raises:
        ValueError: There is none.
    """
    for part in parts:
        for choice in part:
            for view in choice:
                if view.restore is not None:
                    return view
    raise ValueError("this call cannot be changed")


def _restore(tool: Tool, view: View, updated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of hilum's tool for a changed input.

    Raises:
        ToolError: They do not fit the tool.
        ValueError: The input cannot be changed.
        TypeError: A value has the wrong type.
    """
    if view.restore is None:
        raise ValueError("this call cannot be changed")
    changed = view.restore({**view.values, **updated})
    tool.check(msgspec.json.encode(changed).decode())
    return changed


def _decode(arguments: str) -> dict[str, Any]:
    decoded = msgspec.json.decode(arguments or "{}")
    return decoded if isinstance(decoded, dict) else {}


def _describe_response(view: View, result: ToolResult) -> dict[str, Any]:
    """Return a result in the form of Claude Code's tool, as far as hilum knows it."""
    text = result.text[:MAX_RESPONSE]
    if view.name == "Bash":
        return {"stdout": text, "stderr": "", "interrupted": False, "isImage": False}
    response: dict[str, Any] = {"content": text}
    if "file_path" in view.values:
        response["filePath"] = view.values["file_path"]
        response["success"] = True
    return response
