"""Compares two sessions event by event, and describes where and why they differ."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import groupby
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
# A request for which the recording has no answer.
_BEHAVIOUR_IF_ADDED = frozenset({"model_failed"})
# Fields that depend on the machine and the settings, in events that otherwise show behaviour.
_ENVIRONMENT_FIELDS = frozenset({"model", "mode", "plugin", "usage", "data", "tools", "layers"})
# Fields that contain a text for each call; where it is cut depends on how the provider counts.
_CUT_TEXTS = "shortened"
_MAX_LINES = 40
# Events that only one session has are shown one by one up to this number.
_MAX_MISSING = 3


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
    same_calls: Mapping[str, str] | None = None,
) -> Comparison:
    """Compare two sessions.

    Args:
        recorded: The events of the first session.
        replayed: The events of the second session.
        places: The paths in both sessions.
        more: Further differences, such as those between files.
        same_calls: The ids of calls in the second session that have another id in the first one,
            with that id.
    """
    one = make_steps(recorded, places[0])
    two = make_steps(replayed, places[1], same_calls)
    placed: list[tuple[int, Difference]] = []
    agents = dict.fromkeys([*(step.agent for step in one), *(step.agent for step in two)])
    for agent in agents:
        first = [step for step in one if step.agent == agent]
        second = [step for step in two if step.agent == agent]
        placed += _compare_agent(first, second)
    # The first difference explains the later ones.
    placed.sort(key=lambda item: item[0])
    differences = [*(difference for _, difference in placed), *more]
    identical = encode_steps(one) == encode_steps(two) and not differences
    return Comparison(identical, tuple(differences), (len(one), len(two)))


def compare_requests(
    recorded: Mapping[str, str], replayed: Mapping[str, str]
) -> Iterator[Difference]:
    """Yield the requests that have other messages, or the same ones in another order.

    Args:
        recorded: The messages of each request, in short, by the number of its answer.
        replayed: The same for the replay.
    """
    for seq, shape in recorded.items():
        if replayed.get(seq, shape) != shape:
            lines = (f"- {shape}", f"+ {replayed[seq]}")
            title = "a request has other messages, or the same in another order"
            yield Difference("behaviour", title, recorded=int(seq), lines=lines)


def _compare_agent(one: Sequence[Step], two: Sequence[Step]) -> list[tuple[int, Difference]]:
    """Return the differences of one agent, each with the number of the recorded event at its place."""
    matcher = SequenceMatcher(
        None, [*map(_alignment_key, one)], [*map(_alignment_key, two)], autojunk=False
    )
    found: list[tuple[int, Difference]] = []
    for tag, start, end, other, other_end in matcher.get_opcodes():
        if tag == "equal":
            for first, second in zip(one[start:end], two[other:other_end], strict=True):
                found += [(first.seq, each) for each in _compare_steps(first, second)]
            continue
        for step in one[start:end]:
            found.append((step.seq, _lone("-", step)))
        place = one[end - 1].seq if end else 0
        for step in two[other:other_end]:
            found.append((place, _lone("+", step)))
    return found


def _alignment_key(step: Step) -> tuple[str, str]:
    return step.kind, step.call


def _lone(sign: str, step: Step) -> Difference:
    is_recorded = sign == "-"
    where = "only in the recorded session" if is_recorded else "only in the replay"
    only_here = _BEHAVIOUR_IF_MISSING if is_recorded else _BEHAVIOUR_IF_ADDED
    is_behaviour = step.kind in _BEHAVIOUR | only_here
    return Difference(
        "behaviour" if is_behaviour else "environment",
        f"{_name(step)}: {where}",
        step.agent,
        step.seq if is_recorded else 0,
        0 if is_recorded else step.seq,
        (f"{sign} {shorten(_describe_step(step))}",),
    )


def _describe_step(step: Step) -> str:
    """Return an event as one line for a reader."""
    data = step.data
    match step.kind:
        case "call_started" | "approval_asked":
            return f"{data['call']['name']} {data['call']['arguments']}"
        case "call_done":
            return _join_lines(_as_text(data["result"]))
        case "model_answered":
            parts = data["message"]["parts"]
            texts = [
                f"{part['name']} {part['arguments']}" if "arguments" in part else part["text"]
                for part in parts
            ]
            return _join_lines("; ".join(texts))
        case "model_failed":
            return _join_lines(data["message"])
    return msgspec.json.encode(data).decode()


def _join_lines(text: str) -> str:
    return " ".join(text.split())


def _name(step: Step) -> str:
    name = step.kind.replace("_", " ")
    if not step.call:
        return name
    about = step.data.get("call") or step.data.get("result") or {}
    tool = about.get("name", "") if isinstance(about, dict) else ""
    return f"{name} ({tool} {step.call})" if tool else f"{name} ({step.call})"


def _compare_steps(one: Step, two: Step) -> list[Difference]:
    """Return the differences of two events that are at the same place."""
    if one.data == two.data:
        return []
    found = []
    ends = []
    for field in dict.fromkeys([*one.data, *two.data]):
        first = one.data.get(field)
        second = two.data.get(field)
        if _is_same_value(field, first, second):
            continue
        kind = _classify(one, field, first, second)
        if one.kind == "run_ended" and kind == "behaviour":
            # The end of a run consists of many short texts, which belong together.
            ends.append((field, first, second))
            continue
        title = f"{_name(one)}: {field.replace('_', ' ')} differs"
        lines = _diff(first, second)
        found.append(Difference(kind, title, one.agent, one.seq, two.seq, lines))
    if ends:
        fields = ", ".join(field for field, _, _ in ends)
        title = f"run ended: {fields} {'differs' if len(ends) == 1 else 'differ'}"
        lines = tuple(line for end in ends for line in _show_both(*end))
        found.append(Difference("behaviour", title, one.agent, one.seq, two.seq, lines))
    return found


def _is_same_value(field: str, one: Any, two: Any) -> bool:
    """Return whether a field of two events is the same, except for what varies."""
    if one == two or _normalize(one) == _normalize(two):
        return True
    # Another model may have given the same answer.
    return field == "message" and bool(_without_model(one) == _without_model(two))


def _classify(step: Step, field: str, one: Any, two: Any) -> Kind:
    """Return the kind of a difference in a field of an event."""
    if step.kind not in _BEHAVIOUR or field in _ENVIRONMENT_FIELDS:
        return "environment"
    if field == _CUT_TEXTS and set(one or ()) == set(two or ()):
        return "environment"
    if field == "message" and step.kind == "run_started":
        # The prompt is compared as ``text``; the rest is context of the machine.
        return "environment"
    return "behaviour"


def _show_both(field: str, one: Any, two: Any) -> list[str]:
    signs = (("-", one), ("+", two))
    return [
        shorten(f"{sign} {field}: {_join_lines(_as_text(value))}")
        for sign, value in signs
        if value is not None
    ]


def _without_model(message: Any) -> Any:
    if isinstance(message, dict):
        return _normalize({key: value for key, value in message.items() if key != "model"})
    return message


def _normalize(value: Any) -> Any:
    """Return plain data whose texts lack what varies between sessions."""
    if isinstance(value, str):
        return apply_rules(value, RULES)
    if isinstance(value, dict):
        return {
            key: _read_arguments(each) if key == "arguments" else _normalize(each)
            for key, each in value.items()
            if key != "seconds"
        }
    if isinstance(value, list):
        return [_normalize(each) for each in value]
    return value


def _read_arguments(arguments: Any) -> Any:
    """Return the arguments of a call, which models write with different spaces and orders."""
    try:
        return _normalize(msgspec.json.decode(arguments))
    except (msgspec.DecodeError, TypeError, RecursionError):
        return _normalize(arguments)


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
    if value is None:
        return "(nothing)"
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return "\n".join(value)
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
    failures = comparison.failures
    others = [each for each in comparison.differences if each.kind == "environment"]
    if not environment:
        others = []
    if not failures and not others:
        if comparison.identical:
            return f"Identical: {comparison.events[0]} events."
        return f"Same behaviour: {comparison.events[0]} events."
    if not failures:
        title = f"Same behaviour: {comparison.events[0]} events. Differences of the environment:"
        return "\n".join([title, *_describe_list(others)])
    blocks = _describe_list(failures)
    if others:
        blocks.append(f"Differences of the environment: {_count_titles(others)}.")
    return "\n".join(["first difference: " + blocks[0], *blocks[1:]])


def _describe_list(differences: Sequence[Difference]) -> list[str]:
    """Return a text for each difference; of many events that are missing, only the first ones."""
    blocks = []
    for side, group in groupby(differences, _find_side):
        members = list(group)
        shown = members if side == "both" else members[:_MAX_MISSING]
        blocks += [_describe_one(difference) for difference in shown]
        left_out = members[len(shown) :]
        if left_out:
            last = left_out[-1]
            number = last.recorded or last.replayed
            where = "recorded session" if side == "recorded" else "replay"
            count = "1 more event is" if len(left_out) == 1 else f"{len(left_out)} more events are"
            blocks.append(f"{count} only in the {where}, up to {side} #{number}")
    return blocks


def _find_side(difference: Difference) -> str:
    if difference.recorded and not difference.replayed:
        return "recorded"
    if difference.replayed and not difference.recorded:
        return "replayed"
    return "both"


def _describe_one(difference: Difference) -> str:
    places = [
        f"recorded #{difference.recorded}" if difference.recorded else "",
        f"replayed #{difference.replayed}" if difference.replayed else "",
        difference.agent,
    ]
    place = " ".join(filter(None, places))
    title = f"[{difference.kind}] {difference.title}"
    heading = f"{title}  ({place})" if place else title
    lines = [f"    {line.replace('{home}', '~')}" for line in difference.lines]
    return "\n".join([heading, *lines])


def _count_titles(differences: Sequence[Difference]) -> str:
    """Return the titles of differences without the ids of calls, each with its number."""
    counts = Counter(re.sub(r" \([^)]*\)", "", each.title) for each in differences)
    titles = [title if count == 1 else f"{title} ({count})" for title, count in counts.items()]
    return "; ".join(titles)
