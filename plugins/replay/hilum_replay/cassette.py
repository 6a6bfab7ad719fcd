"""The data of a cassette: the exchanges of a recorded session, in a vendor-neutral format.

An exchange consists of the *new* part of a request since the previous answer, and the answer.
System prompt layers and tool schemas are represented only by names and digests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
from hilum.messages import (
    AssistantMessage,
    Data,
    Image,
    Layer,
    Message,
    NoteMessage,
    Text,
    ToolMessage,
    ToolResult,
    ToolSpec,
    Usage,
    UserMessage,
)

Kind = Literal["user", "note", "summary", "result", "image", "aside"]


class Sent(Data, frozen=True):
    """One new item of a request.

    Args:
        kind: ``user`` (the user's text, or context gathered for it), ``note`` (text at the end
            of the request), ``summary`` (the result of a compaction), ``result`` (of the call
            ``call``), ``image``, or ``aside`` (a request outside the conversation, represented by
            the beginning of its system prompt, the only part that is compared).
        text: The text, or the digest of an image.
        call: Id of the call to which a result or its image belongs.
        tool: Name of the tool that returned a result; empty if it is unknown.
        code: Error code of a result; ``None`` if it is unknown, because the wire format does not
            carry it.
        source: The origin of a user text, for example ``context:open_files``; empty for the user.
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
        sent: The new items of the request.
        answer: The whole answer.
        usage: Tokens of this exchange.
        first: Seconds from the request to the first piece of the answer.
        seconds: Seconds from the request to the end of the answer.
        agent: The agent to whose conversation the exchange belongs.
        layers: The layers of the frozen prompt as ``name digest`` if they changed, or else
            ``None``.
        tools: The tools of the frozen prompt as ``name digest``, like ``layers``.
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
        """Whether the request was outside a conversation."""
        return bool(self.sent) and self.sent[0].kind == "aside"

    @property
    def has_summary(self) -> bool:
        """Whether a compaction preceded the request."""
        return any(item.kind == "summary" for item in self.sent)


class Cassette(Data, frozen=True):
    """A recorded session.

    Args:
        exchanges: The exchanges, in the order in which the answers arrived.
        model: Name of the model that answered first.
        hilum: Version of hilum that recorded the cassette.
        title: A description of the recording, for readers.
        torn: Whether the text ended within an exchange, which was therefore dropped. This happens
            if the recording process was killed while writing the exchange.
    """

    exchanges: tuple[Exchange, ...] = ()
    model: str = ""
    hilum: str = ""
    title: str = ""
    torn: bool = False


def compute_digest(data: str | bytes) -> str:
    """Return an eight-digit hexadecimal digest of a text or an image."""
    if isinstance(data, str):
        data = data.encode()
    # Eight digits are enough to detect a change; the digest is not a protection against attackers.
    return hashlib.sha256(data).hexdigest()[:8]


def describe_layers(layers: Sequence[Layer], clean: Callable[[str], str]) -> tuple[str, ...]:
    """Return layers as ``name digest``; ``clean`` removes secrets and paths from their texts."""
    return tuple(f"{layer.name} {compute_digest(clean(layer.text))}" for layer in layers)


def describe_tools(tools: Sequence[ToolSpec], clean: Callable[[str], str]) -> tuple[str, ...]:
    """Return tools as ``name digest``; ``clean`` removes secrets and paths from their schemas."""
    names = []
    for tool in tools:
        schema = msgspec.json.encode(tool).decode()
        names.append(f"{tool.name} {compute_digest(clean(schema))}")
    return tuple(names)


def describe_messages(messages: Sequence[Message]) -> tuple[Sent, ...]:
    """Return the items of messages that are not answers."""
    items: list[Sent] = []
    for message in messages:
        if isinstance(message, NoteMessage):
            items.append(Sent("note", message.text))
        elif isinstance(message, UserMessage):
            items += [_describe_part(part) for part in message.parts]
        elif isinstance(message, ToolMessage):
            for result in message.results:
                items += _describe_result(result)
    return tuple(items)


def _describe_result(result: ToolResult) -> list[Sent]:
    items = [Sent("result", result.text, result.call_id, result.name, result.code)]
    for part in result.parts:
        if isinstance(part, Image):
            items.append(_describe_image(part, result.call_id))
    return items


def _describe_part(part: Text | Image) -> Sent:
    if isinstance(part, Image):
        return _describe_image(part)
    # The usual source, ``user``, is omitted from cassettes.
    source = "" if part.source == "user" else part.source
    return Sent("user", part.text, source=source)


def _describe_image(image: Image, call: str = "") -> Sent:
    # The data is replaced with a digest, because it would make the cassette unreadable.
    digest = compute_digest(image.data)
    return Sent("image", f"{image.media_type} {digest}", call)


def find_new_messages(messages: Sequence[Message]) -> int:
    """Return the index of the first message after the last answer, or 0 if there is no answer."""
    for index in range(len(messages) - 1, -1, -1):
        if isinstance(messages[index], AssistantMessage):
            return index + 1
    return 0
