"""The model protocol. Gateways implement the protocol; this module contains no HTTP.

A request consists of pieces that are encoded once each: the head (layers, tools, options) and one
piece per message. A ``Wire`` encodes pieces; a ``Model`` sends a body made of pieces and yields the
chunks of the response.
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
from hilum.hooks import current_plugin
from hilum.messages import (
    AssistantMessage,
    Layer,
    Message,
    Text,
    ToolSpec,
    Usage,
    UserMessage,
    check_usage,
)
from hilum.messages import (
    Price as Price,
)
from hilum.model_calls import ModelCall, admit_model_call
from hilum.tokens import estimate

if TYPE_CHECKING:
    from hilum.agents import Agent


class ModelInfo(msgspec.Struct, frozen=True):
    """The properties of a model that the kernel uses.

    Attributes:
        name: ``provider/name``.
        window: Context window in tokens.
        max_output: Maximum number of tokens in one response, which are reserved in the window.
        price: Price; ``None`` if it is not known.
        images: Whether the model accepts images.
        window_assumed: Whether the window is a cautious assumption, because nothing states it.
        delegates: Whether the model is another program, whose own requests to models are admitted
            and counted instead of the requests that hilum sends to it.
    """

    name: str
    window: int = 128_000
    max_output: int = 8_192
    price: Price | None = None
    images: bool = False
    window_assumed: bool = False
    delegates: bool = False


class TextChunk(msgspec.Struct, frozen=True):
    """A piece of the response's text."""

    text: str


class ThinkingChunk(msgspec.Struct, frozen=True):
    """A piece of reasoning that may be shown."""

    text: str


class CallChunk(msgspec.Struct, frozen=True):
    """A piece of a call's arguments; only the first piece has the ``name``."""

    call_id: str
    name: str
    arguments: str


class KeepAlive(msgspec.Struct, frozen=True):
    """A signal, such as a comment, that has no content but shows that the connection is alive.

    Such a signal extends the time limit for silence, up to a bound.
    """


class Done(msgspec.Struct, frozen=True):
    """The complete response, which is always the last chunk.

    ``Done`` is yielded only if the provider reported that the response is complete.
    """

    message: AssistantMessage
    usage: Usage = Usage()


Chunk = TextChunk | ThinkingChunk | CallChunk | KeepAlive | Done


class Wire(Protocol):
    """A wire format, which consists of pure functions from hilum's data to bytes.

    The same value is always encoded as the same bytes.
    """

    @property
    def key(self) -> str:
        """The name under which encoded pieces are cached, unique for each encoding."""

    def head(self, layers: Sequence[Layer], tools: Sequence[ToolSpec]) -> bytes:
        """Encode the part of the request before the first message.

        The head contains the model, options, system prompt and tools.
        """

    def message(self, message: Message) -> bytes:
        """Encode one message as JSON values separated by commas; the result may be empty."""

    def body(self, head: bytes, pieces: Sequence[bytes]) -> bytes:
        """Join the head and the message pieces into the request body.

        If the conversation grows, the new body starts with the same bytes.
        """


class EmptyWire:
    """The wire format of a model to which nothing is sent. Implements ``Wire``."""

    key = "nothing"

    def head(self, layers: Sequence[Layer], tools: Sequence[ToolSpec]) -> bytes:
        """Return nothing."""
        return b""

    def message(self, message: Message) -> bytes:
        """Return nothing."""
        return b""

    def body(self, head: bytes, pieces: Sequence[bytes]) -> bytes:
        """Return nothing."""
        return b""


class Request(msgspec.Struct, frozen=True):
    """One request to a model.

    The request contains the encoded body and, for models that need no network, the same content as
    data.
    """

    body: bytes
    layers: Sequence[Layer]
    tools: Sequence[ToolSpec]
    messages: Sequence[Message]
    session: str = ""
    agent: str = ""
    attempt: int = 1


class Model(Protocol):
    """A model to which requests can be sent. Instances are shared by all agents of a kernel."""

    @property
    def info(self) -> ModelInfo:
        """The properties of the model."""

    @property
    def wire(self) -> Wire:
        """The wire format of the model's requests."""

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[Chunk]]:
        """Send the request; the chunks end with ``Done``.

        Raises:
            ModelError: The request failed, on entering the context manager or while iterating. A
                stream that ends without ``Done`` is broken.
        """


# Keep-alives without content extend the limit for silence up to this factor, because some providers
# queue a request for minutes.
MAX_STRETCH = 4
# Maximum length of a response: characters per token of the model's limit, and characters in total.
CHARACTERS_PER_TOKEN = 8
MAX_CHARACTERS = 4 << 20


def longest_answer(info: ModelInfo) -> int:
    """Return the number of characters after which a response counts as endless.

    Reasoning and the arguments of calls count as well.
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
    """Send a request and read the response to its end, within limits for time and size.

    Args:
        model: The model.
        request: The request.
        silence: Seconds without content after which the model counts as silent.
        longest: Maximum number of seconds for the complete response.
        show: Called with each chunk that has content as it arrives.

    Raises:
        ModelError: The model failed, was silent or too slow, or its response never ended or broke
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
                if isinstance(chunk, KeepAlive):
                    patience.deadline = min(now + silence, content_at + MAX_STRETCH * silence, end)
                    continue
                text = chunk.arguments if isinstance(chunk, CallChunk) else chunk.text
                size += len(text)
                if size > limit:
                    message = f"{name} exceeded {limit:,} characters without ending its answer."
                    hint = "Try again, set a smaller max_output, or choose another model."
                    raise ModelError(message, kind="runaway", hint=hint)
                # Whitespace alone is not progress, because some models write it endlessly.
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
    """Ask a model a question outside an agent's conversation.

    The usage counts towards the agent's run.

    Args:
        agent: The agent on whose behalf the model is asked.
        name: The model, ``provider/name`` or a role.
        instructions: The system prompt, whose first line states the purpose. Recordings of sessions
            identify the request by this line.
        question: The question.
        purpose: The purpose as the log states it.

    Returns:
        The complete response.

    Raises:
        HilumError: The model does not exist or did not respond, or a budget is reached.
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
    call = ModelCall(
        model=model.info.name,
        input=estimate(body),
        max_output=model.info.max_output,
        price=model.info.price,
        plugin=current_plugin(),
        purpose=purpose,
    )
    async with admit_model_call(agent, call):
        began = trio.current_time()
        try:
            done = await read_answer(
                model,
                request,
                silence=session.options.silence,
                longest=session.options.answer_timeout,
            )
        except ModelError as error:
            call.failed = error.kind
            raise
        usage = add_cost(done.usage, model.info)
        call.usage = usage
        answer = done.message
        if not answer.model:
            answer = replace(answer, model=model.info.name)
        # No tools are offered here, so even the name of a call is free text written by the model.
        loggable = await session.redaction.loggable(answer)
        agent.emit(
            ModelUsed(
                model=model.info.name,
                purpose=purpose,
                asked=instructions.partition("\n")[0],
                message=loggable,
                usage=usage,
                seconds=trio.current_time() - began,
                plugin=call.plugin,
                price=model.info.price,
            )
        )
    return answer


def add_cost(usage: Usage, info: ModelInfo) -> Usage:
    """Return the usage with its cost, if it can be calculated; numbers that cannot be right are 0.

    A cost that the provider reports takes precedence, because prices only allow an estimate.
    """
    usage = check_usage(usage)
    if usage.cost is None and info.price is not None:
        return replace(usage, cost=info.price.cost(usage))
    return usage


@runtime_checkable
class Provider(Protocol):
    """A source of models: the part before the slash in ``provider/name``."""

    @property
    def name(self) -> str:
        """The part before the slash."""

    def model(self, name: str) -> Model:
        """Return the model with the given name (the part after the slash).

        Raises:
            UsageError: The model does not exist or cannot currently be used (no key). The hint
                states the next step.
        """

    async def suggest(self) -> str | None:
        """Return the model to use if the user did not name one.

        ``None`` means that this provider cannot be used right now.

        Raises:
            HilumError: The user has configured the provider, but it cannot be used. The message
                states the reason.
        """

    async def names(self) -> list[str]:
        """Return the names of known models, best first; the list may be incomplete."""


def json_body(head: bytes, pieces: Sequence[bytes], tail: bytes = b"]}") -> bytes:
    """Join the non-empty pieces into the JSON list that the head has opened."""
    return b"".join((head, b",".join(piece for piece in pieces if piece), tail))
