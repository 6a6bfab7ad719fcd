"""Servers that never come to an end: every wire format, through real connections.

Memory and time stay bounded.
"""

from __future__ import annotations

import json
import resource
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import Any

import pytest
import trio
from hilum.errors import E_LLM_FAIL, E_LLM_TIMEOUT
from hilum.events import ModelAnswered, ModelFailed
from hilum.testing import open_bench
from hilum_models import gateway, sse
from hilum_models.providers import HttpProvider
from hilum_models.settings import ModelSettings, ModelsSettings
from hilum_models.transport import Transport

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
BASES = {"chat": "/v1", "responses": "/v1", "anthropic": "", "gemini": "/v1beta"}
LONG = "word " * 400


def event(**fields: Any) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def chat(delta: dict[str, Any]) -> bytes:
    return event(choices=[{"index": 0, "delta": delta}])


def gemini(part: dict[str, Any]) -> bytes:
    return event(candidates=[{"content": {"parts": [part]}}])


def begun(kind: str, **block: Any) -> bytes:
    return event(type="content_block_start", index=0, content_block={"type": kind, **block})


def more(**delta: Any) -> bytes:
    return event(type="content_block_delta", index=0, delta=delta)


ITEM = event(
    type="response.output_item.added",
    output_index=0,
    item={"type": "function_call", "id": "i", "call_id": "c", "name": "f"},
)
# By wire format and content: what comes first, and what comes again and again.
CONTENT: dict[str, tuple[bytes, bytes]] = {
    "chat text": (b"", chat({"content": LONG})),
    "chat reasoning": (b"", chat({"reasoning_content": LONG})),
    "chat arguments": (
        chat(
            {
                "tool_calls": [
                    {"index": 0, "id": "call_123456789", "function": {"name": "f", "arguments": ""}}
                ]
            }
        ),
        chat({"tool_calls": [{"index": 0, "function": {"arguments": LONG}}]}),
    ),
    "chat calls": (
        b"",
        chat(
            {
                "tool_calls": [
                    {"id": "", "function": {"name": "f", "arguments": json.dumps({"a": LONG})}}
                ]
            }
        ),
    ),
    "responses text": (
        b"",
        event(type="response.output_text.delta", output_index=0, content_index=0, delta=LONG),
    ),
    "responses reasoning": (
        b"",
        event(
            type="response.reasoning_summary_text.delta",
            output_index=0,
            summary_index=0,
            delta=LONG,
        ),
    ),
    "responses arguments": (
        ITEM,
        event(
            type="response.function_call_arguments.delta", output_index=0, item_id="i", delta=LONG
        ),
    ),
    "anthropic text": (begun("text", text=""), more(type="text_delta", text=LONG)),
    "anthropic reasoning": (
        begun("thinking", thinking=""),
        more(type="thinking_delta", thinking=LONG),
    ),
    "anthropic arguments": (
        begun("tool_use", id="toolu_123456", name="f", input={}),
        more(type="input_json_delta", partial_json=LONG),
    ),
    "gemini text": (b"", gemini({"text": LONG})),
    "gemini reasoning": (b"", gemini({"text": LONG, "thought": True})),
    "gemini calls": (b"", gemini({"functionCall": {"name": "f", "args": {"a": LONG}}})),
    "text text": (b"", chat({"content": LONG})),
    "text arguments": (chat({"content": "```call f\n"}), chat({"content": LONG})),
    # Without any content:
    "chat line": (b"data: ", b"x" * 2_000),
    "chat lines": (b"", b"data: " + b"x" * 2_000 + b"\n"),
    "chat nothing": (b"", event(choices=[{"index": 1, "delta": {"content": LONG}}])),
    "chat details": (
        b"",
        chat({"reasoning_details": [{"type": "reasoning.encrypted", "index": 0, "data": LONG}]}),
    ),
    "anthropic signature": (
        begun("thinking", thinking=""),
        more(type="signature_delta", signature=LONG),
    ),
    "chat document": (b'{"choices": "', b"x" * 2_000),
    "chat blanks": (b"", b" " * 2_000),
}


async def serve(
    nursery: trio.Nursery, pieces: Callable[[], Iterator[bytes]], pause: float = 0.0
) -> str:
    """Serve a stream that ends only when the client goes; return the address."""

    async def handle(stream: trio.SocketStream) -> None:
        try:
            data = b""
            while b"\r\n\r\n" not in data:
                data += await stream.receive_some()
            await stream.send_all(HEAD)
            for piece in pieces():
                await stream.send_all(piece)
                if pause:
                    await trio.sleep(pause)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            await trio.aclose_forcefully(stream)

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, handle, listeners)
    return f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"


async def ended(url: str, api: str, tmp_path: Any, **settings: Any) -> Any:
    """Run against a server with all retries; return the bench after the run, and its end."""
    transport = Transport()
    protocol = "text" if api == "text" else "native"
    api = "chat" if api == "text" else api
    own = ModelsSettings(
        models={"test/m": ModelSettings(window=64_000, max_output=4_000, tool_protocol=protocol)}
    )  # type: ignore[arg-type]
    try:
        async with open_bench(
            settings={"model": "test/m", **settings}, folder=tmp_path, patience=120
        ) as kit:
            kit.kernel.router.replace(
                HttpProvider("test", url + BASES[api], api, transport, settings=own)
            )
            return kit, await kit.run("x")
    finally:
        await transport.aclose()


@pytest.mark.slow(cases=5)
@pytest.mark.parametrize("name", CONTENT)
async def test_an_endless_stream_ends_in_bounded_memory(
    name: str, nursery: trio.Nursery, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever comes without an end is cut off, and the process does not grow by more than the
    bounds.
    """
    monkeypatch.setattr(gateway, "MAX_STREAM", 8 << 20)
    monkeypatch.setattr(gateway, "MAX_DOCUMENT", 8 << 20)
    monkeypatch.setattr(sse, "MAX_EVENT", 4 << 20)
    first, again = CONTENT[name]
    again = again * (1 + 60_000 // len(again))
    url = await serve(nursery, lambda: chain([first], repeat(again)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    kit, end = await ended(url, name.partition(" ")[0], tmp_path, silence=0.4)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert end.state == "failed"
    assert end.code in (E_LLM_FAIL, E_LLM_TIMEOUT)
    assert grown < 120_000  # KB; without bounds a gigabyte in half a minute
    assert {event.kind for event in kit.of(ModelFailed)} <= {"runaway", "timeout", "broken"}


SIGNS = {
    "comments": ([b": keep-alive\n\n"], 4),
    "empty events": ([b"data:\n\n"], 4),
    "blank lines": ([b"\n"], 1),
    "bytes": ([b"d", b"a", b"t", b"a", b":", *[b" "] * 10_000], 1),
    "blanks in the answer": ([chat({"content": " "})], 1),
    "pings": ([event(type="ping")], 4),
}


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("name", SIGNS)
async def test_signs_of_life_do_not_outlive_the_limit_for_silence(
    name: str, nursery: trio.Nursery, tmp_path: Any
) -> None:
    """Something comes all the time, and never any content: both attempts end, and the server is
    told to be silent.
    """
    pieces, stretch = SIGNS[name]
    url = await serve(nursery, lambda: chain(pieces, repeat(pieces[-1])), pause=0.02)
    kit, end = await ended(url, "anthropic" if name == "pings" else "chat", tmp_path, silence=0.4)
    assert (end.state, end.code) == ("failed", E_LLM_TIMEOUT)
    failures = kit.of(ModelFailed)
    assert [failure.kind for failure in failures] == ["timeout", "timeout"]
    # No upper bound in seconds, for machines are loaded: what was waited for is in the message.
    assert float(failures[0].message.split("nothing for ")[1].split(" ")[0]) >= 0.4 * stretch * 0.99


GOOD = {
    "chat": chat({"content": "caf\u00e9"})
    + event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}]),
    "responses": event(
        type="response.output_text.delta", output_index=0, content_index=0, delta="caf\u00e9"
    )
    + event(type="response.completed", response={"status": "completed", "output": []}),
    "anthropic": begun("text", text="")
    + more(type="text_delta", text="caf\u00e9")
    + event(type="message_delta", delta={"stop_reason": "end_turn"})
    + event(type="message_stop"),
    "gemini": event(
        candidates=[{"content": {"parts": [{"text": "caf\u00e9"}]}, "finishReason": "STOP"}]
    ),
}


@pytest.mark.parametrize("api", GOOD)
async def test_a_bad_byte_is_replaced(api: str, server: Any, tmp_path: Any) -> None:
    """An answer in Latin-1 loses its accent, not itself: one request, and it is answered."""
    server.say(GOOD[api].replace(b"\\u00e9", b"\xe9"))
    kit, end = await ended(server.url, api, tmp_path)
    assert (end.state, end.text) == ("completed", "caf\N{REPLACEMENT CHARACTER}")
    assert len(server.seen) == 1
    assert len(kit.of(ModelAnswered)) == 1
