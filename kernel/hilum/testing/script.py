"""What a scripted model says: answers made of texts, tool calls, pauses and failures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeAlias

import attrs
import msgspec
import trio

from hilum.messages import AssistantMessage, Text, Thinking, ToolCall, Usage
from hilum.models import Alive, Request

Stop = Literal["end", "calls", "length", "refusal"]


@attrs.frozen
class Pause:
    """A place in an answer where the stream waits.

    Args:
        until: Seconds on trio's clock, or an event to wait for.
    """

    until: float | trio.Event

    async def wait(self) -> None:
        """Wait it out."""
        if isinstance(self.until, trio.Event):
            await self.until.wait()
        else:
            await trio.sleep(self.until)


@attrs.frozen
class Cut:
    """A place in an answer where the stream breaks off."""


Part: TypeAlias = Text | Thinking | ToolCall | Pause | Cut | Alive | Exception


@attrs.frozen
class Answer:
    """One answer of a scripted model.

    Answers add up: ``say("Let me look.") + use("read_file", path="a.py")``.

    Args:
        parts: What comes, in order. A ``ToolCall`` without an id gets one when it is played.
        stop: Why it ended; ``calls`` or ``end`` by default.
        usage: The tokens it reports; estimated from sizes by default.
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
        stop: Why the answer ends there, for example ``length``.
        usage: The tokens to report.
    """
    return Answer((Text(text, "model"),), stop, usage)


def use(tool: str, /, **arguments: Any) -> Answer:
    """Call a tool. Calls added with ``+`` are one answer and run in parallel."""
    return Answer((ToolCall("", tool, msgspec.json.encode(arguments).decode()),))


def pause(until: float | trio.Event) -> Answer:
    """Wait in the middle of an answer, for some seconds or for an event:
    ``say("one ") + pause(40) + say("two")``.
    """
    return Answer((Pause(until),))


def cut() -> Answer:
    """Break the stream off: ``say("I was about to") + cut()``."""
    return Answer((Cut(),))


def answer(scripted: Scripted) -> Answer:
    """Return anything that may stand in a script as an ``Answer``.

    Raises:
        TypeError: It may not stand there.
    """
    match scripted:
        case Answer():
            return scripted
        case str():
            return say(scripted)
        case AssistantMessage():
            return Answer(scripted.parts, scripted.stop)
        case Text() | Thinking() | ToolCall() | Pause() | Cut() | Alive() | Exception():
            return Answer((scripted,))
        case list() | tuple():
            whole = Answer()
            for part in scripted:
                whole += part
            return whole
    raise TypeError(f"{scripted!r:.80} cannot stand in an answer; see hilum.testing.Answer.")
