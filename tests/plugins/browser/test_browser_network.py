"""What pages may reach, with a real Chromium whose only way out is the gateway."""

import base64
import hashlib
import socket
import threading

import pytest
from hilum_web import Reach

from .conftest import Browser, Site, needs_browser, serving

pytestmark = needs_browser


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What names stand for, as the system would say."""
    known = {
        "inner.test": "10.1.2.3",
        "rebound.test": "127.0.0.1",
        "cloud.test": "169.254.169.254",
        "listed.test": "127.0.0.1",
    }
    real = socket.getaddrinfo

    def look_up(host, *args, **kwargs):
        return real(known.get(host, host), *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return known


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://169.254.169.254/latest/meta-data/", "the metadata service of a cloud"),
        ("http://[::ffff:169.254.169.254]/", "the metadata service of a cloud"),
        ("http://cloud.test/", "the metadata service of a cloud"),
        ("http://10.1.2.3/", "private network"),
        ("http://inner.test/", "private network"),
        ("http://0.0.0.0:8000/", "this machine"),
        ("http://rebound.test/", "this machine"),
        ("https://rebound.test/", "this machine"),
    ],
)
def test_addresses_that_are_refused(browser: Browser, url: str, why: str) -> None:
    """However they are written.

    A name of the network that leads to this machine is not this machine's own.
    """
    result = browser("navigate", url=url)
    assert (result.code, why in result.text) == ("E_ADDRESS", True), result.text


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "app.localhost"])
def test_the_loopback_by_its_own_names(browser: Browser, site: Site, host: str) -> None:
    site.pages["/"] = "<title>Here</title>"
    if host == "127.1.2.3":
        assert (
            browser("navigate", url=site.url(host=host)).code == "E_UNREACHABLE"
        )  # allowed; nobody listens there
    else:
        assert "Here" in browser.text("navigate", url=site.url(host=host))


def test_neither_a_redirect_nor_a_script_gets_round_it(browser: Browser, site: Site) -> None:
    """Nor a frame, an image, or a WebSocket; the page itself is told nothing but that it failed."""
    bad = "169.254.169.254"
    site.pages["/moved"] = lambda _: (302, {"location": f"http://{bad}/keys"}, b"")
    result = browser("navigate", url=site.url("/moved"))
    assert (result.code, bad in result.text) == ("E_ADDRESS", True)
    script = f"""
        const ends = [];
        const note = (what) => {{ ends.push(what); document.title = ends.sort().join(); p.textContent = ends.length }};
        fetch('http://{bad}/').then(() => note('fetched'), () => note('fetch failed'));
        fetch('http://rebound.test:{site.port}/').then(() => note('fetched'), () => note('rebound failed'));
        const socket = new WebSocket('ws://{bad}/');
        socket.onopen = () => note('open'); socket.onerror = () => note('socket failed');
        const image = new Image(); image.onload = () => note('image'); image.onerror = () => note('image failed');
        image.src = 'http://{bad}/x.png';
        p.onclick = () => setTimeout(() => location = 'http://{bad}/go', 10);
    """
    site.pages["/try"] = (
        f"<body><p id=p></p><iframe src='http://{bad}/'></iframe><script>{script}</script>"
    )
    browser.text("navigate", url=site.url("/try"))
    browser.text("wait", text="4", waitMs=10_000)
    assert '"fetch failed,image failed,rebound failed,socket failed"' in browser.text("tabs")
    assert f"failed: GET http://{bad}/" in browser.text("console")
    said = browser.text("click", selector="#p") + browser.text("wait", waitMs=1000)
    assert "could not be loaded" in said
    assert "the metadata service of a cloud" in said


def test_a_host_that_the_user_lists_is_reached(browser: Browser) -> None:
    """At its port only; here nobody listens there."""
    assert browser("navigate", url="http://listed.test/").code == "E_UNREACHABLE"
    assert browser("navigate", url="http://listed.test:8080/").code == "E_ADDRESS"
    assert Reach(hosts=frozenset({"listed.test:80"})).lists("listed.test", 80)


def test_a_websocket_of_the_users_own_app(browser: Browser, site: Site) -> None:
    """Through the same gateway, both ways."""
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]

    def serve() -> None:
        with server, server.accept()[0] as peer:
            head = b""
            while b"\r\n\r\n" not in head:
                head += peer.recv(4096)
            key = head.lower().split(b"sec-websocket-key: ")[1].split(b"\r\n")[0]
            key = head[head.lower().index(key) :][: len(key)]
            accept = base64.b64encode(
                hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
            )
            upgrade = b"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
            peer.sendall(upgrade + accept + b"\r\n\r\n\x81\x05hello")
            peer.recv(100)

    thread = threading.Thread(target=serve)
    thread.start()
    script = f"new WebSocket('ws://localhost:{port}/').onmessage = (e) => document.body.textContent = e.data"
    site.pages["/ws"] = f"<body><script>{script}</script>"
    browser.text("navigate", url=site.url("/ws"))
    browser.text("wait", text="hello", waitMs=5000)
    browser.text("navigate", url=site.url("/none"))  # it closes the socket
    thread.join(10)
    assert not thread.is_alive()


def test_failures_of_a_site_name_it_and_what_to_do(browser: Browser, site: Site) -> None:
    """Nobody there, no such name, no answer, an answer that is none, and no TLS."""
    with (
        socket.create_server(("127.0.0.1", 0)) as quiet,
        socket.create_server(("127.0.0.1", 0)) as free,
    ):
        closed = free.getsockname()[1]
        free.close()
        port = quiet.getsockname()[1]
        for url, code, why in (
            (f"http://localhost:{closed}/", "E_UNREACHABLE", "the connection was refused"),
            ("http://nowhere.invalid/", "E_UNREACHABLE", "was not found"),
            (f"http://localhost:{port}/", "E_TIMEOUT", "did not respond within 4 s"),
            (f"https://localhost:{site.port}/", "E_UNREACHABLE", "http://"),
            ("http://localhost:1/", "E_UNREACHABLE", "another port"),
        ):
            result = browser("navigate", url=url)
            assert (result.code, why in result.text) == (code, True), result.text
            assert url.split("/")[2].partition(":")[0] in result.text


def test_a_site_that_closes_without_an_answer(browser: Browser) -> None:
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with server:
            for _ in range(2):
                server.accept()[0].close()

    thread = threading.Thread(target=serve)
    thread.start()
    port = server.getsockname()[1]
    result = browser("navigate", url=f"http://localhost:{port}/")
    assert (result.code, "without a response" in result.text) == ("E_UNREACHABLE", True), (
        result.text
    )
    while thread.is_alive():
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            pass
        thread.join(0.1)


def test_two_servers_on_one_host_are_told_apart(browser: Browser, site: Site) -> None:
    with serving(Site(pages={"/": "<title>Other</title>"})) as other:
        site.pages["/"] = (
            f"<title>One</title><script>fetch('{other.url()}', {{mode: 'no-cors'}})</script>"
        )
        assert "One" in browser.text("navigate", url=site.url())
        assert "Other" in browser.text("navigate", url=other.url())
        assert "One" in browser.text("back")
