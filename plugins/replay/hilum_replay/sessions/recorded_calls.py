"""Calls in a replay: which run again, which are answered from the log, and how they are judged."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import trio
from hilum import (
    Agent,
    Call,
    NeedsUser,
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
from hilum.errors import (
    E_APPROVAL_TIMEOUT,
    E_BLOCKED,
    E_DENIED,
    E_FAILED,
    E_REJECTED,
    E_STOPPED,
    E_UNKNOWN_TOOL,
    STOPPED_BY,
)
from hilum.events import CallStarted, PromptFrozen
from hilum.messages import Image, Text

from hilum_replay.rules import RULES, apply_rules
from hilum_replay.sessions.contained_files import ContainedFiles
from hilum_replay.sessions.guest_log import (
    EDIT_ANNOUNCED,
    GUEST_PLUGIN,
    GUEST_TOOLS,
    complete_tool,
)
from hilum_replay.sessions.recorded_log import CallKey, RecordedCall, RecordedLog
from hilum_replay.sessions.recorded_results import RecordedProgramResults
from hilum_replay.sessions.recording import FileEdit

# The plugins whose tools reach outside of the workspace, so that another run may have another
# result, or an effect that must not be repeated.
OUTSIDE_PLUGINS = frozenset({"web", "mcp", "browser", "image", GUEST_PLUGIN})
_KERNEL_TOOLS = frozenset({"find_tools", "call_tool"})
# Codes of calls that a person, a rule or a policy refused.
_REFUSAL_CODES = frozenset({E_DENIED, E_BLOCKED, E_REJECTED, E_APPROVAL_TIMEOUT})
# The questions of the kernel's own policies. A replay has the same mode and the same approval policy,
# so the kernel asks again; a policy that no longer asks is a difference.
_POLICY_QUESTION = re.compile(
    r"In [\w-]+ mode calls of the category |Calls that change something need approval \(approve"
)
_POLICY_DENIAL = "The session is read-only, "
# Precedes the output of a call that the user stopped.
_OUTPUT_SO_FAR = "Its output so far:\n"
_LISTING_PROGRAM = re.compile(r"\b(?:find|fd|ls|grep|rg|du|tree|os\.walk|listdir|glob)\b")
_NOT_RECORDED = "The recorded session has no such call, and a replay does not reach outside."


class RecordedAnnouncements:
    """The changes that the user approved when guests announced them. Implements ``AnnouncedCalls``.

    Args:
        log: The recorded log.
    """

    def __init__(self, log: RecordedLog) -> None:
        self._log = log

    def was_announced(self, call: ToolCall) -> bool:
        """Return whether a call of a guest ran without a question, as announced and approved."""
        made = self._log.find_call(call.id)
        if made is None or made.started is None or made.asked is not None:
            return False
        announcements = [
            each
            for each in self._log.calls_of(made.agent)
            if each.name == EDIT_ANNOUNCED and each.answer is not None and each.answer.accepted
        ]
        approved = {
            path
            for each in announcements
            if each.started is not None
            for path in each.started.paths
        }
        return _is_same_call(made.call, call) and approved.issuperset(made.started.paths)


class RecordedGuests:
    """The plugin that takes the place of the one that runs guests.

    Args:
        log: The recorded log.
    """

    def __init__(self, log: RecordedLog) -> None:
        specs, started = _find_tools(log)
        self._tools = [
            _make_tool(name, specs.get(name), started.get(name))
            for name in GUEST_TOOLS
            if name in specs or name in started
        ]
        self._announcements = RecordedAnnouncements(log)

    @hookimpl
    def provide_tools(self) -> list[Tool]:
        """Return the tools with which guests asked and were shown."""
        return self._tools

    @hookimpl
    def open_session(self, session: Session) -> RecordedAnnouncements:
        """Return what the guard asks about the calls of guests."""
        return self._announcements


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
        judge_as_recorded: Whether calls are judged as in the recording. Otherwise the plugins and
            settings of the replay judge them.

    Attributes:
        judge_as_recorded: See the argument.
        match_other_ids: Whether a call may repeat a recorded call with another id. Another model
            gives its calls other ids.
        on_answered: Called with the agent and the recorded call before a call ends as in the log.
        changed: The recorded calls with another result when they ran again.
        answered: The calls that were answered from the log.
        repeated: The calls of ``from_log`` that ended with the recorded result, by ``agent/call``.
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
        judge_as_recorded: bool = True,
    ) -> None:
        self._log = log
        self._wait = wait
        self._files = ContainedFiles(root)
        self._from_log = from_log
        self._effects = effects
        self._objects = objects
        self.judge_as_recorded = judge_as_recorded
        self.match_other_ids = False
        self._ended: dict[CallKey, int] = {}
        self._found: dict[tuple[CallKey, int], RecordedCall | None] = {}
        self._repeated: set[int] = set()
        self._ran: set[tuple[CallKey, int]] = set()
        self._different: set[CallKey] = set()
        self._tools: list[Tool] = []
        self.on_answered: Callable[[Agent, RecordedCall], None] = lambda _agent, _call: None
        self.changed: list[RecordedCall] = []
        self.answered: list[RecordedCall] = []
        self.repeated: set[str] = set()

    def find(self, agent: Agent, identity: str) -> RecordedCall | None:
        """Return the recorded call that a call of the replay repeats.

        Both have the same tool and the same arguments. The id is not enough: another model may use
        it for a call that the user never approved.

        Args:
            agent: The agent that made the call.
            identity: The id of the call.
        """
        key = (agent.name, identity)
        place = (key, self._ended.get(key, 0))
        if place not in self._found:
            recorded = self._search(agent, identity, place[1])
            self._found[place] = recorded
            self._repeated.add(id(recorded))
        return self._found[place]

    def _search(self, agent: Agent, identity: str, number: int) -> RecordedCall | None:
        run = agent.conversation.run
        state = run.calls.get(identity) if run is not None else None
        if state is None:
            return None
        candidates = [self._log.call(agent.name, identity, number)]
        if self.match_other_ids:
            candidates += self._log.calls_of(agent.name)
        for recorded in candidates:
            if recorded is None or not _is_same_call(recorded.call, state.call):
                continue
            # A recorded answer approves one call, not its repetitions.
            if id(recorded) not in self._repeated:
                return recorded
        return None

    @property
    def same_calls(self) -> dict[str, str]:
        """The ids of calls whose recorded call has another id, with that id."""
        pairs = {}
        for (key, _), recorded in self._found.items():
            if recorded is not None and recorded.call.id != key[1]:
                pairs[key[1]] = recorded.call.id
        return pairs

    @property
    def has_differences(self) -> bool:
        """Whether a call had another result than in the recording, which may lack the call."""
        return bool(self._different)

    def has_different_round(self, agent: Agent) -> bool:
        """Return whether a call of an agent's present round is not as in the recording."""
        return any((agent.name, identity) in self._different for identity in agent.run.calls)

    @hookimpl
    def open_kernel(self) -> RecordedProgramResults:
        """Return what programs outside of calls answered."""
        return RecordedProgramResults(self._log.events, self._wait)

    # --- tools ------------------------------------------------------------------------------------

    def add_missing_tools(self, session: Session) -> None:
        """Add the tools that the recorded session had and that this session lacks."""
        specs, started = _find_tools(self._log)
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
        key = (call.agent.name, call.id)
        self._ran.add((key, self._ended.get(key, 0)))
        recorded = self.find(call.agent, call.id)
        if recorded is None or recorded.done is None:
            if self._reaches_outside(tool):
                raise ToolError(_NOT_RECORDED, code=E_FAILED)
            return await tool.run(call)
        code = recorded.done.result.code
        if STOPPED_BY in recorded.done.result.data:
            # Only this call was stopped, and nothing replays how.
            await trio.to_thread.run_sync(self._apply_effects, recorded.key)
            self.answered.append(recorded)
            result = recorded.done.result
            return Output(result.text, data=result.data, code=code)
        if code == E_STOPPED and not _starts_something(tool, call):
            # The replay of the user's action ends the call.
            self.on_answered(call.agent, recorded)
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
        self.on_answered(call.agent, recorded)
        await trio.to_thread.run_sync(self._apply_effects, recorded.key)
        await self._wait(recorded.done.seq)
        result = recorded.done.result
        if recorded.problem is not None:
            raise NeedsUser(recorded.problem.message, code=recorded.problem.code)
        images = tuple(part for part in result.parts if isinstance(part, Image))
        return Output(result.text, images, dict(result.data), result.code, changed=result.changed)

    def _reaches_outside(self, tool: Tool) -> bool:
        is_recorded = any(tool is each or tool.name == each.name for each in self._tools)
        is_recorded = is_recorded or tool.name in GUEST_TOOLS
        return tool.risk == "network" or tool.plugin in OUTSIDE_PLUGINS or is_recorded

    def _is_from_log(self, tool: Tool, recorded: RecordedCall) -> bool:
        return self._reaches_outside(tool) or recorded.key in self._from_log

    def _apply_effects(self, key: str) -> None:
        for edit in self._effects.get(key, ()):
            apply_edit(edit, self._files, self._objects)

    # --- gates ------------------------------------------------------------------------------------

    @hookimpl(tryfirst=True)
    def on_tool_call(self, agent: Agent, call: ToolCall, tool: Tool) -> Verdict | None:
        """Judge a call as in the recording."""
        recorded = self.find(agent, call.id)
        if recorded is None or not self.judge_as_recorded:
            return None
        if recorded.asked is not None:
            if _POLICY_QUESTION.match(recorded.asked.reason):
                return None
            return ask(recorded.asked.reason, scope=recorded.asked.scope)
        if recorded.started is not None:
            # A rule of the user or an earlier approval allowed what the policy asks about.
            return allow(settled=True)
        result = recorded.done.result if recorded.done is not None else None
        if result is None or result.code not in _REFUSAL_CODES:
            return None
        reason = result.text.removeprefix(f"{result.code}: ")
        if reason.startswith(_POLICY_DENIAL):
            return None
        return deny(reason, code=result.code)

    @hookimpl(trylast=True)
    def check_result(self, agent: Agent, call: ToolCall, result: ToolResult) -> ToolResult | None:
        """Return the recorded result if the call had the same one, except for times and the like.

        The next request is then the same as in the recording, to the byte.
        """
        recorded = self.find(agent, call.id)
        if result.code == E_STOPPED and STOPPED_BY not in result.data:
            return None  # only the output of a stopped call is checked; the loop adds the rest
        key = (agent.name, call.id)
        number = self._ended.get(key, 0)
        self._ended[key] = number + 1
        self._different.add(key)
        if recorded is None or recorded.done is None:
            return None
        is_answered = recorded in self.answered
        if recorded.key in self._from_log:
            # If a rule or a missing plugin keeps the call from running, it has no recorded result.
            has_run = (key, number) in self._ran
            is_answered = is_answered or has_run == (recorded.started is not None)
            if is_answered:
                self.repeated.add(recorded.key)
        if (
            is_answered
            or is_same_result(recorded.done.result, result)
            or _is_other_order(recorded, result)
        ):
            self._different.discard(key)
            return msgspec.structs.replace(recorded.done.result, call_id=result.call_id)
        self.changed.append(recorded)
        return None


def _starts_something(tool: Tool, call: Call) -> bool:
    """Return whether later calls use what a call starts: a service or an agent."""
    return bool(call.arguments.get("background")) or tool.plugin == "scheduler"


def _find_tools(log: RecordedLog) -> tuple[dict[str, ToolSpec], dict[str, CallStarted]]:
    """Return the tools that the recorded session had, and a call of each tool, by name."""
    specs = {}
    for event in log.events:
        if isinstance(event, PromptFrozen):
            specs.update({spec.name: spec for spec in event.tools})
    started = {}
    for calls in log.calls.values():
        started.update({call.name: call.started for call in calls if call.started is not None})
    return specs, started


def _make_tool(name: str, spec: ToolSpec | None, started: CallStarted | None) -> Tool:
    """Return a tool of the recorded session, which only the log can answer."""
    made = Tool(
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
    return complete_tool(made)


def _refuse(call: Call, **arguments: Any) -> str:
    """Run a recorded tool, which only the log can answer."""
    raise ToolError(_NOT_RECORDED, code=E_FAILED)


def _is_same_call(one: ToolCall, two: ToolCall) -> bool:
    """Return whether two calls have the same tool and the same arguments."""
    if one.name != two.name:
        return False
    if one.arguments == two.arguments:
        return True
    try:
        return bool(msgspec.json.decode(one.arguments) == msgspec.json.decode(two.arguments))
    except (msgspec.DecodeError, RecursionError):
        return False


def is_same_result(one: ToolResult, two: ToolResult) -> bool:
    """Return whether two results are the same, except for what varies between sessions."""
    if (one.code, one.name) != (two.code, two.name):
        return False
    if one.code == E_UNKNOWN_TOOL:
        return True  # the text lists the tools of all plugins
    if [type(part) for part in one.parts] != [type(part) for part in two.parts]:
        return False
    for first, second in zip(one.parts, two.parts, strict=True):
        if isinstance(first, Image):
            if first != second:
                return False
        elif isinstance(second, Text) and normalize(first.text) != normalize(second.text):
            return False
    return True


def _is_other_order(recorded: RecordedCall, result: ToolResult) -> bool:
    """Return whether a command lists the same lines in another order.

    The order of the files in a folder differs between file systems.
    """
    started = recorded.started
    if started is None or started.risk != "execute" or recorded.done is None:
        return False
    if _LISTING_PROGRAM.search(started.call.arguments) is None:
        return False
    return is_same_result(_sort_lines(recorded.done.result), _sort_lines(result))


def _sort_lines(result: ToolResult) -> ToolResult:
    lines = sorted(result.text.splitlines())
    return msgspec.structs.replace(result, parts=(Text("\n".join(lines)),))


def normalize(text: str) -> str:
    """Return a text without the parts that vary between sessions."""
    return apply_rules(text, RULES)


def apply_edit(edit: FileEdit, files: ContainedFiles, objects: Mapping[str, bytes]) -> None:
    """Change a file of the workspace as somebody else did in the recorded session.

    A command that runs again may have made a link to another folder; nothing is changed through it.
    A change that is not possible, because the replay has other files, is left out: the comparison
    of the files shows the difference.
    """
    if edit.missing:
        return
    with suppress(ToolError):
        if edit.folder:
            files.make_folder(edit.path)
        elif edit.content:
            files.write(edit.path, objects[edit.content], mode=edit.mode or None)
        else:
            files.remove(edit.path)
