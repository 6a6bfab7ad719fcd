"""Builds an answer while it streams, in the same way for all wire formats."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Literal, Protocol

from hilum.errors import ModelError
from hilum.messages import AssistantMessage, Text, Thinking, ToolCall, Usage
from hilum.models import CallChunk, Chunk, Done, TextChunk, ThinkingChunk

from hilum_models.failures import Endpoint
from hilum_models.json_values import join_text

Stop = Literal["end", "calls", "length", "refusal"]
# Servers with shorter ids ("call_0", "1") restart the numbering in each response.
MIN_UNIQUE_ID = 9


class Reader(Protocol):
    """A parser for the events in one response. Does no I/O."""

    @property
    def complete(self) -> bool:
        """Whether the provider has marked the answer as complete."""

    @property
    def ended(self) -> bool:
        """Whether all further events can be ignored."""

    def feed(self, event: bytes, data: bytes) -> Iterable[Chunk]:
        """Parse one event and return its chunks.

        Raises:
            ModelError: The event reports an error, or cannot be read.
        """

    def finish(self) -> Done:
        """Return the complete answer.

        Raises:
            ModelError: ``broken`` if the stream ended before the answer was complete.
        """


class CallPart:
    """A tool call that is being received."""

    __slots__ = ("arguments", "id", "name", "raw_id", "vendor")

    def __init__(self, id: str, raw_id: str, name: str, vendor: dict[str, Any]) -> None:
        self.id = id
        self.raw_id = raw_id
        self.name = name
        self.vendor = vendor
        self.arguments: list[str] = []

    def build(self) -> ToolCall:
        """Return the call as a part of a message."""
        return ToolCall(self.id, self.name, join_text(self.arguments), self.vendor)


class TextPart:
    """Text that is being received."""

    __slots__ = ("pieces",)

    def __init__(self) -> None:
        self.pieces: list[str] = []

    def build(self) -> Text | None:
        """Return the text as a part of a message, or nothing if it is empty."""
        text = join_text(self.pieces)
        if text:
            return Text(text, "model")
        return None


class ThinkingPart:
    """Reasoning that is being received, with the data to send back to the vendor."""

    __slots__ = ("pieces", "vendor")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.vendor: dict[str, Any] = {}

    def build(self) -> Thinking:
        """Return the reasoning as a part of a message."""
        return Thinking(join_text(self.pieces), self.vendor)


class AnswerBuilder:
    """A builder for an answer that is being received, with parts in the order in which they began.

    Args:
        model: ``provider/name``, for the message.
        body: The request, from which missing call ids are computed. No two requests in a
            conversation are equal, so the ids are unique in the conversation, and a replayed
            request gets the same ids again.
    """

    def __init__(self, model: str, body: bytes) -> None:
        self.model = model
        self.parts: list[TextPart | ThinkingPart | CallPart] = []
        self.usage = Usage()
        self.stop: Stop | None = None
        self._body = body
        self._ids: set[str] = set()

    def add_text(self, text: str) -> list[Chunk]:
        """Add text to the answer and return its chunks."""
        if not text:
            return []
        part = self.parts[-1] if self.parts else None
        if not isinstance(part, TextPart):
            part = self.begin_text()
        part.pieces.append(text)
        return [TextChunk(join_text((text,)))]

    def begin_text(self) -> TextPart:
        """Begin a new text part."""
        part = TextPart()
        self.parts.append(part)
        return part

    def add_thinking(self, text: str) -> list[Chunk]:
        """Add reasoning and return its chunks."""
        if not text:
            return []
        self.current_thinking().pieces.append(text)
        return [ThinkingChunk(join_text((text,)))]

    def current_thinking(self) -> ThinkingPart:
        """Return the reasoning part that is being received, or begin a new one."""
        last = self.parts[-1] if self.parts else None
        if isinstance(last, ThinkingPart):
            return last
        return self.begin_thinking()

    def begin_thinking(self) -> ThinkingPart:
        """Begin a new reasoning part."""
        part = ThinkingPart()
        self.parts.append(part)
        return part

    def begin_call(self, raw_id: str, name: str, vendor: dict[str, Any] | None = None) -> CallPart:
        """Begin a call, replacing an id that is missing, repeated or too short."""
        id = raw_id
        if len(id) < MIN_UNIQUE_ID or id in self._ids:
            seed = blake2b(self._body, digest_size=9).hexdigest()
            id = f"call_{seed}_{len(self._ids)}"
        self._ids.add(id)
        call = CallPart(id, raw_id, name, vendor or {})
        self.parts.append(call)
        return call

    def open_arguments(self, call: CallPart, piece: str = "") -> list[Chunk]:
        """Add the first piece of a call's arguments and return the chunk that names the tool."""
        call.arguments.append(piece)
        return [CallChunk(call.id, call.name, join_text((piece,)))]

    def add_arguments(self, call: CallPart, piece: str) -> list[Chunk]:
        """Add a further piece of a call's arguments and return its chunks."""
        if not piece:
            return []
        call.arguments.append(piece)
        return [CallChunk(call.id, "", join_text((piece,)))]

    def build(self) -> Done:
        """Return the complete answer.

        Raises:
            ModelError: ``broken`` if the provider gave no stop reason.
        """
        if self.stop is None:
            raise ModelError("The answer ended before it was complete.", kind="broken")
        built = [part.build() for part in self.parts]
        parts = tuple(part for part in built if part is not None)
        stop = self.stop
        # Some servers report `stop` together with calls, and others report `tool_calls` without any
        # calls.
        if stop in ("end", "calls"):
            stop = "calls" if self._ids else "end"
        return Done(AssistantMessage(parts, self.model, stop), self.usage)


class VendorReader:
    """Base class with the parts of a reader that all vendors' formats share.

    Attributes:
        ended: Whether all further events can be ignored.

    Args:
        model: ``provider/name``.
        body: The request.
        endpoint: The provider and the model, for messages.
    """

    def __init__(self, model: str, body: bytes, endpoint: Endpoint) -> None:
        self.ended = False
        self._answer = AnswerBuilder(model, body)
        self._endpoint = endpoint

    @property
    def complete(self) -> bool:
        """Whether a stop reason has arrived; some servers send nothing after the stop reason."""
        return self._answer.stop is not None

    def finish(self) -> Done:
        """Return the complete answer."""
        return self._answer.build()
