"""What is exported, as plain data that does not need the SDK."""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

Value = str | int | float | bool | list[str]
Attributes = dict[str, Value]


class SpanKey(msgspec.Struct, frozen=True):
    """The ids of an exported span. They depend only on the log, so a resumed session has the same.

    Attributes:
        trace: 128 bits, the same for all spans of a prompt.
        span: 64 bits.
    """

    trace: int
    span: int


class SpanRecord(msgspec.Struct):
    """A span to export.

    Attributes:
        start: Unix time in seconds.
        end: Unix time in seconds.
        parent: Keys of the span that this one is part of; ``None`` for the root of a trace.
        is_client: Whether the span is a request to another program.
        error: Code of the error; empty if there is none.
        message: Text of the error; empty unless content is exported.
        links: Spans that this one continues.
        events: Names, times and attributes of moments in the span.
    """

    key: SpanKey
    name: str
    start: float
    end: float
    attributes: Attributes
    parent: SpanKey | None = None
    is_client: bool = False
    error: str = ""
    message: str = ""
    links: list[SpanKey] = []
    events: list[tuple[str, float, Attributes]] = []


class LogEntry(msgspec.Struct):
    """A log record to export.

    Attributes:
        name: Name of the event, such as ``hilum.error_raised``.
        at: Unix time in seconds.
        span: The span in which the event happened.
    """

    name: str
    severity: Literal["INFO", "WARN", "ERROR"]
    body: str
    at: float
    attributes: Attributes
    span: SpanKey | None = None


def make_id(text: str, size: int) -> int:
    """Return an id of ``size`` bytes for a text. An id is never 0, which would be invalid."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:size], "big") or 1
