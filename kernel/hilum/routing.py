"""Which model answers, and what happens when it fails. Retries are made here and nowhere else (requirement M3).

One call of ``attempt`` is one request. What follows a failure is decided from the failures in the log, so that a resume goes on
where the process died.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from hilum_hooks import FAULTS

from hilum.errors import HilumError, ModelError, UsageError, unknown
from hilum.events import ModelAnswered, ModelFailed, ModelStarted
from hilum.messages import AssistantMessage, ToolCall
from hilum.models import CallChunk, Done, Model, Provider, Request, TextChunk, ThinkingChunk
from hilum.prompt import pieces, request

if TYPE_CHECKING:
    from hilum.agents import Agent

# Retries by kind of failure, and the wait before each: the first, doubled each time.
RETRIES = {"timeout": (1, 2.0), "rate_limit": (1, 30.0), "server": (3, 0.5), "broken": (3, 0.5), "connect": (3, 0.5)}
LONGEST_WAIT = 120.0


class Router(msgspec.Struct, eq=False):
    """Finds models by ``provider/name`` or by role.

    Args:
        roles: Role to model name; ``default`` is the session's model.
        fallback: Models to go on with when one is out of reach.
        providers: Where models come from, by name.
    """

    roles: dict[str, str]
    fallback: Sequence[str]
    providers: dict[str, Provider] = msgspec.field(default_factory=dict)
    _models: dict[str, Model] = msgspec.field(default_factory=dict)

    def add(self, provider: Provider) -> None:
        """Add a provider; of two with one name the first counts."""
        self.providers.setdefault(provider.name, provider)

    def replace(self, provider: Provider) -> None:
        """Add a provider in the place of one with its name."""
        self.providers[provider.name] = provider
        self._models.clear()

    def resolve(self, name: str) -> str:
        """Give the model name a role stands for; any other name as it is. ``fast`` and ``summarize`` fall back to default."""
        if name in self.roles:
            return self.roles[name]
        return self.roles.get("default", "") if name in ("", "default", "fast", "summarize") else name

    def model(self, name: str) -> Model:
        """Find a model.

        Raises:
            UsageError: The name has no provider in front, or nobody provides it.
        """
        name = self.resolve(name)
        if name not in self._models:
            provider, slash, rest = name.partition("/")
            if not slash or not rest:
                hint = f"Try {' or '.join(f'{p}/{name}' for p in list(self.providers)[:3])}." if self.providers else ""
                raise UsageError(f"A model is named provider/name, and {name!r} is not.", hint=hint)
            if provider not in self.providers:
                raise unknown("provider of models", provider, self.providers, hint="Install a plugin that provides it.")
            try:
                self._models[name] = self.providers[provider].model(rest)
            except HilumError:
                raise
            except FAULTS as error:
                text = f"The provider {provider} failed: {type(error).__name__}: {error}."
                raise UsageError(text, code="E_PLUGIN", hint="Choose another model.") from error
        return self._models[name]

    async def default(self) -> str:
        """Name the model to use: the configured one, else what a provider suggests.

        Raises:
            UsageError: ``"E_NO_MODEL"``; the hint lists the ways to get one.
        """
        if name := self.resolve("default"):
            return name
        trouble = []
        for provider in self.providers.values():
            try:
                suggested = await provider.suggest()
            except FAULTS as error:
                trouble.append(f"{provider.name}: {error.message if isinstance(error, HilumError) else repr(error)}")
                continue
            if suggested:
                self.roles["default"] = f"{provider.name}/{suggested}"
                return self.roles["default"]
        raise UsageError(" ".join(["There is no model to work with.", *trouble]), code="E_NO_MODEL", hint=NO_MODEL)

    async def ready(self, agent: Agent) -> None:
        """See that the agent has a model that can be asked.

        Raises:
            UsageError: It has not; the hint says what to do.
        """
        if not self.resolve(agent.model):
            await self.default()
        self.model(agent.model)

    def current(self, agent: Agent) -> str:
        """Name the model to ask next: the one the run has come to, else the agent's."""
        run = agent.conversation.run
        return (run and run.model) or self.chain(agent)[0]

    def chain(self, agent: Agent) -> list[str]:
        """The agent's model and what it may fall back to."""
        first = self.resolve(agent.model)
        return [first, *(name for name in map(self.resolve, self.fallback) if name != first)]


NO_MODEL = """There are three ways to get one:
  1. a key of a provider: export OPENAI_API_KEY=… (or ANTHROPIC_API_KEY, GEMINI_API_KEY, OPENROUTER_API_KEY …)
  2. a model on this machine: start Ollama, LM Studio, llama.cpp or vLLM on its usual port; hilum finds it
  3. any server that speaks a known format: export OPENAI_BASE_URL=… and name it: --model openai/NAME
To see hilum at work without a model: hilum demo"""


async def attempt(agent: Agent) -> ModelFailed | None:
    """Ask the model once; log the whole answer, or the failure and what follows from it.

    Returns:
        The failure as logged, ``None`` when the model answered.
    """
    run, router = agent.run, agent.session.kernel.router
    name, number, began = router.current(agent), run.attempt + 1, trio.current_time()
    try:
        model = router.model(name)
        sent, size = request(agent, model, number), pieces(agent, model).total
        expected = agent.conversation.gauge(name).total(size)
        seq = agent.emit(ModelStarted(attempt=number, model=name, turn=run.turn + 1, estimate=expected, size=size))
        done, first = await _listen(agent, model, sent, seq)
    except FAULTS as error:
        return _failed(agent, error, name, number)
    usage = done.usage
    if usage.cost is None and model.info.price is not None:
        usage = msgspec.structs.replace(usage, cost=model.info.price.cost(usage))
    message, seconds = _tidy(done.message, name), trio.current_time() - began
    agent.emit(ModelAnswered(message=message, usage=usage, first=first, seconds=seconds))
    return None


async def _listen(agent: Agent, model: Model, request: Request, seq: int) -> tuple[Done, float]:
    """Read the stream to its end, showing what comes. Silence longer than the limit ends it."""
    session, silence = agent.session, agent.session.options.silence
    began, first = trio.current_time(), 0.0
    with trio.move_on_after(silence) as patience:
        async with model.stream(request) as chunks:
            async for chunk in chunks:
                patience.deadline = trio.current_time() + silence
                if isinstance(chunk, Done):
                    return chunk, first
                first = first or trio.current_time() - began
                match chunk:
                    case TextChunk(text):
                        session.delta(seq, agent, "text", text)
                    case ThinkingChunk(text):
                        session.delta(seq, agent, "thinking", text)
                    case CallChunk(call_id, _, arguments):
                        session.delta(seq, agent, "arguments", arguments, call_id)
    if patience.cancelled_caught:
        hint = "Check the network and the provider's status."
        raise ModelError(f"{model.info.name} sent nothing for {silence:g} seconds.", kind="timeout", hint=hint)
    raise ModelError(f"The stream of {model.info.name} broke off before the answer was complete.", kind="broken")


def _failed(agent: Agent, error: BaseException, name: str, number: int) -> ModelFailed:
    """Log a failure and what follows from it. What no gateway foresaw is not tried again."""
    if not isinstance(error, HilumError):
        error = ModelError(f"The gateway of {name} failed: {type(error).__name__}: {error}.", kind="gateway")
    kind = error.kind if isinstance(error, ModelError) else "request"
    failed = ModelFailed(
        attempt=number, model=name, kind=kind, code=error.code, message=error.message, hint=error.hint,
        **_decide(agent, kind, getattr(error, "retry_after", None), name),
    )  # fmt: skip
    agent.emit(failed)
    return failed


def _decide(agent: Agent, kind: str, asked: float | None, name: str) -> dict[str, Any]:
    """Decide what follows a failure.

    Args:
        agent: Whose request failed.
        kind: How, see ``ModelError``.
        asked: Seconds the provider asks to wait, if it does.
        name: The model that failed.

    Returns:
        ``action``, and where it needs them ``wait`` and ``next``, of ``ModelFailed``.
    """
    before = agent.run.failures.get(kind, 0)
    if kind == "too_long" and not before:
        return {"action": "trim"}
    if kind in RETRIES:
        most, first = RETRIES[kind]
        wait = first * 2**before if asked is None else asked
        if before < most and wait <= LONGEST_WAIT:
            return {"action": "retry", "wait": wait}
        chain = agent.session.kernel.router.chain(agent)
        if name in chain[:-1]:
            return {"action": "fallback", "next": chain[chain.index(name) + 1]}
    return {"action": "give_up"}


def _tidy(message: AssistantMessage, name: str) -> AssistantMessage:
    """Name the model, and give calls ids that are unique in the answer (some servers repeat or omit them)."""
    parts, seen = list(message.parts), set()
    for index, part in enumerate(parts):
        if isinstance(part, ToolCall):
            identity = part.id if part.id and part.id not in seen else f"{part.id or 'call'}-{index}"
            seen.add(identity)
            parts[index] = msgspec.structs.replace(part, id=identity)
    return msgspec.structs.replace(message, parts=tuple(parts), model=name)
