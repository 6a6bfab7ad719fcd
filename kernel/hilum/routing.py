"""Which model answers, and what happens when it fails.

Retries are made here and nowhere else: two layers would multiply.

One call of ``attempt`` is one request. What follows a failure is decided from the failures in the
log, so that a resume goes on where the process died.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from hilum_hooks import is_failure

from hilum.arguments import safe_answer, safe_id
from hilum.errors import HilumError, ModelError, UsageError, unknown
from hilum.events import ModelAnswered, ModelFailed, ModelStarted
from hilum.late import PAIR
from hilum.messages import AssistantMessage, ToolCall
from hilum.models import (
    CallChunk,
    Chunk,
    Done,
    Model,
    Provider,
    Request,
    TextChunk,
    ThinkingChunk,
    read_answer,
)
from hilum.prompt import pieces, request

if TYPE_CHECKING:
    from hilum.agents import Agent

# Retries by kind of failure, and the wait before each: the first, doubled each time.
RETRIES = {
    "timeout": (1, 2.0),
    "rate_limit": (1, 30.0),
    "server": (3, 0.5),
    "broken": (3, 0.5),
    "connect": (3, 0.5),
    "protocol": (1, 0.0),
    # These fail again at once, or cost as much again: only another model helps.
    "quota": (0, 0.0),
    "runaway": (0, 0.0),
    "too_slow": (0, 0.0),
}
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

    def forget(self, name: str) -> None:
        """Have the provider make a model anew when it is needed next."""
        self._models.pop(self.resolve(name), None)

    def resolve(self, name: str) -> str:
        """Return the model name a role stands for; any other name as it is.

        ``fast`` and ``summarize`` fall back to default.
        """
        if name in self.roles:
            return self.roles[name]
        if name in ("", "default", "fast", "summarize"):
            return self.roles.get("default", "")
        return name

    def model(self, name: str) -> Model:
        """Find a model.

        Raises:
            UsageError: The name has no provider in front, or nobody provides it.
        """
        name = self.resolve(name)
        if name not in self._models:
            provider, slash, rest = name.partition("/")
            if not slash or not rest:
                if self.providers:
                    hint = f"Try {' or '.join(f'{p}/{name}' for p in list(self.providers)[:3])}."
                else:
                    hint = ""
                raise UsageError(f"A model is named provider/name, and {name!r} is not.", hint=hint)
            if provider not in self.providers:
                raise unknown(
                    "provider of models",
                    provider,
                    self.providers,
                    hint="Install a plugin that provides it.",
                )
            try:
                self._models[name] = self.providers[provider].model(rest)
            except HilumError:
                raise
            except BaseException as error:
                if not is_failure(error):
                    raise
                text = f"The provider {provider} failed: {type(error).__name__}: {error}."
                raise UsageError(text, code="E_PLUGIN", hint="Choose another model.") from error
        return self._models[name]

    async def default(self) -> str:
        """Name the model to use: the configured one, else what a provider suggests.

        Raises:
            UsageError: ``"E_NO_MODEL"``; the hint lists the ways to get one.
        """
        name = self.resolve("default")
        if name:
            return name
        trouble = []
        for provider in self.providers.values():
            try:
                suggested = await provider.suggest()
            except BaseException as error:
                if not is_failure(error):
                    raise
                trouble.append(
                    f"{provider.name}:"
                    f" {error.message if isinstance(error, HilumError) else repr(error)}"
                )
                continue
            if suggested:
                self.roles["default"] = f"{provider.name}/{suggested}"
                return self.roles["default"]
        raise UsageError(
            " ".join(["There is no model to work with.", *trouble]),
            code="E_NO_MODEL",
            hint=NO_MODEL,
        )

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
    # A stop may have come together with the end of the last wait, such as that of a hook. Then no
    # request is sent.
    await trio.lowlevel.checkpoint_if_cancelled()
    run = agent.run
    router = agent.session.kernel.router
    agent.session.redaction.check()  # the answer would be withheld
    name = router.current(agent)
    number = run.attempt + 1
    began = trio.current_time()
    try:
        model = router.model(name)
        sent = request(agent, model, number)
        size = pieces(agent, model).total
        expected = agent.conversation.gauge(name).total(size)
        seq = agent.emit(
            ModelStarted(
                attempt=number, model=name, turn=run.turn + 1, estimate=expected, size=size
            )
        )
        done, first = await _listen(agent, model, sent, seq)
    except BaseException as error:
        if not is_failure(error):
            raise
        return _failed(agent, error, name, number)
    usage = done.usage
    if usage.cost is None and model.info.price is not None:
        usage = msgspec.structs.replace(usage, cost=model.info.price.cost(usage))
    seconds = trio.current_time() - began
    named = await agent.session.redaction.call_names(done.message, {*agent.session.tools, *PAIR})
    message = _tidy(named, name)
    answered = ModelAnswered(message=message, usage=usage, first=first, seconds=seconds)
    await agent.session.redaction.prepare(answered)
    agent.emit(answered)
    return None


async def _listen(agent: Agent, model: Model, request: Request, seq: int) -> tuple[Done, float]:
    """Read the answer to its end, showing what comes.

    Return it and the seconds until its first chunk.
    """
    session = agent.session
    began = trio.current_time()
    first = 0.0

    def show(chunk: Chunk) -> None:
        nonlocal first
        first = first or trio.current_time() - began
        match chunk:
            case TextChunk(text):
                session.delta(seq, agent, "text", text)
            case ThinkingChunk(text):
                session.delta(seq, agent, "thinking", text)
            case CallChunk(call_id, _, arguments):
                session.delta(
                    seq, agent, "arguments", arguments, session.redaction.call_id(safe_id(call_id))
                )

    options = session.options
    done = await read_answer(
        model, request, silence=options.silence, longest=options.answer_timeout, show=show
    )
    return done, first


def _failed(agent: Agent, error: BaseException, name: str, number: int) -> ModelFailed:
    """Log a failure and what follows from it. What no gateway foresaw is not tried again."""
    if not isinstance(error, HilumError):
        error = ModelError(
            f"The gateway of {name} failed: {type(error).__name__}: {error}.", kind="gateway"
        )
    kind = error.kind if isinstance(error, ModelError) else "request"
    asked = getattr(error, "retry_after", None)
    decision = _decide(agent, kind, asked, name)
    hints = [error.hint, decision.pop("hint", "")]
    if kind == "rate_limit" and asked is not None and asked > LONGEST_WAIT:
        hints.append(
            f"The provider asks to wait {_duration(asked)}: try again then, or choose another"
            " model."
        )
    failed = ModelFailed(
        attempt=number,
        model=name,
        kind=kind,
        code=error.code,
        message=error.message,
        hint=" ".join(filter(None, hints)),
        **decision,
    )
    agent.emit(failed)
    if kind == "protocol":
        agent.session.kernel.router.forget(name)
    return failed


def _duration(seconds: float) -> str:
    """Write a time to wait as people say it."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [(hours, "h"), (minutes, "min"), (0 if hours else rest, "s")]
    return " ".join(f"{count} {unit}" for count, unit in parts if count)


def _decide(agent: Agent, kind: str, asked: float | None, name: str) -> dict[str, Any]:
    """Decide what follows a failure.

    Args:
        agent: Whose request failed.
        kind: How, see ``ModelError``.
        asked: Seconds the provider asks to wait, if it does.
        name: The model that failed.

    Returns:
        ``action``, and where it needs them ``wait``, ``next`` and ``hint``, of ``ModelFailed``.
    """
    before = agent.run.failures.get(kind, 0)
    if kind == "too_long" and not before:
        return {"action": "trim"}
    if kind not in RETRIES:
        return {"action": "give_up"}
    most, first = RETRIES[kind]
    wait = first * 2**before if asked is None else asked
    if before < most and wait <= LONGEST_WAIT:
        return {"action": "retry", "wait": wait}
    return _fall_back(agent, name)


def _fall_back(agent: Agent, name: str) -> dict[str, Any]:
    """Find the next model of the fallback list that there is; say which are missing."""
    router = agent.session.kernel.router
    chain = router.chain(agent)
    missing = []
    for other in chain[chain.index(name) + 1 :] if name in chain else ():
        try:
            router.model(other)
        except HilumError as error:
            missing.append(f"The fallback {other} cannot be used: {error.message}")
            continue
        return {"action": "fallback", "next": other, "hint": " ".join(missing)}
    return {"action": "give_up", "hint": " ".join(missing)}


def _tidy(message: AssistantMessage, name: str) -> AssistantMessage:
    """Name the model, and give calls ids that are unique in the answer (some servers repeat or omit
    them).

    What nobody could read back from the log is taken out first.
    """
    message = safe_answer(message)
    parts = list(message.parts)
    seen = set()
    for index, part in enumerate(parts):
        if isinstance(part, ToolCall):
            identity = part.id or f"call-{index}"
            while identity in seen:
                identity += f"-{index}"
            seen.add(identity)
            parts[index] = msgspec.structs.replace(part, id=identity)
    return msgspec.structs.replace(message, parts=tuple(parts), model=name)
