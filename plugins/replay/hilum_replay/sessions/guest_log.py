"""What a recorded log contains about guests: agents whose work another program does.

The names are those of the plugins ``guests`` (hilum-acp) and ``agents`` (hilum-agents), which need
not be installed where a session is replayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeVar

import attrs
import msgspec
from hilum import Profile, Tool, ToolFilter
from hilum.events import (
    AgentStarted,
    AnyEvent,
    ModelStarted,
    ModelUsed,
    PluginEvent,
    RunEnded,
    RunStarted,
    SessionReopened,
)
from hilum_files.journal.records import CHANGED, COMMAND

GUEST_PLUGIN = "guests"
PROVIDER = "guest"
"""The provider of the models that stand for programs."""
JOB_QUEUED = "agents.queued"
JOB_RESULT = "agents.result"
AGENT_BOUND = "agents.held"
EDIT_ANNOUNCED = "guest_edit"
"""The tool with which a guest asks for the approval of changes that it makes afterwards."""
Risk = Literal["read", "write", "execute", "network"]
Effect = Literal["pure", "idempotent", "once"]
# The tools that show or allow what a program does by itself: permission category, effect, and the
# parameters with the paths that a call reads and writes.
GUEST_TOOLS: dict[str, tuple[Risk, Effect, str, str]] = {
    "guest_report": ("read", "idempotent", "", ""),
    "guest_wait": ("read", "idempotent", "", ""),
    "guest_run": ("execute", "once", "", ""),
    "guest_edit": ("write", "once", "", "paths"),
    "guest_read": ("read", "once", "paths", ""),
    "guest_fetch": ("network", "once", "", ""),
    "guest_other": ("execute", "once", "", ""),
    "guest_terminal": ("execute", "once", "", ""),
}
# Only this tool starts a process, whose changes belong to the call.
OWN_CALLS = tuple(name for name in GUEST_TOOLS if name != "guest_terminal")
_WAIT_TIMEOUT = 3_600.0  # seconds
_REASON = "a guest is another program, which a replay does not start"


def is_guest_model(name: str) -> bool:
    """Return whether the name of a model stands for a program."""
    return name.startswith(f"{PROVIDER}/")


def serves_guest(agent: object) -> bool:
    """Return whether an agent of a session is a guest."""
    return is_guest_model(agent.profile.model)  # type: ignore[attr-defined]


def complete_tool(tool: Tool) -> Tool:
    """Return a recorded tool with what a log does not contain, if it is a tool of guests."""
    known = GUEST_TOOLS.get(tool.name)
    if known is None:
        return tool
    risk, effect, reads, writes = known
    return attrs.evolve(
        tool,
        risk=risk,
        effect=effect,
        reads=reads or (),
        writes=writes or (),
        timeout=_WAIT_TIMEOUT,
        queues=(),
        serves=serves_guest,
    )


def is_program(call: str) -> bool:
    """Return whether the id of a call, in a record of changes, stands for a guest's program."""
    return call.startswith("program-")


def is_guest_request(event: AnyEvent) -> bool:
    """Return whether an event shows a request of a guest's program to a model."""
    return (
        isinstance(event, ModelUsed) and event.purpose == PROVIDER and event.plugin == GUEST_PLUGIN
    )


def is_guest_event(event: AnyEvent) -> bool:
    """Return whether the program of a guest caused an event.

    Such an event is written when a recording of the program's changes begins or ends, or when the
    program has called a model.
    """
    if is_guest_request(event):
        return True
    if not isinstance(event, PluginEvent) or event.name not in (COMMAND, CHANGED):
        return False
    # The changes of a cut-off program are found when the session is opened again.
    if event.data.get("tool") or event.data.get("cut_off"):
        return False
    return is_program(str(event.data.get("call")))


def find_guest_runs(events: Sequence[AnyEvent]) -> dict[str, str]:
    """Return the runs of guests, which are answered from the log.

    Returns:
        Why each run is answered from the log, by ``agent/run``.
    """
    runs: dict[str, str] = {}
    for event in events:
        if isinstance(event, RunStarted | ModelStarted) and is_guest_model(event.model):
            runs.setdefault(f"{event.agent}/{event.run}", _REASON)
    return runs


def find_crashes(events: Sequence[AnyEvent]) -> dict[int, list[PluginEvent]]:
    """Return where hilum was killed, with the commands and programs that were killed with it.

    If hilum ends in an orderly way, it records what commands have changed before it ends.

    Args:
        events: All events.

    Returns:
        For each crash, by the number of the event with which the session was opened again: the
        events that were written then, with the changes of what was cut off.
    """
    began: dict[str, int] = {}
    cut_off: list[tuple[int, PluginEvent]] = []
    reopenings = []
    for event in events:
        if isinstance(event, SessionReopened):
            reopenings.append(event.seq)
        if not isinstance(event, PluginEvent):
            continue
        if event.name == COMMAND:
            began[str(event.data.get("id"))] = event.seq
        elif event.name == CHANGED and event.data.get("cut_off"):
            cut_off.append((began.get(str(event.data.get("id")), event.seq), event))
    crashes: dict[int, list[PluginEvent]] = {}
    for start, event in cut_off:
        after = [seq for seq in reopenings if seq > start]
        if after:
            crashes.setdefault(after[0], []).append(event)
    return crashes


def find_unfinished_text(events: Sequence[AnyEvent], agent: str, seq: int) -> str:
    """Return what a guest had said when its run ended without an answer.

    Args:
        events: All events.
        agent: The agent.
        seq: Number of the event that shows that there is no answer.
    """
    ended: RunEnded | None = None
    jobs = set()
    for event in events:
        if isinstance(event, PluginEvent) and event.name == JOB_QUEUED:
            if event.data.get("actor") == agent:
                jobs.add(event.data.get("agent_id"))
        elif isinstance(event, RunEnded) and event.agent == agent and event.seq >= seq:
            ended = ended or event
        elif isinstance(event, PluginEvent) and event.name == JOB_RESULT and ended is not None:
            if event.data.get("agent_id") not in jobs:
                continue
            text = str(event.data.get("text", ""))
            # The result contains the text as it was said, unless it is older; the end of the run is
            # without the last word if that may be the beginning of a secret.
            if text not in (ended.text, ended.commentary) and text.startswith(ended.unfinished):
                return text
            break
    return ended.unfinished if ended is not None else ""


# --- agent files ----------------------------------------------------------------------------------


def find_guest_files(events: Sequence[AnyEvent]) -> dict[str, str]:
    """Return files that define the guests of a session as they were defined, by name.

    The files contain no command: nothing can start from them.
    """
    profiles: dict[str, Profile] = {}
    bound: dict[str, PluginEvent] = {}
    for event in events:
        found: Profile | None = None
        if isinstance(event, AgentStarted):
            found = msgspec.convert(event.profile, Profile)
        elif isinstance(event, PluginEvent) and event.name == JOB_QUEUED:
            found = msgspec.convert(event.data.get("profile", {}), Profile)
        elif isinstance(event, PluginEvent) and event.name == AGENT_BOUND:
            bound.setdefault(str(event.data.get("definition")), event)
        if found is not None and is_guest_model(found.model):
            name = found.model.partition("/")[2]
            known = profiles.get(name)
            profiles[name] = found if known is None else _join(known, found)
    return {name: _make_file(name, profile, bound.get(name)) for name, profile in profiles.items()}


def _join(one: Profile, two: Profile) -> Profile:
    """Return the profile from which both come: each run may have had lower limits than the file."""
    tools = two.tools if one.tools.allow is not None else one.tools
    return msgspec.structs.replace(
        one,
        tools=tools,
        turns=_higher(one.turns, two.turns),
        timeout=_higher(one.timeout, two.timeout),
        token_limit=_higher(one.token_limit, two.token_limit),
    )


_Number = TypeVar("_Number", int, float)


def _higher(one: _Number | None, two: _Number | None) -> _Number | None:
    return None if one is None or two is None else max(one, two)


def _make_file(name: str, profile: Profile, bound: PluginEvent | None) -> str:
    limits = {
        "turns": profile.turns,
        "timeout": profile.timeout,
        "token_limit": profile.token_limit,
    }
    front: dict[str, object] = {
        "kind": "agent",
        "name": name,
        "description": "A guest of the recorded session.",
        # A replay has no plugin that could start a program.
        "runner": {"command": ["false"]},
        "limits": {key: value for key, value in limits.items() if value is not None},
        "tools": _describe_tools(profile.tools),
    }
    body = profile.prompt
    if bound is not None:
        front["permissions"] = _describe_permissions(bound)
        for key in ("agents", "skills", "answer"):
            if bound.data.get(key):
                front[key] = bound.data[key]
        if bound.data.get("skills"):
            # hilum adds this text to the instructions again.
            body = body.partition("Skills for your work: ")[0].rstrip()
    lines = [
        f"{key}: {msgspec.json.encode(value).decode()}" for key, value in front.items() if value
    ]
    return "\n".join(["---", *lines, "---", body, ""])


def _describe_tools(tools: ToolFilter) -> dict[str, object]:
    described: dict[str, object] = {}
    if tools.allow is not None:
        described["allow"] = list(tools.allow)
    if tools.deny:
        described["deny"] = list(tools.deny)
    return described


def _describe_permissions(bound: PluginEvent) -> dict[str, list[str]]:
    rules: dict[str, list[str]] = {}
    for each in bound.data.get("permissions", ()):
        if each["effect"] in ("ask", "deny"):
            pattern = each.get("pattern")
            text = each["tool"] if pattern is None else f"{each['tool']}({pattern})"
            rules.setdefault(each["effect"], []).append(text)
    return rules
