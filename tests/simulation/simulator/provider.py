"""The model: it says what the scenario says, over a real wire format, and its stream breaks as the
scenario wants.
"""

from __future__ import annotations

import random
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import msgspec
import trio
from hilum.errors import ModelError, UsageError
from hilum.messages import AssistantMessage, Text, Thinking, ToolCall, UserMessage
from hilum.messages import Usage as TokenUsage
from hilum.models import CallChunk, Chunk, Done, ModelInfo, Request, TextChunk, ThinkingChunk, Wire
from hilum_models.anthropic import AnthropicWire
from hilum_models.encode import Target
from hilum_models.gemini import GeminiWire
from hilum_models.openai_chat import ChatWire
from hilum_models.openai_responses import ResponsesWire

from simulator.invariants import Checker
from simulator.scenario import Answer, Scenario

WIRES: dict[str, Callable[[Target], Wire]] = {
    "anthropic": AnthropicWire,
    "chat": ChatWire,
    "gemini": GeminiWire,
    "responses": ResponsesWire,
}
FAULTS = (
    "server",
    "rate_limit",
    "rate_limit_long",
    "timeout",
    "connect",
    "broken",
    "silence",
    "crash",
    "too_long",
    "auth",
)
SUMMARY = "\n".join(
    f"## {name}\n- Something.\n" for name in ("Goal", "Decisions", "Files", "Facts", "Open work")
)
TASK = re.compile(r"task-number-(\d+)")


class SimulatedModel:
    """A model that answers as the scenario says.

    Implements ``hilum.models.Model``. It survives kills of the process.

    Args:
        scenario: What it says.
        checker: Who sees every request.
    """

    def __init__(self, scenario: Scenario, checker: Checker) -> None:
        self._scenario = scenario
        self._checker = checker
        self._info = ModelInfo("simulated/model", scenario.window, scenario.max_output)
        wire = WIRES.get(scenario.wire, AnthropicWire)
        self._wire = wire(Target("simulated/model", scenario.max_output))
        self._answers: dict[str, list[Answer]] = {"main": list(scenario.answers)}
        self._faults: dict[str, list[str]] = {}
        self._identities: dict[str, int] = {}
        self._chance = random.Random(f"{scenario.seed}/model")

    @property
    def info(self) -> ModelInfo:
        """Name and window."""
        return self._info

    @property
    def wire(self) -> Wire:
        """The wire format of the scenario."""
        return self._wire

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Chunk]]:
        """Answer a request, or fail."""
        request = msgspec.structs.replace(request, messages=tuple(request.messages))
        self._checker.request(request, self._wire)
        await trio.sleep(self._chance.choice((0, 0.01, 0.5)))
        if "/" in request.agent:
            async with aclosing(self._summary(request)) as chunks:
                yield chunks
            return
        if self._too_long(request):
            raise ModelError("The prompt is too long.", kind="too_long", status=400)
        answer = self._next(request)
        faults = self._faults.setdefault(request.agent, [])
        fault = faults.pop(0) if faults else ""
        await self._fail(fault)
        async with aclosing(self._play(request, answer, fault)) as chunks:
            yield chunks

    def tokens(self, request: Request) -> int:
        """Count a request with the model's own tokenizer."""
        return int(len(request.body) / self._scenario.letters_per_token)

    def _too_long(self, request: Request) -> bool:
        room = self._scenario.window - self._scenario.max_output
        return self._scenario.strict and self.tokens(request) > room

    def _next(self, request: Request) -> Answer:
        """Return the answer to a request; its faults come before it, once."""
        answers = self._answers.get(request.agent)
        if answers is None:
            answers = self._answers[request.agent] = self._of_task(request)
        if not answers:
            return Answer(text="All done.")
        answer = answers[0]
        if answer.faults:
            self._faults[request.agent] = list(answer.faults)
            answers[0] = msgspec.structs.replace(answer, faults=[])
        return answers[0]

    def _of_task(self, request: Request) -> list[Answer]:
        first = next(
            (message for message in request.messages if isinstance(message, UserMessage)), None
        )
        found = (
            TASK.search(first.parts[0].text) if first and isinstance(first.parts[0], Text) else None
        )
        number = int(found[1]) if found else -1
        tasks = self._scenario.tasks
        return list(tasks[number]) if 0 <= number < len(tasks) else []

    async def _fail(self, fault: str) -> None:
        match fault:
            case "server":
                raise ModelError("Error 500.", kind="server", status=500)
            case "rate_limit":
                raise ModelError("Error 429.", kind="rate_limit", status=429, retry_after=2.0)
            case "rate_limit_long":
                raise ModelError("Error 429.", kind="rate_limit", status=429, retry_after=1_000.0)
            case "timeout":
                raise ModelError("It took too long.", kind="timeout")
            case "connect":
                raise ModelError("There is no connection.", kind="connect")
            case "auth":
                raise ModelError("The key is wrong.", kind="auth", status=401)
            case "too_long":
                raise ModelError("The prompt is too long.", kind="too_long", status=400)
            case "crash":
                raise KeyError("gateway")
            case "silence":
                await trio.sleep_forever()

    async def _play(
        self, request: Request, answer: Answer, fault: str
    ) -> AsyncGenerator[Chunk, None]:
        parts: list[Text | Thinking | ToolCall] = []
        if answer.text:
            parts.append(Text(answer.text, "model"))
        parts += [ToolCall(self._identity(request), call.tool, call.text) for call in answer.calls]
        for part in parts:
            for chunk in _chunks(part):
                await trio.sleep(answer.pace)
                yield chunk
        if fault == "broken":
            return
        stop: Any = "calls" if answer.calls and answer.stop != "length" else answer.stop
        message = AssistantMessage(tuple(parts), stop=stop)
        answers = self._answers[request.agent]
        if answers:
            answers.pop(0)
        yield Done(message, self._usage(request, answer))

    def _usage(self, request: Request, answer: Answer) -> TokenUsage:
        output = len(answer.text) // 4 + 10 * len(answer.calls)
        if answer.usage == "none":
            return TokenUsage()
        if answer.usage == "odd":
            return TokenUsage(input=1, cached=5, output=output)
        return TokenUsage(input=self.tokens(request), cached=0, output=output)

    def _identity(self, request: Request) -> str:
        """Create the id of a call: some servers repeat ids, some leave them out."""
        number = self._identities[request.agent] = self._identities.get(request.agent, 0) + 1
        match self._scenario.identities:
            case "empty":
                return ""
            case "repeated":
                return "call_0"
        return f"call_{number}"

    async def _summary(self, request: Request) -> AsyncGenerator[Chunk, None]:
        kind = self._scenario.summaries
        if kind == "fails":
            raise ModelError("Error 500.", kind="server", status=500)
        if kind == "hangs":
            await trio.sleep_forever()
        text = {"sound": SUMMARY, "empty": "", "unsound": "No."}.get(kind, SUMMARY)
        yield TextChunk(text)
        yield Done(
            AssistantMessage((Text(text, "model"),)),
            TokenUsage(input=self.tokens(request), output=20),
        )


def _chunks(part: Text | Thinking | ToolCall) -> list[Chunk]:
    text = part.arguments if isinstance(part, ToolCall) else part.text
    middle = len(text) // 2
    pieces = [text[:middle], text[middle:]]
    if isinstance(part, ToolCall):
        return [
            CallChunk(part.id, "" if number else part.name, piece)
            for number, piece in enumerate(pieces)
        ]
    if isinstance(part, Thinking):
        return [ThinkingChunk(piece) for piece in pieces]
    return [TextChunk(piece) for piece in pieces]


class SimulatedProvider:
    """Provides the simulated model. Implements ``hilum.models.Provider``."""

    name = "simulated"

    def __init__(self, model: SimulatedModel) -> None:
        self._model = model

    def model(self, name: str) -> SimulatedModel:
        """Return the model."""
        if name != "model":
            raise UsageError(f"There is no model {name!r}.")
        return self._model

    async def suggest(self) -> str | None:
        """Return the name of the model."""
        return "model"

    async def names(self) -> list[str]:
        """Return the name of the model."""
        return ["model"]
