"""Records the events of a session to a cassette, during the session or afterwards."""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import attrs
import msgspec
from hilum import Redactor, __version__, make_redactor, make_repeat_report
from hilum.compaction import apply_compaction, replace_texts
from hilum.errors import E_FAILED, UsageError
from hilum.events import (
    CallDone,
    Compacted,
    Event,
    ModelAnswered,
    ModelStarted,
    ModelUsed,
    PromptFrozen,
    PromptQueued,
    RepeatedCall,
    RoundEnded,
    RunStarted,
    SessionOpened,
    SteeringQueued,
)
from hilum.messages import (
    AssistantMessage,
    Compaction,
    Image,
    Message,
    NoteMessage,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)

from hilum_replay.cassette import (
    Cassette,
    Exchange,
    Sent,
    describe_layers,
    describe_messages,
    describe_tools,
    find_new_messages,
)
from hilum_replay.cassette_writer import write_exchange, write_header
from hilum_replay.placeholders import PathPlaceholders

_NO_TEXTS: Mapping[str, str] = MappingProxyType({})


@attrs.define
class _Conversation:
    """One agent's conversation, as reconstructed from the events so far.

    Attributes:
        messages: Its messages.
        calls: Ids of the calls in the last answer.
        results: Their results so far.
        repeated: Id of the last call that the user repeated.
        request: Index of the message with the current run's request.
        has_summary: Whether the conversation begins with a summary.
        frozen: The prompt's layers and tools, if they have changed since the last answer.
        images: The images of prompts whose runs have not started, by the id of the run.
        steering: The user's messages that the agent has not read, by id.
    """

    messages: list[Message] = attrs.field(factory=list)
    calls: tuple[str, ...] = ()
    results: dict[str, ToolResult] = attrs.field(factory=dict)
    repeated: str = ""
    request: int | None = None
    has_summary: bool = False
    frozen: PromptFrozen | None = None
    images: dict[str, tuple[Image, ...]] = attrs.field(factory=dict)
    steering: dict[str, str] = attrs.field(factory=dict)

    @property
    def has_open_calls(self) -> bool:
        """Whether calls are in flight."""
        return any(call not in self.results for call in self.calls)

    def start_run(self, message: Message, repeats: RepeatedCall | None) -> None:
        """Add the message with which a run begins.

        Args:
            message: The message.
            repeats: The call with which the run begins because the user repeated it, if any.
        """
        self.add_results()
        if repeats is None:
            self.request = len(self.messages)
        else:
            self.calls = (repeats.call.id,)
            self.repeated = repeats.call.id
        self.messages.append(message)

    def end_round(self, event: RoundEnded) -> None:
        """Add the results of a round, its notes, and the user's messages."""
        self.add_results(event.shortened)
        if event.notes:
            self.messages.append(NoteMessage("\n\n".join(event.notes)))
        read = [self.steering.pop(each) for each in event.steering if each in self.steering]
        if read:
            self.messages.append(UserMessage(tuple(Text(text, "user") for text in read)))

    def add_results(self, shortened: Mapping[str, str] = _NO_TEXTS) -> None:
        """Add the results in the order of their calls, as the agent loop does."""
        results = tuple(self.results[call] for call in self.calls if call in self.results)
        if results:
            message = replace_texts(ToolMessage(results), shortened, images=True)
            if self.repeated in self.calls:
                message = make_repeat_report(message)
            self.messages.append(message)
        self.calls = ()
        self.results = {}

    def compact(self, event: Compacted) -> None:
        """Apply a compaction."""
        plan = Compaction(event.upto, event.summary, event.thinned)
        # Between runs there is no request to keep.
        request = self.request if event.run else None
        compacted = apply_compaction(self.messages, plan, request, event.request)
        self.messages, self.request = compacted
        self.has_summary = bool(event.summary)

    def new_items(self) -> list[Sent]:
        """Return the items sent since the last answer."""
        start = find_new_messages(self.messages)
        items = list(describe_messages(self.messages[start:]))
        # apply_compaction puts the summary first, as a note.
        if self.has_summary and start == 0 and items:
            items[0] = Sent("summary", items[0].text)
        return items

    def add_answer(self, message: AssistantMessage) -> None:
        """Add an answer."""
        self.frozen = None
        self.messages.append(message)
        # A model may repeat an id, which then has one result.
        self.calls = tuple(dict.fromkeys(call.id for call in message.calls))


class Recorder:
    """A recorder of one session, which must receive every event of the session in order.

    Args:
        workspace: The workspace; taken from ``SessionOpened`` by default.
        redactor: The redactor that removes secrets; by default, those in this process's environment
            and those with a known format.
        path: File to which each exchange is written as a whole when it is complete, so that a
            killed process leaves a valid cassette.
        title: What the cassette shows, for readers.
        every_request: Whether to record all requests outside the conversation as well, such as that
            for what to remember. Only the replay of a whole session repeats them.
    """

    def __init__(
        self,
        *,
        workspace: str = "",
        redactor: Redactor | None = None,
        path: str | os.PathLike[str] | None = None,
        title: str = "",
        every_request: bool = False,
    ) -> None:
        self._placeholders = PathPlaceholders(workspace, Path.home())
        self._has_workspace = bool(workspace)
        self._redact = redactor or make_redactor()
        self._conversations: dict[str, _Conversation] = {}
        self._exchanges: list[Exchange] = []
        self._header = Cassette(title=self._redact(title), hilum=__version__)
        self._path = path
        self._every_request = every_request
        self._has_header = False

    @property
    def cassette(self) -> Cassette:
        """The cassette recorded so far."""
        return msgspec.structs.replace(self._header, exchanges=tuple(self._exchanges))

    def feed(self, event: Event) -> Exchange | None:
        """Record one event and return the exchange that it completes.

        Raises:
            UsageError: The file of the cassette cannot be written.
        """
        conversation = self._conversations.setdefault(event.agent or "main", _Conversation())
        match event:
            case SessionOpened() if not self._has_workspace:
                self._placeholders = PathPlaceholders(event.workspace, Path.home())
            case ModelStarted():
                # The header is written before the first answer, so that a run without an answer
                # also leaves a cassette. The header does not replace an earlier recording, which a
                # run without an answer would otherwise destroy.
                if not self._has_earlier_recording():
                    self._write_header(event.model)
            case PromptQueued(images=images) if images:
                conversation.images[event.run] = images
            case RunStarted():
                images = conversation.images.pop(event.run, ())
                message = event.message.with_image_data(images)
                conversation.start_run(message, event.repeats)
            case PromptFrozen():
                conversation.frozen = event
            case Compacted():
                conversation.compact(event)
            case CallDone():
                conversation.results[event.result.call_id] = event.result
            case RoundEnded():
                conversation.end_round(event)
            case SteeringQueued():
                conversation.steering[event.id] = event.text
            case ModelAnswered():
                return self._record_answer(conversation, event)
            case ModelUsed():
                return self._record_aside(conversation, event)
        return None

    def _record_answer(self, conversation: _Conversation, event: ModelAnswered) -> Exchange:
        layers = None
        tools = None
        frozen = conversation.frozen
        if frozen is not None:
            layers = describe_layers(frozen.layers, self._clean)
            tools = describe_tools(frozen.tools, self._clean)
        exchange = Exchange(
            sent=tuple(self._clean_item(item) for item in conversation.new_items()),
            answer=self._clean_answer(event.message),
            usage=event.usage,
            # Round to milliseconds, because more digits would only make diffs larger.
            first=round(event.first, 3),
            seconds=round(event.seconds, 3),
            agent=event.agent or "main",
            layers=layers,
            tools=tools,
        )
        conversation.add_answer(event.message)
        return self._add(exchange)

    def _record_aside(self, conversation: _Conversation, event: ModelUsed) -> Exchange | None:
        """Record a request outside the conversation, if playback repeats it.

        A summary becomes part of the conversation, and a tool that calls a model does so again when
        its call is repeated. Other requests are recorded only for the replay of a whole session.
        """
        if event.message is None:
            return None
        is_repeated = event.purpose == "summary" or conversation.has_open_calls
        if not is_repeated and not self._every_request:
            return None
        exchange = Exchange(
            sent=(Sent("aside", self._clean(event.asked)),),
            answer=self._clean_answer(event.message),
            usage=event.usage,
            seconds=round(event.seconds, 3),
            agent=f"{event.agent or 'main'}/{event.purpose}",
        )
        return self._add(exchange)

    def _add(self, exchange: Exchange) -> Exchange:
        self._write_header(exchange.answer.model)
        self._exchanges.append(exchange)
        self._write(write_exchange(len(self._exchanges), exchange, self._header.model))
        return exchange

    # --- secrets and paths ------------------------------------------------------------------------

    def _clean(self, text: str) -> str:
        # Remove secrets first: a placeholder inside a secret would hide the secret from the
        # redactor.
        return self._placeholders.insert(self._redact(text))

    def _clean_item(self, item: Sent) -> Sent:
        text = self._clean(item.text)
        return msgspec.structs.replace(item, text=text, source=self._clean(item.source))

    def _clean_answer(self, message: AssistantMessage) -> AssistantMessage:
        parts = tuple(self._clean_part(part) for part in message.parts)
        return AssistantMessage(parts, message.model, message.stop)

    def _clean_part(self, part: Text | Thinking | ToolCall) -> Text | Thinking | ToolCall:
        if isinstance(part, Text):
            return Text(self._clean(part.text), part.source)
        vendor: dict[str, Any] = {}
        if part.vendor:
            # Signatures and encrypted reasoning must be sent back unchanged, so only secrets are
            # removed, and paths are kept.
            encoded = msgspec.json.encode(part.vendor).decode()
            vendor = msgspec.json.decode(self._redact(encoded))
        if isinstance(part, Thinking):
            return Thinking(self._clean(part.text), vendor)
        arguments = self._placeholders.insert_in_json(self._redact(part.arguments))
        return ToolCall(part.id, part.name, arguments, vendor)

    # --- the file ---------------------------------------------------------------------------------

    def _has_earlier_recording(self) -> bool:
        """Return whether the file has content that this recorder did not write."""
        if self._path is None or self._has_header:
            return False
        try:
            return os.path.getsize(self._path) > 0
        except OSError:  # the file does not exist yet
            return False

    def _write_header(self, model: str) -> None:
        """Write the header once, as soon as the model is known."""
        if self._has_header:
            return
        self._has_header = True
        self._header = msgspec.structs.replace(self._header, model=model)
        self._write(write_header(self._header), "w")

    def _write(self, text: str, mode: str = "a") -> None:
        if self._path is None:
            return
        try:
            # The file is opened for each exchange, so that moving or deleting it in the meantime is
            # noticed, and nothing is lost in a buffer when the process is killed.
            with open(self._path, mode, encoding="utf-8", newline="\n") as file:
                file.write(text)
        except OSError as error:
            message = f"Cannot write the cassette {self._path}: {error.strerror}."
            raise UsageError(message, code=E_FAILED, hint="Choose another file.") from None


def record(
    events: Iterable[Event],
    *,
    workspace: str = "",
    redactor: Redactor | None = None,
    title: str = "",
    every_request: bool = False,
) -> Cassette:
    """Create a cassette from the events of any session.

    Args:
        events: All events of the session, in order.
        workspace: The workspace; taken from the events by default.
        redactor: The redactor that removes secrets; by default, those in this process's environment
            and those with a known format.
        title: What the cassette shows, for readers.
        every_request: See ``Recorder``.
    """
    recorder = Recorder(
        workspace=workspace, redactor=redactor, title=title, every_request=every_request
    )
    for event in events:
        recorder.feed(event)
    return recorder.cassette


async def follow(events: AsyncIterable[Event], recorder: Recorder) -> None:
    """Pass ``session.events()`` to a recorder until the events end or this task is cancelled."""
    async for event in events:
        recorder.feed(event)
