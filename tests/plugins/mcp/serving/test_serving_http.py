"""The server over HTTP: clients with the token, and everybody else."""

import os
from contextlib import asynccontextmanager

import httpx
import httpx2
import pytest
import trio
from hilum import UsageError
from hilum.listening import allowed_hosts, listen
from hilum_mcp.serving import access_token, http_server
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

# What the SDK's client leaves to the collector when a stream of the older era ends.
leaves_streams = pytest.mark.filterwarnings(
    "ignore:.*[Aa]sync.generator:pytest.PytestUnraisableExceptionWarning",
    "ignore:Async generator:ResourceWarning",
)
TOKEN = "a-token-that-is-long-enough"
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
KIND = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


class Web:
    """The address of the server, and requests to it."""

    def __init__(self, port, stop):
        self.port, self.stop, self.ended = port, stop, trio.Event()
        self.url = f"http://127.0.0.1:{port}/mcp"

    async def post(self, content=None, **headers):
        """Post a message, by default a ping, with changed headers; None removes one."""
        right = {**KIND, "host": f"127.0.0.1:{self.port}", "authorization": f"Bearer {TOKEN}"}
        given = {name: value for name, value in (right | headers).items() if value is not None}
        async with httpx.AsyncClient() as client:
            if content is None:
                return await client.post(self.url, json=PING, headers=given)
            return await client.post(self.url, content=content, headers=given)

    @asynccontextmanager
    async def client(self, mode, **callbacks):
        """Create a client of the SDK with the token."""
        async with httpx2.AsyncClient(headers={"authorization": f"Bearer {TOKEN}"}) as web:
            transport = streamable_http_client(self.url, http_client=web)
            async with Client(
                transport, mode="legacy" if mode == "legacy" else "auto", **callbacks
            ) as client:
                yield client


@asynccontextmanager
async def open_web(served, *more):
    """Serve over HTTP on a free port."""
    listener, stop = listen("127.0.0.1", 0), trio.Event()
    port = listener.getsockname()[1]
    async with trio.open_nursery() as nursery:
        web = Web(port, stop)

        async def run():
            hosts = allowed_hosts("127.0.0.1", port, more)
            await http_server.serve(served.server, listener, TOKEN, hosts, stop)
            web.ended.set()

        nursery.start_soon(run)
        yield web
        stop.set()


@leaves_streams
async def test_clients_call_tools_over_http(serve, text):
    """Two clients use the same session at the same time, and each gets its own results."""
    results = {}

    async def read(client, name):
        results[name] = text(await client.call_tool("read_file", {"path": name}))

    async with (
        serve("files", files={"a.txt": "one\n", "b.txt": "two\n"}) as served,
        open_web(served) as web,
        web.client(served.mode) as first,
        web.client(served.mode) as second,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(read, first, "a.txt")
        nursery.start_soon(read, second, "b.txt")
    assert "one" in results["a.txt"]
    assert "two" in results["b.txt"]


@leaves_streams
async def test_a_clients_user_is_asked_over_http(serve, text):
    """Approvals work as on standard input and output, in both protocol versions."""
    from mcp_types import ElicitResult

    async def elicit(context, params):
        return ElicitResult(action="accept", content={"run": "yes"})

    async with (
        serve("files") as served,
        open_web(served) as web,
        web.client(served.mode, elicitation_callback=elicit) as client,
    ):
        result = await client.call_tool("write_file", {"path": "new.txt", "content": "x"})
        assert not result.is_error, text(result)
        assert (served.bench.workspace / "new.txt").read_text() == "x"


@pytest.mark.parametrize(
    "given", [None, "", "Bearer", "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x"]
)
async def test_without_the_token_nothing_is_served(serve_modern, given):
    """Every request needs it; the answer says only how to send it."""
    async with serve_modern("files") as served, open_web(served) as web:
        answer = await web.post(authorization=given)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert "access-control-allow-origin" not in answer.headers


async def test_a_request_with_the_token_passes(serve_modern):
    """So the other tests do not fail for another reason."""
    async with serve_modern("files") as served, open_web(served) as web:
        assert (await web.post()).status_code not in (401, 403)
        assert (await web.post(authorization=f"bearer {TOKEN}")).status_code not in (401, 403)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1", "127.0.0.1.evil.example:{}", "localhost:1", "localhost:{}@x"],
)
async def test_a_foreign_host_is_refused_even_with_the_token(serve_modern, host):
    """A page whose host name resolves to this machine is refused (DNS rebinding)."""
    async with serve_modern("files") as served, open_web(served) as web:
        assert (await web.post(host=host.format(web.port))).status_code == 403


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost", "file://"]
)
async def test_a_foreign_page_is_refused_even_with_the_token(serve_modern, origin):
    """A browser's request for a page of another origin is refused."""
    async with serve_modern("files") as served, open_web(served) as web:
        assert (await web.post(origin=origin)).status_code == 403
        assert (await web.post(origin=f"http://127.0.0.1:{web.port}")).status_code not in (401, 403)


async def test_a_host_of_the_user_passes(serve_modern):
    """A server behind a tunnel has another host."""
    async with serve_modern("files") as served, open_web(served, "box.example") as web:
        assert (await web.post(host="box.example")).status_code not in (401, 403)


async def test_hosts_are_case_insensitive(serve_modern):
    """Users and clients may write capital letters."""
    async with serve_modern("files") as served, open_web(served, "Box.Example") as web:
        assert (
            await web.post(host="BOX.example")
        ).status_code == 400  # it is let in: a ping of no session
        assert (await web.post(host=f"LocalHost:{web.port}")).status_code == 400
        assert (await web.post(origin=f"HTTP://LocalHost:{web.port}")).status_code == 400


async def test_a_preflight_request_is_not_allowed(serve_modern):
    """No answer ever allows a foreign page to read."""
    async with (
        serve_modern("files") as served,
        open_web(served) as web,
        httpx.AsyncClient() as client,
    ):
        asked = {"origin": "https://evil.example", "access-control-request-method": "POST"}
        answer = await client.options(web.url, headers=asked)
        assert answer.status_code == 403
        assert not any(name.startswith("access-control") for name in answer.headers)


async def pour(web, length, token=TOKEN, chunked=False):
    """Send a body over a plain socket until the server closes it.

    Returns the status and the bytes that it read.
    """
    size = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {length}"
    kind = "".join(f"{name}: {value}\r\n" for name, value in KIND.items())
    head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{web.port}\r\n{kind}Authorization: Bearer {token}\r\n{size}\r\n\r\n"
    stream, piece, taken, answer = (
        await trio.open_tcp_stream("127.0.0.1", web.port),
        b" " * 100_000,
        0,
        b"",
    )
    async with stream, trio.open_nursery() as nursery:

        async def send():
            nonlocal taken
            try:
                await stream.send_all(head.encode())
                while taken < length:
                    await stream.send_all(
                        b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece
                    )
                    taken += len(piece)
            except trio.BrokenResourceError:
                pass

        nursery.start_soon(send)
        while b"\r\n" not in answer:
            more = await stream.receive_some()
            if not more:
                break
            answer += more
        nursery.cancel_scope.cancel()
    return int(answer.split()[1]), taken


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_large_body_is_refused(serve_modern, chunked):
    """The server does not read all of it, with or without a stated length."""
    async with serve_modern("files") as served, open_web(served) as web:
        status, taken = await pour(web, 200_000_000, chunked=chunked)
        assert status == 413
        assert taken < http_server.MAX_BODY + 20_000_000
        assert (await web.post()).status_code not in (401, 403, 413)


async def test_a_large_body_without_the_token_is_not_read(serve_modern):
    """A client without the token cannot fill the memory."""
    async with serve_modern("files") as served, open_web(served) as web:
        status, taken = await pour(web, 200_000_000, token="wrong")
        assert status == 401
        assert taken < 20_000_000
        assert (await web.post()).status_code not in (401, 403)


async def test_websockets_are_refused(serve_modern):
    """A handshake with the token is refused too."""
    async with (
        serve_modern("files") as served,
        open_web(served) as web,
        httpx.AsyncClient() as client,
    ):
        headers = {
            "authorization": f"Bearer {TOKEN}",
            "connection": "Upgrade",
            "upgrade": "websocket",
            "sec-websocket-version": "13",
            "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
        }
        assert (await client.get(web.url, headers=headers)).status_code == 403


@leaves_streams
async def test_open_streams_do_not_delay_the_end(serve):
    """A client that keeps its connection open cannot stop the server from ending."""
    async with serve("files") as served:
        with trio.fail_after(http_server.GRACE + 10):
            async with open_web(served) as web, web.client(served.mode) as client:
                await client.list_tools()
                web.stop.set()
                await web.ended.wait()
        with pytest.raises(httpx.ConnectError):
            await web.post()


class TestTokens:
    """The sources of the token."""

    def test_a_token_is_created_without_a_source(self):
        """It is long, and another one each time."""
        (first, source), (second, _) = (
            access_token.find_token("", {}),
            access_token.find_token("", {}),
        )
        assert source == ""
        assert first != second
        assert len(first) >= 43

    def test_the_variable_is_removed_from_the_environment(self):
        """No child process gets the token."""
        environ = {access_token.VARIABLE: TOKEN}
        assert access_token.find_token("", environ) == (TOKEN, access_token.VARIABLE)
        assert environ == {}

    def test_a_token_file_is_created_for_its_owner(self, tmp_path):
        """The next start uses the same token."""
        path = str(tmp_path / "token")
        token, source = access_token.find_token(path, {})
        assert source == path
        assert os.stat(path).st_mode & 0o777 == 0o600
        assert access_token.find_token(path, {access_token.VARIABLE: TOKEN}) == (token, path)

    @pytest.mark.parametrize(
        "content", ["short", "", "with spaces in it, long", "ümlauts-are-no-token-characters"]
    )
    def test_an_invalid_token_is_refused(self, tmp_path, content):
        """It could be guessed, or could not be sent."""
        path = tmp_path / "token"
        path.write_text(content)
        path.chmod(0o600)
        with pytest.raises(UsageError, match="too short, or contains spaces"):
            access_token.find_token(str(path), {})

    def test_a_readable_token_file_is_refused(self, tmp_path):
        """The error says what to do."""
        path = tmp_path / "token"
        path.write_text(TOKEN)
        path.chmod(0o644)
        with pytest.raises(UsageError, match="readable by other users") as caught:
            access_token.find_token(str(path), {})
        assert "chmod 600" in caught.value.hint

    def test_a_token_file_that_cannot_be_created_is_reported(self, tmp_path):
        """The folder is missing, or a folder is in its place."""
        for path in (tmp_path / "none" / "token", tmp_path):
            with pytest.raises(UsageError, match="cannot be"):
                access_token.find_token(str(path), {})
