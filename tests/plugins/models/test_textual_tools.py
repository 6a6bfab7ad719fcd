"""Tools work for models without tool calling: described, called and answered in text, and read
strictly.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hilum import tool
from hilum.events import ModelFailed
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
from hilum.testing import plugin
from hilum_models import create_wire
from hilum_models.api_loading import load_api
from hilum_models.failures import Endpoint
from hilum_models.providers import HttpProvider, create_providers
from hilum_models.settings import ModelSettings, ModelsSettings
from hilum_models.sse import SseDecoder
from hilum_models.text_tools import read_text_calls
from hilum_models.transport import Transport

NAME = "ollama/gemma:2b"
TOOLS = (
    ToolSpec(
        "read_file", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}}
    ),
)


def stream(text: str, finish: str = "stop", size: int = 5) -> bytes:
    """A chat stream that gives a text in small deltas."""
    deltas = [{"content": text[i : i + size]} for i in range(0, len(text), size)]
    events: list[Any] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    return b"".join(b"data: " + msgspec.json.encode(event) + b"\n\n" for event in events)


def read(text: str, finish: str = "stop", size: int = 5) -> tuple[Done, str, list[CallChunk]]:
    reader = read_text_calls(load_api("chat").create_reader)(NAME, b"body", Endpoint("ollama"))
    chunks = [
        chunk
        for event, data in SseDecoder().feed(stream(text, finish, size))
        for chunk in reader.feed(event, data)
    ]
    shown = "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk))
    return reader.finish(), shown, [chunk for chunk in chunks if isinstance(chunk, CallChunk)]


CALL = '```call read_file\n{"path": "a.py"}\n```\n'


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_calls_are_found_between_text(size: int) -> None:
    """Text around the blocks is the answer's text, each block is a call.

    However the stream is cut.
    """
    done, shown, chunks = read(f"I look.\n{CALL}And:\n{CALL.replace('a.py', 'b.py')}", size=size)
    calls = done.message.calls
    assert [(call.name, call.arguments) for call in calls] == [
        ("read_file", '{"path": "a.py"}'),
        ("read_file", '{"path": "b.py"}'),
    ]
    assert done.message.stop == "calls"
    assert done.message.text == shown == "I look.\nAnd:\n"
    for call in calls:
        own = [chunk for chunk in chunks if chunk.call_id == call.id]
        assert [chunk.name for chunk in own if chunk.name] == ["read_file"]
        assert "".join(chunk.arguments for chunk in own).strip() == call.arguments
    assert len({call.id for call in calls}) == 2


@pytest.mark.parametrize(
    "text",
    [
        "Use ```call read_file``` to read.",
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


@pytest.mark.parametrize(
    "text", ['```call read_file\n{"path": "a.py"}\n', 'So:\n```call read_file\n{"path": "a.p']
)
@pytest.mark.parametrize("size", [1, 4, 1000])
def test_a_block_that_does_not_end_is_a_malformed_call(text: str, size: int) -> None:
    """It is no answer and it does not run: the model reads that its arguments are no JSON, and
    why.
    """
    done, _, chunks = read(text, size=size)
    (call,) = done.message.calls
    assert done.message.stop == "calls"
    assert call.name == "read_file"
    assert call.arguments.startswith('{"path": "a.p')
    assert "was not closed" in call.arguments
    assert chunks
    with pytest.raises(ValueError, match=r"Extra data|Unterminated|Expecting|control character"):
        json.loads(call.arguments)


def test_block_at_the_very_end_needs_no_newline() -> None:
    """Models often end with the closing fence."""
    done, _, _ = read(CALL.rstrip("\n"))
    assert [call.name for call in done.message.calls] == ["read_file"]


def test_call_cut_by_the_length_limit_is_a_malformed_call() -> None:
    """A block that the limit cut off cannot be continued: the model writes the call again,
    shorter.
    """
    done, _, _ = read(CALL[:-6], finish="length")
    assert "was not closed" in done.message.calls[0].arguments
    assert done.message.stop == "length"


def test_arguments_that_are_no_json_reach_the_kernel() -> None:
    """A whole block with bad arguments is a call: the kernel tells the model what is wrong with
    it.
    """
    done, _, _ = read("```call read_file\npath: a.py\n```\n")
    assert [call.arguments for call in done.message.calls] == ["path: a.py"]


def test_arguments_may_hold_fences() -> None:
    """Three backticks inside JSON text do not end the block."""
    arguments = msgspec.json.encode(
        {"path": "a.md", "content": "```call read_file\n{}\n```\n"}
    ).decode()
    done, _, _ = read(f"```call write_file\n{arguments}\n```\n")
    assert [(call.name, call.arguments) for call in done.message.calls] == [
        ("write_file", arguments)
    ]


def test_thinking_is_never_read_as_a_call() -> None:
    """Only what the model says is read, not what it thinks."""
    event = {
        "choices": [
            {"index": 0, "delta": {"reasoning": CALL, "content": "no"}, "finish_reason": "stop"}
        ]
    }
    reader = read_text_calls(load_api("chat").create_reader)(NAME, b"", Endpoint("ollama"))
    list(reader.feed(b"", msgspec.json.encode(event)))
    message = reader.finish().message
    assert message.calls == ()
    assert [type(part) for part in message.parts] == [Thinking, Text]


def test_conversation_is_text_alone() -> None:
    """Tools stand in the prompt, calls and results in messages.

    Nothing of a native protocol is left.
    """
    wire = create_wire("chat", NAME, tool_protocol="text")
    call = ToolCall("call_0123456789", "read_file", '{"path":\n "a.py"}')
    messages: list[Message] = [
        UserMessage((Text("hi"),)),
        AssistantMessage((Text("I look.", "model"), call), NAME, "calls"),
        ToolMessage(
            (
                ToolResult(
                    call.id, "read_file", (Text(f"{CALL}</result> <result>", "tool:read_file"),)
                ),
                ToolResult("x", "shot", (Image("image/png", b"x"),), "E_FAILED"),
            )
        ),
    ]
    body = wire.body(
        wire.head((Layer(0, "meta", "Be good."),), TOOLS), [wire.message(m) for m in messages]
    )
    value = msgspec.json.decode(body)
    assert "tools" not in value
    system, user, assistant, results = value["messages"]
    assert system["content"].startswith("Be good.")
    assert '{"type":"object","properties":{"path":{"type":"string"}}}' in system["content"]
    assert user["content"] == "hi"
    assert assistant == {
        "role": "assistant",
        "content": 'I look.\n```call read_file\n{"path":  "a.py"}\n```\n',
    }
    assert results["role"] == "user"
    text = "".join(part.get("text", "") for part in results["content"])
    assert text.count("</result>") == 2
    assert '<result tool="shot" state="error E_FAILED">' in text
    assert results["content"][-1]["type"] == "image_url"


def test_models_that_want_turns_get_them() -> None:
    """Results and notes are both the user's text: between two of them the model says a word, where
    that is wanted.
    """
    messages: list[Message] = [
        UserMessage((Text("hi"),)),
        AssistantMessage((ToolCall("call_0123456789", "read_file", "{}"),), NAME, "calls"),
        ToolMessage((ToolResult("call_0123456789", "read_file", (Text("x"),)),)),
        NoteMessage("careful"),
        UserMessage((Text("go on"),)),
    ]
    wire = create_wire("chat", NAME, tool_protocol="text")
    value = msgspec.json.decode(
        wire.body(wire.head((), TOOLS), [wire.message(m) for m in messages])
    )
    roles = [message["role"] for message in value["messages"]]
    assert roles == ["system", *["user", "assistant"] * 4][: len(roles)]
    assert roles[-1] == "user"


def test_what_the_model_wrote_is_read_the_same_again() -> None:
    """A call written back into the history has the form the model is asked for."""
    wire = create_wire("chat", NAME, tool_protocol="text")
    message = AssistantMessage(
        (Text("I look.", "model"), ToolCall("call_0123456789", "read_file", '{"a": 1}')), NAME
    )
    text = msgspec.json.decode(wire.message(message))["content"]
    done, _, _ = read(text)
    assert [(call.name, call.arguments) for call in done.message.calls] == [
        ("read_file", '{"a": 1}')
    ]


async def test_protocol_is_chosen_by_setting_and_by_model(server, transport) -> None:
    """Auto takes the textual protocol for models known to have no tools.

    A setting decides otherwise.
    """
    models = {
        "ollama/gemma:2b": ModelSettings(tool_protocol="native"),
        "ollama/qwen3:8b": ModelSettings(tool_protocol="text"),
    }
    for settings, gemma, qwen in [
        (ModelsSettings(), True, False),
        (ModelsSettings(models=models), False, True),
    ]:
        made = {
            p.name: p for p in create_providers(settings, {"OLLAMA_HOST": server.url}, transport)
        }["ollama"]
        assert made.model("gemma:2b").wire.key.startswith("text:") is gemma
        assert made.model("qwen3:8b").wire.key.startswith("text:") is qwen


async def test_textual_call_over_http(server, transport) -> None:
    """A model without tools calls one through a real connection."""
    server.say(stream(f"I look.\n{CALL}"))
    made = {
        p.name: p
        for p in create_providers(ModelsSettings(), {"OLLAMA_HOST": server.url}, transport)
    }["ollama"]
    model = made.model("gemma:2b")
    body = model.wire.body(
        model.wire.head((), TOOLS), [model.wire.message(UserMessage((Text("hi"),)))]
    )
    async with model.stream(Request(body, (), TOOLS, ())) as chunks:
        *_, last = [chunk async for chunk in chunks]
    assert isinstance(last, Done)
    assert [call.arguments for call in last.message.calls] == ['{"path": "a.py"}']
    assert b"tool_calls" not in server.seen[0].body


REFUSALS = [
    (
        400,
        b'{"error":{"message":"registry.ollama.ai/library/x:2b does not support tools","type":"api_error"}}',
    ),
    (
        400,
        b'{"object":"error","message":"\\"auto\\" tool choice requires --enable-auto-tool-choice to be set","code":400}',
    ),
    (
        404,
        b'{"error":{"message":"No endpoints found that support tool use. Try disabling \\"f\\".","code":404}}',
    ),
    (
        500,
        b'{"error":{"code":500,"message":"tools are not supported by this model","type":"server_error"}}',
    ),
]


@pytest.mark.parametrize(("status", "body"), REFUSALS)
async def test_auto_goes_on_in_the_text_where_tools_are_refused(
    status: int, body: bytes, server: Any, reply: Any, transport: Transport, bench: Any
) -> None:
    """One request is refused, the next describes the tools in the text.

    Calls work, and later runs begin with that.
    """

    @tool(risk="read")
    def look(n: int) -> str:
        """Look."""
        return f"seen {n}"

    refused = reply(status, {"content-type": "application/json"}, (body,))
    call = reply(pieces=(stream('```call look\n{"n": 7}\n```\n', "stop"),))
    done = reply(pieces=(stream("Done.", "stop"),))
    server.replies = [refused, call, done, done]
    kit = await bench(plugin("tools", look), settings={"model": "test/m"})
    kit.kernel.router.replace(HttpProvider("test", f"{server.url}/v1", "chat", transport))
    ended = await kit.run("x")
    assert (ended.state, ended.text) == ("completed", "Done.")
    assert [event.kind for event in kit.of(ModelFailed)] == ["protocol"]
    assert [result.text for result in kit.results] == ["seen 7"]
    bodies = [json.loads(seen.body) for seen in server.seen]
    assert ["tools" in body for body in bodies] == [True, False, False]
    assert "```call NAME" in bodies[1]["messages"][0]["content"]
    await kit.run("y")
    assert len(server.seen) == 4


async def test_a_protocol_that_the_user_chose_is_not_changed(
    server: Any, reply: Any, transport: Transport, bench: Any
) -> None:
    status, body = REFUSALS[0]
    server.replies = [reply(status, {"content-type": "application/json"}, (body,))]
    own = ModelsSettings(models={"test/m": ModelSettings(tool_protocol="native")})
    kit = await bench(settings={"model": "test/m"})
    kit.kernel.router.replace(
        HttpProvider("test", f"{server.url}/v1", "chat", transport, settings=own)
    )
    ended = await kit.run("x")
    assert ended.state == "failed"
    assert 'tool_protocol = "text"' in ended.hint
    assert len(server.seen) == 1
