"""From the events of a session to a cassette: live, exchange by exchange, or afterwards."""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

import attrs
import msgspec
from hilum import __version__
from hilum.compaction import compacted, replace_texts
from hilum.errors import E_FAILED, UsageError
from hilum.events import (
    CallDone,
    Event,
    LayersSealed,
    ModelAnswered,
    ModelStarted,
    ModelUsed,
    RoundEnded,
    RunStarted,
    SessionOpened,
    Trimmed,
)
from hilum.messages import (
    AssistantMessage,
    Message,
    NoteMessage,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    Trim,
)
from hilum_guard import Redactor

from hilum_replay.cassette import Cassette, Exchange, Sent, describe, name_layers, name_tools, tail
from hilum_replay.format import write_exchange, write_header
from hilum_replay.places import Places


@attrs.define
class _Talk:
    """One agent's conversation since its last answer, folded from the log."""

    messages: list[Message] = attrs.field(factory=list)
    calls: tuple[str, ...] = ()
    results: dict[str, ToolResult] = attrs.field(factory=dict)
    request: int | None = None
    summary: bool = False
    sealed: LayersSealed | None = None

    @property
    def open_calls(self) -> bool:
        """Whether calls are under way."""
        return any(call not in self.results for call in self.calls)


class Recorder:
    """Makes a cassette from events. Feed it every event of a session, in order.

    Args:
        workspace: The workspace; taken from ``SessionOpened`` where not given.
        redactor: What is taken out; by default the secrets of this process's environment and known
            shapes.
        path: File to write as exchanges complete; each is written whole, so that a killed run
            leaves a cassette.
        title: What the cassette shows, for readers.
    """

    def __init__(
        self,
        *,
        workspace: str = "",
        redactor: Redactor | None = None,
        path: str | os.PathLike[str] | None = None,
        title: str = "",
    ) -> None:
        self._places = Places(workspace, Path.home())
        self._named = bool(workspace)
        self._redact = redactor or Redactor()
        self._talks: dict[str, _Talk] = {}
        self._exchanges: list[Exchange] = []
        self._header = Cassette(title=self._redact(title), hilum=__version__)
        self._path = path
        self._begun = False

    @property
    def cassette(self) -> Cassette:
        """What was recorded up to now."""
        return msgspec.structs.replace(self._header, exchanges=tuple(self._exchanges))

    def feed(self, event: Event) -> Exchange | None:
        """Take one event; gives the exchange that it completes.

        Raises:
            UsageError: The file of the cassette cannot be written.
        """
        talk = self._talks.setdefault(event.agent or "main", _Talk())
        match event:
            case SessionOpened():
                if not self._named:
                    self._places = Places(event.workspace, Path.home())
            case ModelStarted():
                self._begin(event.model)
            case RunStarted():
                self._flush(talk)
                talk.request = len(talk.messages)
                talk.messages.append(event.message)
            case LayersSealed():
                talk.sealed = event
            case Trimmed():
                self._trim(talk, event)
            case CallDone():
                talk.results[event.result.call_id] = event.result
            case RoundEnded():
                self._flush(talk, event.shortened)
                if event.notes:
                    talk.messages.append(NoteMessage("\n\n".join(event.notes)))
            case ModelAnswered():
                return self._answer(talk, event)
            case ModelUsed(message=AssistantMessage()) if (
                event.purpose == "summary" or talk.open_calls
            ):
                return self._aside(event)
        return None

    def _flush(self, talk: _Talk, shortened: Mapping[str, str] = MappingProxyType({})) -> None:
        """Results join the conversation in call order, whatever the order in which they came."""
        results = tuple(talk.results[call] for call in talk.calls if call in talk.results)
        if results:
            talk.messages.append(replace_texts(ToolMessage(results), shortened, images=True))
        talk.calls = ()
        talk.results = {}

    def _trim(self, talk: _Talk, event: Trimmed) -> None:
        trim = Trim(event.upto, event.summary, event.thinned)
        request = talk.request if event.run else None
        talk.messages, talk.request = compacted(talk.messages, trim, request, event.request)
        talk.summary = bool(event.summary)

    def _answer(self, talk: _Talk, event: ModelAnswered) -> Exchange:
        start = tail(talk.messages)
        sent = [self._clean(item) for item in describe(talk.messages[start:])]
        if talk.summary and start == 0 and sent:
            sent[0] = Sent("summary", sent[0].text)
        layers = tools = None
        if talk.sealed is not None:
            layers, tools = self._sealed(talk.sealed)
            talk.sealed = None
        answer = self._clean_answer(event.message)
        agent = event.agent or "main"
        times = (round(event.first, 3), round(event.seconds, 3))
        exchange = Exchange(tuple(sent), answer, event.usage, *times, agent, layers, tools)
        talk.messages.append(event.message)
        talk.calls = tuple(dict.fromkeys(call.id for call in event.message.calls))
        return self._add(exchange)

    def _aside(self, event: ModelUsed) -> Exchange:
        """A summary is part of what the conversation became, and who asks within a call asks again
        when it is made again.

        What else was asked beside the conversation is not played again.
        """
        assert event.message is not None
        answer = self._clean_answer(event.message)
        agent = f"{event.agent or 'main'}/{event.purpose}"
        sent = (Sent("aside", self._text(event.asked)),)
        return self._add(
            Exchange(sent, answer, event.usage, seconds=round(event.seconds, 3), agent=agent)
        )

    def _add(self, exchange: Exchange) -> Exchange:
        self._begin(exchange.answer.model)
        self._exchanges.append(exchange)
        self._write(write_exchange(len(self._exchanges), exchange, self._header.model))
        return exchange

    def _text(self, text: str) -> str:
        return self._places.abstract(self._redact(text))

    def _clean(self, item: Sent) -> Sent:
        return msgspec.structs.replace(
            item, text=self._text(item.text), source=self._text(item.source)
        )

    def _clean_answer(self, message: AssistantMessage) -> AssistantMessage:
        parts: list[Text | Thinking | ToolCall] = []
        for part in message.parts:
            if isinstance(part, Text):
                parts.append(Text(self._text(part.text), part.source))
                continue
            if part.vendor:
                vendor = msgspec.json.decode(
                    self._redact(msgspec.json.encode(part.vendor).decode())
                )
            else:
                vendor = {}
            if isinstance(part, Thinking):
                parts.append(Thinking(self._text(part.text), vendor))
            else:
                arguments = self._places.abstract_json(self._redact(part.arguments))
                parts.append(ToolCall(part.id, part.name, arguments, vendor))
        return AssistantMessage(tuple(parts), message.model, message.stop)

    def _sealed(self, event: LayersSealed) -> tuple[tuple[str, ...], tuple[str, ...]]:
        layers = name_layers(event.layers, [self._text(layer.text) for layer in event.layers])
        schemas = [self._text(msgspec.json.encode(spec).decode()) for spec in event.tools]
        return layers, name_tools(event.tools, schemas)

    def _begin(self, model: str) -> None:
        """Write the header, once, as soon as the model is known."""
        if not self._begun:
            self._begun = True
            self._header = msgspec.structs.replace(self._header, model=model)
            self._write(write_header(self._header), "w")

    def _write(self, text: str, mode: str = "a") -> None:
        if self._path is None:
            return
        try:
            with open(self._path, mode, encoding="utf-8", newline="\n") as file:
                file.write(text)
        except OSError as error:
            hint = "Give another file to record to."
            message = f"Cannot write the cassette {self._path}: {error.strerror}."
            raise UsageError(message, code=E_FAILED, hint=hint) from None


def record(
    events: Iterable[Event],
    *,
    workspace: str = "",
    redactor: Redactor | None = None,
    title: str = "",
) -> Cassette:
    """Create a cassette from the events of any session.

    Args:
        events: All its events, in order.
        workspace: The workspace; taken from the events where not given.
        redactor: What is taken out; by default the secrets of this process's environment and known
            shapes.
        title: What the cassette shows, for readers.
    """
    recorder = Recorder(workspace=workspace, redactor=redactor, title=title)
    for event in events:
        recorder.feed(event)
    return recorder.cassette


async def follow(events: AsyncIterable[Event], recorder: Recorder) -> None:
    """Feed a recorder from a session's events (``session.events()``) until they end or this task is
    cancelled.
    """
    async for event in events:
        recorder.feed(event)
