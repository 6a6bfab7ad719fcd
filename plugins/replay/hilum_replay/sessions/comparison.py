"""Compares two sessions event by event, and describes where and why they differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal

import msgspec
from hilum.events import AnyEvent

from hilum_replay.placeholders import PathPlaceholders
from hilum_replay.rules import RULES, apply_rules
from hilum_replay.sessions.canonical import Step, encode_steps, make_steps
from hilum_replay.text_diff import diff_texts, shorten

Kind = Literal["behaviour", "environment", "files"]
# What an agent did. All other events depend on the machine, the plugins and the settings as well.
_BEHAVIOUR = frozenset(
    "run_started run_retried compacted model_answered call_started call_done round_ended"
    " run_ended steering_queued".split()
)
# Events that never depend on the machine if only the recorded session has them: a question to the
# user that is not asked any more means that a call runs without approval.
_BEHAVIOUR_IF_MISSING = frozenset({"approval_asked", "prompt_frozen"})
# Fields that depend on the machine and the settings, in events that otherwise show behaviour.
_ENVIRONMENT_FIELDS = frozenset({"model", "mode", "plugin", "usage", "data", "tools", "layers"})
# Fields that contain a text for each call; where it is cut depends on how the provider counts.
_CUT_TEXTS = "shortened"
_MAX_LINES = 40


class Difference(msgspec.Struct, frozen=True):
    """A difference between two sessions.

    Attributes:
        kind: ``behaviour`` (what an agent did or read), ``files`` (the files at the end) or
            ``environment`` (instructions, context and settings, which depend on the machine).
        title: What differs.
        agent: The agent.
        recorded: Sequence number of the event in the first session; 0 if it has no such event.
        replayed: Sequence number of the event in the second session; 0 if it has no such event.
        lines: The difference, for a reader.
    """

    kind: Kind
    title: str
    agent: str = ""
    recorded: int = 0
    replayed: int = 0
    lines: tuple[str, ...] = ()


class Comparison(msgspec.Struct, frozen=True):
    """The comparison of two sessions.

    Attributes:
        identical: Whether both have the same canonical bytes.
        differences: The differences, in order.
        events: Numbers of compared events in both sessions.
    """

    identical: bool
    differences: tuple[Difference, ...]
    events: tuple[int, int]

    @property
    def failures(self) -> list[Difference]:
        """The differences that do not come from the environment."""
        return [each for each in self.differences if each.kind != "environment"]


def compare_sessions(
    recorded: Sequence[AnyEvent],
    replayed: Sequence[AnyEvent],
    places: tuple[PathPlaceholders, PathPlaceholders],
    more: Iterable[Difference] = (),
) -> Comparison:
    """Compare two sessions.

    Args:
        recorded: The events of the first session.
        replayed: The events of the second session.
        places: The paths in both sessions.
        more: Further differences, such as those between files.
    """
    one = make_steps(recorded, places[0])
    two = make_steps(replayed, places[1])
    differences: list[Difference] = []
    agents = dict.fromkeys([*(step.agent for step in one), *(step.agent for step in two)])
    for agent in agents:
        first = [step for step in one if step.agent == agent]
        second = [step for step in two if step.agent == agent]
        differences += _compare_agent(first, second)
    differences.sort(key=_order)
    differences += more
    identical = encode_steps(one) == encode_steps(two) and not differences
    return Comparison(identical, tuple(differences), (len(one), len(two)))


def _order(difference: Difference) -> int:
    """Return where a difference belongs: the first difference explains the later ones."""
    return difference.recorded or difference.replayed


def _compare_agent(one: Sequence[Step], two: Sequence[Step]) -> list[Difference]:
    matcher = SequenceMatcher(None, [*map(_key, one)], [*map(_key, two)], autojunk=False)
    found: list[Difference] = []
    for tag, start, end, other, other_end in matcher.get_opcodes():
        if tag == "equal":
            for first, second in zip(one[start:end], two[other:other_end], strict=True):
                found += _compare_steps(first, second)
            continue
        for step in one[start:end]:
            found.append(_lone("-", step))
        for step in two[other:other_end]:
            found.append(_lone("+", step))
    return found


def _key(step: Step) -> tuple[str, str]:
    return step.kind, step.call


def _lone(sign: str, step: Step) -> Difference:
    is_recorded = sign == "-"
    where = "only in the recorded session" if is_recorded else "only in the replay"
    line = shorten(msgspec.json.encode(step.data).decode())
    is_behaviour = step.kind in _BEHAVIOUR or (is_recorded and step.kind in _BEHAVIOUR_IF_MISSING)
    return Difference(
        "behaviour" if is_behaviour else "environment",
        f"{_name(step)}: {where}",
        step.agent,
        step.seq if is_recorded else 0,
        0 if is_recorded else step.seq,
        (f"{sign} {line}",),
    )


def _name(step: Step) -> str:
    name = step.kind.replace("_", " ")
    return f"{name} ({step.call})" if step.call else name


def _compare_steps(one: Step, two: Step) -> list[Difference]:
    if one.data == two.data:
        return []
    found = []
    for field in dict.fromkeys([*one.data, *two.data]):
        first = one.data.get(field)
        second = two.data.get(field)
        if first == second or _normalize(first) == _normalize(second):
            continue
        kind: Kind = "environment"
        if one.kind in _BEHAVIOUR and field not in _ENVIRONMENT_FIELDS:
            kind = "behaviour"
        if field == _CUT_TEXTS and set(first or ()) == set(second or ()):
            kind = "environment"
        if field == "message" and one.kind == "run_started":
            # The prompt is compared as ``text``; the rest is context of the machine.
            kind = "environment"
        if field == "message" and _without_model(first) == _without_model(second):
            continue
        title = f"{_name(one)}: {field.replace('_', ' ')} differs"
        lines = _diff(first, second)
        found.append(Difference(kind, title, one.agent, one.seq, two.seq, lines))
    return found


def _without_model(message: Any) -> Any:
    if isinstance(message, dict):
        return _normalize({key: value for key, value in message.items() if key != "model"})
    return message


def _normalize(value: Any) -> Any:
    """Return plain data whose texts lack what varies between sessions."""
    if isinstance(value, str):
        return apply_rules(value, RULES)
    if isinstance(value, dict):
        return {key: _normalize(each) for key, each in value.items() if key != "seconds"}
    if isinstance(value, list):
        return [_normalize(each) for each in value]
    return value


def _diff(one: Any, two: Any) -> tuple[str, ...]:
    lines = diff_texts(_as_text(one), _as_text(two), lambda text: apply_rules(text, RULES))
    if len(lines) > _MAX_LINES:
        left_out = len(lines) - _MAX_LINES
        lines = [*lines[:_MAX_LINES], f"… {left_out} more lines"]
    return tuple(lines)


def _as_text(value: Any) -> str:
    """Return plain data as lines that a reader can compare."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        texts = [part["text"] for part in value.get("parts", ()) if "text" in part]
        if texts and value.get("type") in ("tool_result", None):
            code = value.get("code")
            return "\n".join([f"[{code}]", *texts] if code else texts)
    return msgspec.json.format(msgspec.json.encode(value), indent=1).decode()


def describe(comparison: Comparison, *, environment: bool = True) -> str:
    """Return a comparison as text.

    Args:
        comparison: The comparison.
        environment: Whether to include differences of the environment.
    """
    shown = list(comparison.differences) if environment else comparison.failures
    if not shown:
        if comparison.identical:
            return f"Identical: {comparison.events[0]} events."
        return f"Same behaviour: {comparison.events[0]} events."
    blocks = []
    for number, difference in enumerate(shown):
        place = " ".join(
            part
            for part in (
                f"recorded #{difference.recorded}" if difference.recorded else "",
                f"replayed #{difference.replayed}" if difference.replayed else "",
                difference.agent,
            )
            if part
        )
        mark = "first difference: " if number == 0 else ""
        title = f"{mark}[{difference.kind}] {difference.title}"
        heading = f"{title}  ({place})" if place else title
        blocks.append("\n".join([heading, *(f"    {line}" for line in difference.lines)]))
    return "\n".join(blocks)
