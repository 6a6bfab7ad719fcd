"""The model protocol. Gateways implement it; there is no HTTP here.

A request consists of pieces that are encoded once each: the head (layers, tools, options) and one
piece per message. A ``Wire`` encodes pieces; a ``Model`` sends a body made of them and yields the
chunks of the answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from math import inf
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import msgspec
import trio
from msgspec.structs import replace

from hilum.errors import ModelError
from hilum.events import ModelUsed
from hilum.messages import AssistantMessage, Layer, Message, Text, ToolSpec, Usage, UserMessage

if TYPE_CHECKING:
    from hilum.agents import Agent


class Price(msgspec.Struct, frozen=True):
    """Prices in US dollars per million tokens."""

    input: float
    output: float
    cached: float | None = None
    cache_write: float | None = None

    def cost(self, usage: Usage) -> float:
        """Return the cost of this usage in US dollars."""
        # Providers charge less for cached tokens. Without that price the full one counts, so that a
        # limit is reached too early rather than too late.
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
    """The properties of a model that the kernel uses.

    Attributes:
        name: ``provider/name``.
        window: Context window in tokens.
        max_output: Maximum number of tokens of one answer; they are reserved in the window.
        price: Its price, ``None`` if it is not known.
        images: Whether it accepts images.
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


class KeepAlive(msgspec.Struct, frozen=True):
    """A signal without content that the connection is alive, for example a comment.

    It extends the time limit for silence, up to a bound.
    """


class Done(msgspec.Struct, frozen=True):
    """The complete answer, always the last chunk.

    It is yielded only if the provider reported that the answer is complete.
    """

    message: AssistantMessage
    usage: Usage = Usage()


Chunk = TextChunk | ThinkingChunk | CallChunk | KeepAlive | Done


class Wire(Protocol):
    """A wire format: pure functions from hilum's data to bytes.

    It always returns the same bytes for a value.
    """

    @property
    def key(self) -> str:
        """Name under which encoded pieces are stored, unique for each way of encoding."""

    def head(self, layers: Sequence[Layer], tools: Sequence[ToolSpec]) -> bytes:
        """Encode the part of the request before the first message.

        It contains the model, options, system prompt and tools.
        """

    def message(self, message: Message) -> bytes:
        """Encode one message as JSON values separated by commas; the result may be empty."""

    def body(self, head: bytes, pieces: Sequence[bytes]) -> bytes:
        """Join the head and the message pieces into the request body.

        The body of a longer conversation starts with the same bytes.
        """


class Request(msgspec.Struct, frozen=True):
    """One request to a model.

    It contains the encoded body, and the same content as data for models that need no network.
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
        """The wire format of its requests."""

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[Chunk]]:
        """Send the request; the chunks end with ``Done``.

        Raises:
            ModelError: In the context manager or while iterating. A stream that ends without
                ``Done`` is broken.
        """


# Keep-alives without content extend the silence limit up to this many times: some providers queue a
# request for minutes.
MAX_STRETCH = 4
# Maximum length of an answer in characters: for each token that it may have, and in total.
CHARACTERS_PER_TOKEN = 8
MAX_CHARACTERS = 4 << 20


def longest_answer(info: ModelInfo) -> int:
    """Return the number of characters after which an answer counts as endless.

    Reasoning and arguments are included.
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
        longest: Maximum number of seconds for the complete answer.
        show: Receives the chunks with content as they come.

    Raises:
        ModelError: The model failed, was silent, was too slow, never ended, or broke off.
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
                if isinstance(chunk, KeepAlive):
                    patience.deadline = min(now + silence, content_at + MAX_STRETCH * silence, end)
                    continue
                text = chunk.arguments if isinstance(chunk, CallChunk) else chunk.text
                size += len(text)
                if size > limit:
                    message = f"{name} exceeded {limit:,} characters without ending its answer."
                    hint = "Try again, set a smaller max_output, or choose another model."
                    raise ModelError(message, kind="runaway", hint=hint)
                # Whitespace alone is not progress: some models write it endlessly.
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


async def ask_model(
    agent: Agent,
    name: str,
    instructions: str,
    question: str | Sequence[Message],
    *,
    purpose: str,
) -> AssistantMessage:
    """Ask a model a question outside an agent's conversation. The agent's run is charged for it.

    Args:
        agent: The agent on whose behalf it is asked.
        name: The model, ``provider/name`` or a role.
        instructions: The system prompt. Its first line states the purpose: recordings of sessions
            identify the request by it.
        question: The question.
        purpose: The purpose, for the log.

    Returns:
        The whole answer.

    Raises:
        HilumError: There is no such model, or it did not answer.
    """
    session = agent.session
    model = session.kernel.router.model(name)
    layers = (Layer(0, purpose, instructions),)
    if isinstance(question, str):
        messages: tuple[Message, ...] = (UserMessage((Text(question, "kernel"),)),)
    else:
        messages = tuple(question)
    wire = model.wire
    pieces = [wire.message(message) for message in messages]
    body = wire.body(wire.head(layers, ()), pieces)
    request = Request(body, layers, (), messages, session.id, f"{agent.name}/{purpose}")
    began = trio.current_time()
    done = await read_answer(
        model, request, silence=session.options.silence, longest=session.options.answer_timeout
    )
    usage = done.usage
    if usage.cost is None and model.info.price is not None:
        usage = replace(usage, cost=model.info.price.cost(usage))
    answer = done.message
    if not answer.model:
        answer = replace(answer, model=model.info.name)
    # No tools are offered here, so the model may write anything as the name of a call, too.
    loggable = await session.redaction.loggable(answer)
    agent.emit(
        ModelUsed(
            model=model.info.name,
            purpose=purpose,
            asked=instructions.partition("\n")[0],
            message=loggable,
            usage=usage,
            seconds=trio.current_time() - began,
        )
    )
    return answer


@runtime_checkable
class Provider(Protocol):
    """A source of models: the part before the slash in ``provider/name``."""

    @property
    def name(self) -> str:
        """The part before the slash."""

    def model(self, name: str) -> Model:
        """Return the model of that name (the part after the slash).

        Raises:
            UsageError: There is no such model, or it cannot be used now (no key); the hint has the
                next step.
        """

    async def suggest(self) -> str | None:
        """Return the model to use if the user did not name one.

        ``None`` means that this provider cannot be used right now.

        Raises:
            HilumError: The user has configured it and it cannot be used; the message has the
                reason.
        """

    async def names(self) -> list[str]:
        """Return names of models that are known to exist, best first; some may be missing."""


def json_body(head: bytes, pieces: Sequence[bytes], tail: bytes = b"]}") -> bytes:
    """Join pieces into a JSON list that the head has opened; empty pieces are left out."""
    return b"".join((head, b",".join(piece for piece in pieces if piece), tail))
