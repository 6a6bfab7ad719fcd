"""Recorded streams of every format become the same chunks and messages, however they are cut."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator

import pytest
import trio
from hilum.errors import ModelError
from hilum.messages import AssistantMessage, Text, Thinking, ToolCall, Usage
from hilum.models import (
    CallChunk,
    Chunk,
    Done,
    KeepAlive,
    ModelInfo,
    Request,
    TextChunk,
    ThinkingChunk,
)
from hilum_models.answer_builder import Reader
from hilum_models.api_loading import create_wire, load_api
from hilum_models.failures import Endpoint
from hilum_models.gateway import HttpModel
from hilum_models.sse import SseDecoder
from hilum_models.transport import Transport

NAME = "test/model"
BODY = b'{"messages":[]}'
WHO = Endpoint("test", "model", "TEST_API_KEY", "sk-secret-secret")

# fmt: off
ANSWERS: dict[str, tuple[AssistantMessage, Usage]] = {
    "chat_openai": (
        AssistantMessage((Text("Grüße, 世界 🌍!", "model"),), NAME, "end"),
        Usage(input=19, cached=12, output=10, reasoning=4),
    ),
    "chat_parallel": (
        AssistantMessage((
            ToolCall("call_AAAAAAAAAA", "read_file", '{"path":"ä.py"}'),
            ToolCall("call_BBBBBBBBBB", "search_files", '{"pattern":"def \\"x\\""}'),
        ), NAME, "calls"),
        Usage(input=100, output=40),
    ),
    "chat_openrouter": (
        AssistantMessage((
            Thinking("I should look.", {"reasoning_details": [{
                "type": "reasoning.text", "text": "I should look.", "format": "anthropic-claude-v1", "index": 0,
                "signature": "EqQBCkgIChABGAIqQ==",
            }]}),
            Text("Looking.", "model"),
            ToolCall("toolu_01ABCDEFGH", "list_directory", '{"path": "."}'),
        ), NAME, "calls"),
        Usage(input=500, cached=400, output=60, reasoning=20, cost=0.0024),
    ),
    "chat_deepseek": (
        AssistantMessage((
            Thinking("9.11 < 9.8", {"field": "reasoning_content"}), Text("9.8 is greater.", "model"),
        ), NAME, "end"),
        Usage(input=11, output=22, reasoning=15),
    ),
    "chat_ollama": (
        AssistantMessage((
            Thinking("Two files.", {"field": "reasoning"}),
            ToolCall("call_1ynk8cgn", "read_file", '{"path":"a.py"}'),
            ToolCall("call_9xk2mm4p", "read_file", '{"path":"b.py"}'),
        ), NAME, "calls"),
        Usage(input=178, output=50),
    ),
    "chat_length": (
        AssistantMessage((
            ToolCall("call_CCCCCCCCCC", "write_file", '{"path":"a.py","content":"x = '),
        ), NAME, "length"),
        Usage(input=5, output=64),
    ),
    "chat_refusal": (AssistantMessage((Text("I can't help with that.", "model"),), NAME, "refusal"), Usage()),
    "responses_reasoning": (
        AssistantMessage((
            Thinking("**Plan**\n\nRead.\n\nThen write.", {"item": {
                "id": "rs_01", "type": "reasoning", "encrypted_content": "gAAAAABo-whole==",
                "summary": [{"type": "summary_text", "text": "**Plan**\n\nRead."},
                            {"type": "summary_text", "text": "Then write."}],
            }}),
            Thinking("", {"phase": "commentary"}),
            Text("Ich lese…", "model"),
            ToolCall("call_R1aaaaaaaa", "read_file", '{"path":"a.py"}'),
            ToolCall("call_R2bbbbbbbb", "read_file", '{"path":"b.py"}'),
        ), NAME, "calls"),
        Usage(input=328, cached=256, output=52, reasoning=30),
    ),
    "responses_incomplete": (
        AssistantMessage((Text("One, two", "model"),), NAME, "length"),
        Usage(input=328, cached=256, output=52, reasoning=30),
    ),
    "anthropic_thinking": (
        AssistantMessage((
            Thinking("Let me überlegen.", {"signature": "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pk="}),
            Thinking("", {"redacted": "EmwKAhgBEgy3va3pzix/LafPsn4aDFIT2Xlxh0L5L8rLVyIwxtE3rAFBa8cr3qpP"}),
            Text("I'll read both 📁.", "model"),
            ToolCall("toolu_01T1x1fJ34qAmk2tNTrN7Up6", "read_file", '{"path": "a.py"}'),
            ToolCall("toolu_02T1x1fJ34qAmk2tNTrN7Up6", "list_directory", ""),
        ), NAME, "calls"),
        Usage(input=2325, cached=2000, cache_write=300, output=89, reasoning=40),
    ),
    "anthropic_length": (
        AssistantMessage((Text("One, ", "model"),), NAME, "length"),
        Usage(input=2325, cached=2000, cache_write=300, output=5),
    ),
    "anthropic_unknown": (
        AssistantMessage((Text("Hello", "model"),), NAME, "end"),
        Usage(input=2325, cached=2000, cache_write=300, output=5),
    ),
    "gemini_signed_text": (
        AssistantMessage((Text("Fine.", "model"), Thinking("", {"thoughtSignature": "EqwBCqkB0e2Kbw=="})), NAME, "end"),
        Usage(input=7, output=2),
    ),
    "gemini_length": (AssistantMessage((Text("One, two", "model"),), NAME, "length"), Usage(input=7, output=3)),
}
# fmt: on
MADE_UP = ("chat_plain_server", "gemini_calls")
FAILING = {
    "chat_error": ("server", "Provider disconnected unexpectedly"),
    "chat_error_limit": ("rate_limit", "Rate limit reached"),
    "chat_error_window": ("too_long", "maximum context length"),
    "responses_failed": ("rate_limit", "Rate limit reached for gpt-5"),
    "responses_error": ("server", "The server had an error"),
    "responses_error_window": ("too_long", "exceeds the context window"),
    "anthropic_error": ("server", "Overloaded"),
    "gemini_error": ("server", "The model is overloaded"),
    "gemini_malformed": ("server", "MALFORMED_FUNCTION_CALL"),
    "gemini_blocked": ("request", "PROHIBITED_CONTENT"),
}


def reader_for(stream: str, body: bytes = BODY) -> Reader:
    return load_api(stream.partition("_")[0]).create_reader(NAME, body, WHO)


def run(reader: Reader, *pieces: bytes) -> Iterator[Chunk]:
    """Give the chunks of a stream in these pieces, ``Done`` at the end."""
    decoder = SseDecoder()
    for piece in pieces:
        for event, data in decoder.feed(piece):
            yield from reader.feed(event, data)
    for event, data in decoder.flush():
        yield from reader.feed(event, data)
    yield reader.finish()


def done(reader: Reader, *pieces: bytes) -> Done:
    *_, last = run(reader, *pieces)
    assert isinstance(last, Done)
    return last


@pytest.mark.parametrize("name", ANSWERS)
def test_stream_becomes_message_and_usage(name: str, stream_of: Callable[[str], bytes]) -> None:
    """Text, thinking, calls, the reason of the end and the tokens used are read from each recorded
    stream.
    """
    found = done(reader_for(name), stream_of(name))
    assert (found.message, found.usage) == ANSWERS[name]


@pytest.mark.parametrize("name", [*ANSWERS, *MADE_UP])
def test_chunks_add_up_to_the_message(name: str, stream_of: Callable[[str], bytes]) -> None:
    """What is shown while the answer streams is what the message holds at the end, call by call."""
    *chunks, last = run(reader_for(name), stream_of(name))
    assert isinstance(last, Done)
    shown = "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk))
    thought = "".join(chunk.text for chunk in chunks if isinstance(chunk, ThinkingChunk))
    calls: dict[str, list[str]] = {}
    for chunk in chunks:
        if isinstance(chunk, CallChunk):
            entry = calls.setdefault(chunk.call_id, [chunk.name, ""])
            entry[1] += chunk.arguments
    assert shown == last.message.text
    assert thought == "".join(
        part.text for part in last.message.parts if isinstance(part, Thinking)
    )
    assert calls == {call.id: [call.name, call.arguments] for call in last.message.calls}


@pytest.mark.slow(cases=4)
@pytest.mark.parametrize("name", [*ANSWERS, *MADE_UP])
def test_stream_cut_at_every_byte_is_the_same_answer(
    name: str, stream_of: Callable[[str], bytes]
) -> None:
    """A network that cuts the bytes anywhere, inside characters too, changes nothing."""
    data = stream_of(name)
    whole = done(reader_for(name), data)
    for cut in range(1, len(data)):
        assert done(reader_for(name), data[:cut], data[cut:]) == whole
    assert done(reader_for(name), *(data[i : i + 1] for i in range(len(data)))) == whole


@pytest.mark.slow(cases=4)
@pytest.mark.parametrize("name", [*ANSWERS, *MADE_UP])
def test_truncated_stream_is_never_an_answer(name: str, stream_of: Callable[[str], bytes]) -> None:
    """Whatever a stream is cut down to, it is the whole message or an error: never half a
    message.
    """
    data = stream_of(name)
    whole = done(reader_for(name), data).message
    kinds = []
    for cut in range(len(data)):
        try:
            assert done(reader_for(name), data[:cut]).message == whole
        except ModelError as error:
            kinds.append(error.kind)
    assert set(kinds) == {"broken"}
    assert len(kinds) > len(data) * 0.4


@pytest.mark.parametrize("name", FAILING)
def test_error_in_the_stream_is_raised(name: str, stream_of: Callable[[str], bytes]) -> None:
    """An error event, at the start or after text, says its kind and the provider's words."""
    kind, words = FAILING[name]
    with pytest.raises(ModelError, match=words) as caught:
        done(reader_for(name), stream_of(name))
    assert caught.value.kind == kind


def test_ids_are_made_up_from_the_request(stream_of: Callable[[str], bytes]) -> None:
    """Calls without ids get some that are unique in the answer, differ by request, and are the same
    on replay.
    """
    data = stream_of("chat_plain_server")
    first = done(reader_for("chat_plain_server"), data).message
    again = done(reader_for("chat_plain_server"), data).message
    other = done(reader_for("chat_plain_server", b"a later request"), data).message
    ids = [call.id for call in first.calls] + [call.id for call in other.calls]
    assert first == again
    assert len(set(ids)) == 4
    assert [call.arguments for call in first.calls] == [
        '{"path":"a.py","limit":3}',
        '{"path":"b.py"}',
    ]


def test_gemini_calls_keep_signatures_and_get_ids(stream_of: Callable[[str], bytes]) -> None:
    """Arguments that come as an object become JSON text; the signature stays with its call."""
    found = done(reader_for("gemini_calls"), stream_of("gemini_calls"))
    thinking, text, first, second = found.message.parts
    assert isinstance(first, ToolCall)
    assert isinstance(second, ToolCall)
    assert (thinking, text) == (
        Thinking("**Reading**\n\nI need both files."),
        Text("Ich lese 📁 beide.", "model"),
    )
    assert (first.name, first.arguments, first.vendor) == (
        "read_file",
        '{"path":"ä.py"}',
        {"thoughtSignature": "CikBVKhc7gM="},
    )
    assert (second.id, second.name, second.arguments, second.vendor) == (
        "fc-7h3kk29x",
        "list_directory",
        "{}",
        {},
    )
    assert found.usage == Usage(input=300, cached=200, output=120, reasoning=80)
    assert found.message.stop == "calls"


@pytest.mark.parametrize("bad", [b"data: nonsense\n\n", b"data: [1]\n\n", b"data: {\n\n"])
@pytest.mark.parametrize("format", ["chat", "responses", "anthropic", "gemini"])
def test_unreadable_event_is_a_broken_stream(format: str, bad: bytes) -> None:
    """What is no JSON object is reported as such."""
    with pytest.raises(ModelError, match="cannot be read") as caught:
        done(reader_for(format), bad)
    assert caught.value.kind == "broken"


@pytest.mark.parametrize(
    "odd", [b"{}", b'{"choices":null}', b'{"choices":[{"delta":null}]}', b'{"type":"new.thing"}']
)
@pytest.mark.parametrize("format", ["chat", "responses", "anthropic", "gemini"])
def test_unknown_events_are_ignored(format: str, odd: bytes) -> None:
    """Events nobody has heard of give nothing and harm nothing."""
    assert list(reader_for(format).feed(b"news", odd)) == []


@pytest.mark.parametrize("given", ["call_0", "", "0"])
def test_id_too_short_to_be_unique_is_replaced(given: str) -> None:
    """Servers that number their calls anew in each answer do not mix up a conversation."""
    event = (
        b'{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"%s","function":{"name":"f","arguments":"{}"}}]},'
        % (given.encode())
    )
    data = b"data: " + event + b'"finish_reason":"tool_calls"}]}\n\n'
    (call,) = done(reader_for("chat"), data).message.calls
    assert call.id.startswith("call_")
    assert len(call.id) > 15


# --- through a real connection --------------------------------------------------------------------


def model_at(url: str, transport: Transport, format: str = "chat") -> HttpModel:
    made, wire = load_api(format), create_wire(format, NAME)
    headers = {"content-type": "application/json", **made.key_headers(WHO.key)}
    return HttpModel(
        ModelInfo(NAME), wire, url + "/v1", headers, WHO, made.create_reader, transport
    )


def request() -> Request:
    return Request(BODY, (), (), ())


async def ask(model: HttpModel) -> list[Chunk]:
    with trio.fail_after(60):
        async with model.stream(request()) as chunks:
            return [chunk async for chunk in chunks]


@pytest.mark.slow(cases=7)
@pytest.mark.parametrize("name", [*ANSWERS, *MADE_UP])
@pytest.mark.parametrize("size", [1, 7, 100_000])
async def test_answer_over_http(name: str, size: int, server, transport, stream_of) -> None:
    """The same answers come through a real connection in chunks of any size, and the connection is
    used again.
    """
    data = stream_of(name)
    server.say(*(data[i : i + size] for i in range(0, len(data), size)))
    model = model_at(server.url, transport, name.partition("_")[0])
    first, second = await ask(model), await ask(model)
    assert first[-1] == second[-1] == done(reader_for(name), data)
    assert server.connections == 1
    assert server.seen[0].body == BODY


async def test_request_carries_key_and_body(server, transport, stream_of) -> None:
    """Each format sends the key in its own header, the body as it is, and no compression is asked
    for.
    """
    for format, header in [
        ("chat", "authorization"),
        ("anthropic", "x-api-key"),
        ("gemini", "x-goog-api-key"),
    ]:
        name = {"chat": "chat_openai", "anthropic": "anthropic_length", "gemini": "gemini_length"}[
            format
        ]
        await ask(model_at(server.say(stream_of(name)).url, transport, format))
        assert WHO.key in server.seen[-1].headers[header]
        assert WHO.key not in server.seen[-1].path
        assert server.seen[-1].body == BODY


async def test_compressed_stream_is_read(server, transport, stream_of) -> None:
    """A gateway that compresses the stream without being asked is understood, however it cuts the
    bytes.
    """
    data = gzip.compress(stream_of("chat_openai"))
    headers = {"content-type": "text/event-stream", "content-encoding": "gzip"}
    server.say(*(data[i : i + 3] for i in range(0, len(data), 3)), headers=headers)
    assert (await ask(model_at(server.url, transport)))[-1] == done(
        reader_for("chat"), stream_of("chat_openai")
    )


async def test_comments_are_signs_of_life(server, transport, stream_of) -> None:
    """A comment, and bytes that complete nothing, give ``KeepAlive``, so that silence is counted
    anew.
    """
    server.say(
        b": OPENROUTER PROCESSING\n\n", b"data: {", b'"choices":[]}\n\n', stream_of("chat_openai")
    )
    chunks = await ask(model_at(server.url, transport))
    assert chunks[0] == KeepAlive()
    assert sum(isinstance(chunk, KeepAlive) for chunk in chunks) >= 2


@pytest.mark.parametrize(
    "name",
    ["chat_parallel", "responses_reasoning", "anthropic_thinking", "gemini_calls", "chat_deepseek"],
)
async def test_connection_that_dies_is_a_broken_stream(
    name: str, server, transport, stream_of
) -> None:
    """A connection that dies in the middle of the arguments gives an error, whatever came
    before.
    """
    data = stream_of(name)
    server.say(data[: int(len(data) * 0.55)], die=True)
    with pytest.raises(ModelError, match=r"was lost|before it was|cannot be read") as caught:
        await ask(model_at(server.url, transport, name.partition("_")[0]))
    assert caught.value.kind == "broken"


async def test_stream_that_just_ends_is_broken(server, transport, stream_of) -> None:
    """A stream that ends in good order, but before the answer did, is no answer."""
    server.say(stream_of("chat_parallel")[:900])
    with pytest.raises(ModelError) as caught:
        await ask(model_at(server.url, transport))
    assert caught.value.kind == "broken"


async def test_whole_answer_survives_a_connection_that_dies_after_it(
    server, transport, stream_of
) -> None:
    """Once the provider has said that the answer is whole, nothing can spoil it: no [DONE], no
    usage, no ending.
    """
    data = stream_of("chat_openai")
    end = data.index(b'"finish_reason":"stop"')
    server.say(data[: data.index(b"\n\n", end) + 2], die=True)
    last = (await ask(model_at(server.url, transport)))[-1]
    assert isinstance(last, Done)
    assert last.message == ANSWERS["chat_openai"][0]


async def test_server_that_keeps_the_connection_open_does_not_delay(
    server, transport, stream_of
) -> None:
    """After [DONE] the answer is given, even if the server never ends the response."""
    server.say(stream_of("chat_openai"), hold=True)
    assert isinstance((await ask(model_at(server.url, transport)))[-1], Done)


async def test_server_that_ignores_streaming_is_understood(server, transport) -> None:
    """One whole JSON document instead of a stream is read as the answer it is."""
    body = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}'
    server.say(body, headers={"content-type": "application/json"})
    assert (await ask(model_at(server.url, transport)))[-1] == Done(
        AssistantMessage((Text("Hi", "model"),), NAME, "end"), Usage()
    )


async def test_cancelling_closes_the_connection(server, transport, stream_of) -> None:
    """A run that is stopped in the middle of a stream leaves no connection behind, and the
    transport goes on.
    """
    server.say(stream_of("chat_openai")[:700], hold=True)
    model = model_at(server.url, transport)
    with trio.fail_after(60):
        with trio.CancelScope() as scope:
            async with model.stream(request()) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, TextChunk):
                        scope.cancel()
        assert scope.cancelled_caught
        await server.closed.wait()
    server.say(stream_of("chat_openai"))
    assert isinstance((await ask(model))[-1], Done)


async def test_leaving_a_stream_early_closes_the_connection(server, transport, stream_of) -> None:
    """A reader that has enough just leaves."""
    server.say(stream_of("chat_openai")[:700], hold=True)
    with trio.fail_after(60):
        async with model_at(server.url, transport).stream(request()) as chunks:
            async for _ in chunks:
                break
        await server.closed.wait()


@pytest.mark.parametrize("name", FAILING)
async def test_error_in_the_stream_over_http(name: str, server, transport, stream_of) -> None:
    """An error event ends the request cleanly, even while the server goes on sending."""
    server.say(stream_of(name), b": more\n\n" * 100, hold=True)
    with pytest.raises(ModelError) as caught:
        await ask(model_at(server.url, transport, name.partition("_")[0]))
    assert caught.value.kind == FAILING[name][0]
    with trio.fail_after(60):
        await server.closed.wait()


async def test_many_streams_at_once(server, transport, stream_of) -> None:
    """Agents do not wait for each other's connections."""
    server.say(stream_of("chat_openai"))
    model, answers = model_at(server.url, transport), []

    async def one() -> None:
        answers.append((await ask(model))[-1])

    async with trio.open_nursery() as nursery:
        # More than the 100 connections that httpx opens by default.
        for _ in range(120):
            nursery.start_soon(one)
    assert len(answers) == 120
    assert all(isinstance(answer, Done) for answer in answers)
