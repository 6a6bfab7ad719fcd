"""Responses of a scripted model, which consist of texts, tool calls, pauses and failures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeAlias

import attrs
import msgspec
import trio

from hilum.messages import AssistantMessage, Text, Thinking, ToolCall, Usage
from hilum.models import KeepAlive, Request

Stop = Literal["end", "calls", "length", "refusal"]


@attrs.frozen
class Pause:
    """A point in a response at which the stream waits.

    Args:
        until: The number of seconds to wait on trio's clock, or the event to wait for.
    """

    until: float | trio.Event

    async def wait(self) -> None:
        """Wait until the pause is over."""
        if isinstance(self.until, trio.Event):
            await self.until.wait()
        else:
            await trio.sleep(self.until)


@attrs.frozen
class Cut:
    """A point in a response at which the stream breaks off."""


Part: TypeAlias = Text | Thinking | ToolCall | Pause | Cut | KeepAlive | Exception


@attrs.frozen
class Answer:
    """One response of a scripted model.

    Answers can be added: ``say("Let me look.") + use("read_file", path="a.py")``.

    Args:
        parts: The parts, in order. A ``ToolCall`` without an id gets one when it is played.
        stop: The reason why the response ended; ``calls`` or ``end`` by default.
        usage: The usage that the model reports; by default, it is estimated from sizes.
    """

    parts: tuple[Part, ...] = ()
    stop: Stop | None = None
    usage: Usage | None = None

    def __add__(self, other: Scripted) -> Answer:
        more = answer(other)
        return Answer(self.parts + more.parts, more.stop or self.stop, more.usage or self.usage)


Scripted: TypeAlias = (
    str
    | Part
    | Answer
    | AssistantMessage
    | Sequence["Scripted"]
    | Callable[[Request], "Scripted | Awaitable[Scripted]"]
)


def say(text: str, *, stop: Stop | None = None, usage: Usage | None = None) -> Answer:
    """Respond with a text.

    Args:
        text: The text.
        stop: The reason why the response ends after the text, for example ``length``.
        usage: The usage to report.
    """
    return Answer((Text(text, "model"),), stop, usage)


def use(tool: str, /, **arguments: Any) -> Answer:
    """Call a tool. Calls that are joined with ``+`` form one response and run in parallel."""
    return Answer((ToolCall("", tool, msgspec.json.encode(arguments).decode()),))


def pause(until: float | trio.Event) -> Answer:
    """Wait in the middle of a response, for a number of seconds or for an event.

    For example: ``say("one ") + pause(40) + say("two")``.
    """
    return Answer((Pause(until),))


def cut() -> Answer:
    """Break off the stream: ``say("I was about to") + cut()``."""
    return Answer((Cut(),))


def answer(scripted: Scripted) -> Answer:
    """Return an item of a script as an ``Answer``.

    Raises:
        TypeError: The item cannot be part of a script.
    """
    match scripted:
        case Answer():
            return scripted
        case str():
            return say(scripted)
        case AssistantMessage():
            return Answer(scripted.parts, scripted.stop)
        case Text() | Thinking() | ToolCall() | Pause() | Cut() | KeepAlive() | Exception():
            return Answer((scripted,))
        case list() | tuple():
            whole = Answer()
            for part in scripted:
                whole += part
            return whole
    raise TypeError(f"{scripted!r:.80} cannot be part of an answer; see hilum.testing.Answer.")
