"""Calls in a replay: which run again, which are answered from the log, and how they are judged."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import trio
from hilum import (
    Agent,
    Call,
    Output,
    Session,
    Tool,
    ToolCall,
    ToolError,
    ToolResult,
    ToolSpec,
    Verdict,
    allow,
    ask,
    deny,
    hookimpl,
)
from hilum.errors import E_FAILED, E_STOPPED
from hilum.events import CallStarted, PromptFrozen
from hilum.messages import Image, Text

from hilum_replay.rules import RULES, apply_rules
from hilum_replay.sessions.recorded_log import RecordedCall, RecordedLog
from hilum_replay.sessions.recording import FileEdit

# The plugins whose tools reach outside of the workspace, so that another run may have another
# result, or an effect that must not be repeated.
OUTSIDE_PLUGINS = frozenset({"web", "mcp", "browser", "image"})
_KERNEL_TOOLS = frozenset({"find_tools", "call_tool"})
# Codes of calls that a person, a rule or a policy refused.
_REFUSED = frozenset({"E_DENIED", "E_BLOCKED", "E_REJECTED", "E_APPROVAL_TIMEOUT"})
# Precedes the output of a call that the user stopped.
_OUTPUT_SO_FAR = "Its output so far:\n"
_NOT_RECORDED = "The recorded session has no such call, and a replay does not reach outside."


class RecordedCalls:
    """The plugin of a replay that compares calls with the recorded ones.

    Args:
        log: The recorded log.
        wait: A function that waits until the session may receive the result that has a sequence
            number in the recorded log.
        root: The workspace of the replay.
        from_log: Why calls are answered from the log, by ``agent/call``.
        effects: What these calls do to files.
        objects: The contents of files.
        impose: Whether calls are judged as in the recording. Otherwise the plugins and settings of
            the replay judge them.

    Attributes:
        impose: See the argument.
        changed: The recorded calls with another result when they ran again.
        answered: The calls that were answered from the log.
    """

    name = "recorded_calls"
    gates = ("on_tool_call", "check_result")

    def __init__(
        self,
        log: RecordedLog,
        wait: Callable[[int], Awaitable[None]],
        root: Path,
        from_log: Mapping[str, str],
        effects: Mapping[str, Sequence[FileEdit]],
        objects: Mapping[str, bytes],
        *,
        impose: bool = True,
    ) -> None:
        self._log = log
        self._wait = wait
        self._root = root
        self._from_log = from_log
        self._effects = effects
        self._objects = objects
        self.impose = impose
        self._ended: dict[tuple[str, str], int] = {}
        self._tools: list[Tool] = []
        self.changed: list[RecordedCall] = []
        self.answered: list[RecordedCall] = []

    def find(self, agent: str, call: str) -> RecordedCall | None:
        """Return the recorded call that a call of the replay repeats."""
        return self._log.call(agent, call, self._ended.get((agent, call), 0))

    # --- tools ------------------------------------------------------------------------------------

    def add_missing_tools(self, session: Session) -> None:
        """Add the tools that the recorded session had and that this session lacks."""
        specs = {}
        for event in self._log.events:
            if isinstance(event, PromptFrozen):
                specs.update({spec.name: spec for spec in event.tools})
        started = {}
        for calls in self._log.calls.values():
            started.update({call.name: call.started for call in calls if call.started is not None})
        known = {*session.tools, *_KERNEL_TOOLS}
        for name in dict.fromkeys([*specs, *started]):
            if name not in known:
                self._tools.append(_make_tool(name, specs.get(name), started.get(name)))
        if self._tools:
            session.tools_changed()

    @hookimpl
    def provide_tools(self) -> list[Tool]:
        """Return the tools that only the recorded session had."""
        return self._tools

    async def run_tool(self, tool: Tool, call: Call) -> Output:
        """Run a tool, or return the recorded result.

        Raises:
            ToolError: The call failed.
        """
        recorded = self.find(call.agent.name, call.id)
        if recorded is None or recorded.done is None:
            if self._reaches_outside(tool):
                raise ToolError(_NOT_RECORDED, code=E_FAILED)
            return await tool.run(call)
        code = recorded.done.result.code
        if code == E_STOPPED:
            # The replay of the user's action ends the call.
            await trio.to_thread.run_sync(self._apply_effects, recorded.key)
            _, _, printed = recorded.done.result.text.partition(_OUTPUT_SO_FAR)
            if printed:
                call.output_so_far = lambda: printed
            self.answered.append(recorded)
            await trio.sleep_forever()
        if not self._is_from_log(tool, recorded) or _starts_something(tool, call):
            try:
                return await tool.run(call)
            finally:
                await self._wait(recorded.done.seq)
        self.answered.append(recorded)
        await trio.to_thread.run_sync(self._apply_effects, recorded.key)
        await self._wait(recorded.done.seq)
        result = recorded.done.result
        images = tuple(part for part in result.parts if isinstance(part, Image))
        return Output(result.text, images, dict(result.data), result.code, changed=result.changed)

    def _reaches_outside(self, tool: Tool) -> bool:
        is_recorded = any(tool is each or tool.name == each.name for each in self._tools)
        return tool.risk == "network" or tool.plugin in OUTSIDE_PLUGINS or is_recorded

    def _is_from_log(self, tool: Tool, recorded: RecordedCall) -> bool:
        return self._reaches_outside(tool) or recorded.key in self._from_log

    def _apply_effects(self, key: str) -> None:
        for edit in self._effects.get(key, ()):
            apply_edit(edit, self._root, self._objects)

    # --- gates ------------------------------------------------------------------------------------

    @hookimpl(tryfirst=True)
    def on_tool_call(self, agent: Agent, call: ToolCall, tool: Tool) -> Verdict | None:
        """Judge a call as in the recording."""
        recorded = self.find(agent.name, call.id)
        if recorded is None or not self.impose:
            return None
        if recorded.asked is not None:
            return ask(recorded.asked.reason, scope=recorded.asked.scope)
        if recorded.started is not None:
            return allow(settled=True)
        result = recorded.done.result if recorded.done is not None else None
        if result is None or result.code not in _REFUSED:
            return None
        return deny(result.text.removeprefix(f"{result.code}: "), code=result.code)

    @hookimpl(trylast=True)
    def check_result(self, agent: Agent, call: ToolCall, result: ToolResult) -> ToolResult | None:
        """Return the recorded result if the call had the same one, except for times and the like.

        The next request is then the same as in the recording, to the byte.
        """
        recorded = self.find(agent.name, call.id)
        if result.code == E_STOPPED:
            return None  # only the output of a stopped call is checked; the loop adds the rest
        key = (agent.name, call.id)
        self._ended[key] = self._ended.get(key, 0) + 1
        if recorded is None or recorded.done is None:
            return None
        is_answered = recorded in self.answered or recorded.key in self._from_log
        if is_answered or is_same_result(recorded.done.result, result):
            return recorded.done.result
        self.changed.append(recorded)
        return None


def _starts_something(tool: Tool, call: Call) -> bool:
    """Return whether later calls use what a call starts: a service or an agent."""
    return bool(call.arguments.get("background")) or tool.plugin == "scheduler"


def _make_tool(name: str, spec: ToolSpec | None, started: CallStarted | None) -> Tool:
    """Return a tool of the recorded session, which only the log can answer."""
    return Tool(
        name,
        spec.description if spec is not None else "A recorded tool.",
        _refuse,
        risk=started.risk if started is not None else "network",  # type: ignore[arg-type]
        effect=started.effect if started is not None else "once",  # type: ignore[arg-type]
        schema=spec.parameters if spec is not None else {"type": "object"},
        # The list of tools did not contain a tool that was deferred.
        deferred=spec is None,
        queues="recorded",
    )


def _refuse(call: Call, **arguments: Any) -> str:
    """Run a recorded tool, which only the log can answer."""
    raise ToolError(_NOT_RECORDED, code=E_FAILED)


def is_same_result(one: ToolResult, two: ToolResult) -> bool:
    """Return whether two results are the same, except for what varies between sessions."""
    if (one.code, one.name) != (two.code, two.name):
        return False
    if [type(part) for part in one.parts] != [type(part) for part in two.parts]:
        return False
    for first, second in zip(one.parts, two.parts, strict=True):
        if isinstance(first, Image):
            if first != second:
                return False
        elif isinstance(second, Text) and normalize(first.text) != normalize(second.text):
            return False
    return True


def normalize(text: str) -> str:
    """Return a text without the parts that vary between sessions."""
    return apply_rules(text, RULES)


def apply_edit(edit: FileEdit, root: Path, objects: Mapping[str, bytes]) -> None:
    """Change a file of the workspace as somebody else did in the recorded session.

    A command that runs again may have made a link to another folder; nothing is changed through it.
    """
    path = root / edit.path
    if not path.parent.resolve().is_relative_to(root.resolve()) or path.is_symlink():
        return
    if not edit.content:
        path.unlink(missing_ok=True)
    elif edit.content in objects:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(objects[edit.content])
