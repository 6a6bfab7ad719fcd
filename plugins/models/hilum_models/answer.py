"""Collects an answer while it streams, the same for all formats."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, Literal, Protocol

import msgspec
from hilum.errors import ModelError
from hilum.messages import AssistantMessage, Text, Thinking, ToolCall, Usage
from hilum.models import CallChunk, Chunk, Done, TextChunk, ThinkingChunk

Stop = Literal["end", "calls", "length", "refusal"]
# Ids shorter than this ("call_0", "1") are numbered anew in each answer by the servers that give
# them.
SHORTEST_ID = 9


class Reader(Protocol):
    """Turns the events of one response into chunks. Pure: no input but the events."""

    @property
    def complete(self) -> bool:
        """Whether the provider has said that the answer is whole."""

    @property
    def ended(self) -> bool:
        """Whether nothing that matters can follow."""

    def feed(self, event: bytes, data: bytes) -> Iterable[Chunk]:
        """Take one event.

        Raises:
            ModelError: The event reports an error, or cannot be read.
        """

    def finish(self) -> Done:
        """Return the whole answer.

        Raises:
            ModelError: ``broken``, the stream ended before the answer was whole.
        """


class Call:
    """A call being collected."""

    __slots__ = ("arguments", "id", "name", "raw_id", "vendor")

    def __init__(self, id: str, raw_id: str, name: str, vendor: dict[str, Any]) -> None:
        self.id = id
        self.raw_id = raw_id
        self.name = name
        self.vendor = vendor
        self.arguments: list[str] = []


class Words:
    """Text being collected."""

    __slots__ = ("pieces",)

    def __init__(self) -> None:
        self.pieces: list[str] = []


class Thought(Words):
    """Reasoning being collected, with what its vendor wants back."""

    __slots__ = ("vendor",)

    def __init__(self) -> None:
        super().__init__()
        self.vendor: dict[str, Any] = {}


class Answer:
    """An answer being collected: parts in the order in which they began.

    Args:
        model: ``provider/name``, for the message.
        body: The request; ids for calls that came without one are computed from it. Each turn's
            request differs from all others of its conversation, so the ids are unique in it, and
            the same when a request is replayed.
    """

    def __init__(self, model: str, body: bytes) -> None:
        self.model = model
        self.items: list[Words | Thought | Call] = []
        self.usage = Usage()
        self.stop: Stop | None = None
        self._body = body
        self._ids: set[str] = set()

    def text(self, text: str) -> list[Chunk]:
        """Add text of the answer."""
        if not text:
            return []
        self.words().pieces.append(text)
        return [TextChunk(joined((text,)))]

    def words(self, new: bool = False) -> Words:
        """Return the text that is being written, or begin one."""
        last = self.items[-1] if self.items else None
        if new or type(last) is not Words:
            last = Words()
            self.items.append(last)
        return last

    def thinking(self, text: str) -> list[Chunk]:
        """Add reasoning that may be shown."""
        if not text:
            return []
        self.thought().pieces.append(text)
        return [ThinkingChunk(joined((text,)))]

    def thought(self, new: bool = False) -> Thought:
        """Return the reasoning that is being written, or begin one."""
        last = self.items[-1] if self.items else None
        if new or not isinstance(last, Thought):
            last = Thought()
            self.items.append(last)
        return last

    def call(self, raw_id: str, name: str, vendor: dict[str, Any] | None = None) -> Call:
        """Begin a call. An id that is missing, repeated or too short to be unique is replaced."""
        given = raw_id
        if len(given) < SHORTEST_ID or given in self._ids:
            seed = blake2b(self._body, digest_size=9).hexdigest()
            given = f"call_{seed}_{len(self._ids)}"
        self._ids.add(given)
        call = Call(given, raw_id, name, vendor or {})
        self.items.append(call)
        return call

    def arguments(self, call: Call, piece: str, first: bool = False) -> list[Chunk]:
        """Add a piece of a call's arguments."""
        if not piece and not first:
            return []
        call.arguments.append(piece)
        return [CallChunk(call.id, call.name if first else "", joined((piece,)))]

    @property
    def calls(self) -> bool:
        """Whether there is any call."""
        return bool(self._ids)

    def done(self) -> Done:
        """Return the whole answer.

        Raises:
            ModelError: ``broken``, nobody said how it ended.
        """
        if self.stop is None:
            raise ModelError("The answer broke off before it was complete.", kind="broken")
        parts: list[Text | Thinking | ToolCall] = []
        for item in self.items:
            if isinstance(item, Call):
                parts.append(ToolCall(item.id, item.name, joined(item.arguments), item.vendor))
            elif isinstance(item, Thought):
                parts.append(Thinking(joined(item.pieces), item.vendor))
            elif text := joined(item.pieces):
                parts.append(Text(text, "model"))
        stop: Stop = "calls" if self.calls and self.stop == "end" else self.stop
        if stop == "calls" and not self.calls:
            stop = "end"
        return Done(AssistantMessage(tuple(parts), self.model, stop), self.usage)


_decode = msgspec.json.Decoder().decode


def decode(data: bytes) -> dict[str, Any]:
    """Decode the JSON object of an event.

    Raises:
        ModelError: ``broken``, it is none.
    """
    try:
        value = _decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        value = _mended(data)
        if value is None:
            raise ModelError(f"The stream cannot be read: {error}.", kind="broken") from None
    if not isinstance(value, dict):
        raise ModelError("The stream cannot be read: an event is not a JSON object.", kind="broken")
    return value


def _mended(data: bytes) -> Any:
    """Decode what some servers write for JSON: NaN, raw control characters, bytes that are no
    UTF-8; ``None`` if it is none.

    A bad byte is replaced: the rest of the answer is worth more than the character that was lost.
    """
    try:
        return json.loads(data.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return None


def joined(pieces: Iterable[str]) -> str:
    """Join pieces of text.

    A character whose halves came in two pieces becomes whole, a half alone is replaced.
    """
    text = "".join(pieces)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def number(table: Any, *path: str) -> int:
    """Return a count from nested tables, 0 where it is missing or no number."""
    for key in path:
        table = table.get(key) if isinstance(table, dict) else None
    if isinstance(table, int | float) and table > 0:
        return int(table)
    return 0


def is_whole(arguments: str) -> bool:
    """Return whether arguments are a complete JSON object, so that nothing can be added to them."""
    if not arguments.endswith("}"):
        return False
    try:
        return isinstance(_decode(arguments), dict)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False


def as_json(arguments: Any) -> str:
    """Arguments as JSON text, for servers that give an object instead."""
    if arguments is None:
        return ""
    if isinstance(arguments, str):
        return arguments
    return msgspec.json.encode(arguments).decode()


def tables(value: Any) -> Sequence[dict[str, Any]]:
    """The objects in a list, or nothing."""
    if isinstance(value, list):
        return [item for item in value if isinstance(item, dict)]
    return ()
