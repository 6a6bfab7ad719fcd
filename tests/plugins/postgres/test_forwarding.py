"""Requests that a server passes on: when one side leaves, the other side ends at once."""

import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from hashlib import sha1
from pathlib import Path

import hilum_postgres.schema
import pytest
import trio
import trustme
from hilum.testing import say
from hilum_serve import forwarding
from hilum_serve.http_server import encode_frame
from hilum_serve.peer_group import PeerGroup
from hilum_serve.tokens import add_token
from hilum_view import Prompt
from postgres_server import PostgresServer
from served import Served, serving
from server_groups import KEY, find_free_port

pytestmark = pytest.mark.slow(cases=6, of="file")

PLUGINS = ("files", "guard", "plan", "shell", "store", "postgres")


class Pair:
    """Two servers in this process, of which the first has the session open."""

    def __init__(self, holder: Served, other: Served, session: str) -> None:
        self.holder = holder
        self.other = other
        self.session = session

    @property
    def readers(self) -> int:
        """Number of readers that the first server has."""
        return len(self.holder.running.streams.readers)

    async def wait_for_readers(self, count: int) -> None:
        """Wait until the first server has a number of readers."""
        with trio.fail_after(3):
            while self.readers != count:  # noqa: ASYNC110 - a server has no event for it
                await trio.sleep(0.01)


@asynccontextmanager
async def open_pair(folder: Path) -> AsyncIterator[Pair]:
    """Start two servers, and open a session in the first one."""
    project = folder / "project"
    project.mkdir()
    tokens = folder / "tokens.json"
    token = add_token(tokens, "eva", "administer")

    def serve() -> object:
        port = find_free_port()
        return serving(
            project,
            port=port,
            answers=[say("Done.")],
            plugins=PLUGINS,
            tokens_file=tokens,
            group=PeerGroup(f"http://127.0.0.1:{port}", KEY),
        )

    async with serve() as holder, serve() as other:
        holder.token = other.token = token
        async with holder.client() as client:
            created = await client.post("/api/sessions", json={"workspace": str(project)})
            assert created.status_code == 201, created.text
        yield Pair(holder, other, created.json()["id"])


@pytest.fixture
async def pair(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pair]:
    """Two servers that share a database."""
    monkeypatch.setenv("HILUM_POSTGRES_URL", url)
    monkeypatch.setattr(forwarding, "PATIENCE_SECONDS", 0.3)
    async with open_pair(tmp_path) as pair:
        yield pair


async def test_a_reader_that_leaves_ends_at_the_other_server(pair: Pair) -> None:
    async with pair.other.socket(pair.session) as socket:
        assert (await socket.receive() or [{}])[0]["type"] == "hello"
        assert pair.readers == 1
    await pair.wait_for_readers(0)
    await pair.other.read_events(pair.session, 1)
    await pair.wait_for_readers(0)


async def test_a_stream_ends_with_the_session_and_with_its_server(pair: Pair) -> None:
    path = f"/api/sessions/{pair.session}"
    async with pair.other.socket(pair.session) as socket, pair.other.client() as client:
        await socket.receive()
        last = (await client.get(path)).json()["last"]
        closed = await client.post(f"{path}/close", headers={"hilum-seen": str(last)})
        assert closed.status_code == 200, closed.text
        await socket.read_until(type="bye", why="closed")
        assert await socket.receive() is None
        assert socket.closed == 4404
        # Nobody has it open now, so the server that is asked opens it.
        assert (await client.get(path)).status_code == 200
    assert pair.other.hub.find_hosted(pair.session) is not None
    assert pair.holder.hub.find_hosted(pair.session) is None
    async with pair.holder.socket(pair.session) as socket:
        await socket.receive()
        await pair.other.stop()
        await socket.read_until(type="bye", why="restart")
        assert await socket.receive() is None
        assert socket.closed == 1012


async def test_a_server_without_a_connection_to_the_database_keeps_its_session(
    pair: Pair, postgres: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is reached all the same, and its run goes on; looking at the session does not end it."""
    held = hilum_postgres.schema.FIND_HOLDERS
    unlocked = held.replace("AND EXISTS (", "AND false AND EXISTS (")
    assert unlocked != held
    monkeypatch.setattr(hilum_postgres.schema, "FIND_HOLDERS", unlocked)
    async with pair.other.client() as client:
        answer = await client.get(f"/api/sessions/{pair.session}/events")
        assert answer.status_code == 200, answer.text
    assert pair.other.hub.find_hosted(pair.session) is None
    assert postgres.execute(url, "SELECT epoch FROM hilum.sessions") == [(1,)]


async def test_bodies_have_the_limits_of_the_other_server(pair: Pair) -> None:
    """A body that is cut off leaves nothing behind, and one that is too large is refused early."""
    head = (
        f"POST /api/sessions/{pair.session}/prompts HTTP/1.1\r\nhost: {pair.other.address}\r\n"
        f"authorization: Bearer {pair.other.token}\r\nhilum-seen: 1\r\n"
        "content-type: application/json\r\n"
    )
    cut = f'{head}content-length: 100\r\n\r\n{{"text": '
    assert await pair.other.raw(cut.encode(), wait=0.3) == b""
    large = f"{head}content-length: 40000000\r\n\r\n".encode()
    for body in (b"", b"[" * 100_000):
        answer = await pair.other.raw(large + body, wait=0.8, first=20)
        assert answer.startswith(b"HTTP/1.1 413 "), answer
    chunked = f"{head}transfer-encoding: chunked\r\n\r\ne\r\n".encode()
    answer = await pair.other.raw(chunked + b'{"text": "Go"}\r\n0\r\n\r\n', wait=0.5, first=20)
    assert answer.startswith(b"HTTP/1.1 202 "), answer
    hosted = pair.holder.hub.find_hosted(pair.session)
    assert hosted is not None
    assert [entry.text for entry in hosted.view.entries if isinstance(entry, Prompt)] == ["Go"]


class Member:
    """A server that proves to be a member with a key, and answers every request with the same bytes.

    Attributes:
        url: Its address.
        connections: Number of connections to it.
        requests: The requests that it received after it had proved that it is a member.
    """

    def __init__(
        self, answer: bytes, certificate: trustme.LeafCert | None = None, key: str = KEY
    ) -> None:
        self.connections = 0
        self.requests: list[bytes] = []
        self._key = key
        self._answer = answer
        self._certificate = certificate

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        scheme = "https" if self._certificate is not None else "http"
        self.url = f"{scheme}://127.0.0.1:{listener.socket.getsockname()[1]}"
        self._group = PeerGroup(self.url, self._key)
        await trio.serve_listeners(self._serve, [listener], task_status=task_status)

    async def _serve(self, stream: trio.abc.Stream) -> None:
        if self._certificate is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            self._certificate.configure_cert(context)
            stream = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
        self.connections += 1
        # A client that does not trust the certificate leaves.
        async with stream:
            with suppress(trio.BrokenResourceError):
                await self._talk(stream)

    async def _talk(self, stream: trio.abc.Stream) -> None:
        nonce = (await stream.receive_some(10_000)).partition(b"hilum-nonce: ")[2][:64]
        proof = f'{{"proof":"{self._group.answer_nonce(bytes(nonce))}"}}'
        head = f"HTTP/1.1 200 \r\ncontent-length: {len(proof)}\r\n\r\n"
        await stream.send_all(f"{head}{proof}".encode())
        request = bytes(await stream.receive_some(10_000))
        self.requests.append(request)
        answer = self._answer
        start = request.lower().find(b"sec-websocket-key: ")
        if start >= 0:
            key = request[start:].partition(b": ")[2].partition(b"\r\n")[0]
            accept = b64encode(sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
            answer = answer.replace(b"ACCEPT", accept)
        await stream.send_all(answer)


@asynccontextmanager
async def replace_holder(
    pair: Pair,
    postgres: PostgresServer,
    url: str,
    answer: bytes,
    certificate: trustme.LeafCert | None = None,
    *,
    key: str = KEY,
    signed_with: str = KEY,
) -> AsyncIterator[Member]:
    """Have the database name another server as the one with the session.

    Args:
        pair: The servers.
        postgres: The server of the database.
        url: The database.
        answer: The answer of the other server.
        certificate: Its certificate.
        key: Its key.
        signed_with: The key with which its address is signed.
    """
    member = Member(answer, certificate, key)
    async with trio.open_nursery() as nursery:
        await nursery.start(member.run)
        announcement = PeerGroup(member.url, signed_with).announcement
        postgres.execute(url, "UPDATE hilum.holders SET address = %s", announcement)
        postgres.execute(
            url,
            "CREATE FUNCTION hilum.keep() RETURNS trigger LANGUAGE plpgsql AS"
            " 'BEGIN NEW.address := OLD.address; RETURN NEW; END'",
        )
        postgres.execute(
            url,
            "CREATE TRIGGER keep BEFORE UPDATE ON hilum.holders"
            " FOR EACH ROW EXECUTE FUNCTION hilum.keep()",
        )
        yield member
        nursery.cancel_scope.cancel()


async def test_messages_that_come_with_the_acceptance_are_passed_on(
    pair: Pair, postgres: PostgresServer, url: str
) -> None:
    answer = (
        b"HTTP/1.1 101 \r\nupgrade: websocket\r\nconnection: upgrade\r\n"
        b"sec-websocket-accept: ACCEPT\r\n\r\n" + encode_frame('[{"type":"hello","last":7}]')
    )
    async with (
        replace_holder(pair, postgres, url, answer),
        pair.other.socket(pair.session) as socket,
    ):
        assert await socket.receive() == [{"type": "hello", "last": 7}]
        # The server is gone, so the page has to come back.
        assert await socket.receive() is None
        assert socket.closed == 1012


async def test_redirects_are_not_followed(pair: Pair, postgres: PostgresServer, url: str) -> None:
    answer = b"HTTP/1.1 307 \r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"
    async with (
        replace_holder(pair, postgres, url, answer) as member,
        pair.other.client() as client,
    ):
        refused = await client.get(f"/api/sessions/{pair.session}")
        assert refused.status_code == 503
        assert refused.json()["code"] == "E_UNREACHABLE"
        assert "location" not in refused.headers
        assert member.requests


async def test_a_change_is_not_sent_again_after_it_may_have_arrived(
    pair: Pair, postgres: PostgresServer, url: str
) -> None:
    async with (
        replace_holder(pair, postgres, url, b"HTTP/1.1 20") as member,
        pair.other.client() as client,
    ):
        path = f"/api/sessions/{pair.session}/prompts"
        lost = await client.post(path, json={"text": "Go"}, headers={"hilum-seen": "1"})
        assert lost.status_code == 503
        assert lost.json()["code"] == "E_INTERRUPTED"
        assert len(member.requests) == 1


async def test_a_response_that_breaks_off_is_not_completed(
    pair: Pair, postgres: PostgresServer, url: str
) -> None:
    answer = (
        b"HTTP/1.1 200 \r\ncontent-type: application/json\r\nset-cookie: a=b\r\n"
        b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n"
    )
    async with replace_holder(pair, postgres, url, answer) as member:
        head = (
            f"GET /api/sessions/{pair.session}/usage HTTP/1.1\r\nhost: {pair.other.address}\r\n"
            f"authorization: Bearer {pair.other.token}\r\nx-forwarded-user: eva\r\n"
            "cookie: secret=1\r\nreferer: http://x\r\n\r\n"
        )
        received = await pair.other.raw(head.encode())
        assert b"hello" in received
        assert not received.endswith(b"0\r\n\r\n")
        assert b"set-cookie" not in received
        [request] = member.requests
        assert b"authorization: Bearer " in request
        for name in (b"x-forwarded-user", b"cookie", b"referer"):
            assert name not in request


async def test_certificates_are_checked(
    pair: Pair,
    postgres: PostgresServer,
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    authority = trustme.CA()
    answer = b"HTTP/1.1 200 \r\ncontent-length: 5\r\n\r\nhello"
    certificate = authority.issue_cert("127.0.0.1")
    async with (
        replace_holder(pair, postgres, url, answer, certificate) as member,
        pair.other.client() as client,
    ):
        refused = await client.get(f"/api/sessions/{pair.session}")
        assert refused.status_code == 503
        assert member.requests == []
        authority.cert_pem.write_to_path(tmp_path / "authority.pem")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
        assert (await client.get(f"/api/sessions/{pair.session}")).text == "hello"


async def test_an_address_without_the_signature_is_not_contacted(
    pair: Pair, postgres: PostgresServer, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The client learns that the servers have different keys."""
    async with (
        replace_holder(pair, postgres, url, b"", signed_with="x" * 32) as member,
        pair.other.client() as client,
    ):
        refused = await client.get(f"/api/sessions/{pair.session}")
        assert refused.status_code == 409
        assert "serve.peer_key" in refused.text
        assert member.connections == 0
    assert "is not signed with serve.peer_key" in capsys.readouterr().err


async def test_a_server_without_the_key_gets_no_token(
    pair: Pair, postgres: PostgresServer, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its address was signed when another server had it."""
    async with (
        replace_holder(pair, postgres, url, b"", key="x" * 32) as member,
        pair.other.client() as client,
    ):
        refused = await client.get(f"/api/sessions/{pair.session}")
        assert refused.status_code == 503
        assert refused.json()["code"] == "E_UNREACHABLE"
        assert member.connections > 0
        assert set(member.requests) == {b""}
    assert capsys.readouterr().err.count("does not belong to this group") == 1
