"""Models that need no network. One plays a script, one echoes prompts, and one fails randomly."""

from __future__ import annotations

import inspect
import random
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

import msgspec
import trio
from msgspec.structs import replace

from hilum.arguments import safe_answer
from hilum.context import estimate
from hilum.errors import ModelError, unknown_name_error
from hilum.messages import (
    AssistantMessage,
    Layer,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolSpec,
    Usage,
    UserMessage,
)
from hilum.models import (
    CallChunk,
    Chunk,
    Done,
    KeepAlive,
    Model,
    ModelInfo,
    Price,
    Provider,
    Request,
    TextChunk,
    ThinkingChunk,
    Wire,
    json_body,
)
from hilum.testing.script import Answer, Cut, Pause, Scripted, answer, say

_encoder = msgspec.json.Encoder()


class JsonWire:
    """A wire format that encodes requests as hilum's own JSON. Implements ``Wire``."""

    key = "json"

    def head(self, layers: Sequence[Layer], tools: Sequence[ToolSpec]) -> bytes:
        """Encode the layers and tools."""
        return _encoder.encode({"layers": layers, "tools": tools})[:-1] + b',"messages":['

    def message(self, message: Message) -> bytes:
        """Encode one message."""
        return _encoder.encode(message)

    def body(self, head: bytes, pieces: Sequence[bytes]) -> bytes:
        """Join the head and the pieces into a JSON object."""
        return json_body(head, pieces)


class ScriptedModel:
    """A model that plays scripted responses in order, regardless of the requests.

    Implements ``Model``.

    A scripted response is a text, a part, a list of parts, an exception, or a plain or async
    function that takes the request and returns one of these. See ``say``, ``use``, ``pause`` and
    ``cut``.

    Args:
        answers: The scripted responses.
        name: ``provider/name``.
        window: Context window in tokens.
        max_output: Maximum number of tokens in a response.
        price: The model's price.
        pace: Seconds on trio's clock between two words; 0 sends each part as one piece.
        images: Whether the model accepts images.

    Attributes:
        requests: The requests that the model received, oldest first.
    """

    def __init__(
        self,
        answers: Iterable[Scripted] = (),
        *,
        name: str = "scripted/model",
        window: int = 128_000,
        max_output: int = 8_192,
        price: Price | None = None,
        pace: float = 0.0,
        images: bool = False,
    ) -> None:
        self.requests: list[Request] = []
        self._answers = list(answers)
        self._info = ModelInfo(name, window, max_output, price, images)
        self._wire = JsonWire()
        self._pace = pace
        self._calls = 0
        self._news = trio.Event()

    @property
    def info(self) -> ModelInfo:
        """The properties of the model."""
        return self._info

    @property
    def wire(self) -> Wire:
        """A wire format with plain JSON."""
        return self._wire

    @property
    def left(self) -> int:
        """The number of scripted responses that have not been played yet."""
        return len(self._answers)

    def then(self, *answers: Scripted) -> None:
        """Add responses to the end of the script."""
        self._answers += answers

    def next(self, *answers: Scripted) -> None:
        """Insert responses before all remaining ones."""
        self._answers[:0] = answers

    async def asked(self, count: int = 1) -> Request:
        """Wait until the model has received ``count`` requests in total; return the last one."""
        while len(self.requests) < count:
            await self._news.wait()
        return self.requests[count - 1]

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Chunk]]:
        """Play the next response.

        Raises:
            ModelError: The scripted response is an exception, or the script has ended.
        """
        # The messages are copied, because the kernel will append to its list.
        request = replace(request, messages=tuple(request.messages))
        self.requests.append(request)
        self._news.set()
        self._news = trio.Event()
        async with aclosing(self._play(await self.answer(request), request)) as chunks:
            yield chunks

    async def answer(self, request: Request) -> Answer:
        """Remove the script's next response, and return it.

        Raises:
            ModelError: The script has no response left.
        """
        if not self._answers:
            message = (
                f"The script of {self._info.name} has ended: request {len(self.requests)} has"
                " no answer."
            )
            raise ModelError(message, kind="request", hint="Give the bench one more answer.")
        scripted = self._answers.pop(0)
        while callable(scripted):
            given = scripted(request)
            scripted = await given if inspect.isawaitable(given) else given
        return answer(scripted)

    async def _play(self, answer: Answer, request: Request) -> AsyncGenerator[Chunk, None]:
        parts: list[Text | Thinking | ToolCall] = []
        for part in answer.parts:
            match part:
                case Pause():
                    await part.wait()
                case Cut():
                    return
                case Exception():
                    raise part
                case KeepAlive():
                    yield part
                case Text() | Thinking() | ToolCall():
                    if isinstance(part, ToolCall) and not part.id:
                        part = replace(part, id=self._identity(request))
                    parts.append(part)
                    for number, chunk in enumerate(_chunks(part, bool(self._pace))):
                        if number and self._pace:
                            await trio.sleep(self._pace)
                        yield chunk
        has_calls = any(isinstance(part, ToolCall) for part in parts)
        stop = answer.stop or ("calls" if has_calls else "end")
        message = AssistantMessage(tuple(parts), stop=stop)
        # The response may contain text that cannot be encoded.
        encoded = _encoder.encode(safe_answer(message))
        usage = Usage(input=estimate(request.body), output=estimate(encoded))
        yield Done(message, answer.usage or usage)

    def _identity(self, request: Request) -> str:
        """Return an id that no call in the conversation has.

        The calls of the conversation include those from before a resume.
        """
        said = sum(
            len(message.calls)
            for message in request.messages
            if isinstance(message, AssistantMessage)
        )
        self._calls = max(self._calls, said) + 1
        return f"call-{self._calls}"


def _chunks(part: Text | Thinking | ToolCall, words: bool) -> Iterator[Chunk]:
    text = part.arguments if isinstance(part, ToolCall) else part.text
    for number, piece in enumerate(_words(text) if words else [text]):
        match part:
            case ToolCall():
                yield CallChunk(part.id, "" if number else part.name, piece)
            case Thinking():
                yield ThinkingChunk(piece)
            case Text():
                yield TextChunk(piece)


def _words(text: str) -> list[str]:
    pieces = text.split(" ")
    return [f"{piece} " for piece in pieces[:-1]] + pieces[-1:]


class EchoModel(ScriptedModel):
    """A model that responds with the user's text or, after calls, with the results of the calls.

    If a prompt has the form ``tool {"argument": 1}`` and there is such a tool, the model calls it.
    """

    async def answer(self, request: Request) -> Answer:
        """Create the response from the last message."""
        last = request.messages[-1]
        if isinstance(last, ToolMessage):
            return say("\n".join(result.text for result in last.results))
        text = ""
        for message in request.messages:
            if isinstance(message, UserMessage):
                texts = [part.text for part in message.parts if isinstance(part, Text)]
                text = texts[0] if texts else ""
        name, _, arguments = text.partition(" ")
        if name in {tool.name for tool in request.tools} and arguments.startswith("{"):
            return Answer((ToolCall("", name, arguments),))
        return say(text)


class ChaosModel:
    """A model that forwards requests to another model, and makes some fail in a reproducible way.

    Implements ``Model``.

    Args:
        model: The model that receives the requests.
        seed: The seed for the random numbers.
        error: Probability that a request is refused with a temporary error (5xx, rate limit, no
            connection).
        cut: Probability that the stream breaks off early.
        bad_json: Probability that the arguments of the calls are damaged.
        silence: Probability that no chunk ever arrives.

    Attributes:
        log: The kind of failure for each request: ``""`` or the name of one of the arguments above.
    """

    def __init__(
        self,
        model: Model,
        seed: int = 0,
        *,
        error: float = 0.1,
        cut: float = 0.1,
        bad_json: float = 0.1,
        silence: float = 0.0,
    ) -> None:
        self.model = model
        self.log: list[str] = []
        self._random = random.Random(seed)
        self._odds = {"error": error, "cut": cut, "bad_json": bad_json, "silence": silence}

    @property
    def info(self) -> ModelInfo:
        """Properties of the underlying model."""
        return self.model.info

    @property
    def wire(self) -> Wire:
        """Wire format of the underlying model."""
        return self.model.wire

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Chunk]]:
        """Forward the request, or fail randomly.

        Raises:
            ModelError: The request was chosen to fail.
        """
        rolled = [(kind, self._random.random() < odds) for kind, odds in self._odds.items()]
        what = next((kind for kind, hit in rolled if hit), "")
        self.log.append(what)
        if what == "error":
            kind = self._random.choice(("server", "rate_limit", "connect"))
            raise ModelError(
                f"Chaos: {kind}.", kind=kind, retry_after=1.0 if kind == "rate_limit" else None
            )
        if what == "silence":
            await trio.sleep_forever()
        async with (
            self.model.stream(request) as chunks,
            aclosing(self._spoil(chunks, what)) as spoilt,
        ):
            yield spoilt

    async def _spoil(self, chunks: AsyncIterator[Chunk], what: str) -> AsyncGenerator[Chunk, None]:
        async for chunk in chunks:
            if isinstance(chunk, Done) and what == "cut":
                return
            if isinstance(chunk, Done) and what == "bad_json":
                parts = tuple(map(_damage, chunk.message.parts))
                chunk = replace(chunk, message=replace(chunk.message, parts=parts))
            yield chunk


def _damage(part: Text | Thinking | ToolCall) -> Text | Thinking | ToolCall:
    """Return a part of a response; if it is a call, its arguments lack their last character."""
    if isinstance(part, ToolCall):
        return replace(part, arguments=part.arguments[:-1])
    return part


class ModelProvider:
    """A provider of models by name. Implements ``hilum.models.Provider``.

    Args:
        models: The models, by the part of their names after the slash.
        name: The part before the slash.
    """

    def __init__(self, models: Mapping[str, Model], name: str = "scripted") -> None:
        self._models = dict(models)
        self._name = name

    @property
    def name(self) -> str:
        """The part before the slash."""
        return self._name

    def model(self, name: str) -> Model:
        """Return the model with the given name.

        Raises:
            UsageError: There is no model with this name.
        """
        if name not in self._models:
            raise unknown_name_error(
                "model", f"{self._name}/{name}", (f"{self._name}/{known}" for known in self._models)
            )
        return self._models[name]

    async def suggest(self) -> str | None:
        """Return the name of the first model."""
        return next(iter(self._models), None)

    async def names(self) -> list[str]:
        """Return the names of all models."""
        return list(self._models)


if TYPE_CHECKING:  # lets a type checker compare these with the kernel's protocols
    _models: tuple[Model, ...] = (ScriptedModel(), EchoModel(), ChaosModel(EchoModel()))
    _provider: Provider = ModelProvider({})
