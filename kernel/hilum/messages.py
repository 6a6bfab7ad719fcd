"""The data of a conversation: parts, messages, prompt layers, context blocks, tool descriptions.

All of this data is in frozen structs with one wire format (JSON with a ``type`` tag), which is
written to the log unchanged. Every part has a source. A part that comes neither from the user nor
from the model is data, never an instruction.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import add
from typing import Annotated, Any, Literal, TypeVar

import msgspec


def replace_surrogates(text: str) -> str:
    """Replace surrogates, which UTF-8 cannot encode.

    Python represents undecodable bytes in file names as surrogates.
    """
    # Most texts are ASCII, which CPython detects without reading the text.
    if text.isascii():
        return text
    return text.encode(errors="replace").decode()


NOTE_TAG = "hilum_note"
# An opening or closing note tag in a text that is not a note; only hilum writes notes.
_FORGED_NOTE = rf"(?i)<(?=\s*(?:/\s*)?{NOTE_TAG}\b)"

_ESCAPED_NOTE = rf"(?i)<\\(?=\s*(?:/\s*)?{NOTE_TAG}\b)"


def escape_notes(text: str) -> str:
    """Return a text with note tags escaped.

    The model cannot then mistake the text for a note from hilum.
    """
    # Almost no text contains the tag, and these checks are faster than the search below.
    if NOTE_TAG not in text and NOTE_TAG not in text.lower():
        return text
    return re.sub(_FORGED_NOTE, r"<\\", text)


def unescape_notes(text: str) -> str:
    """Return the original of a text that ``escape_notes`` returned."""
    return re.sub(_ESCAPED_NOTE, "<", text)


N = TypeVar("N", int, float)
Count = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""A whole number that SQLite, floating-point numbers and other programs can represent."""
MAX_TIME = 1e11
UnixTime = Annotated[float, msgspec.Meta(ge=0, le=MAX_TIME)]
"""A Unix time in seconds, up to the year 5138. Calendars of Python and browsers end later."""


class Data(msgspec.Struct, frozen=True, omit_defaults=True):
    """Base class of all data structs, which are frozen and encoded without default values."""


class Text(Data, frozen=True, tag="text"):
    """A piece of text.

    ``source`` is ``user``, ``piped``, ``model``, ``kernel``, ``tool:NAME`` or ``context:TYPE``.
    ``piped`` marks a prompt or attached data that another program wrote.
    """

    text: str
    source: str = "user"


class Image(Data, frozen=True, tag="image"):
    """An image. ``data`` is base64 on the wire; ``media_type`` is, for example, ``image/png``."""

    media_type: str
    data: bytes
    source: str = "user"


class Thinking(Data, frozen=True, tag="thinking"):
    """A model's reasoning, which is sent back to its vendor unchanged.

    ``vendor`` contains fields that only the vendor can read.
    """

    text: str = ""
    vendor: dict[str, Any] = {}


class ToolCall(Data, frozen=True, tag="tool_call"):
    """A tool call made by a model.

    ``arguments`` is JSON text as the model wrote it; it may be invalid.

    If the call cannot run because its name or arguments cannot be stored, ``problem`` is the reason
    and ``arguments`` is an empty object.
    """

    id: str
    name: str
    arguments: str
    vendor: dict[str, Any] = {}
    problem: str = ""


class ToolResult(Data, frozen=True, tag="tool_result"):
    """The result of a tool call.

    ``code`` is empty on success; ``data`` is for faces and never sent to a model. ``changed`` is
    false if a tool that writes reports that it changed nothing.
    """

    call_id: str
    name: str
    parts: tuple[Text | Image, ...]
    code: str = ""
    data: dict[str, Any] = {}
    changed: bool = True

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))


class UserMessage(Data, frozen=True, tag="user"):
    """A user's message, with the context blocks gathered for it."""

    parts: tuple[Text | Image, ...]

    @property
    def request(self) -> str:
        """The prompt with its piped data, but without the gathered context."""
        return self._joined("user", "piped")

    @property
    def typed(self) -> str:
        """The text that the user typed; only this can be a command, an instruction or consent."""
        return self._joined("user")

    def without_image_data(self) -> UserMessage:
        """Return the message with empty images, as the log stores it (see ``RunStarted``)."""
        parts: list[Text | Image] = []
        for part in self.parts:
            if isinstance(part, Image):
                part = Image(part.media_type, b"", part.source)
            parts.append(part)
        return UserMessage(tuple(parts))

    def with_image_data(self, images: Sequence[Image]) -> UserMessage:
        """Return the message with images in place of its empty ones.

        Args:
            images: The images of the prompt, in order. An empty image without a counterpart, as in
                a damaged log, is left out, because providers reject empty images.
        """
        if not any(isinstance(part, Image) and not part.data for part in self.parts):
            return self
        left = list(images)
        parts: list[Text | Image] = []
        for part in self.parts:
            if not isinstance(part, Image) or part.data:
                parts.append(part)
            elif left:
                parts.append(left.pop(0))
        return UserMessage(tuple(parts))

    def _joined(self, *sources: str) -> str:
        return "\n".join(
            part.text for part in self.parts if isinstance(part, Text) and part.source in sources
        )


class AssistantMessage(Data, frozen=True, tag="assistant"):
    """A model's complete response. ``stop`` is the reason why the response ended."""

    parts: tuple[Text | Thinking | ToolCall, ...]
    model: str = ""
    stop: Literal["end", "calls", "length", "refusal"] = "end"

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls in the response, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))


class ToolMessage(Data, frozen=True, tag="tool"):
    """The results of one round of calls, in call order."""

    results: tuple[ToolResult, ...]


class NoteMessage(Data, frozen=True, tag="note"):
    """Text that the kernel adds to the end of the conversation.

    The text is a reminder, a changed rule or tool, or the summary of a compaction.
    """

    text: str


Message = UserMessage | AssistantMessage | ToolMessage | NoteMessage


class Layer(Data, frozen=True):
    """A part of the system prompt. Lower ranks come first and change less often.

    The ranks in the standard set are 0 (meta), 5 (agent), 10 (mode), 11 (approval policy), 20 (tool
    use), 25 (sandbox), 30 (recovery), 40 (rules), 50 (skills) and 60 (MCP servers).
    """

    rank: Count
    name: str
    text: str


class Block(Data, frozen=True):
    """A block of context gathered for a prompt.

    ``type`` becomes the tag of the block. If the budget is too small for all blocks,
    those with a higher ``priority`` are kept.
    """

    type: str
    text: str
    path: str = ""
    line: Count = 0
    priority: Count = 0


class ToolSpec(Data, frozen=True):
    """The description of a tool for a model. ``parameters`` is a JSON Schema of type ``object``."""

    name: str
    description: str
    parameters: dict[str, Any]


class Compaction(Data, frozen=True):
    """A plan, made by ``trim_context``, that makes a conversation fit in its budget.

    Args:
        upto: The summary replaces the messages before this index; 0 keeps all messages. The kernel
            moves the index back if it would separate calls from their results.
        summary: The text of the summary.
        thinned: Texts that replace the results of calls, by call id.
    """

    upto: Count = 0
    summary: str = ""
    thinned: dict[str, str] = {}


class Usage(Data, frozen=True):
    """The number of tokens that one or more model calls used.

    ``input`` includes ``cached`` and ``cache_write``; ``cost`` is in US dollars.
    """

    input: Count = 0
    cached: Count = 0
    cache_write: Count = 0
    output: Count = 0
    reasoning: Count = 0
    cost: float | None = None

    def __add__(self, other: Usage) -> Usage:
        # An unknown cost is None and not 0, because calls whose price is not known must not look
        # free.
        if self.cost is None and other.cost is None:
            cost = None
        else:
            cost = (self.cost or 0) + (other.cost or 0)
        *mine, _ = msgspec.structs.astuple(self)
        *theirs, _ = msgspec.structs.astuple(other)
        counts = [*map(add, mine, theirs), cost]
        return Usage(*counts)

    @property
    def total(self) -> int:
        """Input and output tokens together."""
        return self.input + self.output


MAX_NUMBER = 10**12
"""The largest number of dollars, tokens or seconds that one request or call can have used."""


def check_number(number: N) -> N:
    """Return a number that a provider or a log states; 0 if it cannot be right.

    A negative number would lower sums. One that is not finite would make them meaningless, and a
    huge one could not be converted or shown.
    """
    if 0 <= number <= MAX_NUMBER:
        return number
    return type(number)(0)


def check_usage(usage: Usage) -> Usage:
    """Return the usage of a request; each number that cannot be right is 0."""
    return Usage(
        check_number(usage.input),
        check_number(usage.cached),
        check_number(usage.cache_write),
        check_number(usage.output),
        check_number(usage.reasoning),
        None if usage.cost is None else check_number(usage.cost),
    )


class Price(Data, frozen=True):
    """Prices in US dollars per million tokens."""

    input: float
    output: float
    cached: float | None = None
    cache_write: float | None = None

    def cost(self, usage: Usage) -> float:
        """Return the cost of the given usage in US dollars."""
        # Providers charge less for cached tokens. If the price of cached tokens is not known, the
        # full price counts, so that a cost limit is reached too early rather than too late.
        cached = self.input if self.cached is None else self.cached
        written = self.input if self.cache_write is None else self.cache_write
        fresh = usage.input - usage.cached - usage.cache_write
        tokens = (
            fresh * self.input
            + usage.cached * cached
            + usage.cache_write * written
            + usage.output * self.output
        )
        return tokens / 1e6
