"""Injects faults between a client and a model, at a given byte of the stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import attrs
import msgspec
from hilum.messages import AssistantMessage, ToolCall

# A page like that of an intermediate proxy, and an event with broken JSON.
GARBAGE = b'\x00\xfe<html>502 Bad Gateway</html>\r\ndata: {"broken": \n\n'

Ending = Literal["end", "cut", "silence"]
"""How a stream ends: properly, with a closed connection, or not at all."""


@attrs.frozen
class Fault:
    """A fault that is injected into one request.

    Byte offsets refer to the body of the stream, without HTTP's own framing.

    Args:
        status: Respond with this status and an error in the vendor's format, for example 429 or
            500.
        headers: Further headers, for example ``{"retry-after": "1"}``.
        message: Text of the error, which is also used for ``error_after``.
        body: Body of the response with ``status``, instead of an error in the vendor's format.
        delay: Seconds before the response.
        refuse: Close the connection without a response.
        cut_after: Close the connection after this many bytes.
        end_after: End the response properly after this many bytes, although the answer is
            incomplete.
        silence_after: Send nothing more after this many bytes, and keep the connection open.
        garbage_after: Send bytes that are not an event after this many bytes, then continue.
        error_after: Report an error in the vendor's format within the stream after this many bytes,
            then end the stream.
        bad_arguments: Break the JSON in the arguments of all calls.
    """

    status: int = 0
    headers: Mapping[str, str] = attrs.field(factory=dict)
    message: str = "A deliberate fault."
    body: bytes | None = None
    delay: float = 0.0
    refuse: bool = False
    cut_after: int | None = None
    end_after: int | None = None
    silence_after: int | None = None
    garbage_after: int | None = None
    error_after: int | None = None
    bad_arguments: bool = False


NO_FAULT = Fault()

Faults = Sequence[Fault | None] | Callable[[int], Fault | None]
"""Faults by the number of the request, counted from 1: a list, or a function."""


def find_fault(faults: Faults | None, number: int) -> Fault:
    """Return the fault for a request."""
    fault = None
    if callable(faults):
        fault = faults(number)
    elif faults is not None and number <= len(faults):
        fault = faults[number - 1]
    return fault or NO_FAULT


def break_arguments(message: AssistantMessage) -> AssistantMessage:
    """Return the message with the JSON of its calls truncated, as a model may leave it."""
    parts = []
    for part in message.parts:
        if isinstance(part, ToolCall):
            part = msgspec.structs.replace(part, arguments=part.arguments[:-1])
        parts.append(part)
    return msgspec.structs.replace(message, parts=tuple(parts))


def apply_fault(fault: Fault, events: list[bytes], error: bytes) -> tuple[list[bytes], Ending]:
    """Apply a fault to a stream.

    Args:
        fault: The fault.
        events: The events of the whole answer.
        error: An error event in the vendor's format.

    Returns:
        The pieces to send, and how the stream ends.
    """
    # If several faults are set, the first of these applies.
    body = b"".join(events)
    if fault.garbage_after is not None:
        end = _find_event_end(events, fault.garbage_after)
        return [body[:end], GARBAGE, body[end:]], "end"
    if fault.error_after is not None:
        end = _find_event_end(events, fault.error_after)
        return [body[:end], error], "end"
    if fault.cut_after is not None:
        return [body[: fault.cut_after]], "cut"
    if fault.end_after is not None:
        return [body[: fault.end_after]], "end"
    if fault.silence_after is not None:
        return [body[: fault.silence_after]], "silence"
    return events, "end"


def _find_event_end(events: list[bytes], size: int) -> int:
    """Return the end of the event that contains the byte at ``size``.

    Garbage and errors are inserted between events; within an event, they would only break that
    event.
    """
    total = 0
    for event in events:
        if total >= size:
            break
        total += len(event)
    return total
