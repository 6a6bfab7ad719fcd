"""An agent's conversation as the sizes of its parts, folded from the log.

The fold mirrors the kernel's (``hilum.state``), but keeps the origin and the size of each part
instead of its text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from hilum import Message, ToolResult, estimate
from hilum import events as ev
from hilum.compaction import ended_early, kept_indices

from hilum_trace.bill.parts import (
    Origin,
    Part,
    ToolPlugins,
    definition_parts,
    layer_parts,
    message_parts,
    prompt_parts,
    result_part,
)

Parts = list[Part]


class Conversation(msgspec.Struct, eq=False):
    """The parts of an agent's requests.

    Attributes:
        plugins: The plugins of the session's tools.
        head: The parts of the system prompt and the tool list.
        messages: The parts of each message, oldest first.
        sizes: The total size by origin, of the head and all messages.
    """

    plugins: ToolPlugins
    head: Parts = []
    messages: list[Parts] = []
    sizes: Counter[Origin] = msgspec.field(default_factory=Counter)
    _request: int | None = None
    _in_run: bool = False
    _ended_early: bool = False
    _results: list[Part] = []
    _full_results: dict[str, ToolResult] = {}
    _steering: dict[str, str] = {}

    def begin(self, messages: Sequence[Message]) -> None:
        """Begin with the messages of an earlier conversation."""
        self.messages = [message_parts(message, self.plugins) for message in messages]
        self._request = None
        self._count()

    def freeze(self, event: ev.PromptFrozen) -> None:
        """Replace the system prompt and the tool list."""
        # Without changes, the same prompt is sent again.
        if self.head and not event.changed:
            return
        named = bool(event.sources)
        self.plugins.add_sources(event.sources)
        texts = [(layer.name, layer.text) for layer in event.layers]
        self.head = [
            *layer_parts(texts, event.sources, named=named),
            *definition_parts(event.tools, self.plugins, named=named),
        ]
        self._count()

    def start_run(self, event: ev.RunStarted) -> None:
        """Add the user's message."""
        if event.repeats is None:
            self._request = len(self.messages)
        self._in_run = True
        self._results = []
        self._add(prompt_parts(event.message.parts, event.gathered_by))

    def retry_run(self) -> None:
        """Continue the previous run."""
        self._in_run = True

    def end_run(self, event: ev.RunEnded) -> None:
        """End the run."""
        self._in_run = False
        self._ended_early = ended_early(event.state, event.code)
        self._steering = {}

    def answer(self, parts: Parts) -> None:
        """Add a model's response."""
        self._results = []
        self._full_results = {}
        self._add(parts)

    def end_call(self, result: ToolResult, plugin: str | None) -> None:
        """Add the result of a call, which the next request contains."""
        self._full_results[result.call_id] = result
        self._results.append(result_part(result, plugin))

    def steer(self, event: ev.SteeringQueued) -> None:
        """Keep the text of a steering message until the agent reads it."""
        self._steering[event.id] = event.text

    def end_round(self, event: ev.RoundEnded) -> None:
        """Add the results of a round, the notes and the user's steering messages."""
        results = []
        for part in self._results:
            if part.call in event.shortened:
                full = self._full_results[part.call]
                part = result_part(full, part.origin.plugin, event.shortened)
            results.append(part)
        if results:
            self._add(results)
        self._results = []
        self._full_results = {}
        if event.notes:
            self._add(list(_note_parts(event)))
        texts = [self._steering.pop(key) for key in event.steering if key in self._steering]
        if texts:
            self._add([Part(Origin("prompt"), estimate(text)) for text in texts])

    def compact(self, event: ev.Compacted) -> None:
        """Apply a compaction as the kernel does (``hilum.compaction.apply_compaction``)."""
        request = self._request if self._in_run or self._ended_early else None
        messages: list[Parts] = []
        if event.summary:
            messages.append([Part(Origin("summary", event.plugin), estimate(event.summary))])
        place = None
        for index in kept_indices(len(self.messages), event.upto, request):
            if index == request:
                place = len(messages)
            messages.append(_thinned(self.messages[index], event.thinned))
        if place is not None and event.request is not None:
            messages[place] = prompt_parts(event.request.parts)
        self.messages = messages
        self._request = place
        self._count()

    def prefix(self, size: float) -> dict[Origin, float]:
        """Return the size by origin in the first part of a request, up to a size."""
        whole = self.sizes.total()
        if size >= whole:
            return dict(self.sizes)
        # The cached part is nearly always most of the request, so the rest is cheaper to find.
        if size < whole / 2:
            return _take(self._forward(), size)
        found: dict[Origin, float] = dict(self.sizes)
        for origin, taken in _take(self._backward(), whole - size).items():
            found[origin] -= taken
        return found

    def _forward(self) -> Iterator[Part]:
        yield from self.head
        for parts in self.messages:
            yield from parts

    def _backward(self) -> Iterator[Part]:
        for parts in reversed(self.messages):
            yield from reversed(parts)
        yield from reversed(self.head)

    def _add(self, parts: Parts) -> None:
        self.messages.append(parts)
        for part in parts:
            self.sizes[part.origin] += part.size

    def _count(self) -> None:
        """Calculate the sizes again, after parts were replaced."""
        self.sizes = Counter()
        for part in self._forward():
            self.sizes[part.origin] += part.size


def _note_parts(event: ev.RoundEnded) -> Iterator[Part]:
    """Yield the parts of a round's notes."""
    for index, text in enumerate(event.notes):
        plugin = event.noted_by[index] if index < len(event.noted_by) else ""
        yield Part(Origin("note", plugin), estimate(text))


def _thinned(parts: Parts, texts: Mapping[str, str]) -> Parts:
    """Return the parts of a message with new sizes for results whose texts were replaced."""
    found = []
    for part in parts:
        if part.call and part.call in texts:
            part = part._replace(size=estimate(texts[part.call]))
        found.append(part)
    return found


def _take(parts: Iterator[Part], size: float) -> dict[Origin, float]:
    """Return the size by origin of the first parts, up to a total size."""
    found: dict[Origin, float] = {}
    for part in parts:
        taken = min(part.size, size)
        found[part.origin] = found.get(part.origin, 0.0) + taken
        size -= taken
        if size <= 0:
            break
    return found
