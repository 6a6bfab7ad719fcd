"""Answers of a scripted model, made of texts, tool calls, pauses and failures."""

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
    """A point in an answer at which the stream waits.

    Args:
        until: Seconds on trio's clock, or an event to wait for.
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
    """A point in an answer at which the stream breaks off."""


Part: TypeAlias = Text | Thinking | ToolCall | Pause | Cut | KeepAlive | Exception


@attrs.frozen
class Answer:
    """One answer of a scripted model.

    Answers can be added: ``say("Let me look.") + use("read_file", path="a.py")``.

    Args:
        parts: The parts, in order. A ``ToolCall`` without an id gets one when it is played.
        stop: Why it ended; ``calls`` or ``end`` by default.
        usage: The tokens it reports; by default, they are estimated from sizes.
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
    """Answer with a text.

    Args:
        text: The text.
        stop: Why the answer ends after the text, for example ``length``.
        usage: The tokens to report.
    """
    return Answer((Text(text, "model"),), stop, usage)


def use(tool: str, /, **arguments: Any) -> Answer:
    """Call a tool. Calls added with ``+`` are one answer and run in parallel."""
    return Answer((ToolCall("", tool, msgspec.json.encode(arguments).decode()),))


def pause(until: float | trio.Event) -> Answer:
    """Wait in the middle of an answer, for a number of seconds or for an event.

    For example: ``say("one ") + pause(40) + say("two")``.
    """
    return Answer((Pause(until),))


def cut() -> Answer:
    """Break the stream off: ``say("I was about to") + cut()``."""
    return Answer((Cut(),))


def answer(scripted: Scripted) -> Answer:
    """Return an item of a script as an ``Answer``.

    Raises:
        TypeError: It cannot be part of a script.
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
