"""The models of a recorded session, which answer from its cassette."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from hashlib import sha256
from math import nan

import attrs
import msgspec
import trio
from hilum import Agent, ModelCallDenied, ModelError, Redactor, UsageError
from hilum.errors import E_STORE
from hilum.events import ModelFailed
from hilum.messages import AssistantMessage, Layer, Message, ToolMessage, ToolSpec
from hilum.models import Chunk, Done, ModelInfo, Request, TextChunk, Wire

from hilum_replay.cassette import Cassette, Sent
from hilum_replay.model import PacedChunks, PlainWire, read_delta
from hilum_replay.placeholders import PathPlaceholders
from hilum_replay.playback import Playback
from hilum_replay.recorder import Recorder
from hilum_replay.sessions.guest_log import find_unfinished_text, is_guest_model
from hilum_replay.sessions.recorded_log import RecordedLog, RequestOutcome

# For logs of earlier versions, which do not contain the limits of models.
_WINDOW = 10_000_000
_MAX_OUTPUT = 100_000


class RecordedAnswers:
    """The answers of all models in a recorded session.

    Args:
        log: The recorded log.
        placeholders: The paths in the log.
        redactor: The redactor that removes secrets from requests.
        wait: A function that waits until the session may receive the answer that has a sequence
            number in the recorded log.
        cassette: The answers; by default, those in the log.

    Attributes:
        requests: The messages of each request, in short, by the sequence number of its answer.
        agents: The agents of the replay, by name.
    """

    def __init__(
        self,
        log: RecordedLog,
        placeholders: PathPlaceholders,
        redactor: Redactor,
        wait: Callable[[int], Awaitable[None]],
        cassette: Cassette | None = None,
    ) -> None:
        self.requests: dict[str, str] = {}
        self.agents: Mapping[str, Agent] = {}
        recorder = Recorder(workspace=placeholders.workspace, redactor=redactor, every_request=True)
        self._seqs = [event.seq for event in log.events if recorder.feed(event) is not None]
        if cassette is None:
            cassette = recorder.cassette
        elif len(cassette.exchanges) != len(self._seqs):
            raise UsageError(
                f"The cassette has {len(cassette.exchanges)} exchanges, but the log of its session"
                f" has {len(self._seqs)}.",
                code=E_STORE,
                hint="Export the session again.",
            )
        cassette = _drop_items(cassette, _is_context_item)
        # Only the order and the roles are compared: the comparison of both logs finds all other
        # differences, and does not end at the first one.
        self._playback = Playback(
            cassette, placeholders=placeholders, mode="shape", redactor=redactor
        )
        self._placeholders = placeholders
        self._redactor = redactor
        self._wait = wait
        self._outcomes = {agent: list(found) for agent, found in log.outcomes.items()}
        self._log = log
        self._cassette = cassette
        self._ignores_notes = False

    def ignore_notes(self) -> None:
        """Answer requests with other notes as well.

        A plugin or a setting of the replay may add notes, which the comparison of both logs shows.
        """
        self._ignores_notes = True
        self._playback.cassette = _drop_items(self._cassette, _is_note)

    def info(self, name: str) -> ModelInfo:
        """Return the description of a model."""
        started = self._log.models.get(name)
        window = started.window if started is not None else 0
        max_output = started.max_output if started is not None else 0
        return ModelInfo(
            name,
            window or _WINDOW,
            max_output or _MAX_OUTPUT,
            # Budgets in dollars apply again.
            self._log.prices.get(name),
            images=True,
            # Only the requests of the program itself pass the budgets.
            delegates=is_guest_model(name),
        )

    async def answer(self, request: Request) -> PacedChunks:
        """Return the recorded answer to a request.

        Raises:
            ModelError: The request failed in the recording, or the recording has no such request.
        """
        await trio.lowlevel.checkpoint()
        outcomes = self._outcomes.get(request.agent, [])
        failure = outcomes[0].failure if outcomes else None
        if failure is not None:
            await self._wait(failure.seq)
            outcomes.pop(0)
            raise _repeat_failure(failure)
        delta = read_delta(request, self._placeholders, self._redactor)
        items = [item for item in delta.items if not _is_context_item(item)]
        if self._ignores_notes:
            items = [item for item in items if not _is_note(item)]
        delta = attrs.evolve(delta, items=tuple(items))
        try:
            index = self._playback.take(delta, request.agent)
        except ModelError as error:
            raise _no_answer_error(error) from None
        seq = self._seqs[index]
        self.requests[str(seq)] = describe_shape(request)
        if outcomes and outcomes[0] == RequestOutcome(seq):
            outcomes.pop(0)
        await self._wait(seq)
        exchange = self._playback.exchange(index)
        return PacedChunks(exchange, Done(exchange.answer, exchange.usage), 0.0)

    async def repeat_unanswered(self, request: Request) -> AsyncIterator[TextChunk]:
        """End a request to a guest as in the recording, if the recording has no answer to it.

        Yields:
            What the guest had said before.

        Raises:
            ModelCallDenied: A budget had refused a request of the guest.
        """
        outcomes = self._outcomes.get(request.agent, [])
        outcome = outcomes[0] if outcomes else None
        if outcome is None or not outcome.is_unanswered:
            return
        text = find_unfinished_text(self._log.events, request.agent, outcome.seq)
        if text:
            yield TextChunk(text)
        if outcome.failure is not None:
            return  # the next step repeats the failure
        outcomes.pop(0)
        await self._wait(outcome.seq)
        ended = outcome.ended
        if ended is not None and ended.state == "partial_success":
            raise ModelCallDenied(ended.error, code=ended.code, hint=ended.hint)
        agent = self.agents.get(request.agent)
        if ended is not None and ended.state == "timed_out" and agent is not None:
            assert agent.scope is not None
            agent.scope.deadline = trio.current_time()
        # The user's stop, or the end of hilum, is repeated.
        await trio.sleep_forever()

    def check_work(self, request: Request) -> None:
        """Check that a guest has the work that it did in the recording.

        Raises:
            ModelError: It has other work.
        """
        if not self._log.has_work(request.messages):
            raise ModelError(
                "The recorded session has no such work of this guest, and a replay starts no other"
                " program.",
                kind="request",
            )


def describe_shape(request: Request) -> str:
    """Return the number of messages in a request, and a digest of who says what in which order.

    The texts are not included: they depend on the machine, and are compared elsewhere.
    """
    lines = []
    for message in request.messages:
        words = [type(message).__name__]
        if isinstance(message, AssistantMessage):
            words += [call.id for call in message.calls]
        elif isinstance(message, ToolMessage):
            words += [f"{result.call_id} {result.code}" for result in message.results]
        lines.append(" ".join(words))
    digest = sha256("\n".join(lines).encode()).hexdigest()
    return f"{len(lines)} messages {digest[:12]}"


def _is_context_item(item: Sent) -> bool:
    """Return whether an item is context, which depends on the machine and on how busy it is."""
    return item.source.startswith("context:")


def _is_note(item: Sent) -> bool:
    return item.kind == "note"


def _drop_items(cassette: Cassette, is_dropped: Callable[[Sent], bool]) -> Cassette:
    """Return a cassette without some of the items that were sent."""
    exchanges = []
    for exchange in cassette.exchanges:
        sent = tuple(item for item in exchange.sent if not is_dropped(item))
        exchanges.append(msgspec.structs.replace(exchange, sent=sent))
    return msgspec.structs.replace(cassette, exchanges=tuple(exchanges))


def _no_answer_error(error: ModelError) -> ModelError:
    why = " ".join(error.message.split())
    return ModelError(
        f"The recording has no answer to this request, so the run ends here. {why}",
        kind=error.kind,
        status=error.status,
        hint="With --model, another model answers instead.",
    )


def _repeat_failure(failure: ModelFailed) -> ModelError:
    """Return the error of a request that failed in the recording."""
    # A replay does not wait before another attempt. Where the recorded run gave up, the replay must
    # do so as well: a wait that is not a number is never short enough for another attempt, and never
    # so long that the kernel tells the user about it.
    wait = 0.0 if failure.action == "retry" else nan
    error = ModelError(failure.message, kind=failure.kind, retry_after=wait, hint=failure.hint)
    error.code = failure.code
    return error


class RecordedModel:
    """One of the models of a recorded session. Implements ``Model``.

    Args:
        name: ``provider/name``.
        answers: The answers of all models.
    """

    def __init__(self, name: str, answers: RecordedAnswers) -> None:
        self.info = answers.info(name)
        self.wire: Wire = _NullWire() if self.info.delegates else PlainWire()
        self._answers = answers

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Chunk]]:
        """Answer a request with the recorded answer."""
        if self.info.delegates:
            async with aclosing(self._stream_guest(request)) as guest_chunks:
                yield guest_chunks
        else:
            yield await self._answers.answer(request)

    async def _stream_guest(self, request: Request) -> AsyncGenerator[Chunk, None]:
        self._answers.check_work(request)
        async for said in self._answers.repeat_unanswered(request):
            yield said
        async for chunk in await self._answers.answer(request):
            yield chunk


class _NullWire:
    """A wire format that encodes nothing: nothing is sent to a guest, whose context is its own."""

    key = "nothing"

    def head(self, layers: Sequence[Layer], tools: Sequence[ToolSpec]) -> bytes:
        return b""

    def message(self, message: Message) -> bytes:
        return b""

    def body(self, head: bytes, pieces: Sequence[bytes]) -> bytes:
        return b""


class RecordedProvider:
    """A provider whose models answer from a recorded session. Implements ``Provider``.

    Args:
        name: The part of the models' names before the slash.
        answers: The answers of all models.
    """

    def __init__(self, name: str, answers: RecordedAnswers) -> None:
        self.name = name
        self._answers = answers

    def model(self, name: str) -> RecordedModel:
        """Return a model; every name exists."""
        return RecordedModel(f"{self.name}/{name}", self._answers)

    async def suggest(self) -> str | None:
        """Return nothing: a replay names its models."""
        return None

    async def names(self) -> list[str]:
        """Return nothing: a replay names its models."""
        return []
