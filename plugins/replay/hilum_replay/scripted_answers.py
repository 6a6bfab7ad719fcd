"""Plays answers from the testing kit (``hilum.testing``) over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from hilum.messages import AssistantMessage, Text, Thinking, ToolCall
from hilum.testing import Answer, Scripted

from hilum_replay.wire_request import WireRequest


def play_answers(answers: Sequence[Scripted]) -> Callable[[WireRequest], Scripted]:
    """Return a function that returns the answers in order.

    A request that is sent again (a retry after a fault) gets the same answer again.
    """
    left = list(answers)
    last: dict[bytes, Scripted] = {}

    def play(request: WireRequest) -> Scripted:
        if request.body not in last:
            if not left:
                raise LookupError(f"request {request.number} came after the last scripted answer")
            last.clear()
            last[request.body] = left.pop(0)
        return last[request.body]

    return play


def build_message(scripted: Scripted, number: int) -> AssistantMessage:
    """Return the message of a scripted answer.

    Args:
        scripted: What ``say`` and ``use`` return, or anything else that ``hilum.testing`` plays.
        number: The number of the request, for the ids of calls.

    Raises:
        TypeError: The answer has a part that HTTP cannot carry.
        Exception: The scripted answer is this exception.
    """
    answer = Answer() + scripted
    parts: list[Text | Thinking | ToolCall] = []
    for index, part in enumerate(answer.parts):
        if isinstance(part, Exception):
            raise part
        if not isinstance(part, Text | Thinking | ToolCall):
            message = f"{type(part).__name__} cannot be sent over HTTP; use faults= or pace="
            raise TypeError(message)
        if isinstance(part, ToolCall) and not part.id:
            # The id is long enough for gateways to treat it as unique.
            part = msgspec.structs.replace(part, id=f"call_scripted_{number}_{index}")
        parts.append(part)
    return AssistantMessage(tuple(parts), stop=answer.stop or "end")
