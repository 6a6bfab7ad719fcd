"""The canonical form of a log: what must be the same whenever and wherever a session is replayed.

Times, durations and the sizes that depend on the encoding of a provider are left out; paths of the
workspace and random ids are replaced. The events of parallel calls are in the order of the calls.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import msgspec
from hilum.events import (
    AnyEvent,
    ApprovalAnswered,
    ApprovalAsked,
    ApprovalShown,
    CallDone,
    CallStarted,
    Compacted,
    Heartbeat,
    HookCalled,
    ModelAnswered,
    ModelFailed,
    ModelStarted,
    PluginEvent,
    PromptFrozen,
    RunEnded,
    RunsCutOff,
    SessionReopened,
    StateChanged,
    StopAsked,
    encode,
)

from hilum_replay.placeholders import PathPlaceholders
from hilum_replay.sessions.guest_log import is_guest_model, is_guest_request

# Events that follow from others, or whose number depends on timing, such as those of slow hooks.
_LEFT_OUT = (StateChanged, ApprovalShown, Heartbeat, HookCalled, RunsCutOff, SessionReopened)
_LEFT_OUT_NAMES = (
    "agents.status",
    "agents.log",
    "agents.output",
    "commands.",  # a replay takes the prompts of custom commands from the log
    "context.",
    "lint.",
    "shell.",
    "files.shown",
    "settings.",
    "session.",
    "sharing.",
    "prompt.images",  # recorded models accept images, whatever the model that answered accepts
    "guard.sandbox",  # what the machine offers
    "guard.unmarked",  # the marker in the workspace could not be written
)
# What hilum-plan reports when it has noticed the end of a run.
_AFTER_RUNS = ("plan.left_over", "plan.proposed")
_FIELDS = (
    "seq at seconds first deadline estimate size window max_output attempt session forked version"
    " plugins workspace settings waited sources gathered_by noted_by price"
).split()
_RANDOM_ID = re.compile(r"\b[0-9a-f]{12}\b")
# Durations in the data of plugins and tools.
_DURATIONS = frozenset({"ms", "seconds", "duration", "elapsed", "spent"})
# Unix times in the data of plugins.
_EARLIEST_TIME = 1_000_000_000


@attrs.frozen
class Step:
    """One event in its canonical form.

    Attributes:
        seq: Sequence number of the event.
        agent: The agent; empty for the session itself.
        kind: The type of the event, or the name of a plugin's event.
        call: Id of the call that the event belongs to.
        data: The remaining fields.
    """

    seq: int
    agent: str
    kind: str
    call: str
    data: dict[str, Any]


def make_steps(
    events: Sequence[AnyEvent],
    placeholders: PathPlaceholders,
    same_calls: Mapping[str, str] | None = None,
) -> list[Step]:
    """Return the canonical form of a log, agent by agent.

    Args:
        events: The events.
        placeholders: The paths in the log.
        same_calls: Other ids for calls.
    """
    kept = _drop_retries(events)
    by_agent: dict[str, list[AnyEvent]] = {}
    for event in kept:
        by_agent.setdefault(event.agent, []).append(event)
    steps = []
    # The agents join in an order that depends on timing.
    for agent in sorted(by_agent):
        ordered = _in_call_order(_move_to_ends(_defer_guest_requests(by_agent[agent])))
        made = [_make_step(event, placeholders) for event in ordered]
        if not agent:
            # The events of the session itself come from tasks that run at the same time.
            made.sort(key=_sorting_key)
        steps += made
    return _rename_ids([_rename_calls(step, same_calls or {}) for step in steps])


def _sorting_key(step: Step) -> tuple[str, bytes]:
    return step.kind, msgspec.json.encode(step.data, order="deterministic")


def encode_steps(steps: Sequence[Step]) -> bytes:
    """Return the canonical form as bytes, one event per line; equal sessions have equal bytes."""
    lines = []
    for step in steps:
        line = {"agent": step.agent, "kind": step.kind, "call": step.call, **step.data}
        lines.append(msgspec.json.encode(line, order="deterministic"))
    return b"\n".join(lines)


def _drop_retries(events: Sequence[AnyEvent]) -> list[AnyEvent]:
    """Return the events without attempts that were repeated, which a replay does not repeat."""
    kept: list[AnyEvent] = []
    stopped: set[str] = set()
    for event in events:
        if isinstance(event, _LEFT_OUT):
            continue
        if isinstance(event, PluginEvent) and event.name.startswith(_LEFT_OUT_NAMES):
            continue
        if isinstance(event, ModelFailed) and event.action in ("retry", "fallback"):
            _drop_open_request(kept, event.agent)
            continue
        if isinstance(event, ModelStarted):
            # A request that was interrupted has no answer.
            _drop_open_request(kept, event.agent)
        if isinstance(event, PluginEvent) and _changed_nothing(event):
            continue
        if isinstance(event, StopAsked):
            # The stop of the agent above stops a run once more, if that has not ended yet.
            if event.run in stopped:
                continue
            stopped.add(event.run)
        kept.append(event)
    return kept


def _drop_open_request(events: list[AnyEvent], agent: str) -> None:
    """Remove the last request of an agent if it has neither an answer nor a failure."""
    for index in range(len(events) - 1, -1, -1):
        if events[index].agent != agent:
            continue
        if isinstance(events[index], ModelAnswered | ModelFailed):
            return
        if isinstance(events[index], ModelStarted):
            del events[index]
            return


def _changed_nothing(event: PluginEvent) -> bool:
    """Return whether an event records a command without changes, except for caches."""
    changes = event.data.get("changes", ())
    return event.name == "files.changed" and not any(map(_is_kept, changes))


def _is_kept(change: Any) -> bool:
    """Return whether a change in a record of the file journal is a change of a file."""
    return any(isinstance(node, list | tuple) and node[0] != "skipped" for node in change[1:])


def find_call(event: AnyEvent) -> str:
    """Return the id of the call that an event belongs to; empty if there is none."""
    if isinstance(event, CallDone):
        return event.result.call_id
    if isinstance(event, CallStarted | ApprovalAsked):
        return event.call.id
    if isinstance(event, PluginEvent):
        return str(event.data.get("call", ""))
    return ""


def _defer_guest_requests(events: Sequence[AnyEvent]) -> list[AnyEvent]:
    """Return the events of one agent, the requests of a guest's program at the end of each run.

    The program sends them at the same time as hilum carries out its calls.
    """
    ordered: list[AnyEvent] = []
    requests: list[AnyEvent] = []
    for event in events:
        if is_guest_request(event):
            requests.append(event)
            continue
        if isinstance(event, RunEnded):
            ordered += requests
            requests = []
        ordered.append(event)
    return ordered + requests


def _move_to_ends(events: Sequence[AnyEvent]) -> list[AnyEvent]:
    """Return the events of one agent, what is left over from a run directly after its end.

    The plan is reported by a task of its own, to which the end of the run may come later than the
    next prompt.
    """
    reports: dict[str, list[AnyEvent]] = {}
    for event in events:
        if isinstance(event, PluginEvent) and event.name in _AFTER_RUNS:
            reports.setdefault(event.run, []).append(event)
    ordered: list[AnyEvent] = []
    for event in events:
        if isinstance(event, PluginEvent) and event.name in _AFTER_RUNS:
            continue
        ordered.append(event)
        if isinstance(event, RunEnded):
            ordered += reports.pop(event.run, [])
    for left in reports.values():
        ordered += left
    return ordered


def _in_call_order(events: Sequence[AnyEvent]) -> list[AnyEvent]:
    """Return the events of one agent, those of parallel calls in the order of the calls."""
    ordered: list[AnyEvent] = []
    waiting: dict[str, list[AnyEvent]] = {}
    approvals: dict[str, str] = {}

    def flush() -> None:
        for found in waiting.values():
            ordered.extend(found)
        waiting.clear()

    for event in events:
        call = find_call(event)
        if isinstance(event, ApprovalAsked):
            approvals[event.id] = call
        elif isinstance(event, ApprovalAnswered):
            call = approvals.get(event.id, "")
        if call and call in waiting:
            waiting[call].append(event)
            continue
        if isinstance(event, ModelAnswered):
            flush()
            ordered.append(event)
            waiting.update((call.id, []) for call in event.message.calls)
            continue
        # Events between the calls, such as a change of the todo list, keep their place before the
        # end of the round.
        if waiting and isinstance(event, PluginEvent):
            waiting.setdefault("", []).append(event)
            continue
        flush()
        ordered.append(event)
    flush()
    return ordered


def _make_step(event: AnyEvent, placeholders: PathPlaceholders) -> Step:
    text = placeholders.insert_in_json(encode(event).decode())
    data = msgspec.json.decode(text)
    kind = data.pop("type")
    if isinstance(event, PluginEvent):
        kind = data.pop("name")
    agent = data.pop("agent", "")
    for field in _FIELDS:
        data.pop(field, None)
    if isinstance(event, CallStarted):
        data.pop("plugin", None)  # a replay itself provides the tools of servers
    if isinstance(event, ApprovalAsked):
        data.pop("effects", None)  # a digest that contains the path of the workspace
    if isinstance(event, Compacted):
        data.pop("before", None)  # an estimate
    if isinstance(event, PromptFrozen) and is_guest_model(event.model):
        # Nothing is sent to a guest. A replay has its tools in another order.
        data["tools"] = sorted(data["tools"], key=lambda tool: str(tool["name"]))
    if kind == "agents.result" and isinstance(data["data"].get("actions"), list):
        for action in data["data"]["actions"]:
            # They are cut at a length that includes the path of the workspace; the events of the
            # calls contain them in full.
            action.pop("arguments", None)
        # Parallel calls end in an order that depends on timing.
        data["data"]["actions"].sort(key=lambda each: msgspec.json.encode(each))
    if kind == "files.changed":
        data["data"].pop("others", None)  # which calls ran at the same time depends on timing
    if kind == "agents.held":
        data["data"].pop("path", None)  # where hilum is installed
    changes = data.get("data", {}).get("changes")
    if changes and kind.startswith("files."):
        data["data"]["changes"] = [change for change in changes if _is_kept(change)]
    data = _without_times(data)
    return Step(event.seq, agent, kind, find_call(event), data)


def _without_times(value: Any) -> Any:
    """Return plain data without durations, with 0 in place of Unix times, and 2 in place of 2.0."""
    if isinstance(value, dict):
        kept = {key: each for key, each in value.items() if key not in _DURATIONS}
        return {key: _without_times(each) for key, each in kept.items()}
    if isinstance(value, list):
        return [_without_times(each) for each in value]
    if isinstance(value, int | float) and value > _EARLIEST_TIME:
        return 0
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _rename_calls(step: Step, ids: Mapping[str, str]) -> Step:
    """Return a step with other ids of calls."""
    if not ids:
        return step
    text = msgspec.json.encode(step.data).decode()
    for old, new in ids.items():
        text = text.replace(f'"{old}"', f'"{new}"')
    return attrs.evolve(step, call=ids.get(step.call, step.call), data=msgspec.json.decode(text))


def _rename_ids(steps: Sequence[Step]) -> list[Step]:
    """Return steps with names in place of random ids.

    Ids of runs and of what calls do are named after the agent, and after the call. If all ids were
    numbered in one row, an id that only one of two sessions has would change all later numbers.
    """
    names: dict[str, str] = {}
    counts: dict[str, int] = {}
    renamed = []
    for step in steps:
        text = msgspec.json.encode(step.data, order="deterministic").decode()
        for identity in _RANDOM_ID.findall(text):
            if identity not in names:
                owner = _find_owner(step, identity)
                counts[owner] = counts.get(owner, 0) + 1
                names[identity] = f"{owner}-{counts[owner]}"
        replaced = _RANDOM_ID.sub(lambda match: names[match.group()], text)
        renamed.append(attrs.evolve(step, data=msgspec.json.decode(replaced)))
    return renamed


def _find_owner(step: Step, identity: str) -> str:
    """Return what a new random id is named after."""
    if step.data.get("run") == identity:
        return f"run-{step.agent}"
    return f"id-{step.agent}-{step.call}" if step.call else "id"
