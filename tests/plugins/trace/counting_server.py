"""A scripted provider that counts tokens itself, over HTTP: the truth that a bill is compared with."""

import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import hilum
import hilum_models
from hilum import Layer, hookimpl, tool
from hilum.messages import AssistantMessage, Text, ToolCall, Usage
from hilum.testing import plugin
from hilum_replay import Answer, Fault, WireRequest, serve

MODEL = "lab/model"
PRICE = {"input": 3.0, "output": 15.0, "cached": 0.3, "cache_write": 3.75}
PROMPT = "Look at everything."
SUBTASK = "Subtask: look around."


class CountingProvider:
    """Answers requests at random, and counts their tokens in its own way.

    Attributes:
        counted: The sum of what was counted, with the cost.
        answered: Number of requests that were answered.
        summaries: Number of requests for a summary.
        subtasks: Number of requests of sub-agents.
    """

    def __init__(self, turns: int, seed: int = 0, subtasks: float = 0.03) -> None:
        self.turns = turns
        self.counted = Usage(cost=0.0)
        self.answered = 0
        self.summaries = 0
        self.subtasks = 0
        self._random = random.Random(seed)
        self._share_of_subtasks = subtasks
        self._earlier: list[bytes] = []

    def answer(self, request: WireRequest) -> Answer:
        """Return an answer with the usage that is charged for it."""
        self.answered += 1
        message = self._message(json.loads(request.body))
        usage = self._count(request.body, message)
        self.counted += usage
        return Answer(message, hilum.Usage(*usage_counts(usage)))

    def _message(self, body: dict) -> AssistantMessage:
        if not body.get("tools"):
            self.summaries += 1
            return AssistantMessage((Text("The summary. " * 40, "model"),))
        number = self.answered
        # The request of the main agent is kept in its conversation whatever is compacted.
        if PROMPT not in json.dumps(body["messages"]):
            self.subtasks += 1
            if self._random.random() < 0.2:
                return AssistantMessage((Text("Looked around.", "model"),))
        elif number >= self.turns:
            return AssistantMessage((Text("All done.", "model"),))
        elif self._random.random() < self._share_of_subtasks:
            arguments = {"description": "look around", "prompt": SUBTASK}
            return calls(ToolCall(f"c{number}", "task", json.dumps(arguments)))
        size = self._random.choice([10, 200, 800])
        return calls(ToolCall(f"c{number}", "look", json.dumps({"n": number, "size": size})))

    def _count(self, body: bytes, message: AssistantMessage) -> Usage:
        """Count the tokens of a request, of which the provider has cached the longest prefix."""
        prefixes = [common_prefix(body, each) for each in self._earlier]
        self._earlier = [*self._earlier[-8:], body]
        whole = len(body) * 2 // 7
        cached = max(prefixes, default=0) * 2 // 7 // 128 * 128
        written = (whole - cached) // 2
        output = len(str(message.parts)) // 5 + 3
        cost = (
            (whole - cached - written) * PRICE["input"]
            + cached * PRICE["cached"]
            + written * PRICE["cache_write"]
            + output * PRICE["output"]
        ) / 1e6
        return Usage(whole, cached, written, output, cost=cost)


def common_prefix(one: bytes, two: bytes) -> int:
    """Return the length of the common prefix, found by halving."""
    low = 0
    high = min(len(one), len(two))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == two[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def calls(*parts: ToolCall) -> AssistantMessage:
    """Return an answer with calls."""
    return AssistantMessage((Text("Let me look.", "model"), *parts), stop="calls")


def usage_counts(usage: Usage) -> tuple[int, int, int, int]:
    """Return the counts of a usage."""
    return usage.input, usage.cached, usage.cache_write, usage.output


@tool(risk="read", effect="once")
async def look(n: int, size: int = 10) -> str:
    """Look at something."""
    return f"{n} " + "seen " * size


def greedy_plugin():
    """A plugin that adds a large layer and a note to every prompt."""

    class Greedy:
        @hookimpl
        def build_prompt_layer(self):
            return Layer(60, "greedy", "Remember this very important rule. " * 2_000)

        @hookimpl
        async def remind(self):
            return "Do not forget the rule. " * 40

    return plugin("greedy", open_session=lambda session: Greedy())


@asynccontextmanager
async def counted_session(
    provider: CountingProvider,
    *plugins: object,
    faults: dict[int, Fault] | None = None,
    window: int = 24_000,
    store: object = None,
    **settings: object,
) -> AsyncIterator[hilum.Session]:
    """Open a session whose model is a provider over HTTP, in Anthropic's format."""
    given = faults or {}
    async with serve(provider.answer, faults=given.get, keep=0) as server:
        wanted = {
            "model": MODEL,
            "models.providers": {"lab": {"base_url": server.url, "api": "anthropic"}},
            "models.models": {MODEL: {"window": window, "max_output": 2_000, "price": PRICE}},
            "turns": 100_000,
            **settings,
        }
        async with (
            hilum.open_kernel(
                [hilum_models, plugin("looking", look), "agents", "scheduler", "memory", *plugins],
                settings=wanted,
                store=store,
            ) as kernel,
            kernel.open_session(approve="auto") as session,
        ):
            yield session
        assert not server.failures
