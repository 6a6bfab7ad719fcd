"""Requests and faults that must not end the emulator's other connections."""

import pytest
import trio
from hilum_replay import Fault, serve

MODELS = b"GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
BODY = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}'
CHAT = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    b"content-length: %d\r\n\r\n" % len(BODY)
) + BODY


async def exchange(server, data):
    """Send bytes, and return the answer until the connection ends."""
    stream = await trio.open_tcp_stream("127.0.0.1", int(server.url.rpartition(":")[2]))
    received = b""
    async with stream:
        await stream.send_all(data)
        with trio.fail_after(20):
            while part := await stream.receive_some(65536):
                received += part
    return received


@pytest.mark.parametrize("path", [b"/v1/models", b"/v1/chat/completions", b"/"])
async def test_head_has_no_body(path):
    """The length is that of the body that GET would have."""
    async with serve(["a"]) as server:
        answer = await exchange(server, MODELS.replace(b"GET /v1/models", b"HEAD " + path))
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 4")
        assert b"content-length:" in head.lower()
        assert body == b""
        assert b" 200 " in await exchange(server, MODELS)


class Unprintable(Exception):
    """An exception that cannot make its text."""

    def __str__(self):
        raise ValueError("no text")


def fail(request):
    raise Unprintable


def fail_with_surrogate(request):
    raise ValueError("\ud800")


@pytest.mark.parametrize(
    ("source", "fault", "status"),
    [
        (["a"], Fault(status=204), b" 204 "),
        (["a"], Fault(status=304), b" 304 "),
        (["a"], Fault(status=429, headers={"Content-Length": "3"}), b""),
        (["a"], Fault(status=429, headers={"x": "a\r\nb"}), b""),
        (["a"], Fault(status=99), b""),
        (fail, None, b" 500 "),
        (fail_with_surrogate, None, b" 500 "),
    ],
    ids=["204", "304", "length", "header", "99", "script", "surrogate"],
)
async def test_a_fault_ends_its_own_connection_at_most(source, fault, status):
    """The server answers the next client."""
    async with serve(source, faults=[fault]) as server:
        assert status in await exchange(server, CHAT)
        assert b" 200 " in await exchange(server, MODELS)
