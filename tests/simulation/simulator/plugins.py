"""Two plugins that fail when the scenario says so: ``sentry`` guards every call, ``faulty`` has all
other hooks.

A third one, ``redactor``, knows a secret.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from types import ModuleType
from typing import Any

import trio
from hilum import (
    Agent,
    AssistantMessage,
    Block,
    Compaction,
    Layer,
    Message,
    Session,
    Tool,
    ToolCall,
    ToolResult,
    Verdict,
    allow,
    ask,
    deny,
    hookimpl,
)
from hilum.testing import plugin

from simulator.invariants import Checker
from simulator.scenario import HIDDEN, SECRET, PluginFault, Scenario

FAULTS = ("raise", "exit", "group", "generator", "hang", "wrong")
HOOKS = (
    "gather_context",
    "build_prompt_layer",
    "trim_context",
    "check_result",
    "remind",
    "check_answer",
    "interpret_prompt",
)
OPENING = ("raise", "exit", "group", "deferred_tools", "nothing", "crash")
FORBIDDEN, QUESTION = "forbidden", "question"


class Wrong:
    """What a hook returns that returns nonsense. Its description is the same in every process."""

    def __repr__(self) -> str:
        return "Wrong()"


class Trouble:
    """Makes the calls of one plugin's hooks go wrong, as the scenario says.

    Counts start anew with each life.
    """

    def __init__(self, scenario: Scenario, name: str) -> None:
        self._faults: dict[tuple[str, int], PluginFault] = {}
        for fault in scenario.faults:
            if fault.plugin == name:
                self._faults[fault.hook, fault.number] = fault
        self._counts: Counter[str] = Counter()

    def next(self, hook: str) -> str:
        """Return what goes wrong with this call of a hook, empty for nothing."""
        self._counts[hook] += 1
        fault = self._faults.get((hook, self._counts[hook]))
        return fault.how if fault is not None else ""

    async def strike(self, hook: str) -> bool:
        """Let this call of a hook go wrong, if it is to.

        Returns whether the hook must return nonsense.
        """
        how = self.next(hook)
        match how:
            case "raise":
                raise ValueError(f"{hook} went wrong")
            case "exit":
                raise SystemExit(3)
            case "generator":
                raise GeneratorExit
            case "group":
                raise BaseExceptionGroup("several", [ValueError("one"), SystemExit(4)])
            case "hang":
                await trio.sleep_forever()
        return how == "wrong"


def fault_names(scenario: Scenario) -> set[str]:
    """Return the plugins that fail in a scenario."""
    return {fault.plugin for fault in scenario.faults}


async def _crash(seconds: float) -> None:
    await trio.sleep(seconds)
    raise ValueError("the lifespan crashed")


def _opening(trouble: Trouble) -> str:
    return trouble.next("open_session")


async def _open(how: str) -> None:
    """Take some time to open, and fail if it is to be."""
    await trio.sleep(0.01)
    match how:
        case "raise":
            raise ValueError("it cannot be opened")
        case "exit":
            raise SystemExit(5)
        case "group":
            raise BaseExceptionGroup("several", [ValueError("one"), SystemExit(6)])
        case "late":
            await trio.sleep(100)


class Sentry:
    """Judges every call and tells the checker."""

    def __init__(self, checker: Checker, trouble: Trouble) -> None:
        self._checker = checker
        self._trouble = trouble

    @hookimpl
    async def on_tool_call(self, agent: Agent, call: ToolCall, tool: Tool) -> Verdict | None:
        """Deny what is forbidden, ask about what is a question, allow everything else."""
        if await self._trouble.strike("on_tool_call"):
            return Wrong()  # type: ignore[return-value]
        await trio.sleep(0.001)
        if FORBIDDEN in call.arguments:
            verdict = deny("It is forbidden.")
        elif QUESTION in call.arguments:
            verdict = ask("It is questionable.", scope=f"{call.name} questions")
        else:
            verdict = allow()
        self._checker.judged(agent, call, verdict.kind)
        return verdict


def sentry_plugin(scenario: Scenario, checker: Checker) -> ModuleType:
    """Create the plugin that guards every call, by a hook on what its lifespan yields."""
    trouble = Trouble(scenario, "sentry")

    async def open_session(session: Session) -> AsyncIterator[Sentry | None]:
        how = _opening(trouble)
        await _open(how)
        async with trio.open_nursery() as nursery:
            if how == "crash":
                nursery.start_soon(_crash, 1.0)
            checker.plugin_opened("sentry")
            try:
                yield None if how == "nothing" else Sentry(checker, trouble)
                await trio.sleep(0.01)
            finally:
                checker.plugin_closed("sentry")
            nursery.cancel_scope.cancel()

    module = plugin("sentry", open_session=open_session)
    module.gates = ("on_tool_call",)  # type: ignore[attr-defined]
    return module


class Faulty:
    """Has every hook that is no gate of calls."""

    def __init__(self, trouble: Trouble) -> None:
        self._trouble = trouble

    @hookimpl
    async def gather_context(self, agent: Agent) -> Sequence[Block] | None:
        """Return a block of context."""
        if await self._trouble.strike("gather_context"):
            return Wrong()  # type: ignore[return-value]
        return [Block("weather", "It is raining.")]

    @hookimpl
    async def build_prompt_layer(self, agent: Agent) -> Layer | None:
        """Return a layer."""
        if await self._trouble.strike("build_prompt_layer"):
            return Wrong()  # type: ignore[return-value]
        return Layer(60, "faulty", "Be faulty.")

    @hookimpl(tryfirst=True)
    async def trim_context(self, agent: Agent, messages: Sequence[Message]) -> Compaction | None:
        """Leave it to others."""
        if await self._trouble.strike("trim_context"):
            return Wrong()  # type: ignore[return-value]
        return None

    @hookimpl
    async def check_result(self, agent: Agent, result: ToolResult) -> ToolResult | None:
        """Leave the result as it is."""
        if await self._trouble.strike("check_result"):
            return Wrong()  # type: ignore[return-value]
        await trio.lowlevel.checkpoint()
        return None

    @hookimpl
    async def remind(self, agent: Agent, results: Sequence[ToolResult]) -> str | None:
        """Remind of the number of results."""
        if await self._trouble.strike("remind"):
            return Wrong()  # type: ignore[return-value]
        return f"There were {len(results)} results." if len(results) > 2 else None

    @hookimpl
    async def check_answer(self, agent: Agent, message: AssistantMessage) -> str | None:
        """Let every answer pass that is not wrong."""
        if await self._trouble.strike("check_answer"):
            return Wrong()  # type: ignore[return-value]
        return "That is wrong." if message.text.startswith("wrong") else None

    @hookimpl
    async def interpret_prompt(self, text: str) -> None:
        """Leave every prompt as it is."""
        if await self._trouble.strike("interpret_prompt"):
            return Wrong()  # type: ignore[return-value]
        return None


def faulty_plugin(scenario: Scenario, checker: Checker) -> ModuleType:
    """Create the plugin with all hooks that do not guard calls."""
    trouble = Trouble(scenario, "faulty")

    async def open_session(session: Session) -> AsyncIterator[Any]:
        how = _opening(trouble)
        await _open(how)
        async with trio.open_nursery() as nursery:
            if how == "crash":
                nursery.start_soon(_crash, 2.0)
            checker.plugin_opened("faulty")
            try:
                yield None if how == "nothing" else Faulty(trouble)
                await trio.sleep(0.01)
            finally:
                checker.plugin_closed("faulty")
            nursery.cancel_scope.cancel()

    module = plugin("faulty", open_session=open_session)
    module.gates = ("check_answer",)  # type: ignore[attr-defined]
    return module


def redactor_plugin() -> ModuleType:
    """Create the plugin that knows the secret, in the spellings of a text, of JSON, and of JSON in
    JSON.
    """
    spellings = [SECRET]
    for _ in range(2):
        spellings += [
            json.dumps(spellings[-1])[1:-1],
            json.dumps(spellings[-1], ensure_ascii=False)[1:-1],
        ]

    def redact_texts(texts: Sequence[str]) -> list[str]:
        found = []
        for text in texts:
            for spelling in reversed(spellings):
                text = text.replace(spelling, HIDDEN)
            found.append(text)
        return found

    return plugin("redactor", redact_texts=hookimpl(redact_texts))
