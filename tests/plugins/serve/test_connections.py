"""Connections: idle, early, broken and abandoned ones disturb nobody and leave nothing behind."""

import base64
import contextlib
import logging
import os
import struct
import tracemalloc
from types import SimpleNamespace

import pytest
import trio
import trio.testing
from hilum.testing import say
from hilum_serve.http_server import ConnectionFacts, _Connection, _Places, make_config
from hilum_serve.settings import ServeSettings
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.events import Closed, RawData
from hypercorn.trio.worker_context import WorkerContext
from served import serving

# The last bytes of the answer to a handshake, and of nothing else in these tests.
HEAD_END = b"\r\n\r\n"


def handshake(served, session, *headers, version=13, token=None):
    """Return the request of a WebSocket."""
    key = base64.b64encode(os.urandom(16)).decode()
    lines = [
        f"GET /api/sessions/{session}/socket HTTP/1.1",
        f"host: {served.address}",
        f"authorization: Bearer {token or served.token}",
        "upgrade: websocket",
        "connection: upgrade",
        f"sec-websocket-key: {key}",
        f"sec-websocket-version: {version}",
        *headers,
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def frame(data, kind=1):
    """Return a short frame of a client, which must be masked."""
    assert len(data) < 126
    mask = os.urandom(4)
    masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))
    return struct.pack("!BB", 0x80 | kind, 0x80 | len(data)) + mask + masked


async def read_until(stream, wanted):
    """Return what arrives, up to some bytes or the end."""
    answer = b""
    with trio.fail_after(10):
        while wanted not in answer:
            try:
                piece = await stream.receive_some(65_536)
            except trio.BrokenResourceError:
                break
            if not piece:
                break
            answer += piece
    return answer


async def wait_until_closed(stream):
    """Wait until the server has closed a connection."""
    with trio.fail_after(10), contextlib.suppress(trio.BrokenResourceError):
        while await stream.receive_some(65_536):
            pass


# --- frames before the answer ---------------------------------------------------------------------


async def test_frames_behind_the_handshake_are_delivered(project):
    async with serving(project, answers=[say("ok")]) as served:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        async with await trio.open_tcp_stream("127.0.0.1", served.port) as stream:
            early = frame(b"{}") * 30 + frame(b"now", kind=9)
            await stream.send_all(handshake(served, hosted.id) + early)
            answer = await read_until(stream, b"now")
        # Nothing comes before the answer to the handshake, and the ping is answered.
        assert answer.startswith(b"HTTP/1.1 101 ")
        assert b"\x8a\x03now" in answer.partition(HEAD_END)[2]
        assert answer.count(b"HTTP/1.1") == 1


async def test_frames_behind_a_refused_handshake_are_dropped(project):
    async with serving(project) as served:
        early = frame(b"{}") * 30
        answer = await served.raw(handshake(served, "none", token="wrong") + early)
        assert answer.startswith(b"HTTP/1.1 401 ")
        assert answer.count(b"HTTP/1.1") == 1
        answer = await served.raw(handshake(served, "none", version=12) + early)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert answer.count(b"HTTP/1.1") == 1
        assert served.running.streams.readers == set()


async def test_a_close_behind_the_handshake_ends_the_reader(project):
    async with serving(project) as served:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        answer = await served.raw(handshake(served, hosted.id) + frame(b"\x03\xe8", kind=8))
        assert answer.startswith(b"HTTP/1.1 101 ")
        with trio.fail_after(5):
            while served.running.streams.readers:  # noqa: ASYNC110
                await trio.sleep(0.01)


# --- bodies that others might read differently ----------------------------------------------------


@pytest.mark.parametrize(
    "head",
    [
        "POST /api/sessions HTTP/1.1\r\nhost: {host}\r\ntransfer-encoding: xchunked",
        "POST /api/sessions HTTP/1.1\r\nhost: {host}\r\ntransfer-encoding: chunked, identity",
        "POST /api/sessions HTTP/1.1\r\nhost: {host}\r\ntransfer-encoding: gzip, chunked",
        "POST /api/sessions HTTP/1.1\r\nhost: {host}\r\ntransfer-encoding: \x0bchunked",
        "POST /api/sessions HTTP/1.1\r\nhost: {host}\r\n"
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
        "POST /api/sessions HTTP/1.0\r\nhost: {host}\r\ntransfer-encoding: chunked",
        "POST /api/sessions HTTP/1.1\r\nhost: {host}\r\ncontent-length: 1, 2",
        "POST /api/sessions HTTP/1.1\r\nhost: {host}\r\ncontent-length: +5",
        "GET /api/sessions/x/socket HTTP/1.1\r\nhost: {host}\r\nupgrade: websocket\r\n"
        "connection: upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: a\r\n"
        "content-length: 5",
        "GET /api/sessions/x/socket HTTP/1.1\r\nhost: {host}\r\nupgrade: websocket\r\n"
        "connection: upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: a\r\n"
        "transfer-encoding: chunked",
    ],
)
async def test_a_doubtful_body_ends_the_connection(project, head):
    async with serving(project) as served:
        smuggled = f"GET / HTTP/1.1\r\nhost: {served.address}\r\n\r\n"
        data = f"{head.format(host=served.address)}\r\n\r\n0\r\n\r\n{smuggled}".encode("latin-1")
        with trio.fail_after(3):
            answer = await served.raw(data)
        assert answer.startswith(b"HTTP/1.1 400 "), answer
        assert answer.count(b"HTTP/1.1") == 1
        assert b"connection: close" in answer.lower()


# --- places ---------------------------------------------------------------------------------------


async def hold_idle(served, count, first=b""):
    """Open connections that prove nothing, and send the beginning of something on each."""
    held = []
    for _ in range(count):
        stream = await trio.open_tcp_stream("127.0.0.1", served.port)
        held.append(stream)
        if first:
            await stream.send_all(first)
    return held


@pytest.mark.parametrize("kind", ["silent", "half a request", "a page", "a bad handshake"])
async def test_connections_without_a_token_take_no_place_from_users(project, kind):
    limit = 20
    async with serving(project, settings=ServeSettings(connections=limit)) as served:
        firsts = {
            "silent": b"",
            "half a request": b"GET /api/me HT",
            "a page": f"GET / HTTP/1.1\r\nhost: {served.address}\r\n\r\n".encode(),
            "a bad handshake": handshake(served, "x", version=12, token="wrong"),
        }
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        held = await hold_idle(served, 3 * limit, firsts[kind])
        async with served.socket(hosted.id) as socket:
            assert (await socket.receive())[0]["type"] == "hello"
            # Whoever has proved a token keeps the place, however many come after.
            held += await hold_idle(served, 3 * limit, firsts[kind])
            for _ in range(5):
                async with served.client() as client:
                    assert (await client.get("/api/me", timeout=2)).status_code == 200
            hosted.session.set(approve="auto")
            await socket.read_until(type="session_changed")
        for stream in held:
            await trio.aclose_forcefully(stream)


async def test_known_users_do_not_drop_each_other(project):
    async with serving(project, settings=ServeSettings(connections=3)) as served:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        async with contextlib.AsyncExitStack() as stack:
            sockets = []
            for _ in range(3):
                socket = await stack.enter_async_context(served.socket(hosted.id))
                await socket.receive()
                sockets.append(socket)
            [late] = await hold_idle(served, 1)
            await wait_until_closed(late)
            await trio.aclose_forcefully(late)
            hosted.session.set(approve="auto")
            for socket in sockets:
                await socket.read_until(type="session_changed")


async def test_a_refused_handshake_ends_its_connection(project):
    async with (
        serving(project) as served,
        await trio.open_tcp_stream("127.0.0.1", served.port) as stream,
    ):
        await stream.send_all(handshake(served, "x", version=12))
        await wait_until_closed(stream)


# --- clients that leave ---------------------------------------------------------------------------


@pytest.fixture
def notes():
    """Return the texts that the server's quiet log gets."""
    found = []

    class Keeper(logging.Handler):
        def emit(self, record):
            found.append(self.format(record))

    keeper = Keeper()
    log = logging.getLogger("hilum.serve.http")
    log.addHandler(keeper)
    yield found
    log.removeHandler(keeper)


async def test_closing_and_sending_at_the_same_time_do_not_collide():
    """A client that closes is closed while the application sends the next part of a stream."""

    async def app(scope, receive, send):
        raise AssertionError("nobody sends a request")

    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    for _ in range(20):
        client = await trio.open_tcp_stream("127.0.0.1", port)
        connection = _Connection(
            ASGIWrapper(app), make_config(), WorkerContext(None), {}, await listener.accept()
        )
        connection.facts = ConnectionFacts()
        async with client, trio.open_nursery() as nursery:
            nursery.start_soon(connection.run)
            await trio.testing.wait_all_tasks_blocked()
            # Started in an order that trio chooses at random.
            async with trio.open_nursery() as sending:
                sending.start_soon(connection.protocol_send, Closed())
                sending.start_soon(connection.protocol_send, RawData(b"x" * 100_000))
                sending.start_soon(wait_until_closed, client)
    await listener.aclose()


@pytest.mark.parametrize("kind", ["socket", "closed socket", "stream", "export"])
async def test_clients_that_leave_in_the_middle_are_no_error(project, capsys, notes, kind):
    big = "x" * 250_000
    async with serving(project, answers=[say(big)] * 3) as served:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        for number in range(3):
            await hosted.session.run(f"Go {number}")
        plain = (
            f"GET /api/sessions/{hosted.id}/{{}} HTTP/1.1\r\nhost: {served.address}\r\n"
            f"authorization: Bearer {served.token}\r\n\r\n"
        )
        requests = {
            "socket": handshake(served, hosted.id),
            "stream": plain.format("stream").encode(),
            "export": plain.format("export?format=json").encode(),
            "closed socket": handshake(served, hosted.id),
        }

        async def leave_after(size):
            stream = await trio.open_tcp_stream("127.0.0.1", served.port)
            await stream.send_all(requests[kind])
            seen = 0
            while seen < size:
                piece = await stream.receive_some(65_536)
                if not piece:
                    break
                seen += len(piece)
            if kind == "closed socket":
                # The server closes the connection while it still sends what it had begun.
                await stream.send_all(frame(b"\x03\xe8", kind=8))
                await wait_until_closed(stream)
            await trio.aclose_forcefully(stream)

        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(leave_after, 1 + number * 90_001)
        async with served.client() as client:
            assert (await client.get("/api/me")).status_code == 200
    assert "error" not in capsys.readouterr().err
    assert notes == []


async def test_readers_that_are_behind_keep_little_memory(project):
    """Each keeps a part of the log, and not all that it still has to get."""
    big = "x" * 250_000
    readers = 10
    async with serving(project, answers=[say(big)] * 8) as served:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        for number in range(8):
            await hosted.session.run(f"Go {number}")
        tracemalloc.start()
        try:
            held = await hold_idle(served, readers, handshake(served, hosted.id))
            for stream in held:
                await read_until(stream, b'"hello"')
            # Long enough for the buffers of the system to fill, and shorter than ``SEND_SECONDS``.
            await trio.sleep(1.0)
            kept, peak = tracemalloc.get_traced_memory()
            assert len(served.running.streams.readers) == readers
        finally:
            tracemalloc.stop()
        for stream in held:
            await trio.aclose_forcefully(stream)
        # The log has more than 2 MB.
        assert kept < readers * 2_000_000
        assert peak < readers * 2_500_000


class FakeStream:
    """A connection from an address."""

    def __init__(self, peer):
        self.socket = SimpleNamespace(getpeername=lambda: (peer, 1))
        self.closed = False

    async def aclose(self):
        self.closed = True
        await trio.lowlevel.checkpoint()


async def test_a_full_server_drops_the_oldest_unknown_connection_of_the_busiest_address():
    places = _Places(5)
    streams = [FakeStream(peer) for peer in ("a", "b", "b", "a", "b")]
    facts = [ConnectionFacts() for _ in streams]
    for stream, fact in zip(streams, facts, strict=True):
        assert await places.take(stream, fact)
    facts[1].is_known = True
    # Both addresses have two unknown connections; that of the first one is older.
    newer = FakeStream("c")
    assert await places.take(newer, ConnectionFacts())
    assert [stream.closed for stream in streams] == [True, False, False, False, False]
    newest = FakeStream("c")
    assert await places.take(newest, ConnectionFacts(is_known=True))
    assert [stream.closed for stream in streams] == [True, False, True, False, False]
    assert newer in places.streams
    for fact in facts:
        fact.is_known = True
    assert await places.take(FakeStream("d"), ConnectionFacts(is_known=True))
    assert newer.closed
    # If everybody is known, nobody is dropped.
    assert not await places.take(FakeStream("d"), ConnectionFacts())
    places.free(newest)
    assert await places.take(FakeStream("d"), ConnectionFacts())
