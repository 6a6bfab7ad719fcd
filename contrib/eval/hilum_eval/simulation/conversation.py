"""The conversation of a request, as the simulated model sees it.

The model remembers nothing: it finds out from each request which step is done. It recognizes its
calls by their ids, which say for which step they were made. After a compaction, when old calls are
gone, it relies on what a summary says about its progress.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import attrs
from hilum.messages import AssistantMessage, NoteMessage, Text, ToolMessage, UserMessage
from hilum_replay import WireRequest

from hilum_eval.case import Case
from hilum_eval.simulation.outcomes import normalize, unwrap

_TAG = re.compile(r"step_(\d+)_(\d+)_(\d+)_(\d+)([a-z])_")
_PROGRESS = re.compile(r"[Rr]equest (\d+): (\d+) of (\d+) steps done")
_COMPLAINT = re.compile(
    r"tool call|arguments|json|format|must (include|contain|use)|\berror\b|invalid", re.IGNORECASE
)


class Tag(NamedTuple):
    """What a call was made for.

    Args:
        turn: Number of the prompt, from 0.
        step: Number of the step, from 0.
        part: Number of the call among parallel ones, from 0.
        number: How many calls were made for the same part before.
        purpose: The value of a ``Purpose``.
    """

    turn: int
    step: int
    part: int
    number: int
    purpose: str

    def make_id(self, suffix: str) -> str:
        """Return the id of the call."""
        turn, step, part, number, purpose = self
        return f"step_{turn}_{step}_{part}_{number}{purpose}_{suffix}"


def parse_id(identity: str) -> Tag | None:
    """Return what a call was made for; ``None`` if another model made it."""
    found = _TAG.match(identity)
    if not found:
        return None
    turn, step, part, number = map(int, found.groups()[:4])
    return Tag(turn, step, part, number, found[5])


@attrs.define
class MadeCall:
    """A call in the conversation.

    Attributes:
        tag: What it was made for.
        tool: Name of the tool.
        arguments: The arguments as JSON.
        result: The result; ``None`` if there is none.
        last: Whether it belongs to the last answer in the conversation.
        noted: Text from the agent's program after the result and before the next answer.
    """

    tag: Tag
    tool: str
    arguments: str
    result: str | None = None
    last: bool = False
    noted: str = ""


class Conversation:
    """What a request contains.

    Args:
        request: The request.
        case: The case, whose prompts are recognized.

    Attributes:
        turn: Number of the prompt that is being worked on, from 0; -1 if there is none.
        calls: The calls for this prompt, in order.
        complaints: Messages of the program about the last answer, which it did not accept.
        messages: Number of messages of the user and the program after the prompt.
        last_note: What was said after the last result.
        last_user_text: The last text of the user.
    """

    def __init__(self, request: WireRequest, case: Case) -> None:
        self.request = request
        self.turn = -1
        self.calls: list[MadeCall] = []
        self.complaints = 0
        self.messages = 0
        self.last_user_text = ""
        self._prompts = [_squeeze(turn.prompt) for turn in case.turns]
        self._texts: list[str] = [request.system]
        # Texts of others, in which a summary may be.
        self._told: list[str] = []
        self._own_texts: list[str] = []
        self._all_calls: dict[str, MadeCall] = {}
        for message in request.messages:
            self._add(message)

    @property
    def system(self) -> str:
        """The system prompt."""
        return self.request.system

    def _add(self, message: Any) -> None:
        if isinstance(message, UserMessage):
            for part in message.parts:
                if isinstance(part, Text):
                    self._add_user_text(part.text)
        elif isinstance(message, NoteMessage):
            self._add_note(message.text)
        elif isinstance(message, ToolMessage):
            for result in message.results:
                self._texts.append(unwrap(result.text)[0])
                if result.call_id in self._all_calls:
                    self._all_calls[result.call_id].result = result.text
        elif isinstance(message, AssistantMessage):
            self._add_answer(message)

    def _add_answer(self, message: AssistantMessage) -> None:
        self._own_texts.append(message.text)
        self.complaints = 0
        for made in self.calls:
            made.last = False
        for call in message.calls:
            self._own_texts += _list_strings(call.arguments)
            tag = parse_id(call.id)
            if tag is None:
                continue
            made = MadeCall(tag, call.name, call.arguments, last=True)
            self._all_calls[call.id] = made
            if tag.turn == self.turn:
                self.calls.append(made)

    def _add_user_text(self, text: str) -> None:
        self._texts.append(text)
        self._told.append(text)
        turn = self._find_turn(_squeeze(text))
        if turn is not None:
            self.turn = turn
            self.calls = [made for made in self._all_calls.values() if made.tag.turn == turn]
            self.complaints = 0
            self.messages = 0
            self.last_user_text = text
            return
        self.last_user_text = text
        self._add_remark(text)
        if _COMPLAINT.search(text):
            self.complaints += 1

    def _add_note(self, text: str) -> None:
        self._texts.append(text)
        self._told.append(text)
        self._add_remark(text)

    def _add_remark(self, text: str) -> None:
        self.messages += 1
        for made in self.calls:
            if made.last:
                made.noted += f"\n{text}"

    def _find_turn(self, text: str) -> int | None:
        """Return the prompt of the case that a text contains; the last one if there are several."""
        places = []
        for prompt in set(self._prompts):
            place = text.rfind(prompt)
            if prompt and place >= 0:
                places.append((place + len(prompt), prompt))
        if not places:
            return None
        prompt = max(places)[1]
        same = [index for index, each in enumerate(self._prompts) if each == prompt]
        later = [index for index in same if index > self.turn]
        return later[0] if later else same[-1]

    @cached_property
    def text(self) -> str:
        """Everything that the model can see."""
        return "\n".join([*self._texts, *self._own_texts])

    @cached_property
    def told(self) -> str:
        """Everything that was told to the model: prompts, results, notes and the system prompt."""
        return "\n".join(self._texts)

    @cached_property
    def progress(self) -> dict[int, int]:
        """How many steps of a prompt a summary calls done, by the number of the prompt."""
        done: dict[int, int] = {}
        for text in self._told:
            for turn, count, _ in _PROGRESS.findall(text):
                index = int(turn) - 1
                done[index] = max(done.get(index, 0), int(count))
        return done

    def shows(self, text: str) -> bool:
        """Return whether a text can be seen, apart from line numbers and blanks."""
        wanted = normalize(text)
        if not wanted:
            return True
        return any(wanted in normalize(each) for each in (*self._texts, *self._own_texts))


def describe_progress(turn: int, done: int, total: int) -> str:
    """Return the sentence with which the model states its progress."""
    return f"Request {turn + 1}: {done} of {total} steps done."


def find_progress(text: str) -> tuple[str, ...]:
    """Return the last statement of progress for each prompt in a text."""
    last: dict[str, str] = {}
    for found in _PROGRESS.finditer(text):
        last[found[1]] = found[0]
    return tuple(f"{each}." for each in last.values())


def _squeeze(text: str) -> str:
    return " ".join(text.split())


def _list_strings(arguments: str) -> Sequence[str]:
    """Return the texts in the arguments of a call."""
    try:
        data = json.loads(arguments)
    except ValueError:
        return []
    if not isinstance(data, dict):
        return []
    return [value for value in data.values() if isinstance(value, str)]
