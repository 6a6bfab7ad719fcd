"""The choice of a model, retries and fallbacks.

Retries happen only in this module, because nested retries would multiply.

One call to ``attempt`` sends one request. The failures in the log decide the consequence of a new
failure, so that a resumed run continues where the earlier process ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from msgspec.structs import replace

from hilum.arguments import safe_answer, safe_id
from hilum.deferred_tools import ACCESS_TOOLS
from hilum.errors import HilumError, ModelError, UsageError, unknown_name_error
from hilum.events import ModelAnswered, ModelFailed, ModelStarted
from hilum.hooks import is_failure
from hilum.messages import AssistantMessage, ToolCall
from hilum.model_calls import ModelCall, ModelCallDenied, admit_model_call
from hilum.models import (
    CallChunk,
    Chunk,
    Done,
    Model,
    Provider,
    Request,
    TextChunk,
    ThinkingChunk,
    add_cost,
    read_answer,
)
from hilum.prompt import encode_conversation, request

if TYPE_CHECKING:
    from hilum.agents import Agent

# Number of retries for each kind of failure, and seconds before the first retry, which double for
# each further one.
RETRIES = {
    "timeout": (1, 2.0),
    "rate_limit": (5, 30.0),
    "server": (3, 0.5),
    "broken": (3, 0.5),
    "connect": (3, 0.5),
    "protocol": (1, 0.0),
    # A retry would fail again at once or cost as much again, so only another model helps.
    "quota": (0, 0.0),
    "runaway": (0, 0.0),
    "too_slow": (0, 0.0),
}
# Seconds. The user decides whether to wait longer or to use another model.
MAX_WAIT = 120.0
# Seconds before the second retry after a rate limit, which double for each further one. Providers
# often name a time that is too short for many clients that wait at once.
SECOND_WAIT = 4.0


class Router(msgspec.Struct, eq=False):
    """The models of a kernel, which are found by ``provider/name`` or by role.

    Args:
        roles: Model names by role; ``default`` is the role of the session's model.
        fallback: Models to try, in order, when another model fails.
        providers: Providers of models by name.
    """

    roles: dict[str, str]
    fallback: Sequence[str]
    providers: dict[str, Provider] = {}
    _models: dict[str, Model] = {}

    def add(self, provider: Provider) -> None:
        """Add a provider, unless one with the same name exists."""
        self.providers.setdefault(provider.name, provider)

    def replace(self, provider: Provider) -> None:
        """Add a provider in place of an existing one with the same name."""
        self.providers[provider.name] = provider
        # The replaced provider's models must no longer be used.
        self._models.clear()

    def forget(self, name: str) -> None:
        """Drop a model from the cache, so that its provider creates it again at the next use."""
        self._models.pop(self.resolve(name), None)

    def resolve(self, name: str) -> str:
        """Return the model name for a role; return any other name unchanged.

        ``fast`` and ``summarize`` fall back to ``default``.
        """
        if name in self.roles:
            return self.roles[name]
        if name in ("", "default", "fast", "summarize"):
            return self.roles.get("default", "")
        return name

    def model(self, name: str) -> Model:
        """Return the model for a ``provider/name`` or a role.

        Raises:
            UsageError: The name does not begin with a known provider, or no plugin provides the
                model.
        """
        name = self.resolve(name)
        if name not in self._models:
            self._models[name] = self._create_model(name)
        return self._models[name]

    def _create_model(self, name: str) -> Model:
        provider, _, rest = name.partition("/")
        if not rest:
            hint = ""
            if self.providers:
                known = list(self.providers)[:3]
                hint = f"Try {' or '.join(f'{each}/{name}' for each in known)}."
            raise UsageError(f"{name!r} is not a model name: write provider/name.", hint=hint)
        if provider not in self.providers:
            hint = "Install a plugin for this provider."
            raise unknown_name_error("provider of models", provider, self.providers, hint=hint)
        try:
            return self.providers[provider].model(rest)
        except HilumError:
            raise
        except BaseException as error:
            if not is_failure(error):
                raise
            text = f"The provider {provider} failed: {type(error).__name__}: {error}."
            raise UsageError(text, code="E_PLUGIN", hint="Choose another model.") from error

    async def find_current(self, name: str) -> str:
        """Return the name of the model that a session with this setting uses; empty if there is none."""
        resolved = self.resolve(name)
        if resolved:
            return resolved
        try:
            return await self.default()
        except HilumError:
            return ""

    async def default(self) -> str:
        """Return the name of the default model: the configured one, or a provider's suggestion.

        Raises:
            UsageError: ``"E_NO_MODEL"``; the hint lists the ways to get a model.
        """
        name = self.resolve("default")
        if name:
            return name
        problems = ["There is no model to work with."]
        for provider in self.providers.values():
            try:
                suggested = await provider.suggest()
            except BaseException as error:
                if not is_failure(error):
                    raise
                text = error.message if isinstance(error, HilumError) else repr(error)
                problems.append(f"{provider.name}: {text}")
                continue
            if suggested:
                name = f"{provider.name}/{suggested}"
                # The name is kept, so that later runs do not search for servers again.
                self.roles["default"] = name
                return name
        raise UsageError(" ".join(problems), code="E_NO_MODEL", hint=NO_MODEL)

    async def ready(self, agent: Agent) -> None:
        """Check that the agent has a model that can be called.

        Raises:
            UsageError: The agent has no model; the hint explains what to do.
        """
        if not self.resolve(agent.model):
            await self.default()
        self.model(agent.model)

    def current(self, agent: Agent) -> str:
        """Return the name of the next model to call: the run's or, by default, the agent's."""
        run = agent.conversation.run
        if run is not None and run.model:
            return run.model
        return self.chain(agent)[0]

    def chain(self, agent: Agent) -> list[str]:
        """Return the names of the agent's model and of its fallbacks."""
        first = self.resolve(agent.model)
        others = [self.resolve(name) for name in self.fallback]
        return [first, *(name for name in others if name != first)]


NO_MODEL = """There are three ways to get one:
  1. a key of a provider: export OPENAI_API_KEY=… (or ANTHROPIC_API_KEY, GEMINI_API_KEY, \
OPENROUTER_API_KEY …), or keep one: hilum models key openai
  2. a model on this machine: start Ollama, LM Studio, llama.cpp or vLLM on its usual port; hilum \
finds it
  3. any server that speaks a known format: export OPENAI_BASE_URL=… and name it: --model \
openai/NAME
`hilum models` shows what is missing. To see hilum at work without a model: hilum demo"""


async def attempt(agent: Agent) -> ModelFailed | None:
    """Call the model once; log the complete response, or the failure and its consequence.

    Returns:
        The failure as logged; ``None`` if the model responded.

    Raises:
        ModelCallDenied: A plugin refused the request, which was not sent.
    """
    # A stop may have arrived at the end of an earlier wait, for example the wait for a hook. No
    # request must be sent after a stop.
    await trio.lowlevel.checkpoint_if_cancelled()
    run = agent.run
    session = agent.session
    # If texts cannot be searched for secrets, the user would pay for a request whose response must
    # be withheld.
    session.redaction.check()
    router = session.kernel.router
    name = router.current(agent)
    number = run.attempt + 1
    try:
        model = router.model(name)
        sent = request(agent, model, number)
        size = encode_conversation(agent, model).total
        expected = 0
        if not model.info.delegates:
            expected = agent.conversation.calibrator(name).total(size)
    except BaseException as error:
        if not is_failure(error):
            raise
        return _failed(agent, error, name, number)
    started = ModelStarted(
        attempt=number,
        model=name,
        turn=run.turn + 1,
        estimate=expected,
        size=size,
        window=model.info.window,
        max_output=model.info.max_output,
    )
    if model.info.delegates:
        # An amount that is reserved here would be reserved twice, and the program's own requests
        # would wait until this one has ended.
        return await _send(agent, model, sent, started)
    call = ModelCall(
        model=name,
        input=expected,
        max_output=model.info.max_output,
        price=model.info.price,
        # What the provider read from its cache or wrote to it is cached for the next request.
        cached=run.cached,
    )
    async with admit_model_call(agent, call):
        return await _send(agent, model, sent, started, call)


async def _send(
    agent: Agent,
    model: Model,
    sent: Request,
    started: ModelStarted,
    call: ModelCall | None = None,
) -> ModelFailed | None:
    """Send a request, and log the response or the failure.

    Args:
        agent: The agent.
        model: Its model.
        sent: The request.
        started: The event that reports the request.
        call: The request as it was admitted; ``None`` for a model that delegates.

    Raises:
        ModelCallDenied: A plugin refused a request of the program to which the model delegates.
    """
    session = agent.session
    name = started.model
    began = trio.current_time()
    try:
        seq = agent.emit(started)
        # A request must not contain what a crash could still take back: the resumed run would send
        # another one.
        await session.journal.flush(seq)
        began = trio.current_time()
        done, first = await _listen(agent, model, sent, seq)
    except ModelCallDenied:
        raise
    except BaseException as error:
        if not is_failure(error):
            raise
        failed = _failed(agent, error, name, started.attempt)
        if call is not None:
            call.failed = failed.kind
        return failed
    usage = add_cost(done.usage, model.info)
    if call is not None:
        call.usage = usage
    seconds = trio.current_time() - began
    tools = {*session.tools, *ACCESS_TOOLS}
    message = _tidy(await session.redaction.call_names(done.message, tools), name)
    answered = ModelAnswered(
        message=message, usage=usage, first=first, seconds=seconds, price=model.info.price
    )
    await session.redaction.prepare(answered)
    agent.emit(answered)
    return None


async def _listen(agent: Agent, model: Model, request: Request, seq: int) -> tuple[Done, float]:
    """Read the response to its end, and show it while it arrives.

    Returns:
        The response, and the seconds until its first chunk.
    """
    session = agent.session
    tools = {*session.tools, *ACCESS_TOOLS}
    began = trio.current_time()
    first = 0.0

    def show_chunk(chunk: Chunk) -> None:
        nonlocal first
        first = first or trio.current_time() - began
        show = partial(session._writer.show_output, seq, agent)
        match chunk:
            case TextChunk(text):
                show("text", text)
            case ThinkingChunk(text):
                show("thinking", text)
            case CallChunk(call_id, name, arguments):
                # Only a known name is shown: any other text from a model may contain a secret.
                tool = name if name in tools else ""
                identity = session.redaction.call_id(safe_id(call_id))
                show("arguments", arguments, identity, tool)

    options = session.options
    done = await read_answer(
        model, request, silence=options.silence, longest=options.answer_timeout, show=show_chunk
    )
    return done, first


def _failed(agent: Agent, error: BaseException, name: str, number: int) -> ModelFailed:
    """Log a failure and its consequence. An error that is not a ``ModelError`` is not retried."""
    if not isinstance(error, HilumError):
        text = f"The gateway of {name} failed: {type(error).__name__}: {error}."
        error = ModelError(text, kind="gateway")
    kind = error.kind if isinstance(error, ModelError) else "request"
    wait = getattr(error, "retry_after", None)
    decision = _decide(agent, kind, wait, name)
    hints = [error.hint, decision.pop("hint", "")]
    if kind == "rate_limit" and wait is not None and wait > MAX_WAIT:
        hints.append(
            f"The provider asks to wait {_duration(wait)}: try again then, or choose another model."
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
        # The gateway has learned that the server rejects native tool calls. The next model object
        # that the provider creates will describe the tools in the text.
        agent.session.kernel.router.forget(name)
    return failed


def _duration(seconds: float) -> str:
    """Format a time in hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [(hours, "h"), (minutes, "min"), (0 if hours else rest, "s")]
    return " ".join(f"{count} {unit}" for count, unit in parts if count)


def _decide(agent: Agent, kind: str, asked: float | None, name: str) -> dict[str, Any]:
    """Decide the consequence of a failure.

    Args:
        agent: The agent whose request failed.
        kind: The kind of failure; see ``ModelError``.
        asked: Seconds to wait according to the provider; ``None`` if the provider does not specify
            them.
        name: The model that failed.

    Returns:
        The fields ``action`` and, if necessary, ``wait``, ``next`` and ``hint`` of ``ModelFailed``.
    """
    before = agent.run.failures.get(kind, 0)
    # A compaction is tried only once: if the compacted conversation is also too long, compaction
    # does not help.
    if kind == "too_long" and not before:
        return {"action": "compact"}
    if kind not in RETRIES:
        return {"action": "give_up"}
    following = _fall_back(agent, name)
    most, first = RETRIES[kind]
    wait = first * 2**before if asked is None else asked
    if kind == "rate_limit":
        wait = _rate_limit_wait(before, asked, first)
        if following["action"] == "fallback":
            # Another model answers sooner than the limit ends.
            most = 1
    if before < most and wait <= MAX_WAIT:
        return {"action": "retry", "wait": wait}
    return following


def _rate_limit_wait(before: int, asked: float | None, first: float) -> float:
    """Return the seconds to wait after a rate limit.

    Args:
        before: Number of earlier failures of this kind.
        asked: Seconds according to the provider; ``None`` if it does not specify them.
        first: Seconds before the first retry if the provider does not specify them.
    """
    if asked is None:
        return min(first * 2.0**before, MAX_WAIT)
    if not before:
        return asked
    return max(asked, SECOND_WAIT * 2.0 ** (before - 1))


def _fall_back(agent: Agent, name: str) -> dict[str, Any]:
    """Find the next usable model in the fallback list, and report those that cannot be used."""
    router = agent.session.kernel.router
    chain = router.chain(agent)
    unusable = []
    # The user may have switched to another model during the request.
    others = chain[chain.index(name) + 1 :] if name in chain else []
    for other in others:
        try:
            router.model(other)
        except HilumError as error:
            unusable.append(f"The fallback {other} cannot be used: {error.message}")
            continue
        return {"action": "fallback", "next": other, "hint": " ".join(unusable)}
    return {"action": "give_up", "hint": " ".join(unusable)}


def _tidy(message: AssistantMessage, name: str) -> AssistantMessage:
    """Add the model's name, and make the ids of calls unique in the response.

    Arguments that could not be read back from the log are left out.
    """
    message = safe_answer(message)
    parts = list(message.parts)
    seen = set()
    for index, part in enumerate(parts):
        if isinstance(part, ToolCall):
            # Results refer to calls by id, but some servers repeat ids or omit them.
            identity = part.id or f"call-{index}"
            while identity in seen:
                identity += f"-{index}"
            seen.add(identity)
            parts[index] = replace(part, id=identity)
    return replace(message, parts=tuple(parts), model=name)
