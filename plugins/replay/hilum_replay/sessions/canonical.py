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
    HookCalled,
    ModelAnswered,
    ModelFailed,
    ModelStarted,
    PluginEvent,
    RunsCutOff,
    StateChanged,
    encode,
)

from hilum_replay.placeholders import PathPlaceholders

# Events that follow from others, or whose number depends on timing, such as those of slow hooks.
_LEFT_OUT = (StateChanged, ApprovalShown, HookCalled, RunsCutOff)
_LEFT_OUT_NAMES = (
    "agents.status",
    "agents.log",
    "agents.output",
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


def make_both_steps(
    recorded: Sequence[AnyEvent],
    replayed: Sequence[AnyEvent],
    places: tuple[PathPlaceholders, PathPlaceholders],
) -> tuple[list[Step], list[Step]]:
    """Return the canonical forms of a log and of its replay, with the same numbers for the same ids.

    If each log was numbered on its own, an id that only one of them has would change the numbers of
    all later ones.

    Args:
        recorded: The events of the first session.
        replayed: The events of the second session.
        places: The paths in both sessions.
    """
    one = _list_steps(recorded, places[0])
    two = _list_steps(replayed, places[1])
    numbers = _number_ids(one)
    found = _number_ids(two)
    left = [number for identity, number in numbers.items() if identity not in found]
    shared: dict[str, str] = {}
    for identity in found:
        number = numbers.get(identity)
        if number is None:
            # An id that is not repeated stands for the next one of the recording that is missing.
            number = left.pop(0) if left else f"id-{len(numbers) + len(shared) + 1}"
        shared[identity] = number
    return _rename_ids(one, numbers), _rename_ids(two, shared)


def _list_steps(events: Sequence[AnyEvent], placeholders: PathPlaceholders) -> list[Step]:
    kept = _drop_retries(events)
    by_agent: dict[str, list[AnyEvent]] = {}
    for event in kept:
        by_agent.setdefault(event.agent, []).append(event)
    steps = []
    # The agents join in an order that depends on timing.
    for agent in sorted(by_agent):
        made = [_make_step(event, placeholders) for event in _in_call_order(by_agent[agent])]
        if not agent:
            # The events of the session itself come from tasks that run at the same time.
            made.sort(key=_sorting_key)
        steps += made
    return steps


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
    if kind == "agents.held":
        data["data"].pop("path", None)  # where hilum is installed
    changes = data.get("data", {}).get("changes")
    if changes and kind.startswith("files."):
        data["data"]["changes"] = [change for change in changes if _is_kept(change)]
    data = _without_times(data)
    return Step(event.seq, agent, kind, find_call(event), data)


def _without_times(value: Any) -> Any:
    """Return plain data without durations, and with 0 in place of Unix times."""
    if isinstance(value, dict):
        kept = {key: each for key, each in value.items() if key not in _DURATIONS}
        return {key: _without_times(each) for key, each in kept.items()}
    if isinstance(value, list):
        return [_without_times(each) for each in value]
    if isinstance(value, int | float) and value > _EARLIEST_TIME:
        return 0
    return value


def _number_ids(steps: Sequence[Step]) -> dict[str, str]:
    """Return numbers for random ids, in the order in which they first occur."""
    numbers: dict[str, str] = {}
    for step in steps:
        for identity in _RANDOM_ID.findall(_encode_data(step)):
            numbers.setdefault(identity, f"id-{len(numbers) + 1}")
    return numbers


def _rename_ids(steps: Sequence[Step], numbers: Mapping[str, str]) -> list[Step]:
    """Return steps with numbers in place of random ids."""
    renamed = []
    for step in steps:
        text = _RANDOM_ID.sub(lambda match: numbers[match.group()], _encode_data(step))
        renamed.append(attrs.evolve(step, data=msgspec.json.decode(text)))
    return renamed


def _encode_data(step: Step) -> str:
    return msgspec.json.encode(step.data, order="deterministic").decode()
