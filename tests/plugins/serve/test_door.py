"""The door: everything that must not get in is refused, as JSON and with the fitting status."""

import json
import time

import msgspec
import pytest
import trio
from api_calls import refusal
from hilum import UsageError
from hilum.testing import say
from hilum_serve.command import make_parser
from hilum_serve.door import FAILURE_DELAY
from hilum_serve.settings import ServeSettings
from hilum_serve.tokens import COOKIE_SECONDS, add_token
from served import Refused, serving
from wsproto.extensions import PerMessageDeflate

GET = "GET /api/me HTTP/1.1"


def request(served, line=GET, *headers, host=None, token=True, body=b""):
    lines = [line, f"host: {host or served.address}"]
    if token:
        lines.append(f"authorization: Bearer {served.token}")
    return "\r\n".join([*lines, *headers, "", ""]).encode() + body


def status(answer):
    return int(answer.split(b" ", 2)[1]) if answer else 0


def problem(answer):
    return json.loads(answer.partition(b"\r\n\r\n")[2])


async def log_in(served):
    async with served.client(None) as client:
        answer = await client.get(f"/login?token={served.token}")
    assert answer.status_code == 303
    cookie = answer.headers["set-cookie"]
    assert answer.headers["referrer-policy"] == "no-referrer"
    flags = {each.strip() for each in cookie.split(";")}
    # A browser that is closed stays logged in.
    assert {"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=2592000"} <= flags
    assert cookie.startswith(f"hilum-{served.port}=")
    assert served.token not in cookie
    return cookie.partition(";")[0]


@pytest.fixture
def run(project):
    """Return a function that runs a test against a server."""

    async def run(test, **options):
        async with serving(project, answers=[say("ok")] * 3, **options) as served:
            await test(served)

    return run


@pytest.mark.parametrize(
    ("headers", "host", "line", "expected"),
    [
        ([], "evil.example:80", GET, 421),
        ([], "127.0.0.1.evil.example", GET, 421),
        (["host: evil.example"], None, GET, 400),
        (["origin: http://evil.example"], None, GET, 403),
        (["origin: null"], None, GET, 403),
        (["sec-fetch-site: cross-site"], None, GET, 403),
        (["sec-fetch-site: same-site"], None, GET, 403),
        (["x-large: " + "x" * 40_000], None, GET, 431),
        ([f"x-{number}: {'x' * 900}" for number in range(30)], None, GET, 431),
        (
            ["content-length: 2", "transfer-encoding: chunked"],
            None,
            "POST /api/sessions HTTP/1.1",
            400,
        ),
        (["upgrade: h2c", "connection: upgrade, http2-settings"], None, GET, 400),
        ([], None, "GET /api/../etc/passwd HTTP/1.1", 404),
        ([], None, "GET /page/../../pyproject.toml HTTP/1.1", 404),
        ([], None, "GET /page/%2e%2e/command.py HTTP/1.1", 404),
        ([], None, "GET /page/%00 HTTP/1.1", 400),
        ([], None, "GET /api/sessions/..%2f..%2fetc/stream HTTP/1.1", 404),
        ([], None, "GET /" + "x" * 9_000 + " HTTP/1.1", 431),
        ([], None, "TRACE /api/me HTTP/1.1", 405),
        ([], None, "QUERY /api/sessions HTTP/1.1", 405),
        ([], None, "GET /api/sessions?limit=1&limit=2 HTTP/1.1", 400),
        ([], None, "GET /api/sessions?unknown=1 HTTP/1.1", 400),
        ([], None, "GET /nothing HTTP/1.1", 404),
    ],
)
async def test_what_must_not_get_in_is_refused(run, headers, host, line, expected):
    async def test(served):
        answer = await served.raw(request(served, line, *headers, "connection: close", host=host))
        assert status(answer) == expected, answer[:300]

    await run(test)


async def test_http2_with_prior_knowledge_is_refused(run):
    async def test(served):
        answer = await served.raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert status(answer) in (0, 400)
        assert b"HTTP/2" not in answer

    await run(test)


async def test_a_missing_and_a_wrong_token(run):
    async def test(served):
        async with served.client(None) as client:
            missing = await client.get("/api/me")
            wrong = await client.get("/api/me", headers={"authorization": "Bearer wrong"})
            basic = await client.get("/api/me", headers={"authorization": "Basic YTpi"})
            cookie = await client.get("/api/me", headers={"cookie": f"hilum-{served.port}=wrong"})
        for answer in (missing, wrong, basic, cookie):
            assert answer.status_code == 401
            assert answer.json()["code"] == "E_TOKEN"
            assert answer.json()["hint"]
            assert "access-control-allow-origin" not in answer.headers

    await run(test)


async def test_guessing_is_limited_and_the_right_token_still_works(run, monkeypatch):
    delays = []

    async def note_delay(seconds):
        delays.append(seconds)

    async def test(served):
        monkeypatch.setattr("hilum_serve.door.sleep", note_delay)
        async with served.client("wrong-token") as client:
            codes = [(await client.get("/api/me")).status_code for _ in range(25)]
        assert codes == [401] * 20 + [429] * 5
        # The refusals with 429 are as slow as the others.
        assert delays == [FAILURE_DELAY] * 25
        async with served.client() as client:
            assert (await client.get("/api/me")).status_code == 200

    await run(test)


@pytest.mark.parametrize(
    "foreign", ['a=b c; {"x": 1}=y', "[x]=1", 'broken="unfinished', "=", "a", "é=ü"]
)
async def test_unusual_cookies_of_other_programs_do_not_matter(run, foreign):
    async def test(served):
        cookie = await log_in(served)
        for text in (f"{foreign}; {cookie}", f"{cookie}; {foreign}"):
            async with served.client(None, headers={"cookie": text.encode()}) as client:
                assert (await client.get("/api/me")).status_code == 200, text

    await run(test)


async def test_a_cookie_needs_our_origin_to_change_anything(run):
    async def test(served):
        cookie = await log_in(served)
        async with served.client(None, headers={"cookie": cookie}) as client:
            assert (await client.get("/api/me")).json()["name"] == "owner"
            body = {"workspace": "/"}
            without = await client.post("/api/sessions", json=body)
            foreign = await client.post(
                "/api/sessions", json=body, headers={"origin": "http://evil"}
            )
            other_port = {"origin": "http://127.0.0.1:1"}
            port = await client.post("/api/sessions", json=body, headers=other_port)
            out = await client.post("/logout", headers={"origin": served.url})
        assert [without.status_code, foreign.status_code, port.status_code] == [403] * 3
        assert {each.json()["code"] for each in (without, foreign, port)} == {"E_ORIGIN"}
        assert out.status_code == 303
        assert "Max-Age=0" in out.headers["set-cookie"]

    await run(test)


async def test_a_copy_of_the_cookie_is_refused_after_logging_out(run):
    async def test(served):
        cookie = await log_in(served)
        other = await log_in(served)
        async with served.client(None, headers={"origin": served.url}) as client:
            await client.post("/logout", headers={"cookie": cookie})
            again = await client.get("/api/me", headers={"cookie": cookie})
            kept = await client.get("/api/me", headers={"cookie": other})
        assert (again.status_code, again.json()["code"]) == (401, "E_TOKEN")
        # Another browser of the same user stays logged in.
        assert kept.status_code == 200

    await run(test)


async def open_both_streams(served, session, cookie, into):
    """Open the streams of a session with a cookie, and collect how each one ends."""
    headers = [("origin", served.url), ("cookie", cookie)]
    async with trio.open_nursery() as nursery:

        async def read_events():
            async with (
                served.client(None, headers={"cookie": cookie}) as client,
                client.stream("GET", f"/api/sessions/{session}/stream") as answer,
            ):
                text = ""
                async for piece in answer.aiter_text():
                    text += piece
                    into["open"].add("stream")
            into["stream"] = text

        nursery.start_soon(read_events)
        async with served.socket(session, headers=headers) as socket:
            into["open"].add("socket")
            elements = [element async for element in socket]
            into["socket"] = (elements[-1], socket.closed)


@pytest.mark.parametrize("how", ["logout", "age"])
async def test_open_streams_end_with_the_login(run, monkeypatch, how):
    async def test(served):
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        cookie = await log_in(served)
        kept = [("origin", served.url), ("cookie", await log_in(served))]
        found = {"open": set()}
        async with (
            served.client(None, headers={"origin": served.url, "cookie": cookie}) as client,
            served.socket(hosted.id, headers=kept) as other,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(open_both_streams, served, hosted.id, cookie, found)
            with trio.fail_after(10):
                while found["open"] != {"stream", "socket"}:  # noqa: ASYNC110
                    await trio.sleep(0.02)
            if how == "logout":
                assert (await client.post("/logout")).status_code == 303
            else:
                now = time.time()
                monkeypatch.setattr(time, "time", lambda: now + COOKIE_SECONDS + 60)
            with trio.fail_after(2):
                while not {"stream", "socket"} <= found.keys():  # noqa: ASYNC110
                    await trio.sleep(0.02)
            bye = {"type": "bye", "why": "token"}
            assert found["socket"] == (bye, 4401)
            assert found["stream"].endswith('data: {"type":"bye","why":"token"}\n\n')
            if how == "logout":
                # Another browser of the same user reads on.
                hosted.session.note("test.kept")
                await other.read_until(name="test.kept")

    await run(test)


async def test_a_foreign_page_cannot_log_the_user_in(run):
    async def test(served):
        async with served.client(None) as client:
            for site in ("cross-site", "same-site"):
                path = f"/login?token={served.token}"
                answer = await client.get(path, headers={"sec-fetch-site": site})
                assert answer.status_code == 403
                assert "set-cookie" not in answer.headers
            wrong = await client.get("/login?token=wrong")
        assert wrong.status_code == 401
        assert "text/html" in wrong.headers["content-type"]

    await run(test)


async def test_the_page_is_public_and_has_its_policy(run):
    async def test(served):
        async with served.client(None) as client:
            answer = await client.get("/")
            policy = answer.headers["content-security-policy"]
            again = await client.get("/", headers={"if-none-match": answer.headers["etag"]})
            posted = await client.post("/")
        assert "default-src 'none'" in policy
        assert "'unsafe-inline'" not in policy
        assert "require-trusted-types-for 'script'" in policy
        assert again.status_code == 304
        assert posted.status_code == 405
        assert posted.headers["allow"]

    await run(test)


async def test_foreign_web_sockets_are_refused(run):
    async def test(served):
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        cookie = ("cookie", await log_in(served))
        wrong = [
            ([("origin", "http://evil"), cookie], "", 403),
            ([cookie], "", 403),
            ([("origin", served.url)], "evil.example", 421),
            ([("authorization", "Bearer wrong")], "", 401),
        ]
        for headers, host, expected in wrong:
            with pytest.raises(Refused) as refusal:
                async with served.socket(hosted.id, headers=headers, host=host):
                    pass
            assert refusal.value.args[0] == expected
        ended = [("origin", served.url), ("cookie", f"hilum-{served.port}=wrong")]
        async with served.socket(hosted.id, headers=ended) as socket:
            assert await socket.receive() is None
            assert socket.closed == 4401
        async with served.socket(hosted.id, headers=[("origin", served.url), cookie]) as socket:
            assert (await socket.receive())[0]["type"] == "hello"

    await run(test)


async def test_nothing_is_compressed_on_web_sockets(run):
    async def test(served):
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        async with served.socket(hosted.id, offers=[PerMessageDeflate()]) as socket:
            assert socket.extensions == []

    await run(test)


async def test_a_large_web_socket_message_closes_the_connection(run, monkeypatch):
    monkeypatch.setattr("hilum_serve.http_server.CLOSE_SECONDS", 0.2)

    async def test(served):
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        async with served.socket(hosted.id) as socket:
            await socket.send("x" * 70_000)
            async for _ in socket:
                pass
            assert socket.closed == 1009
            # The server also closes the connection itself.
            with trio.fail_after(5):
                while await socket.stream.receive_some(65_536):
                    pass

    await run(test)


async def test_a_body_is_limited_in_size_and_time(run, monkeypatch):
    monkeypatch.setattr("hilum_serve.app.BODY_SECONDS", 0.3)
    line = "POST /api/sessions HTTP/1.1"

    async def test(served):
        kind = "content-type: application/json"
        large = request(served, line, kind, "content-length: 100000000")
        assert status(await served.raw(large)) == 413
        late = request(served, line, kind, "content-length: 10", body=b"{")
        assert status(await served.raw(late)) == 408
        async with served.client() as client:
            text = await client.post("/api/sessions", content=b"{}")
            broken = await client.post(
                "/api/sessions", content=b"{", headers={"content-type": "application/json"}
            )
            deep = await client.post(
                "/api/sessions",
                content=b"[" * 100_000,
                headers={"content-type": "application/json"},
            )
        assert text.status_code == 415
        assert broken.status_code == 400
        assert deep.status_code == 400
        assert msgspec.json.decode(broken.content)["code"] == "E_BAD_ARGS"

    await run(test)


async def test_a_slow_header_is_cut_off(run, monkeypatch):
    monkeypatch.setattr("hilum_serve.http_server.HEADER_SECONDS", 0.3)

    async def test(served):
        assert await served.raw(b"GET /api/me HT") == b""

    await run(test)


async def test_requests_of_a_user_are_limited(run):
    async def test(served):
        async with served.client() as client:
            codes = [(await client.get("/api/me")).status_code for _ in range(12)]
        assert codes == [200] * 10 + [429] * 2

    await run(test, settings=ServeSettings(requests_per_minute=10))


async def test_streams_of_a_user_are_limited(run):
    async def test(served):
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        async with served.socket(hosted.id) as first:
            await first.receive()
            async with served.socket(hosted.id) as second:
                message = await second.receive()
                assert message[0]["status"] == 429

    await run(test, settings=ServeSettings(connections_per_user=1))


async def test_a_proxy_names_users_with_tokens(project, tmp_path):
    file = tmp_path / "tokens.json"
    add_token(file, "eva", "watch")
    options = {"tokens_file": file, "user_header": "X-User", "hosts": ["hilum.example"]}
    async with serving(project, **options) as served, served.client(None) as client:
        named = {"x-user": "eva", "host": "hilum.example"}
        assert (await client.get("/api/me", headers=named)).json()["name"] == "eva"
        unknown = await client.get("/api/me", headers={**named, "x-user": "mallory"})
        assert unknown.status_code == 403
        foreign = await client.post("/api/sessions", json={}, headers=named)
        assert foreign.status_code == 403
        # A proxy and this server might read different ones.
        two = [("host", "hilum.example"), ("x-user", "eva"), ("x-user", "eva")]
        assert (await client.get("/api/me", headers=two)).status_code == 403


@pytest.mark.parametrize(
    "name",
    [
        "Host",
        "cookie",
        "Authorization",
        "ORIGIN",
        "Referer",
        "User-Agent",
        "Accept",
        "Accept-Language",
        "Content-Type",
        "Sec-Fetch-Site",
        "Sec-WebSocket-Protocol",
        "If-None-Match",
        "X-Forwarded-For",
        "Forwarded",
        "Last-Event-ID",
        "Hilum-Seen",
        "two words",
        "Näme",
        "X-User:",
        "X-User\r\n",
    ],
)
def test_a_header_that_clients_set_cannot_name_the_user(name):
    with pytest.raises(UsageError, match="header") as refusal:
        make_parser().parse_args(["--proxy-user-header", name])
    assert "X-Forwarded-User" in refusal.value.hint


@pytest.mark.parametrize("name", ["X-Forwarded-User", "Remote-User", "Tailscale-User-Login", ""])
def test_a_header_of_the_proxy_can_name_the_user(name):
    options = make_parser().parse_args(["--proxy-user-header", name])
    assert options.proxy_user_header == name


async def test_a_header_that_occurs_twice_is_refused(project):
    async with serving(project) as served, served.client(None) as client:
        origin = f"http://{served.address}"
        bearer = ("authorization", f"Bearer {served.token}")
        once = await client.get("/api/me", headers=[bearer, ("origin", origin)])
        assert once.status_code == 200
        refused = await client.get("/api/me", headers=[bearer, bearer])
        assert refusal(refused) == (401, "E_TOKEN")
        refused = await client.get("/api/me", headers=[bearer, *2 * [("origin", origin)]])
        assert refusal(refused) == (403, "E_ORIGIN")
        token = f"token={served.token}"
        assert (await client.get(f"/login?{token}&{token}")).status_code == 401
