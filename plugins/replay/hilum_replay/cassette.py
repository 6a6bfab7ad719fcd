"""What a cassette holds: the exchanges of a recorded session, free of any vendor's wire format.

An exchange is what was *new* in a request since the previous answer, and the answer. Layers of the
system prompt and tool schemas stand there as names with digests only. ``format`` reads and writes
cassettes as text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

from hilum.messages import (
    AssistantMessage,
    Data,
    Image,
    Layer,
    Message,
    NoteMessage,
    ToolMessage,
    ToolSpec,
    Usage,
    UserMessage,
)

Kind = Literal["user", "note", "summary", "result", "image", "aside"]


class Sent(Data, frozen=True):
    """One new thing in a request.

    Args:
        kind: ``user`` (what the user said, or context gathered for it), ``note`` (text at the
            tail), ``summary`` (what a cut left of the past), ``result`` (of the call ``call``),
            ``image``, or ``aside`` (a request beside the conversation: how its system prompt
            begins; nothing else of it is compared).
        text: The text; of an image a digest.
        call: Id of the call a result or its image belongs to.
        tool: Name of the tool of a result; empty when not known.
        code: Error code of a result; ``None`` when not known, as on wires that do not carry it.
        source: Where a user text comes from, for example ``context:open_files``; empty for the
            user.
    """

    kind: Kind
    text: str = ""
    call: str = ""
    tool: str = ""
    code: str | None = ""
    source: str = ""


class Exchange(Data, frozen=True):
    """One request and its answer.

    Args:
        sent: What was new in the request.
        answer: The whole answer.
        usage: Tokens of this call.
        first: Seconds from the request to the first piece of the answer.
        seconds: Seconds from the request to the end of the answer.
        agent: Whose conversation it belongs to.
        layers: The sealed layers as ``name digest`` where they changed, ``None`` where they stayed.
        tools: The sealed tools as ``name digest``, like ``layers``.
    """

    sent: tuple[Sent, ...]
    answer: AssistantMessage
    usage: Usage = Usage()
    first: float = 0.0
    seconds: float = 0.0
    agent: str = "main"
    layers: tuple[str, ...] | None = None
    tools: tuple[str, ...] | None = None

    @property
    def aside(self) -> bool:
        """Whether it was asked beside a conversation."""
        return bool(self.sent) and self.sent[0].kind == "aside"


class Cassette(Data, frozen=True):
    """A recorded session.

    Args:
        exchanges: In the order in which the answers arrived.
        model: Name of the model that answered first.
        hilum: Version of hilum that recorded it.
        title: What it shows, for readers.
        torn: The text ended within an exchange, which was dropped: the recording process was killed
            while writing.
    """

    exchanges: tuple[Exchange, ...] = ()
    model: str = ""
    hilum: str = ""
    title: str = ""
    torn: bool = False


def digest(data: str | bytes) -> str:
    """Eight hexadecimal digits that stand for a text or an image."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()[:8]


def name_layers(layers: Sequence[Layer], texts: Sequence[str]) -> tuple[str, ...]:
    """Describe sealed layers as ``name digest``; ``texts`` are their texts after normalisation."""
    return tuple(f"{layer.name} {digest(text)}" for layer, text in zip(layers, texts, strict=True))


def name_tools(tools: Sequence[ToolSpec], texts: Sequence[str]) -> tuple[str, ...]:
    """Describe sealed tools as ``name digest``.

    ``texts`` are their encoded schemas after normalisation.
    """
    return tuple(f"{tool.name} {digest(text)}" for tool, text in zip(tools, texts, strict=True))


def describe(messages: Sequence[Message]) -> tuple[Sent, ...]:
    """List what messages that are not answers say, as they are."""
    items: list[Sent] = []
    for message in messages:
        if isinstance(message, NoteMessage):
            items.append(Sent("note", message.text))
        elif isinstance(message, UserMessage):
            for part in message.parts:
                if isinstance(part, Image):
                    items.append(Sent("image", f"{part.media_type} {digest(part.data)}"))
                else:
                    items.append(
                        Sent("user", part.text, source="" if part.source == "user" else part.source)
                    )
        elif isinstance(message, ToolMessage):
            for result in message.results:
                items.append(Sent("result", result.text, result.call_id, result.name, result.code))
                images = (part for part in result.parts if isinstance(part, Image))
                items.extend(
                    Sent("image", f"{i.media_type} {digest(i.data)}", result.call_id)
                    for i in images
                )
    return tuple(items)


def tail(messages: Sequence[Message]) -> int:
    """Index of the first message after the last answer; 0 when there is no answer yet."""
    for index in range(len(messages) - 1, -1, -1):
        if isinstance(messages[index], AssistantMessage):
            return index + 1
    return 0
