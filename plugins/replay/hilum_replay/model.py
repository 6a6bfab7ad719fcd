"""A cassette as an in-process model, which checks requests without HTTP."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Literal

import msgspec
import trio
from hilum import Redactor, make_redactor
from hilum.messages import AssistantMessage, Layer, Message, Text, Thinking, ToolSpec
from hilum.models import (
    CallChunk,
    Chunk,
    Done,
    ModelInfo,
    Request,
    TextChunk,
    ThinkingChunk,
    json_body,
)

from hilum_replay.cassette import (
    Cassette,
    Exchange,
    describe_layers,
    describe_messages,
    describe_tools,
    find_new_messages,
)
from hilum_replay.matching import Mode, RequestDelta
from hilum_replay.placeholders import PathPlaceholders
from hilum_replay.playback import Playback

Pace = float | Literal["recorded"]
"""A factor applied to the recorded times; ``"recorded"`` is 1."""

# Number of characters in a piece of a streamed answer, and maximum number of pieces.
PIECE_SIZE = 24
MAX_PIECES = 100
_encoder = msgspec.json.Encoder()


class PlainWire:
    """A wire that encodes messages as they are in the log. Implements ``Wire``.

    A cassette needs no wire format, but the kernel uses one to measure requests.
    """

    key = "cassette"

    def head(self, layers: Sequence[Layer], tools: Sequence[ToolSpec]) -> bytes:
        """Encode layers and tools."""
        return _encoder.encode({"layers": layers, "tools": tools})[:-1] + b',"messages":['

    def message(self, message: Message) -> bytes:
        """Encode one message."""
        return _encoder.encode(message)

    def body(self, head: bytes, pieces: Sequence[bytes]) -> bytes:
        """Join the pieces."""
        return json_body(head, pieces)


class CassetteModel:
    """A model that plays a cassette. Implements ``Model``.

    Each session plays the cassette from its beginning.

    Args:
        cassette: What to play.
        workspace: The workspace on this machine: a path, or a function that returns the path for a
            session's id. The default is the current folder.
        mode: How strictly requests are compared.
        pace: Factor applied to the recorded times: 0 for no delays, ``"recorded"`` or 1 for the
            original ones.
        name: ``provider/name`` of this model.
        redactor: The redactor that removes secrets from requests before they are compared.

    Attributes:
        cassette: What to play.
        info: Name and window.
        wire: The encoding with which the kernel measures requests.
    """

    def __init__(
        self,
        cassette: Cassette,
        *,
        workspace: str | os.PathLike[str] | Callable[[str], str | os.PathLike[str]] = "",
        mode: Mode = "text",
        pace: Pace = 0.0,
        name: str = "cassette/cassette",
        redactor: Redactor | None = None,
    ) -> None:
        self.cassette = cassette
        # The window is so large that nothing is compacted that was not compacted in the recording.
        self.info = ModelInfo(name, window=10_000_000, max_output=100_000, images=True)
        self.wire = PlainWire()
        self._workspace = workspace
        self._mode = mode
        self._pace = to_factor(pace)
        self._redactor = redactor or make_redactor()
        self._playbacks: dict[str, Playback] = {}

    def playback(self, session: str = "") -> Playback:
        """Return the playback of a session."""
        if session not in self._playbacks:
            workspace = self._workspace
            if callable(workspace):
                workspace = workspace(session)
            self._playbacks[session] = Playback(
                self.cassette,
                placeholders=PathPlaceholders.for_this_machine(workspace),
                mode=self._mode,
                redactor=self._redactor,
            )
        return self._playbacks[session]

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Chunk]]:
        """Answer a request with the recorded answer.

        Raises:
            ModelError: ``request`` if the request differs from the recorded one; the message shows
                where.
        """
        # As with a real model, other tasks can run before the answer begins.
        await trio.lowlevel.checkpoint()
        playback = self.playback(request.session)
        delta = read_delta(request, playback.placeholders, self._redactor)
        exchange = playback.exchange(playback.take(delta, request.agent))
        message = msgspec.structs.replace(exchange.answer, model=self.info.name)
        yield PacedChunks(exchange, Done(message, exchange.usage), self._pace)


class PacedChunks:
    """The chunks of an answer, spread over its recorded time.

    The class is not an async generator, because an abandoned generator would never be closed.
    """

    def __init__(self, exchange: Exchange, done: Done, pace: float) -> None:
        chunks: list[Chunk] = [*_split_message(done.message), done]
        self._chunks = iter(chunks)
        self._delay = exchange.first * pace
        self._step = max(0.0, exchange.seconds - exchange.first) * pace / len(chunks)

    def __aiter__(self) -> PacedChunks:
        return self

    async def __anext__(self) -> Chunk:
        await trio.sleep(self._delay)
        self._delay = self._step
        try:
            return next(self._chunks)
        except StopIteration:
            raise StopAsyncIteration from None


def to_factor(pace: Pace) -> float:
    """Return the factor to apply to the recorded times."""
    return 1.0 if pace == "recorded" else float(pace)


def split_text(text: str) -> list[str]:
    """Return the pieces in which a model would stream a text, at most a hundred."""
    size = max(PIECE_SIZE, len(text) // MAX_PIECES + 1)
    return [text[start : start + size] for start in range(0, len(text), size)]


def _split_message(message: AssistantMessage) -> Iterator[Chunk]:
    for part in message.parts:
        if isinstance(part, Text):
            yield from map(TextChunk, split_text(part.text))
        elif isinstance(part, Thinking):
            yield from map(ThinkingChunk, split_text(part.text))
        else:
            name = part.name
            for piece in split_text(part.arguments) or [""]:
                yield CallChunk(part.id, name, piece)
                name = ""  # only the first piece names the tool


def read_delta(
    request: Request, placeholders: PathPlaceholders, redactor: Redactor
) -> RequestDelta:
    """Return the new part of an in-process request."""
    messages = request.messages
    start = find_new_messages(messages)
    answers = [message for message in messages if isinstance(message, AssistantMessage)]
    previous_calls = [call.id for call in answers[-1].calls] if answers else []

    def clean(text: str) -> str:
        return placeholders.insert(redactor(text))

    def join_system() -> str:
        return "\n\n".join(layer.text for layer in request.layers)

    return RequestDelta(
        items=describe_messages(messages[start:]),
        count=len(messages),
        whole=start == 0,
        previous_calls=tuple(previous_calls),
        answers=len(answers),
        # Use lambdas, because most requests are compared without layers and tools.
        layers=lambda: describe_layers(request.layers, clean),
        tools=lambda: describe_tools(request.tools, clean),
        system=join_system,
    )
