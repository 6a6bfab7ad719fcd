"""Requests that a server passes on: when one side leaves, the other side ends at once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from hilum.testing import say
from hilum_serve.peer_group import PeerGroup
from hilum_serve.tokens import add_token
from hilum_view import Prompt
from served import Served, serving
from server_groups import KEY, find_free_port

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
        answer = await pair.other.raw(large + body, wait=0.8)
        assert answer.startswith(b"HTTP/1.1 413 "), answer
    chunked = f"{head}transfer-encoding: chunked\r\n\r\ne\r\n".encode()
    answer = await pair.other.raw(chunked + b'{"text": "Go"}\r\n0\r\n\r\n', wait=0.5)
    assert answer.startswith(b"HTTP/1.1 202 "), answer
    hosted = pair.holder.hub.find_hosted(pair.session)
    assert hosted is not None
    assert [entry.text for entry in hosted.view.entries if isinstance(entry, Prompt)] == ["Go"]
