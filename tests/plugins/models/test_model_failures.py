"""Every way in which a provider can fail is told by kind, in its own words, with what to do, and
without keys.
"""

from __future__ import annotations

import gzip
import logging
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import pytest
import trio
from hilum.errors import E_LLM_429, E_LLM_AUTH, ModelError
from hilum.models import Request
from hilum_models.error_responses import read_retry_after, response_error
from hilum_models.failures import Endpoint, event_error
from hilum_models.providers import HttpProvider, create_providers
from hilum_models.settings import ModelsSettings
from hilum_models.transport import Transport

KEY = "sk-test-abcdefghijklmnopqrstuvwxyz"
WHO = Endpoint("openai", "gpt-5", "OPENAI_API_KEY", KEY)
JSON = {"content-type": "application/json"}

# Status, body, expected kind, words that the message holds, words that the hint holds.
# fmt: off
REFUSALS: dict[str, tuple[int, bytes, str, str, str]] = {
    "openai key": (401, b'{"error":{"message":"Incorrect API key provided: sk-test-********wxyz. You can find your API '
        b'key at https://platform.openai.com/account/api-keys.","type":"invalid_request_error","param":null,'
        b'"code":"invalid_api_key"}}', "auth", "Incorrect API key provided", "OPENAI_API_KEY was rejected"),
    "anthropic key": (401, b'{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"},'
        b'"request_id":"req_011"}', "auth", "invalid x-api-key", "OPENAI_API_KEY"),
    "anthropic permission": (403, b'{"type":"error","error":{"type":"permission_error","message":"Not allowed"}}',
        "auth", "Not allowed", "OPENAI_API_KEY"),
    "gemini key": (400, b'[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.",'
        b'"status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}]', "auth", "API key not valid",
        "OPENAI_API_KEY"),
    "rate limit": (429, b'{"error":{"message":"Rate limit reached for gpt-5","type":"tokens","code":"rate_limit_exceeded"}}',
        "rate_limit", "Rate limit reached", ""),
    "quota": (429, b'{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}', "quota",
        "current quota", "no credit"),
    "gemini minute": (429, b'{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and '
        b'billing details.","status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"37s"}]}}', "rate_limit", "current quota",
        ""),
    "payment": (402, b'{"error":{"message":"Insufficient Balance"}}', "quota", "Insufficient Balance", "no credit"),
    "model": (404, b'{"error":{"message":"The model `gpt-x` does not exist"}}', "request", "does not exist", "'gpt-5'"),
    "openai window": (400, b'{"error":{"message":"This model\'s maximum context length is 128000 tokens.",'
        b'"code":"context_length_exceeded"}}', "too_long", "maximum context length", ""),
    "anthropic window": (400, b'{"type":"error","error":{"type":"invalid_request_error",'
        b'"message":"prompt is too long: 210000 tokens > 200000 maximum"}}', "too_long", "prompt is too long", ""),
    "gemini window": (400, b'{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of '
        b'tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}', "too_long", "input token count", ""),
    "llama.cpp window": (400, b'{"error":{"code":400,"message":"the request exceeds the available context size. try '
        b'increasing the context size","type":"exceed_context_size_error"}}', "too_long", "context size", ""),
    "too large": (413, b'{"error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}', "too_long",
        "maximum size", ""),
    "bad request": (400, b'{"error":{"message":"Unsupported parameter: temperature"}}', "request", "Unsupported parameter",
        ""),
    "no tools": (400, b'{"error":{"message":"registry.ollama.ai/library/gemma:2b does not support tools"}}', "protocol",
        "does not support tools", ""),
    "server": (500, b'{"error":{"message":"The server had an error"}}', "server", "The server had an error", ""),
    "overloaded": (529, b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', "server",
        "Overloaded", ""),
    "html": (502, b"<!DOCTYPE html>\n<html><head><title>502 Bad  Gateway</title></head><body>nginx</body></html>", "server",
        "an HTML page titled", ""),
    "empty": (503, b"", "server", "without a reason", ""),
    "not utf-8": (500, b"\xff\xfe kaputt \xe4", "server", "kaputt", ""),
    "plain text": (404, b"404 page not found", "request", "404 page not found", "base URL"),
    "fastapi": (422, b'{"detail":[{"loc":["body","messages"],"msg":"field required"}]}', "request", "field required", ""),
    "openrouter": (400, b'{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"bad schema"}}}',
        "request", "bad schema", ""),
    "redirect": (301, b"", "request", "without a reason", "redirects to https://elsewhere.example"),
}
# fmt: on


@pytest.mark.parametrize("name", REFUSALS)
async def test_refusal_is_told(name: str, server: Any, transport: Transport) -> None:
    """Status and body of each vendor's refusals become kind, message and hint.

    Through a real connection.
    """
    status, body, kind, words, hint = REFUSALS[name]
    headers = {**JSON, "location": "https://elsewhere.example"} if name == "redirect" else JSON
    server.say(body, status=status, headers=headers)
    error = await failure(provider(server.url, transport))
    assert (error.kind, error.status) == (kind, status)
    assert words in error.message
    assert hint in error.hint
    assert KEY not in repr((error, error.message, error.hint, error.args))
    assert "wxyz" not in f"{error}"


def provider(url: str, transport: Transport, key: str = KEY) -> HttpProvider:
    environ = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": key}
    return {p.name: p for p in create_providers(ModelsSettings(), environ, transport)}["openai"]


async def failure(provider: HttpProvider) -> ModelError:
    async def ask() -> None:
        async with provider.model("gpt-5").stream(Request(b"{}", (), (), ())) as chunks:
            async for _ in chunks:
                pass

    with trio.fail_after(60), pytest.raises(ModelError) as caught:
        await ask()
    return caught.value


async def test_codes_are_those_users_see(server: Any, transport: Transport) -> None:
    """Authentication and rate limits have codes of their own."""
    server.say(b"", status=401, headers=JSON)
    assert (await failure(provider(server.url, transport))).code == E_LLM_AUTH
    server.say(b"", status=429, headers=JSON)
    assert (await failure(provider(server.url, transport))).code == E_LLM_429


async def test_googles_own_wait_is_taken(server: Any, transport: Transport) -> None:
    """It is in the body, not in a header."""
    _, body, *_ = REFUSALS["gemini minute"]
    server.say(body, status=429, headers=JSON)
    assert (await failure(provider(server.url, transport))).retry_after == 37.0


async def test_missing_key_is_named(server: Any, transport: Transport) -> None:
    """A refusal without any key says which variable to set."""
    server.say(b"{}", status=401, headers=JSON)
    assert "Set OPENAI_API_KEY" in (await failure(provider(server.url, transport, key=""))).hint


@pytest.mark.parametrize(
    ("headers", "low", "high"),
    [
        ({"retry-after": "7"}, 7, 7),
        ({"retry-after": "1.5"}, 1.5, 1.5),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25, 0.25),
        ({"retry-after": "in a minute"}, 40, 61),
        ({"retry-after": formatdate(0, usegmt=True)}, 0, 0),
        ({"retry-after": "-3"}, 0, 0),
    ],
)
async def test_wait_is_read_from_the_headers(
    headers: dict[str, str], low: float, high: float, server: Any, transport: Transport
) -> None:
    """How long to wait is told in seconds, whichever of its three forms the provider uses."""
    if (
        headers.get("retry-after") == "in a minute"
    ):  # a date, made now: the tests were collected long ago
        headers = {"retry-after": formatdate(time.time() + 60, usegmt=True)}
    server.say(b"{}", status=429, headers={**JSON, **headers})
    error = await failure(provider(server.url, transport))
    assert error.retry_after is not None
    assert low <= error.retry_after <= high


@pytest.mark.parametrize(
    "headers", [{}, {"retry-after": "soon"}, {"retry-after": ""}, {"retry-after-ms": "x"}]
)
def test_wait_that_cannot_be_read_is_none(headers: dict[str, str]) -> None:
    """Nonsense is no number."""
    assert read_retry_after(headers) is None


async def test_refused_connection_is_told(free_port: int, transport: Transport) -> None:
    """Nobody listening is a failure to connect.

    On this machine the server may just not be running.
    """
    error = await failure(provider(f"http://127.0.0.1:{free_port}", transport))
    assert error.kind == "connect"
    assert f"127.0.0.1:{free_port}" in error.message
    assert "running" in error.hint


async def test_unknown_host_is_told(transport: Transport) -> None:
    """A name that does not resolve is a failure to connect, without the user's name and password in
    the address.
    """
    error = await failure(provider("http://user:hunter2@nowhere.invalid", transport))
    assert error.kind == "connect"
    assert "hunter2" not in f"{error!r}{error.message}{error.hint}"


@pytest.mark.parametrize(
    "url", ["http://", "nonsense", "ftp://host", "http://[::", "http://host:99999"]
)
async def test_senseless_address_is_told(url: str, transport: Transport) -> None:
    """A base URL that is none is a mistake of the user, never a traceback."""
    error = await failure(provider(url, transport))
    assert error.kind in ("request", "connect")


@pytest.mark.parametrize(
    "bad", ["schlüssel-1234", "sk-abcdefghijk\nx-evil: 1", "sk-abcdefghijk\x00"]
)
async def test_key_that_no_header_can_hold_is_told(
    bad: str, server: Any, transport: Transport
) -> None:
    """A key with letters that HTTP does not allow is an error that does not show it."""
    error = await failure(provider(server.url, transport, key=bad))
    assert error.kind == "request"
    assert "OPENAI_API_KEY" in error.hint
    assert bad[:8] not in repr(error)


async def test_html_instead_of_a_stream_is_told(server: Any, transport: Transport) -> None:
    """A success with a web page is the wrong address."""
    server.say(b"<html>Welcome</html>", headers={"content-type": "text/html"})
    error = await failure(provider(server.url, transport))
    assert error.kind == "request"
    assert "HTML" in error.message
    assert "/v1" in error.hint


@pytest.mark.parametrize("body", [b"", b"just text", b"data: [DONE]\n\n"])
async def test_stream_without_an_answer_is_broken(
    body: bytes, server: Any, transport: Transport
) -> None:
    """A stream that holds nothing is no answer."""
    server.say(body)
    assert (await failure(provider(server.url, transport))).kind == "broken"


async def test_error_as_a_json_document_is_told(server: Any, transport: Transport) -> None:
    """An error that comes with status 200 is an error all the same."""
    server.say(b'{"error":{"message":"Overloaded","code":529}}', headers=JSON)
    error = await failure(provider(server.url, transport))
    assert (error.kind, error.status) == ("server", 529)


async def test_half_a_refusal_is_still_told(server: Any, transport: Transport) -> None:
    """A connection that dies within the body of a refusal does not hide the status."""
    server.say(b'{"error":{"mess', status=500, headers=JSON, die=True)
    error = await failure(provider(server.url, transport))
    assert (error.kind, error.status) == ("server", 500)


def test_long_refusals_are_shortened() -> None:
    """A message is a line, however much a server says."""
    error = response_error(500, {}, b"x" * 100_000, WHO)
    assert len(error.message) < 700


@pytest.mark.parametrize(
    "leak",
    [
        KEY,
        f"Bearer {KEY}",
        "sk-proj-********************abcd",
        "AIzaSyA1234567890abcdefghijklmnop",
        "sk-ant-api03-abcdefghijkl",
        "gsk_abcdefghijklmnop",
    ],
)
@pytest.mark.parametrize(
    "make",
    [
        lambda text: response_error(400, {}, text.encode(), WHO),
        lambda text: event_error(text, "", WHO),
    ],
)
def test_quoted_keys_are_removed(leak: str, make: Callable[[str], ModelError]) -> None:
    """Whatever looks like a key, whole or masked, does not reach a message or a log."""
    error = make(f"The key {leak} is bad")
    assert leak[-6:] not in f"{error!r} {error.message}"
    assert "The key" in error.message


async def test_keys_are_in_no_representation(server: Any, transport: Transport) -> None:
    """Printing a provider or a model, as a log or a debugger would, shows no key."""
    made = provider(server.url, transport)
    assert KEY not in repr(made)
    assert KEY not in repr(made.model("gpt-5"))


async def test_keys_are_in_no_log(
    server: Any, transport: Transport, caplog: pytest.LogCaptureFixture
) -> None:
    """Even with everything logged, by all libraries below, no key is written."""
    caplog.set_level(logging.DEBUG)
    server.say(b"", status=500, headers=JSON)
    await failure(provider(server.url, transport))
    assert caplog.records
    assert KEY not in caplog.text


async def test_proxy_is_used_for_others_and_not_for_this_machine(
    server: Any, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment's proxy gets requests to other hosts.

    A server on this machine is asked directly.
    """
    monkeypatch.setenv("HTTP_PROXY", server.url)
    monkeypatch.delenv("NO_PROXY", raising=False)
    server.say(b"", status=500, headers=JSON)
    await failure(provider("http://models.invalid", transport))
    await failure(provider(server.url, transport))
    assert [seen.path for seen in server.seen] == [
        "http://models.invalid/v1/chat/completions",
        "/v1/chat/completions",
    ]


async def test_proxy_that_cannot_be_used_is_told(
    transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kind of proxy for which a library is missing is a mistake that is named, never a
    traceback.
    """
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    error = await failure(provider("http://models.invalid", transport))
    assert error.kind in ("request", "connect")


async def test_compressed_refusal_is_read(server: Any, transport: Transport) -> None:
    """A gateway that compresses without being asked is understood."""
    body = gzip.compress(b'{"error":{"message":"Overloaded"}}')
    server.say(body[:20], body[20:], status=503, headers={**JSON, "content-encoding": "gzip"})
    assert "Overloaded" in (await failure(provider(server.url, transport))).message


async def test_damaged_compression_is_a_broken_stream(server: Any, transport: Transport) -> None:
    """Bytes that do not decompress are told as such."""
    server.say(
        b"data: nonsense\n\n",
        headers={"content-type": "text/event-stream", "content-encoding": "gzip"},
    )
    assert (await failure(provider(server.url, transport))).kind == "broken"


def test_a_short_key_does_not_mangle_messages():
    """A key of one letter is in every word."""
    from hilum_models.failures import clean_message

    assert clean_message("a bad request", Endpoint("openai", "m", "K", "a")) == "a bad request"
    assert (
        clean_message("bad key-12345678", Endpoint("openai", "m", "K", "key-12345678")) == "bad ***"
    )
