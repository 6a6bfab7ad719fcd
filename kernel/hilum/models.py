"""The model protocol. Gateways implement it; there is no HTTP here.

A request is made of pieces that are encoded once each: the head (layers, tools, options) and one
piece per message. A ``Wire`` encodes pieces; a ``Model`` sends a body made of them and yields what
comes back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from math import inf
from typing import Protocol, runtime_checkable

import msgspec
import trio

from hilum.errors import ModelError
from hilum.messages import AssistantMessage, Layer, Message, ToolSpec, Usage


class Price(msgspec.Struct, frozen=True):
    """US dollars for a million tokens."""

    input: float
    output: float
    cached: float | None = None
    cache_write: float | None = None

    def cost(self, usage: Usage) -> float:
        """US dollars for this use."""
        cached = self.input if self.cached is None else self.cached
        written = self.input if self.cache_write is None else self.cache_write
        fresh = usage.input - usage.cached - usage.cache_write
        tokens = (
            fresh * self.input
            + usage.cached * cached
            + usage.cache_write * written
            + usage.output * self.output
        )
        return tokens / 1e6


class ModelInfo(msgspec.Struct, frozen=True):
    """What the kernel needs to know about a model.

    Attributes:
        name: ``provider/name``.
        window: Context window in tokens.
        max_output: Most tokens of one answer; taken off the window before anything is budgeted.
        price: What it costs, ``None`` when not known.
        images: Whether it takes images.
    """

    name: str
    window: int = 128_000
    max_output: int = 8_192
    price: Price | None = None
    images: bool = False


class TextChunk(msgspec.Struct, frozen=True):
    """Text of the answer."""

    text: str


class ThinkingChunk(msgspec.Struct, frozen=True):
    """Reasoning that may be shown."""

    text: str


class CallChunk(msgspec.Struct, frozen=True):
    """A piece of the arguments of a call; ``name`` comes with its first piece."""

    call_id: str
    name: str
    arguments: str


class Alive(msgspec.Struct, frozen=True):
    """A sign of life without content (a comment, a keep-alive): it stretches the silence limit, up
    to a bound.
    """


class Done(msgspec.Struct, frozen=True):
    """The whole answer: always the last chunk, and yielded only if the provider said that the
    answer is complete.
    """

    message: AssistantMessage
    usage: Usage = Usage()


Chunk = TextChunk | ThinkingChunk | CallChunk | Alive | Done


class Wire(Protocol):
    """A wire format: pure functions from our data to bytes.

    What it gives for a value never changes.
    """

    @property
    def key(self) -> str:
        """Name under which encoded pieces are kept.

        Two wires that encode differently have different keys.
        """

    def head(self, layers: Sequence[Layer], tools: Sequence[ToolSpec]) -> bytes:
        """Encode everything that stands before the first message (model, options, system prompt,
        tools).
        """

    def message(self, message: Message) -> bytes:
        """Encode one message; may hold several JSON values separated by commas, or nothing."""

    def body(self, head: bytes, pieces: Sequence[bytes]) -> bytes:
        """Join head and message pieces to the request body.

        The body of a longer conversation starts with the same bytes.
        """


class Request(msgspec.Struct, frozen=True):
    """One request to a model: the encoded body, and the same as data for models that do not go over
    a wire.
    """

    body: bytes
    layers: Sequence[Layer]
    tools: Sequence[ToolSpec]
    messages: Sequence[Message]
    session: str = ""
    agent: str = ""
    attempt: int = 1


class Model(Protocol):
    """A model that answers. Instances are shared by all agents of a kernel."""

    @property
    def info(self) -> ModelInfo:
        """Name, window, price."""

    @property
    def wire(self) -> Wire:
        """How messages are encoded for it."""

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[Chunk]]:
        """Send the request; the chunks end with ``Done``.

        Raises:
            ModelError: In the context manager or while iterating. A stream that ends without
                ``Done`` is broken.
        """


# Signs of life without content stretch the silence limit up to this many times: some providers
# queue a request for minutes.
MAX_STRETCH = 4
# Characters of an answer: so many for each token that it may have, and never more than the second
# figure.
CHARACTERS_PER_TOKEN = 8
MAX_CHARACTERS = 4 << 20


def longest_answer(info: ModelInfo) -> int:
    """Return the characters of an answer, reasoning and arguments included, after which a model
    counts as running away.
    """
    tokens = max(4 * info.max_output, 65_536)
    return min(tokens * CHARACTERS_PER_TOKEN, MAX_CHARACTERS)


async def read_answer(
    model: Model,
    request: Request,
    *,
    silence: float,
    longest: float = inf,
    show: Callable[[Chunk], None] = lambda chunk: None,
) -> Done:
    """Send a request and read the answer to its end, bounded in time and size.

    Args:
        model: The model.
        request: The request.
        silence: Seconds without content after which the model counts as silent.
        longest: Seconds that the whole answer may take.
        show: Receives the chunks with content as they come.

    Raises:
        ModelError: The model failed, was silent, was too slow, did not come to an end, or broke
            off.
    """
    name = model.info.name
    limit = longest_answer(model.info)
    size = 0
    end = trio.current_time() + longest
    content_at = trio.current_time()
    with trio.CancelScope(deadline=min(content_at + silence, end)) as patience:
        async with model.stream(request) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, Done):
                    return chunk
                now = trio.current_time()
                if isinstance(chunk, Alive):
                    patience.deadline = min(now + silence, content_at + MAX_STRETCH * silence, end)
                    continue
                text = chunk.arguments if isinstance(chunk, CallChunk) else chunk.text
                size += len(text)
                if size > limit:
                    message = f"{name} wrote over {limit:,} characters without coming to an end."
                    hint = "Try again, set a smaller max_output, or choose another model."
                    raise ModelError(message, kind="runaway", hint=hint)
                # Blanks alone are no progress: some models fall into writing them for ever.
                if text.strip() or (isinstance(chunk, CallChunk) and chunk.name):
                    content_at = now
                    patience.deadline = min(now + silence, end)
                show(chunk)
    if not patience.cancelled_caught:
        raise ModelError(
            f"The stream of {name} broke off before the answer was complete.", kind="broken"
        )
    if trio.current_time() >= end:
        message = f"{name} did not complete its answer within {longest:g} seconds."
        raise ModelError(
            message, kind="too_slow", hint="Raise answer_timeout, or choose a faster model."
        )
    waited = trio.current_time() - content_at
    hint = "Check the network and the provider's status; a slow model needs a larger `silence`."
    raise ModelError(f"{name} sent nothing for {waited:g} seconds.", kind="timeout", hint=hint)


@runtime_checkable
class Provider(Protocol):
    """Where models come from: the part before the slash in ``provider/name``."""

    @property
    def name(self) -> str:
        """The part before the slash."""

    def model(self, name: str) -> Model:
        """Return the model of that name (the part after the slash).

        Raises:
            UsageError: There is no such model, or it cannot be used as things are (no key); the
                hint says what to do.
        """

    async def suggest(self) -> str | None:
        """Name of the model to use when the user named none, ``None`` if this provider cannot be
        used right now.

        Raises:
            HilumError: The user has set it up and it cannot be used; the message says why.
        """

    async def names(self) -> list[str]:
        """Names of models that are known to exist, best first; may be incomplete."""


def json_body(head: bytes, pieces: Sequence[bytes], tail: bytes = b"]}") -> bytes:
    """Join pieces into a JSON list that the head has opened; empty pieces are left out."""
    return b"".join((head, b",".join(piece for piece in pieces if piece), tail))
