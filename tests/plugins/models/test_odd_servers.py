"""What compatible servers and the proxies between make of the formats: an answer that came whole is
never thrown away.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from hilum import find_proxy
from hilum.errors import ModelError
from hilum.messages import AssistantMessage, Text, Thinking, ToolCall
from hilum.models import Chunk, Done, Request, TextChunk
from hilum_models.providers import create_providers
from hilum_models.settings import ModelsSettings, ProviderSettings
from hilum_models.transport import Transport

Ask = Callable[..., Awaitable[list[Chunk]]]
DONE = b"data: [DONE]\n\n"
JSON = {"content-type": "application/json"}


def said(delta: Any, reason: str | None = None, **more: Any) -> bytes:
    """One event of a chat completion."""
    choice = {"index": 0, "delta": delta, "finish_reason": reason, **more}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def piece(arguments: str, name: str | None = "f", id: str = "", index: int = 0) -> dict[str, Any]:
    function = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
    return {"tool_calls": [{"index": index, "id": id, "function": function}]}


def event(type: str, **fields: Any) -> bytes:
    """One event of an Anthropic message."""
    return b"data: " + json.dumps({"type": type, **fields}).encode() + b"\n\n"


@pytest.fixture
def ask(server: Any, transport: Transport) -> Ask:
    """Let the server say something, and give the chunks that become of it."""

    async def ask(body: bytes, api: str = "chat", **reply: Any) -> list[Chunk]:
        server.say(body, **reply)
        settings = ModelsSettings(providers={"odd": ProviderSettings(base_url=server.url, api=api)})  # type: ignore[arg-type]
        [provider] = [
            found for found in create_providers(settings, {}, transport) if found.name == "odd"
        ]
        with trio.fail_after(60):
            async with provider.model("m").stream(
                Request(b'{"messages":[]}', (), (), ())
            ) as chunks:
                return [chunk async for chunk in chunks]

    return ask


def message(chunks: list[Chunk]) -> AssistantMessage:
    assert isinstance(chunks[-1], Done)
    return chunks[-1].message


def plain(parts: tuple[Text | Thinking | ToolCall, ...]) -> list[str]:
    return [part.arguments if isinstance(part, ToolCall) else part.text for part in parts]


HI, STOP = said({"content": "hi"}), said({}, "stop")
BLOCK = (
    event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    + event("content_block_delta", index=0, delta={"type": "text_delta", "text": "hi"})
    + event("content_block_stop", index=0)
)
REASON = event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 3})


@pytest.mark.parametrize(
    ("api", "body"),
    [
        ("chat", b"data: \n\n" + HI + b"data:\n\nevent: ping\ndata: \n\n" + STOP),
        ("chat", HI + DONE),
        ("chat", HI + said({}, "stop", message={"role": "assistant", "content": "hi"})),
        ("chat", HI + STOP + DONE + b"data: nonsense\n\n"),
        (
            "chat",
            b'data: {"choices":[{"delta":{"content":"hi"},"logprobs":NaN,"finish_reason":"stop"}]}\n\n',
        ),
        ("anthropic", BLOCK + REASON + event("message_stop") + DONE),
        ("anthropic", BLOCK + REASON + DONE),
        ("anthropic", BLOCK + REASON),
        ("anthropic", b"event: ping\ndata: \n\n" + BLOCK + REASON + event("message_stop")),
    ],
)
async def test_whole_answer_is_taken(ask: Ask, api: str, body: bytes) -> None:
    """Empty events, a mark of the end where there should be none or nothing else, repetitions and
    NaN do no harm.
    """
    answer = message(await ask(body, api))
    assert (plain(answer.parts), answer.stop) == (["hi"], "end")


@pytest.mark.parametrize("body", [b"", DONE, HI, b": only\n\n: comments\n\n"])
async def test_half_an_answer_is_not(ask: Ask, body: bytes) -> None:
    """Without a reason or a mark the answer is not whole, and a mark alone is no answer."""
    with pytest.raises(ModelError, match=r"was lost|before it was") as caught:
        await ask(body)
    assert caught.value.kind == "broken"


@pytest.mark.parametrize(
    "headers", [JSON, {"content-type": "text/event-stream"}, {"content-type": "text/plain"}, {}]
)
@pytest.mark.parametrize(
    "body", [HI + STOP, b'\n {"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}']
)
async def test_stream_and_document_are_told_apart_by_what_they_are(
    ask: Ask, headers: dict[str, str], body: bytes
) -> None:
    """The type that the server names is often wrong."""
    assert plain(message(await ask(body, headers=headers)).parts) == ["hi"]


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (b'{"error":{"message":"bad model","code":404}}', "request", "bad model"),
        (b'{"detail":"Not Found"}', "request", "instead of an answer: Not Found"),
        (
            b'data: {"object":"error","message":"maximum context length is 9","code":400}\n\n',
            "too_long",
            "maximum",
        ),
        (b"<html><title>Sign in</title></html>", "request", "HTML page"),
    ],
)
async def test_error_with_status_200(ask: Ask, body: bytes, kind: str, words: str) -> None:
    """What is no answer is told in the server's own words, and not asked for again."""
    with pytest.raises(ModelError, match=words) as caught:
        await ask(body)
    assert caught.value.kind == kind


async def test_error_that_is_only_a_text(ask: Ask) -> None:
    """An error event of Anthropic's format may hold a text where an object should be."""
    with pytest.raises(ModelError, match="boom"):
        await ask(event("error", error="boom"), "anthropic")


@pytest.mark.parametrize(
    ("pieces", "arguments"),
    [
        ((piece('{"a":1}'), piece('{"a":2}')), ['{"a":1}', '{"a":2}']),
        ((piece('{"a":{}'), piece("}")), ['{"a":{}}']),
        ((piece("{}"), piece('{"a":1}', None)), ['{"a":1}']),
        ((piece("{}"), piece("")), ["{}"]),
        (
            (piece('{"a":1}', id="call_aaaaaaaaa"), piece('{"a":2}', id="call_bbbbbbbbb")),
            ['{"a":1}', '{"a":2}'],
        ),
    ],
)
async def test_calls_under_one_index(
    ask: Ask, pieces: tuple[dict[str, Any], ...], arguments: list[str]
) -> None:
    """Calls are told apart by ids, or by one being whole when the next begins (as proxies before
    Gemini send them).
    """
    answer = message(await ask(b"".join(map(said, pieces)) + STOP))
    assert plain(answer.parts) == arguments
    assert answer.stop == "calls"
    assert len({call.id for call in answer.calls}) == len(arguments)


async def test_character_cut_in_two_becomes_whole(ask: Ask) -> None:
    """Servers that count in UTF-16 cut a character in two.

    What is shown has a mark in its place.
    """
    chunks = await ask(said({"content": "a \ud83d"}) + said({"content": "\ude00 b"}) + STOP)
    assert plain(message(chunks).parts) == ["a 😀 b"]
    assert (
        "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk))
        == "a \ufffd\ufffd b"
    )
    assert plain(message(await ask(said({"content": "a \ud83d"}) + STOP)).parts) == ["a \ufffd"]


@pytest.mark.parametrize("size", [1, 3, 5, 100])
@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        ("<think>\nhm < so\n</think>\n\nhello <think>", "hm < so", "hello <think>"),
        ("\n<think></think>hello", "", "hello"),
        ("<think>cut off", "cut off", ""),
        ("<thin air", "", "<thin air"),
        ("no <think>tags</think> here", "", "no <think>tags</think> here"),
        ("  <", "", "  <"),
    ],
)
async def test_reasoning_between_tags(
    ask: Ask, text: str, thought: str, answer: str, size: int
) -> None:
    """Servers without a parser for reasoning leave it in the text: it is taken out of the
    beginning, and only there.
    """
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    parts = message(await ask(b"".join(said({"content": one}) for one in pieces) + STOP)).parts
    assert (
        "".join(part.text for part in parts if isinstance(part, Thinking)).rstrip("\n") == thought
    )
    assert "".join(part.text for part in parts if isinstance(part, Text)) == answer


@pytest.mark.parametrize(
    ("api", "path", "asked"),
    [
        ("chat", "/v1/chat/completions", "/v1/chat/completions"),
        ("chat", "/v1/", "/v1/chat/completions"),
        ("anthropic", "/v1/messages", "/v1/messages"),
        ("responses", "/v1/responses/", "/v1/responses"),
    ],
)
async def test_endpoint_copied_as_base_url(
    api: Any, path: str, asked: str, transport: Transport
) -> None:
    """The address of the endpoint itself works as a base URL, too."""
    settings = ModelsSettings(
        providers={"odd": ProviderSettings(base_url=f"http://gpu{path}", api=api)}
    )
    [provider] = [
        found for found in create_providers(settings, {}, transport) if found.name == "odd"
    ]
    assert provider.model("m").url == f"http://gpu{asked}"


@pytest.mark.parametrize(
    "bypass", ["localhost,::1/128", "[::1]", "fd07:b51a:cc66:f0::/64,other.example"]
)
async def test_networks_in_no_proxy(
    server: Any, transport: Transport, monkeypatch: pytest.MonkeyPatch, bypass: str
) -> None:
    """Containers are given IPv6 networks in NO_PROXY, with which httpx cannot even start."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, bypass)
    monkeypatch.setenv("http_proxy", server.url)
    server.say(HI + STOP)
    settings = ModelsSettings(
        providers={"odd": ProviderSettings(base_url="http://model.example/v1")}
    )
    [provider] = [
        found for found in create_providers(settings, {}, transport) if found.name == "odd"
    ]
    with trio.fail_after(60):
        async with provider.model("m").stream(Request(b'{"messages":[]}', (), (), ())) as chunks:
            assert plain(message([chunk async for chunk in chunks]).parts) == ["hi"]
    assert server.seen[0].path == "http://model.example/v1/chat/completions"


def test_proxy_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """By scheme, for all, none for this machine and for what NO_PROXY names."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    assert find_proxy("https://a.example/v1") == ""
    monkeypatch.setenv("https_proxy", "proxy:3128")
    monkeypatch.setenv("no_proxy", "b.example,c.example:8443")
    assert find_proxy("https://a.example/v1") == "http://proxy:3128"
    assert find_proxy("http://a.example/v1") == ""
    assert find_proxy("https://x.b.example/v1") == find_proxy("https://c.example:8443/v1") == ""
    assert find_proxy("https://127.0.0.1/v1") == find_proxy("nonsense") == ""
    monkeypatch.setenv("all_proxy", "socks5://s:1")
    assert find_proxy("http://a.example/v1") == "socks5://s:1"


async def test_certificates_that_are_not_there(
    transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong SSL_CERT_FILE is named, not shown as a crash."""
    monkeypatch.setenv("SSL_CERT_FILE", "/does/not/exist.pem")
    settings = ModelsSettings(
        providers={"odd": ProviderSettings(base_url="https://model.example/v1")}
    )
    [provider] = [
        found for found in create_providers(settings, {}, transport) if found.name == "odd"
    ]
    with pytest.raises(ModelError, match="certificates") as caught:
        async with provider.model("m").stream(Request(b"{}", (), (), ())):
            pass
    assert "SSL_CERT_FILE" in caught.value.hint


@pytest.mark.parametrize("count", ["1e300", "-5", "9" * 400, "1e999", "NaN", '"7"', "true", "[7]"])
async def test_a_count_of_tokens_that_cannot_be_right_is_none(ask: Ask, count: str) -> None:
    """The log could not contain it; the answer itself is right."""
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":%b,"completion_tokens":3}}\n\n'
    chunks = await ask(said({"content": "Hi"}, "stop") + usage % count.encode() + DONE)
    done = chunks[-1]
    assert isinstance(done, Done)
    assert done.usage.output == 3
    assert done.usage.input in (0, 1)
