"""Servers over HTTP, both transports: refusals, ended sessions, broken streams, limits."""

import datetime
import functools
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import trio
from hilum.events import PluginEvent
from hilum.messages import Image
from hilum.testing import Bench
from hilum_mcp import connection, http_transport, sse_transport

from .conftest import Opened, client, known, mcp_of, until
from .web_server import DROP, Handler, WebServer, answered, old, serving

# The SDK leaves generators of broken-off streams to the collector, which trio warns of.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reconnect to servers without a delay."""
    monkeypatch.setattr(connection, "FIRST_DELAY", 0.02)
    monkeypatch.setattr(connection, "MAX_DELAY", 0.1)
    monkeypatch.setattr(http_transport, "REOPEN_INTERVAL", 0.01)


@pytest.fixture
def web() -> Iterator[WebServer]:
    with serving(WebServer()) as web:
        yield web


def at(web: WebServer, **more: Any) -> dict[str, Any]:
    return {"web": {"url": web.url, "type": "http", **more}}


async def down(kit: Bench, name: str = "web") -> str:
    told = await kit.wait_for(
        PluginEvent, lambda event: event.name == "mcp.down" and event.data["server"] == name
    )
    return str(told.data["say"])


# --- both kinds -----------------------------------------------------------------------------------


async def test_streamable_http_with_headers_of_the_environment(
    servers: Opened, web: WebServer
) -> None:
    headers = {"Authorization": "Bearer ${WEB_TOKEN}", "X-Own": "${MISSING:-none}"}
    async with servers(at(web, headers=headers), environ={"WEB_TOKEN": "the-key\n"}) as kit:
        await known(kit, "web")
        assert (await kit.call("web__echo", text="hello")).text == "hello"
    assert {each.headers.get("authorization") for each in web.asked} == {"Bearer the-key"}
    assert {each.headers.get("x-own") for each in web.asked} == {"none"}
    assert web.asked[-1].method == "DELETE", "the server is told that the session is over"
    assert not web.sessions


@pytest.mark.parametrize("kind", ["sse", ""])
async def test_http_of_the_first_era(servers: Opened, web: WebServer, kind: str) -> None:
    old(web)
    async with servers(
        {"web": {"url": web.url, **({"type": kind} if kind else {}), "headers": {"X-Own": "1"}}}
    ) as kit:
        await known(kit, "web")
        assert (await kit.call("web__echo", text="hello")).text == "hello"
    assert {each.headers.get("x-own") for each in web.asked} == {"1"}
    tried = [each.method for each in web.asked if each.path == "/mcp"]
    assert tried == (["GET"] if kind else ["POST", "POST", "GET"]), (
        "streamable HTTP first, where nothing is said"
    )


async def test_what_is_said_to_be_streamable_is_not_tried_as_sse(
    servers: Opened, web: WebServer
) -> None:
    old(web)
    async with servers(at(web)) as kit:
        assert f"{web.url} responded with HTTP 405 Method Not Allowed." in await down(kit)
    assert "GET" not in web.methods()


async def test_the_first_era_is_reached_again_when_its_stream_ends(
    servers: Opened, web: WebServer
) -> None:
    old(web)
    async with servers(at(web, type="sse")) as kit:
        await known(kit, "web")
        web.streams.popitem()[1].put("")
        assert await until(lambda: client(kit, "web").connection.starts == 2)
        assert (await kit.call("web__echo", text="hello")).text == "hello"


@pytest.mark.parametrize(
    ("status", "why", "starts"),
    [
        (404, "HTTP 404 Not Found", 2),
        (429, "HTTP 429 Too Many Requests", 1),
        (302, "HTTP 302 Found", 1),
    ],
)
async def test_a_message_that_is_refused_in_the_first_era(
    servers: Opened, web: WebServer, status: int, why: str, starts: int
) -> None:
    old(web)
    async with servers(at(web, type="sse")) as kit:
        await known(kit, "web")
        post = web.answers.pop("POST")
        web.answers["POST"] = lambda handler, _: handler.give(
            status, **({"location": "/"} if status == 302 else {})
        )
        web.answers["GET"] = lambda handler, _: handler.give(200, b"log in", "text/html")
        refused = await kit.call("web__echo", text="hello")
        assert f"responded with {why}" in refused.text
        old(web)
        web.answers["POST"] = post
        assert (await kit.call("web__echo", text="hello")).text == "hello"
        assert client(kit, "web").connection.starts == starts


async def test_an_unanswered_sse_post_blocks_no_other(servers: Opened, web: WebServer) -> None:
    """A server may answer a post only when its work is done.

    The next call and a cancellation must get through.
    """
    old(web)
    real, going = web.answers["POST"], threading.Event()

    def post(handler: Handler, message: dict[str, Any]) -> Any:
        if (message.get("params") or {}).get("arguments") == {"text": "slow"}:
            going.wait(20)
        return real(handler, message)

    async with servers(at(web, type="sse")) as kit:
        use = (await known(kit, "web")).connection.run_job
        web.answers["POST"] = post
        async with trio.open_nursery() as nursery:
            nursery.start_soon(use, lambda found: found.call_tool("echo", {"text": "slow"}))
            assert await until(lambda: "tools/call" in web.methods())
            with trio.fail_after(10):
                found = await use(lambda found: found.call_tool("echo", {"text": "hello"}))
            assert found.content[0].text == "hello"
            going.set()


async def test_no_request_overtakes_the_initialized_notification(
    servers: Opened, web: WebServer
) -> None:
    """Servers refuse requests before they have received it."""
    old(web)
    real, other, overtaken = web.answers["POST"], threading.Event(), []

    def post(handler: Handler, message: dict[str, Any]) -> Any:
        if message["method"] == "notifications/initialized":
            overtaken.append(other.wait(0.4))
        elif message["method"].startswith("tools/"):
            other.set()
        return real(handler, message)

    web.answers["POST"] = post
    async with servers(at(web, type="sse")) as kit:
        await known(kit, "web")
        assert (await kit.call("web__echo", text="hello")).text == "hello"
    assert overtaken
    assert not any(overtaken)


async def test_the_first_era_behind_a_redirect(servers: Opened, web: WebServer) -> None:
    old(web)
    get = web.answers["GET"]
    web.answers["GET"] = lambda handler, message: (
        handler.give(307, location="/mcp/") if handler.path == "/mcp" else get(handler, message)
    )
    async with servers(at(web, type="sse")) as kit:
        await known(kit, "web")
        assert (await kit.call("web__echo", text="hello")).text == "hello"
    with serving(WebServer()) as other:
        web.answers["GET"] = lambda handler, _: handler.give(307, location=other.url)
        async with servers(
            at(web, type="sse", headers={"Authorization": "Bearer secret-key"})
        ) as kit:
            assert f"Redirect to {other.url} not followed" in await down(kit)
        assert not other.asked


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda handler, _: handler.give(200, b"<html>", "text/html"), "got 'text/html'"),
        (
            lambda handler, _: handler.stream(": hello"),
            "before it announced a URL for messages",
        ),
        (lambda handler, _: handler.give(503), "responded with HTTP 503"),
    ],
)
async def test_what_is_no_server_of_the_first_era_is_said(
    servers: Opened, web: WebServer, answer: Any, why: str
) -> None:
    web.answers["GET"] = answer
    async with servers(at(web, type="sse")) as kit:
        assert why in await down(kit)


async def test_the_first_era_may_not_send_messages_elsewhere(
    servers: Opened, web: WebServer
) -> None:
    web.answers["GET"] = lambda handler, _: handler.stream(
        f"event: endpoint\ndata: http://127.0.0.2:{web.port}/messages"
    )
    async with servers(at(web, type="sse")) as kit:
        assert "URL on another server for messages, http://127.0.0.2" in await down(kit)
    assert "POST" not in {each.method for each in web.asked}


async def test_the_sdks_own_server_in_both_eras(
    servers: Opened,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import mcp

    real, port = mcp.Client, free_port()
    argv = [sys.executable, str(Path(__file__).parent / "modern_server.py"), "http", str(port)]
    with (tmp_path / "said").open("wb") as said, ExitStack() as stack:
        started(argv, said, stack)
        assert await until(lambda: listens(port), 60)
        for era in ("2026-07-28", "2025-11-25"):
            mode = "auto" if era == "2026-07-28" else "legacy"
            monkeypatch.setattr(mcp, "Client", functools.partial(real, mode=mode))
            async with servers({"sdk": {"url": f"http://127.0.0.1:{port}/mcp"}}) as kit:
                await known(kit, "sdk")
                assert (await kit.call("sdk__add", a=1, b=2)).data == {"structured": {"total": 3}}
                running = client(kit, "sdk").connection._client
                assert running is not None
                assert running.protocol_version == era
                assert (await kit.call("sdk__wrong")).code == "E_FAILED"
                assert (await kit.call("sdk__slow", steps=2)).text == "done"
                assert (
                    await kit.call("read_resource", server="sdk", uri="note://a")
                ).text.endswith("the note a")
                assert any(
                    isinstance(part, Image) for part in (await kit.call("sdk__picture")).parts
                )
                await kit.call("sdk__grow", name=f"grown_{mode}")
                assert await until(
                    lambda kit=kit, mode=mode: f"sdk__grown_{mode}" in kit.session.tools
                )
                if mode == "legacy":
                    died = await kit.call("sdk__die")
                    assert died.code == "E_SERVER"
                    assert "died during the call" in died.text or "SSE stream ended" in died.text


def started(argv: list[str], said: Any, stack: ExitStack, **env: str) -> None:
    """Start a server outside of a session; it ends with the stack."""
    process = subprocess.Popen(argv, stdout=said, stderr=said, env={**os.environ, **env})
    stack.callback(process.wait)
    stack.callback(process.kill)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


# --- what is refused ------------------------------------------------------------------------------


async def test_who_must_log_in_is_told_how(servers: Opened, web: WebServer) -> None:
    web.answers["POST"] = lambda handler, _: handler.give(401, www_authenticate="Bearer")
    async with servers(at(web)) as kit:
        said = await down(kit)
        assert "It requires a login (HTTP 401). (hilum mcp login web)" in said
        assert len(web.asked) == 1, "it is not tried again before that"


async def test_a_key_that_is_not_accepted(servers: Opened, web: WebServer) -> None:
    web.answers["POST"] = lambda handler, _: handler.give(401)
    async with servers(at(web, headers={"Authorization": "Bearer wrong-key"})) as kit:
        said = await down(kit)
        assert "does not accept the key in its configuration (HTTP 401)" in said
        assert "login" not in said
        assert "wrong-key" not in said


async def test_a_login_that_runs_out_in_the_session(servers: Opened, web: WebServer) -> None:
    async with servers(at(web)) as kit:
        await known(kit, "web")
        web.answers["POST"] = lambda handler, _: handler.give(401)
        refused = await kit.call("web__echo", text="hello")
        assert refused.code == "E_SERVER"
        assert "hilum mcp login web" in refused.text


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (403, b"no", "responded with HTTP 403 Forbidden."),
        (404, b"no", "responded with HTTP 404 Not Found."),
        (503, b"no", "responded with HTTP 503 Service Unavailable. (hilum mcp logs web)"),
        (
            400,
            {
                "jsonrpc": "2.0",
                "id": None,
                "error": {"code": -32600, "message": "a key is missing"},
            },
            "a key is missing.",
        ),
        (200, b"<html>log in here</html>", "Unexpected content type: text/html."),
    ],
)
async def test_what_a_server_answers_is_said(
    servers: Opened, web: WebServer, status: int, body: Any, why: str
) -> None:
    kind = "application/json" if isinstance(body, dict) else "text/html"
    web.answers["POST"] = lambda handler, _: handler.give(status, body, kind)
    async with servers(at(web)) as kit:
        assert why in await down(kit)


async def test_the_status_of_a_call_is_said(servers: Opened, web: WebServer) -> None:
    async with servers(at(web)) as kit:
        await known(kit, "web")
        web.answers["tools/call"] = lambda handler, _: handler.give(429, b"slow down", "text/plain")
        refused = await kit.call("web__echo", text="hello")
        assert refused.code == "E_SERVER"
        assert f"refuses echo: {web.url} responded with HTTP 429 Too Many Requests." in refused.text
        del web.answers["tools/call"]
        assert (await kit.call("web__echo", text="hello")).text == "hello", "the connection stays"
        assert client(kit, "web").connection.starts == 1


async def test_nobody_is_there(servers: Opened) -> None:
    url = f"http://user:pass-word@127.0.0.1:{free_port()}/mcp?key=secret-key"
    async with servers({"web": {"url": url}}) as kit:
        said = await down(kit)
        assert "/mcp cannot be reached. ConnectError" in said
        assert "secret-key" not in said
        assert "pass-word" not in said


@pytest.mark.parametrize(
    "headers", [{"X-Key": "a\nb: c"}, {"X Key": "a"}, {"X-Key": "schlüssel-secret"}]
)
async def test_a_header_that_is_none(
    servers: Opened, web: WebServer, headers: dict[str, str]
) -> None:
    async with servers(at(web, headers=headers)) as kit:
        said = await down(kit)
        assert "contains characters that are not allowed in a header" in said
        assert "secret" not in said
    assert not web.asked


async def test_a_certificate_that_nobody_vouches_for(
    servers: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pem = certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pem)
    with serving(WebServer(), tls) as web:
        async with servers(at(web)) as kit:
            said = await down(kit)
            assert "certificate verify failed" in said
            assert "SSL_CERT_FILE" in said
        monkeypatch.setenv("SSL_CERT_FILE", str(pem))
        async with servers(at(web)) as kit:
            await known(kit, "web")


def certificate(folder: Path) -> Path:
    """Create a self-signed certificate for 127.0.0.1 with its key."""
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "both.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    return folder / "both.pem"


async def test_a_redirect_to_another_origin_is_not_followed(
    servers: Opened, web: WebServer
) -> None:
    with serving(WebServer()) as other:
        web.answers["POST"] = lambda handler, _: handler.give(307, location=other.url)
        async with servers(at(web, headers={"Authorization": "Bearer secret-key"})) as kit:
            said = await down(kit)
            assert f"Redirect to {other.url} not followed" in said
        assert not other.asked


async def test_a_redirect_on_the_same_origin_is_followed(servers: Opened, web: WebServer) -> None:
    def moved(handler: Handler, message: dict[str, Any]) -> Any:
        if handler.path == "/mcp":
            return handler.give(308, location="/mcp/")
        if "id" not in message:
            return handler.give(202)
        return answered(message["method"], message.get("params") or {})

    web.answers["POST"] = moved
    async with servers(at(web)) as kit:
        await known(kit, "web")
        assert (await kit.call("web__echo", text="hello")).text == "hello"


async def test_the_proxy_of_the_environment_is_used(
    servers: Opened, web: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", web.url.removesuffix("/mcp"))
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    async with servers({"web": {"url": "http://mcp.example/mcp", "type": "http"}}) as kit:
        await known(kit, "web")
    assert {each.path for each in web.asked} == {"http://mcp.example/mcp"}
    asked = len(web.asked)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    async with servers(at(web)) as kit:
        await known(kit, "web")
    assert {each.path for each in web.asked[asked:]} == {"/mcp"}


# --- sessions and streams -------------------------------------------------------------------------


async def test_a_session_that_the_server_forgot_is_begun_anew_and_the_call_is_made(
    servers: Opened, web: WebServer
) -> None:
    async with servers(at(web)) as kit:
        await known(kit, "web")
        web.forget()
        results = []
        async with trio.open_nursery() as nursery:

            async def one(text: str) -> None:
                found = await client(kit, "web").connection.run_job(
                    lambda found: found.call_tool("echo", {"text": text})
                )
                results.append(found.content[0].text)

            for number in range(3):
                nursery.start_soon(one, str(number))
        assert sorted(results) == ["0", "1", "2"]
        assert web.methods().count("initialize") == 2
        assert not [event for event in kit.of(PluginEvent) if event.name == "mcp.down"], (
            "that is no news to anybody"
        )


async def test_a_call_whose_refusal_is_late_is_made_in_the_new_session_too(
    servers: Opened, web: WebServer
) -> None:
    """Another call has been refused long before; the connection is not ended under this one."""
    first_refused = threading.Event()
    new_session = threading.Event()
    refusals = 0

    def refuse(handler: Handler, message: dict[str, Any]) -> object:
        nonlocal refusals
        if message["params"]["arguments"]["text"] == "late":
            assert first_refused.wait(60)
            assert not new_session.wait(0.5), "a new session began before this answer"
        refusals += 1
        if refusals == 2:
            del web.answers["tools/call"]
        first_refused.set()
        return handler.give(404)

    def begin(handler: Handler, message: dict[str, Any]) -> object:
        new_session.set()
        return answered("initialize", {})

    async with servers(at(web)) as kit:
        await known(kit, "web")
        web.forget()
        web.answers["tools/call"] = refuse
        web.answers["initialize"] = begin
        results = []
        async with trio.open_nursery() as nursery:

            async def one(text: str) -> None:
                found = await client(kit, "web").connection.run_job(
                    lambda found: found.call_tool("echo", {"text": text})
                )
                results.append(found.content[0].text)

            for text in ("late", "early"):
                nursery.start_soon(one, text)
        assert sorted(results) == ["early", "late"]
        assert not [event for event in kit.of(PluginEvent) if event.name == "mcp.down"]


async def test_a_server_that_knows_no_session_at_all(servers: Opened, web: WebServer) -> None:
    async with servers(at(web)) as kit:
        await known(kit, "web")
        web.answers["tools/call"] = lambda handler, _: handler.give(404)
        refused = await kit.call("web__echo", text="hello")
        assert refused.code == "E_SERVER"
        assert web.methods().count("tools/call") == 2, "once more, and no more"


async def test_a_server_that_is_restarted_between_calls(servers: Opened) -> None:
    server = WebServer()
    with ExitStack() as first:
        first.enter_context(serving(server))
        async with servers(at(server)) as kit:
            await known(kit, "web")
            first.close()
            server.forget()
            with serving(server):
                assert (await kit.call("web__echo", text="hello")).text == "hello"


async def test_a_stream_that_breaks_is_resumed(servers: Opened, web: WebServer) -> None:
    def broken(handler: Handler, message: dict[str, Any]) -> Any:
        progress = {
            "progressToken": message["params"]["_meta"]["progressToken"],
            "progress": 1,
            "message": "half",
        }
        note = json.dumps(
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}
        )
        web.answers["GET"] = lambda handler, _: resumed(handler, message)
        return handler.stream(f"id: 7\nretry: 10\ndata: {note}")

    def resumed(handler: Handler, message: dict[str, Any]) -> Any:
        if handler.headers.get("last-event-id") != "7":
            return handler.give(405)
        result = {"content": [{"type": "text", "text": "at last"}]}
        return handler.stream(
            f"id: 8\ndata: {json.dumps({'jsonrpc': '2.0', 'id': message['id'], 'result': result})}"
        )

    async with servers(at(web)) as kit:
        await known(kit, "web")
        web.answers["tools/call"] = broken
        assert (await kit.call("web__echo", text="x")).text == "at last"
        assert web.methods().count("tools/call") == 1


async def test_a_stream_that_breaks_for_good_is_said(servers: Opened, web: WebServer) -> None:
    async with servers(at(web)) as kit:
        await known(kit, "web")
        web.answers["tools/call"] = lambda handler, _: handler.stream(": nothing")
        refused = await kit.call("web__echo", text="x")
        assert refused.code == "E_SERVER"
        assert "SSE stream ended without a response" in refused.text
        del web.answers["tools/call"]
        assert (await kit.call("web__echo", text="hello")).text == "hello"


async def test_a_stream_is_not_opened_again_and_again(
    servers: Opened, web: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_transport, "REOPEN_INTERVAL", 30.0)
    seen = threading.Event()

    def ends(handler: Handler, _: Any) -> Any:
        seen.set()
        return handler.stream("id: 1\nretry: 0\ndata:")

    web.answers["GET"] = ends
    async with servers(at(web)) as kit:
        await known(kit, "web")
        assert await until(seen.is_set)
        for _ in range(20):
            await kit.call("web__echo", text="x")
        assert web.methods().count("GET") == 1


# --- bounds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["json", "event", "sse"])
async def test_a_large_image_comes_through(servers: Opened, web: WebServer, how: str) -> None:
    import base64

    data = base64.b64encode(b"\x89PNG" + bytes(1 << 20)).decode()
    result = {"content": [{"type": "image", "data": data, "mimeType": "image/png"}]}
    if how == "sse":
        old(web)
    async with servers({"web": {"url": web.url}}) as kit:
        await known(kit, "web")
        if how == "json":
            web.answers["tools/call"] = lambda _, message: result
        elif how == "event":
            web.answers["tools/call"] = lambda handler, message: handler.stream(
                event(message, result)
            )
        else:
            real = web.answers["POST"]

            def post(handler: Handler, message: dict[str, Any]) -> Any:
                if message.get("method") != "tools/call":
                    return real(handler, message)
                web.streams[handler.path.rpartition("=")[2]].put(event(message, result) + "\n\n")
                return handler.give(202)

            web.answers["POST"] = post
        found = await kit.call("web__echo", text="x")
        assert [len(part.data) for part in found.parts if isinstance(part, Image)] == [
            4 + (1 << 20)
        ]


def event(message: dict[str, Any], result: Any) -> str:
    return f"data: {json.dumps({'jsonrpc': '2.0', 'id': message['id'], 'result': result})}"


@pytest.mark.parametrize("how", ["json", "event", "sse", "gzip"])
async def test_a_flood_ends_the_call_and_nothing_else(
    servers: Opened, web: WebServer, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (http_transport, sse_transport):
        monkeypatch.setattr(module, "MAX_MESSAGE", 100_000)
    if how == "sse":
        old(web)
        real = web.answers["POST"]

    def flood(handler: Handler, message: dict[str, Any]) -> Any:
        if how == "sse":
            if message.get("method") != "tools/call":
                return real(handler, message)
            web.streams[handler.path.rpartition("=")[2]].put("data: " + "x" * 1_000_000)
            return handler.give(202)
        if how == "gzip":
            return handler.give(200, b"\x1f\x8b" + bytes(100), content_encoding="gzip")
        handler.send_response(200)
        handler.send_header(
            "content-type", "application/json" if how == "json" else "text/event-stream"
        )
        handler.send_header("connection", "close")
        handler.end_headers()
        handler.close_connection = True
        try:
            handler.wfile.write(b'data: "')
            for _ in range(1000):
                handler.wfile.write(b"x" * 10_000)
        except OSError:
            pass
        return DROP

    async with servers(at(web, type="sse" if how == "sse" else "http")) as kit:
        await known(kit, "web")
        web.answers["POST" if how == "sse" else "tools/call"] = flood
        refused = await kit.call("web__echo", text="x")
        assert refused.code == ("E_SERVER" if how == "gzip" else "E_TOO_LARGE")
        assert "The MCP server web" in refused.text
        assert (
            "sent a compressed response" if how == "gzip" else "Request less at once"
        ) in refused.text
        web.answers |= {"POST": real} if how == "sse" else {}
        web.answers.pop("tools/call", None)
        assert (await kit.call("web__echo", text="hello")).text == "hello"
        if how in ("json", "event"):
            assert client(kit, "web").connection.starts == 1, (
                "the connection stays, and what the server keeps for it"
            )


async def test_events_of_the_first_era_that_are_no_messages(
    servers: Opened, web: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse_transport, "MAX_INVALID_LINES", 50)
    old(web)
    real, lines = web.answers["POST"], 40

    def post(handler: Any, message: dict[str, Any]) -> Any:
        if message.get("method") == "tools/call":
            web.streams[handler.path.rpartition("=")[2]].put(
                "data: {}\n\ndata: null\n\nevent: x\ndata: y\n\n" * lines
            )
        return real(handler, message)

    async with servers({"web": {"url": web.url, "type": "sse"}}) as kit:
        await known(kit, "web")
        web.answers["POST"] = post
        ended = await kit.call("web__echo", text="hello")
        assert ended.code == "E_SERVER"
        assert (
            "The MCP server web died during the call. It sends events that are not messages of the protocol."
            in ended.text
        )
        lines = 10
        assert (await kit.call("web__echo", text="hello")).text == "hello", (
            "some of it does no harm"
        )


async def test_a_silent_answer_ends_with_the_calls_own_limit(
    servers: Opened, web: WebServer
) -> None:
    going = threading.Event()
    async with servers(at(web), settings={"mcp.call_seconds": 0.3}) as kit:
        await known(kit, "web")
        web.answers["tools/call"] = lambda handler, _: (going.wait(10), handler.give(200))[1]
        late = await kit.call("web__echo", text="x")
        assert late.code == "E_TIMEOUT"
        going.set()
        assert await until(lambda: "notifications/cancelled" in web.methods())
        del web.answers["tools/call"]
        assert (await kit.call("web__echo", text="hello")).text == "hello"


async def test_closing_does_not_wait_for_a_server_that_does_not_answer(
    servers: Opened, web: WebServer
) -> None:
    going = threading.Event()
    async with servers(at(web)) as kit:
        await known(kit, "web")
        handle = Handler.do_DELETE
        Handler.do_DELETE = lambda self: (going.wait(10), handle(self))[1]  # type: ignore[method-assign]
        began = time.monotonic()
    took = time.monotonic() - began
    Handler.do_DELETE = handle  # type: ignore[method-assign]
    going.set()
    assert took < 5
    assert mcp_of(kit).statuses()[0].name == "web"
