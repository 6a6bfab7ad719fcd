"""Tools for models without tool calling: descriptions, calls and results are plain text.

A call is a fenced block whose info string is ``call`` and the tool's name, with the arguments as
JSON::

    ```call read_file
    {"path": "a.py"}
    ```

Fences are alone on their lines and are not indented. JSON cannot contain a line of three backticks,
so arguments cannot end their block. A block inside another fenced block is an example, not a call.
An unclosed block is a malformed call, which is reported to the model. Only the model's own text is
parsed for calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec
from hilum.messages import (
    AssistantMessage,
    Image,
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

from hilum_models.answer_builder import AnswerBuilder, CallPart, Reader, Stop
from hilum_models.apis import CreateReader
from hilum_models.encode import arguments_object, encode
from hilum_models.failures import Endpoint
from hilum_models.schemas import simplify_schema

# The rank of the tool description among the layers of the system prompt.
_RANK = 25
# Patterns are strings, so that they are compiled only for models that need this protocol.
_OPENING = r"```call[ \t]+([\w.-]+)[ \t]*\r?\n"
_FENCE = r"(`{3,}(?=[^`\n]*\n)|~{3,})([^\n]*)\n"
_LINES = r"[^\n]*\n|[^\n]+"

# Appended to the arguments of a call whose block is not closed. The text makes the arguments
# invalid JSON and shows the model why.
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


class TextToolsWire(msgspec.Struct, frozen=True):
    """A wire that writes tools, calls and results as text for another wire. Implements ``Wire``."""

    inner: Wire

    @property
    def key(self) -> str:
        """Name of the encoding."""
        return f"text:{self.inner.key}"

    def head(self, layers: Sequence[Layer], tools: Sequence[ToolSpec]) -> bytes:
        """Encode the prompt layers and the description of the tools."""
        if not tools:
            return self.inner.head(layers, ())
        text = "\n".join([_INTRODUCTION, *map(_describe_tool, tools)])
        return self.inner.head([*layers, Layer(_RANK, "textual tools", text)], ())

    def message(self, message: Message) -> bytes:
        """Encode one message."""
        if isinstance(message, AssistantMessage):
            message = _write_calls(message)
        elif isinstance(message, ToolMessage):
            message = _write_results(message)
        return self.inner.message(message)

    def body(self, head: bytes, pieces: Sequence[bytes]) -> bytes:
        """Join the pieces."""
        return self.inner.body(head, pieces)


def _describe_tool(tool: ToolSpec) -> str:
    schema = encode(simplify_schema(tool.parameters)).decode()
    return f"## {tool.name}\n\n{tool.description}\n\n{schema}\n"


def _write_calls(message: AssistantMessage) -> AssistantMessage:
    """Return an answer with its calls written as text."""
    text = message.text
    for call in message.calls:
        # The arguments are on one line, so that no line of them can be a fence.
        arguments = arguments_object(call).decode().replace("\n", " ")
        if text and not text.endswith("\n"):
            text += "\n"
        text += f"```call {call.name}\n{arguments}\n```\n"
    thoughts = [part for part in message.parts if isinstance(part, Thinking)]
    return msgspec.structs.replace(message, parts=(*thoughts, Text(text, "model")))


def _write_results(message: ToolMessage) -> UserMessage:
    """Return results as text in a user message.

    The text in a result cannot close the result's tag, and is never parsed as a call.
    """
    parts: list[Text | Image] = []
    for result in message.results:
        state = f"error {result.code}" if result.code else "ok"
        text = result.text.replace("</result", "<\\/result")
        block = f'<result tool="{result.name}" state="{state}">\n{text}\n</result>'
        parts.append(Text(block, f"tool:{result.name}"))
        parts += [part for part in result.parts if isinstance(part, Image)]
    return UserMessage(tuple(parts))


def read_text_calls(create_reader: CreateReader) -> CreateReader:
    """Return a function that wraps a reader in one that finds calls in its text."""

    def create(model: str, body: bytes, endpoint: Endpoint) -> Reader:
        inner = create_reader(model, body, endpoint)
        return TextToolsReader(inner, AnswerBuilder(model, body))

    return create


class TextToolsReader:
    """A parser that finds calls in an answer's text. Implements ``Reader``."""

    def __init__(self, inner: Reader, answer: AnswerBuilder) -> None:
        self._inner = inner
        self._answer = answer
        self._line = ""  # a line that may turn out to be a fence
        self._is_plain = False  # whether the current line is passed on as text
        self._fence = ""  # the fence of the current block, if the block is not a call
        self._call: CallPart | None = None  # the call of the current block

    @property
    def complete(self) -> bool:
        """Whether the answer is complete."""
        return self._inner.complete

    @property
    def ended(self) -> bool:
        """Whether all further events can be ignored."""
        return self._inner.ended

    def feed(self, event: bytes, data: bytes) -> Iterable[Chunk]:
        """Parse one event and return its chunks."""
        chunks: list[Chunk] = []
        for chunk in self._inner.feed(event, data):
            if isinstance(chunk, TextChunk):
                chunks += self._read_text(chunk.text)
            elif not isinstance(chunk, CallChunk):  # the request offers no native tools
                chunks.append(chunk)
        return chunks

    def finish(self) -> Done:
        """Return the complete answer.

        A call with an unclosed block is malformed, whatever its arguments.
        """
        done = self._inner.finish()
        if self._line:
            self._end_line(last=True)
        if self._call is not None:
            self._answer.add_arguments(self._call, UNCLOSED)
            self._call = None
        # Building requires a stop reason; the real one is taken from the inner answer below.
        self._answer.stop = "end"
        written = self._answer.build().message
        stop: Stop = done.message.stop
        if stop in ("end", "calls"):
            stop = written.stop
        parts = [part for part in done.message.parts if isinstance(part, Thinking)]
        parts += filter(None, map(_strip, written.parts))  # type: ignore[arg-type]
        message = msgspec.structs.replace(done.message, parts=tuple(parts), stop=stop)
        return Done(message, done.usage)

    def _read_text(self, text: str) -> list[Chunk]:
        """Pass text on immediately, except for lines that may be fences."""
        chunks: list[Chunk] = []
        for piece in re.findall(_LINES, text):
            if self._is_plain:
                chunks += self._add(piece)
                self._is_plain = not piece.endswith("\n")
                continue
            self._line += piece
            if self._line.endswith("\n"):
                chunks += self._end_line()
            elif not _may_be_fence(self._line):
                chunks += self._add(self._line)
                self._line = ""
                self._is_plain = True
        return chunks

    def _add(self, text: str) -> list[Chunk]:
        """Add a piece to the text of the answer, or to the arguments of the current call."""
        if self._call is None:
            return self._answer.add_text(text)
        return self._answer.add_arguments(self._call, text)

    def _end_line(self, last: bool = False) -> list[Chunk]:
        line = self._line
        self._line = ""
        if self._call is not None:
            if line.rstrip() != "```":
                return self._add(line)
            self._call = None
            return []
        # A call needs a body, so an opening fence in the last line does not begin a call.
        opening = re.fullmatch(_OPENING, line)
        if opening and not self._fence and not last:
            # The id is computed from the request.
            self._call = self._answer.begin_call("", opening[1])
            return self._answer.open_arguments(self._call)
        self._read_fence(line)
        return self._answer.add_text(line)

    def _read_fence(self, line: str) -> None:
        """Record whether a line begins or ends a block that is not a call."""
        found = re.fullmatch(_FENCE, line)
        if not found:
            return
        if not self._fence:
            self._fence = found[1]
        elif found[1].startswith(self._fence) and not found[2].strip():
            self._fence = ""


def _may_be_fence(line: str) -> bool:
    return line.startswith(("```", "~~~")) or line in ("`", "``", "~", "~~")


def _strip(part: Text | Thinking | ToolCall) -> Text | Thinking | ToolCall | None:
    """Return a part without the blank lines around it; ``None`` if it is blank."""
    if isinstance(part, ToolCall):
        return msgspec.structs.replace(part, arguments=part.arguments.strip())
    if isinstance(part, Text) and not part.text.strip():
        return None
    return part
