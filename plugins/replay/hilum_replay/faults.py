"""What can go wrong between a client and a model, on purpose and exactly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs
import msgspec
from hilum.messages import AssistantMessage, ToolCall

GARBAGE = b'\x00\xfe<html>502 Bad Gateway</html>\r\ndata: {"broken": \n\n'


@attrs.frozen
class Fault:
    """What goes wrong with one request.

    Bytes count the body of the stream, without HTTP's own framing.

    Args:
        status: Answer with this status and an error in the vendor's shape, for example 429 or 500.
        headers: Further headers, for example ``{"retry-after": "1"}``.
        message: Text of the error; also of ``error_after``.
        body: Body of the answer with ``status``, instead of an error in the vendor's shape.
        delay: Seconds before anything is answered.
        refuse: Close the connection without an answer.
        cut_after: Close the connection after so many bytes.
        end_after: End the response properly after so many bytes, although the answer is not whole.
        silence_after: Send nothing more after so many bytes, and keep the connection open.
        garbage_after: Send bytes that are no event after so many bytes, then go on.
        error_after: Report an error in the vendor's shape within the stream after so many bytes,
            then end it.
        bad_arguments: Break the JSON of the arguments of all calls.
    """

    status: int = 0
    headers: Mapping[str, str] = attrs.field(factory=dict)
    message: str = "A fault on purpose."
    body: bytes | None = None
    delay: float = 0.0
    refuse: bool = False
    cut_after: int | None = None
    end_after: int | None = None
    silence_after: int | None = None
    garbage_after: int | None = None
    error_after: int | None = None
    bad_arguments: bool = False


# By the number of the request, counted from 1: a list, or a function.
Faults = Sequence[Fault | None] | Callable[[int], Fault | None]


def fault_of(faults: Faults | None, number: int) -> Fault | None:
    """Return the fault of a request."""
    if faults is None:
        return None
    if callable(faults):
        return faults(number)
    return faults[number - 1] if number <= len(faults) else None


def with_bad_arguments(message: AssistantMessage) -> AssistantMessage:
    """The message with the JSON of its calls broken, as a model breaks it: the end is missing."""
    parts = [
        msgspec.structs.replace(part, arguments=part.arguments[:-1])
        if isinstance(part, ToolCall)
        else part
        for part in message.parts
    ]
    return msgspec.structs.replace(message, parts=tuple(parts))


def spoil(fault: Fault, events: list[bytes], error: bytes) -> tuple[list[bytes], str]:
    """Apply a fault to a stream.

    Args:
        fault: The fault.
        events: The events of the whole answer.
        error: An error event in the vendor's shape.

    Returns:
        What to send, and how it ends: ``end``, ``cut`` or ``silence``.
    """
    whole = b"".join(events)
    if fault.garbage_after is not None:
        place = _event_end(events, fault.garbage_after)
        return [whole[:place], GARBAGE, whole[place:]], "end"
    if fault.error_after is not None:
        return [whole[: _event_end(events, fault.error_after)], error], "end"
    for limit, ending in (
        (fault.cut_after, "cut"),
        (fault.end_after, "end"),
        (fault.silence_after, "silence"),
    ):
        if limit is not None:
            return [whole[:limit]], ending
    return events, "end"


def _event_end(events: list[bytes], size: int) -> int:
    """Where the event ends that reaches over so many bytes."""
    total = 0
    for each in events:
        if total >= size:
            break
        total += len(each)
    return total
