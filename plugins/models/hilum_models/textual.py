"""Tools for models without tool calling: described in the prompt, called in the text, results given
as text.

A call is a fenced block whose info string is ``call`` and the tool's name, with the arguments as
JSON::

    ```call read_file
    {"path": "a.py"}
    ```

The fences stand alone on their lines and begin at the margin. JSON cannot hold a line that consists
of three backticks, so arguments cannot end their block. A block inside another fenced block is an
example, not a call; one that does not end is a malformed call, and the model is told so. Only what
the model itself writes is read this way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import msgspec
from hilum.messages import (
    AssistantMessage,
    Layer,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hilum.models import CallChunk, Chunk, Done, TextChunk, Wire

from hilum_models import encode as e
from hilum_models.answer import Answer, Call, Reader, Stop
from hilum_models.failures import Who
from hilum_models.schemas import plain

_RANK = 25
_OPEN = re.compile(r"```call[ \t]+([\w.-]+)[ \t]*\r?\n")
_FENCE = re.compile(r"(`{3,}(?=[^`\n]*\n)|~{3,})([^\n]*)\n")
_LINES = re.compile(r"[^\n]*\n|[^\n]+")

# Ends the arguments of a call whose block does not end, so that they are no JSON and the model
# reads why.
UNCLOSED = "\n(the call block was not closed: end it with ``` alone on a line)"

_INTRODUCTION = """\
# Tools

You act by calling tools. To call one, write a block exactly like this, alone on its lines and not inside any other block:

```call NAME
{"parameter": "value"}
```

NAME is the tool's name; the body is one JSON object with its arguments. Write as many blocks as there are independent calls to
make, then stop: the results come with the next message. Never write a result yourself. When no call is needed, answer
without a block.

The tools, each with the JSON Schema of its arguments:
"""


class TextualWire(msgspec.Struct, frozen=True):
    """Encodes tools, calls and results as text for another wire. Implements ``Wire``."""

    inner: Wire

    @property
    def key(self) -> str:
        """Name of the encoding."""
        return f"text:{self.inner.key}"

    def head(self, layers: Sequence[Layer], tools: Sequence[ToolSpec]) -> bytes:
        """Encode layers and the description of the tools."""
        if not tools:
            return self.inner.head(layers, ())
        lines = [_INTRODUCTION]
        for tool in tools:
            lines.append(
                f"## {tool.name}\n\n{tool.description}\n\n{e.encode(plain(tool.parameters)).decode()}\n"
            )
        return self.inner.head([*layers, Layer(_RANK, "textual tools", "\n".join(lines))], ())

    def message(self, message: Message) -> bytes:
        """Encode one message."""
        if isinstance(message, AssistantMessage):
            return self.inner.message(_assistant(message))
        if isinstance(message, ToolMessage):
            return self.inner.message(_results(message))
        return self.inner.message(message)

    def body(self, head: bytes, pieces: Sequence[bytes]) -> bytes:
        """Join the pieces."""
        return self.inner.body(head, pieces)


def _assistant(message: AssistantMessage) -> AssistantMessage:
    """Write the calls back into the text."""
    text = message.text
    for call in message.calls:
        arguments = e.arguments_object(call).decode().replace("\n", " ")
        text += (
            f"{chr(10) if text and not text.endswith(chr(10)) else ''}```call"
            f" {call.name}\n{arguments}\n```\n"
        )
    thoughts = tuple(part for part in message.parts if isinstance(part, Thinking))
    return msgspec.structs.replace(message, parts=(*thoughts, Text(text, "model")))


def _results(message: ToolMessage) -> UserMessage:
    """Return results as the user's text.

    What a result holds cannot end it, and is never read as a call.
    """
    parts = []
    for result in message.results:
        state = f"error {result.code}" if result.code else "ok"
        text = result.text.replace("</result", "<\\/result")
        parts.append(
            Text(
                f'<result tool="{result.name}" state="{state}">\n{text}\n</result>',
                f"tool:{result.name}",
            )
        )
        parts += [part for part in result.parts if not isinstance(part, Text)]  # type: ignore[misc]
    return UserMessage(tuple(parts))


def reading(read: Callable[[str, bytes, Who], Reader]) -> Callable[[str, bytes, Who], Reader]:
    """Make readers that find calls in the text that other readers give."""

    def make(model: str, body: bytes, who: Who) -> Reader:
        return TextualReader(read(model, body, who), Answer(model, body))

    return make


class TextualReader:
    """Finds calls in an answer's text. Implements ``Reader``."""

    def __init__(self, inner: Reader, answer: Answer) -> None:
        self._inner = inner
        self._answer = answer
        self._line = ""  # a line that may turn out to be a fence
        self._shown = False  # whether the current line is being passed on as text
        self._fence = ""  # the fence of the block we are in, if it is no call
        self._call: Call | None = None  # the call whose block we are in

    @property
    def complete(self) -> bool:
        """Whether the answer is whole."""
        return self._inner.complete

    @property
    def ended(self) -> bool:
        """Whether nothing that matters can follow."""
        return self._inner.ended

    def feed(self, event: bytes, data: bytes) -> Iterable[Chunk]:
        """Take one event."""
        chunks: list[Chunk] = []
        for chunk in self._inner.feed(event, data):
            if isinstance(chunk, TextChunk):
                self._text(chunk.text, chunks)
            elif not isinstance(chunk, CallChunk):  # a native call has no meaning here
                chunks.append(chunk)
        return chunks

    def finish(self) -> Done:
        """Return the whole answer.

        A call whose block did not end is malformed, whatever its arguments.
        """
        done = self._inner.finish()
        chunks: list[Chunk] = []
        if self._line:
            self._whole_line(self._line, chunks, last=True)
            self._line = ""
        if self._call is not None:
            self._answer.arguments(self._call, UNCLOSED)
            self._call = None
        parts = [part for part in done.message.parts if isinstance(part, Thinking)]
        written = self._answer_parts()
        stop: Stop = done.message.stop
        if stop in ("end", "calls"):
            stop = "calls" if any(isinstance(part, ToolCall) for part in written) else "end"
        message = msgspec.structs.replace(done.message, parts=(*parts, *written), stop=stop)
        return Done(message, done.usage)

    def _answer_parts(self) -> tuple[Text | Thinking | ToolCall, ...]:
        self._answer.stop = "end"
        parts = self._answer.done().message.parts
        parts = tuple(_stripped(part) for part in parts)
        return tuple(part for part in parts if not isinstance(part, Text) or part.text.strip())

    def _text(self, text: str, chunks: list[Chunk]) -> None:
        """Take text: pass it on at once, except for lines that may be fences."""
        for piece in _LINES.findall(text):
            if self._shown:
                self._pass_on(piece, chunks)
                self._shown = not piece.endswith("\n")
                continue
            self._line += piece
            if self._line.endswith("\n"):
                self._whole_line(self._line, chunks)
                self._line = ""
            elif not _may_be_fence(self._line):
                self._pass_on(self._line, chunks)
                self._line = ""
                self._shown = True

    def _pass_on(self, text: str, chunks: list[Chunk]) -> None:
        """Add a piece to the text of the answer, or to the arguments of the call that is being
        written.
        """
        chunks += (
            self._answer.text(text)
            if self._call is None
            else self._answer.arguments(self._call, text)
        )

    def _whole_line(self, line: str, chunks: list[Chunk], last: bool = False) -> None:
        if self._call is not None:
            if line.rstrip() == "```":
                self._call = None
            else:
                self._pass_on(line, chunks)
            return
        if not self._fence and not last and (opened := _OPEN.fullmatch(line)):
            self._call = self._answer.call("", opened[1])
            chunks += self._answer.arguments(self._call, "", first=True)
            return
        chunks += self._answer.text(line)
        found = _FENCE.fullmatch(line)
        if found:
            if not self._fence:
                self._fence = found[1]
            elif found[1].startswith(self._fence) and not found[2].strip():
                self._fence = ""


def _may_be_fence(line: str) -> bool:
    return line.startswith(("```", "~~~")) or line in ("`", "``", "~", "~~")


def _stripped(part: Text | Thinking | ToolCall) -> Text | Thinking | ToolCall:
    """Return a call without the blank lines around its arguments, anything else as it is."""
    if isinstance(part, ToolCall):
        return msgspec.structs.replace(part, arguments=part.arguments.strip())
    return part
