"""Tools work for models without tool calling: described, called and answered in text, and read strictly."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hilum.messages import (
    AssistantMessage,
    Image,
    Layer,
    Message,
    NoteMessage,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolSpec,
    UserMessage,
)
from hilum.models import CallChunk, Done, Request, TextChunk
from hilum_models import wire_for
from hilum_models.apis import api
from hilum_models.failures import Who
from hilum_models.providers import providers
from hilum_models.settings import ModelSettings, ModelsSettings
from hilum_models.sse import SseDecoder
from hilum_models.textual import reading

NAME = "ollama/gemma:2b"
TOOLS = (ToolSpec("read_file", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}}),)


def stream(text: str, finish: str = "stop", size: int = 5) -> bytes:
    """A chat stream that gives a text in small deltas."""
    deltas = [{"content": text[i : i + size]} for i in range(0, len(text), size)]
    events: list[Any] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    return b"".join(b"data: " + msgspec.json.encode(event) + b"\n\n" for event in events)


def read(text: str, finish: str = "stop", size: int = 5) -> tuple[Done, str, list[CallChunk]]:
    reader = reading(api("chat").read)(NAME, b"body", Who("ollama"))
    chunks = [
        chunk for event, data in SseDecoder().feed(stream(text, finish, size)) for chunk in reader.feed(event, data)
    ]
    shown = "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk))
    return reader.finish(), shown, [chunk for chunk in chunks if isinstance(chunk, CallChunk)]


CALL = '```call read_file\n{"path": "a.py"}\n```\n'


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_calls_are_found_between_text(size: int) -> None:
    """Text around the blocks is the answer's text, each block is a call; however the stream is cut."""
    done, shown, chunks = read(f"I look.\n{CALL}And:\n{CALL.replace('a.py', 'b.py')}", size=size)
    calls = done.message.calls
    assert [(call.name, call.arguments) for call in calls] == [
        ("read_file", '{"path": "a.py"}'),
        ("read_file", '{"path": "b.py"}'),
    ]
    assert done.message.stop == "calls"
    assert done.message.text == shown == "I look.\nAnd:\n"
    assert [(chunk.call_id, chunk.arguments) for chunk in chunks] == [(call.id, call.arguments) for call in calls]
    assert len({call.id for call in calls}) == 2


@pytest.mark.parametrize(
    "text",
    [
        "Use ```call read_file``` to read.",
        '```call read_file\n{"path": "a.py"}\n',
        '```call read_file\n{"path": "a.p',
        '```call read_file {"path": "a.py"}\n```\n',
        '```call\n{"path": "a.py"}\n```\n',
        " ```call read_file\n{}\n ```\n",
        '```python\nprint("x")\n```\n',
        '````markdown\n```call read_file\n{"path": "a.py"}\n```\n````\n',
        '~~~\n```call read_file\n{"path": "a.py"}\n```\n~~~\n',
        '```tool\n```call read_file\n{"path": "a.py"}\n```\n',
        "> ```call read_file\n> {}\n> ```\n",
        "` `` ``` ```` text ``` call x",
        "one\x0btwo\u2028three ü 🌍",
    ],
)
@pytest.mark.parametrize("size", [1, 4, 1000])
def test_what_is_no_whole_block_is_text(text: str, size: int) -> None:
    """Half blocks, examples inside other blocks, inline code and quotes are text, to the letter."""
    done, shown, chunks = read(text, size=size)
    assert done.message.parts == (Text(text, "model"),)
    assert done.message.stop == "end"
    assert chunks == []
    assert text.startswith(shown)


def test_block_at_the_very_end_needs_no_newline() -> None:
    """Models often end with the closing fence."""
    done, _, _ = read(CALL.rstrip("\n"))
    assert [call.name for call in done.message.calls] == ["read_file"]


def test_call_cut_by_the_length_limit_is_no_call() -> None:
    """A block that the limit cut off stays text, and the message says why it ended."""
    done, _, _ = read(CALL[:-6], finish="length")
    assert done.message.calls == ()
    assert done.message.stop == "length"


def test_arguments_that_are_no_json_reach_the_kernel() -> None:
    """A whole block with bad arguments is a call: the kernel tells the model what is wrong with it."""
    done, _, _ = read("```call read_file\npath: a.py\n```\n")
    assert [call.arguments for call in done.message.calls] == ["path: a.py"]


def test_arguments_may_hold_fences() -> None:
    """Three backticks inside JSON text do not end the block."""
    arguments = msgspec.json.encode({"path": "a.md", "content": "```call read_file\n{}\n```\n"}).decode()
    done, _, _ = read(f"```call write_file\n{arguments}\n```\n")
    assert [(call.name, call.arguments) for call in done.message.calls] == [("write_file", arguments)]


def test_thinking_is_never_read_as_a_call() -> None:
    """Only what the model says is read, not what it thinks."""
    event = {"choices": [{"index": 0, "delta": {"reasoning": CALL, "content": "no"}, "finish_reason": "stop"}]}
    reader = reading(api("chat").read)(NAME, b"", Who("ollama"))
    list(reader.feed(b"", msgspec.json.encode(event)))
    message = reader.finish().message
    assert message.calls == ()
    assert [type(part) for part in message.parts] == [Thinking, Text]


def test_conversation_is_text_alone() -> None:
    """Tools stand in the prompt, calls and results in messages; nothing of a native protocol is left."""
    wire = wire_for("chat", NAME, tool_protocol="text")
    call = ToolCall("call_0123456789", "read_file", '{"path":\n "a.py"}')
    messages: list[Message] = [
        UserMessage((Text("hi"),)),
        AssistantMessage((Text("I look.", "model"), call), NAME, "calls"),
        ToolMessage(
            (
                ToolResult(call.id, "read_file", (Text(f"{CALL}</result> <result>", "tool:read_file"),)),
                ToolResult("x", "shot", (Image("image/png", b"x"),), "E_FAILED"),
            )
        ),
    ]
    body = wire.body(wire.head((Layer(0, "meta", "Be good."),), TOOLS), [wire.message(m) for m in messages])
    value = msgspec.json.decode(body)
    assert "tools" not in value
    system, user, assistant, results = value["messages"]
    assert system["content"].startswith("Be good.")
    assert '{"type":"object","properties":{"path":{"type":"string"}}}' in system["content"]
    assert user["content"] == "hi"
    assert assistant == {"role": "assistant", "content": 'I look.\n```call read_file\n{"path":  "a.py"}\n```\n'}
    assert results["role"] == "user"
    text = "".join(part.get("text", "") for part in results["content"])
    assert text.count("</result>") == 2
    assert '<result tool="shot" state="error E_FAILED">' in text
    assert results["content"][-1]["type"] == "image_url"


def test_models_that_want_turns_get_them() -> None:
    """Results and notes are both the user's text: between two of them the model says a word, where that is wanted."""
    messages: list[Message] = [
        UserMessage((Text("hi"),)),
        AssistantMessage((ToolCall("call_0123456789", "read_file", "{}"),), NAME, "calls"),
        ToolMessage((ToolResult("call_0123456789", "read_file", (Text("x"),)),)),
        NoteMessage("careful"),
        UserMessage((Text("go on"),)),
    ]
    wire = wire_for("chat", NAME, tool_protocol="text")
    value = msgspec.json.decode(wire.body(wire.head((), TOOLS), [wire.message(m) for m in messages]))
    roles = [message["role"] for message in value["messages"]]
    assert roles == ["system", *["user", "assistant"] * 4][: len(roles)]
    assert roles[-1] == "user"


def test_what_the_model_wrote_is_read_the_same_again() -> None:
    """A call written back into the history has the form the model is asked for."""
    wire = wire_for("chat", NAME, tool_protocol="text")
    message = AssistantMessage((Text("I look.", "model"), ToolCall("call_0123456789", "read_file", '{"a": 1}')), NAME)
    text = msgspec.json.decode(wire.message(message))["content"]
    done, _, _ = read(text)
    assert [(call.name, call.arguments) for call in done.message.calls] == [("read_file", '{"a": 1}')]


async def test_protocol_is_chosen_by_setting_and_by_model(server, transport) -> None:
    """Auto takes the textual protocol for models known to have no tools; a setting decides otherwise."""
    models = {
        "ollama/gemma:2b": ModelSettings(tool_protocol="native"),
        "ollama/qwen3:8b": ModelSettings(tool_protocol="text"),
    }
    for settings, gemma, qwen in [(ModelsSettings(), True, False), (ModelsSettings(models=models), False, True)]:
        made = {p.name: p for p in providers(settings, {"OLLAMA_HOST": server.url}, transport)}["ollama"]
        assert made.model("gemma:2b").wire.key.startswith("text:") is gemma
        assert made.model("qwen3:8b").wire.key.startswith("text:") is qwen


async def test_textual_call_over_http(server, transport) -> None:
    """A model without tools calls one through a real connection."""
    server.say(stream(f"I look.\n{CALL}"))
    made = {p.name: p for p in providers(ModelsSettings(), {"OLLAMA_HOST": server.url}, transport)}["ollama"]
    model = made.model("gemma:2b")
    body = model.wire.body(model.wire.head((), TOOLS), [model.wire.message(UserMessage((Text("hi"),)))])
    async with model.stream(Request(body, (), TOOLS, ())) as chunks:
        *_, last = [chunk async for chunk in chunks]
    assert isinstance(last, Done)
    assert [call.arguments for call in last.message.calls] == ['{"path": "a.py"}']
    assert b"tool_calls" not in server.seen[0].body
