"""A cassette as a model, in process: no HTTP, the same checks."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Literal

import msgspec
import trio
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
from hilum_guard import Redactor

from hilum_replay.cassette import Cassette, Exchange, describe, name_layers, name_tools, tail
from hilum_replay.matching import Asked, Mode
from hilum_replay.places import Places
from hilum_replay.playback import Playback

Pace = float | Literal["recorded"]
_encoder = msgspec.json.Encoder()


class PlainWire:
    """Encodes messages as the log does.

    A cassette needs no wire; the kernel measures by it. Implements ``Wire``.
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
    """Plays a cassette.

    Implements ``hilum.models.Model``. Each session plays it from its beginning.

    Args:
        cassette: What to play.
        workspace: Where the workspace is now: a path, or a function from session ids to paths. The
            current folder by default.
        mode: How strictly requests are compared.
        pace: Seconds that pass: 0 none, ``"recorded"`` or 1 as recorded, 0.5 half of that.
        name: ``provider/name`` of this model.
        redactor: What to take out of requests before they are compared.
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
        # The window is so large that nothing is cut which was not cut in the recording.
        self._info = ModelInfo(name, window=10_000_000, max_output=100_000, images=True)
        self._wire = PlainWire()
        self._workspace = workspace
        self._mode = mode
        self._pace = pace
        self._redactor = redactor or Redactor()
        self._plays: dict[str, Playback] = {}

    @property
    def info(self) -> ModelInfo:
        """Name and window."""
        return self._info

    @property
    def wire(self) -> PlainWire:
        """How the kernel encodes messages for it."""
        return self._wire

    def playback(self, session: str = "") -> Playback:
        """How far a session has played the cassette."""
        if session not in self._plays:
            where = self._workspace(session) if callable(self._workspace) else self._workspace
            places = Places.here(where)
            self._plays[session] = Playback(
                self.cassette, places=places, mode=self._mode, redactor=self._redactor
            )
        return self._plays[session]

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Chunk]]:
        """Answer a request with what was recorded.

        Raises:
            ModelError: ``request``, it is not what was recorded; the message says where it differs.
        """
        await trio.lowlevel.checkpoint()
        play = self.playback(request.session)
        exchange = play.exchange(
            play.take(_asked(request, play.places, self._redactor), request.agent)
        )
        done = Done(msgspec.structs.replace(exchange.answer, model=self._info.name), exchange.usage)
        yield _Chunks(exchange, done, 1.0 if self._pace == "recorded" else float(self._pace))


class _Chunks:
    """The chunks of an answer, in their time."""

    def __init__(self, exchange: Exchange, done: Done, pace: float) -> None:
        chunks: list[Chunk] = [*_chunks(done.message), done]
        self._chunks: Iterator[Chunk] = iter(chunks)
        self._wait = exchange.first * pace
        self._step = max(0.0, exchange.seconds - exchange.first) * pace / len(chunks)

    def __aiter__(self) -> _Chunks:
        return self

    async def __anext__(self) -> Chunk:
        await trio.sleep(self._wait)
        self._wait = self._step
        for chunk in self._chunks:
            return chunk
        raise StopAsyncIteration


def pieces(text: str, size: int = 24) -> list[str]:
    """Cut a text as a model streams it; a long one into at most a hundred pieces."""
    size = max(size, len(text) // 100 + 1)
    return [text[i : i + size] for i in range(0, len(text), size)]


def _chunks(message: AssistantMessage) -> Iterator[Chunk]:
    for part in message.parts:
        if isinstance(part, Text):
            yield from map(TextChunk, pieces(part.text))
        elif isinstance(part, Thinking):
            yield from map(ThinkingChunk, pieces(part.text))
        else:
            first, *rest = pieces(part.arguments) or [""]
            yield CallChunk(part.id, part.name, first)
            yield from (CallChunk(part.id, "", piece) for piece in rest)


def _asked(request: Request, places: Places, redactor: Redactor) -> Asked:
    messages = request.messages
    start = tail(messages)
    before = messages[start - 1] if start else None

    def normal(text: str) -> str:
        return places.abstract(redactor(text))

    return Asked(
        items=describe(messages[start:]),
        count=len(messages),
        whole=start == 0,
        echo=tuple(call.id for call in before.calls)
        if isinstance(before, AssistantMessage)
        else (),
        answers=sum(isinstance(message, AssistantMessage) for message in messages),
        layers=lambda: name_layers(
            request.layers, [normal(layer.text) for layer in request.layers]
        ),
        system=lambda: "\n\n".join(layer.text for layer in request.layers),
        tools=lambda: name_tools(
            request.tools, [normal(_encoder.encode(tool).decode()) for tool in request.tools]
        ),
    )
