"""Other ways to the network than the gateway: the proxy without its password, datagrams, a setting,
no sandbox, rules.
"""

import functools
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import hilum_browser
import hilum_files
import pytest
from hilum.events import ApprovalAsked
from hilum.testing import open_bench, say, use
from hilum_browser.gateway import Gateway
from hilum_guard.sandbox import backends, sandbox_probe

from .conftest import OWN, PLUGINS, SETTINGS, Browser, Site, browsing, needs_browser

pytestmark = needs_browser


def test_a_command_of_the_session_cannot_use_the_proxy(browser: Browser, site: Site) -> None:
    """It has the same loopback, and not the password."""
    site.pages["/"] = "<title>Here</title>"
    browser.text("navigate", url=site.url())
    code = f"""
import socket
ports = {{int(line.split()[1].split(":")[1], 16) for line in open("/proc/net/tcp").readlines()[1:] if line.split()[3] == "0A"}}
for port in ports:
    for ask in (b"GET http://localhost:{site.port}/ HTTP/1.1", b"CONNECT localhost:{site.port} HTTP/1.1"):
        with socket.create_connection(("127.0.0.1", port)) as proxy:
            proxy.sendall(ask + b"\\r\\nHost: x\\r\\nProxy-Authorization: Basic aGlsdW06\\r\\n\\r\\n")
            print(proxy.recv(100).split(b" ")[1].decode())
"""

    async def run() -> str:
        done = await browser.bench.session.processes.run(["python3", "-c", code])
        return done.stdout.decode()

    site.asked.clear()
    site.pages["/favicon.ico"] = ""
    assert set(browser.run(run).split()) == {"407"}
    assert "GET /" not in site.asked


@pytest.fixture
def udp() -> Iterator[tuple[int, list[bytes]]]:
    """A port on loopback that takes datagrams."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(0.01)
        heard: list[bytes] = []
        yield server.getsockname()[1], heard
        try:
            while True:
                heard.append(server.recv(2048))
        except TimeoutError:
            pass
        assert heard == []


def test_without_a_sandbox_and_with_the_loopback_only(
    site: Site, tmp_path: Path, udp: tuple[int, list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chromium itself sends neither datagrams nor questions for names past the gateway.

    The public network is refused.
    """
    looked_up = []
    real = Gateway._connect

    async def connect(self: Gateway, host: str, port: int) -> object:
        looked_up.append(host)
        return await real(self, host, port)

    monkeypatch.setattr(Gateway, "_connect", connect)
    site.pages[
        "/"
    ] = f"""<link rel=dns-prefetch href=http://prefetched.test/><link rel=preconnect href=http://connected.test/>
        <form><input name=name><input name=email><input name=address></form><p id=p></p><script>
        const call = new RTCPeerConnection({{iceServers: [{{urls: 'stun:127.0.0.1:{udp[0]}'}}]}});
        call.createDataChannel('x'); call.createOffer().then(o => call.setLocalDescription(o));
        call.onicegatheringstatechange = () => call.iceGatheringState == 'complete' && (p.textContent += 'gathered ');
        new WebTransport('https://127.0.0.1:{udp[0]}/').ready.catch(() => p.textContent += 'failed ');
        </script>"""
    settings = {
        "browser": SETTINGS["browser"] | {"network": "loopback", "hosts": ["listed.test", *OWN]}
    }
    with browsing(tmp_path, hilum_files, hilum_browser, settings=settings) as browser:
        browser.text("navigate", url=site.url())
        browser.text("wait", text="gathered", waitMs=10_000)
        browser.text("wait", text="failed", waitMs=10_000)
        browser.text(
            "type", selector="[name=email]", text="x"
        )  # Chromium would ask its maker about the form
        result = browser("navigate", url="http://public.test/")
        assert (result.code, "not on this machine" in result.text) == ("E_ADDRESS", True)
        assert (
            browser("navigate", url="http://listed.test/").code == "E_UNREACHABLE"
        )  # there is no such name
    assert (
        {"public.test"}
        <= set(looked_up)
        <= {"localhost", "connected.test", "public.test", "listed.test"}
    )


def test_a_certificate_that_nobody_vouches_for(browser: Browser, tmp_path: Path) -> None:
    """It is refused, with what to do."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=localhost",
    ]
    try:
        subprocess.run(
            [*made, "-keyout", key, "-out", certificate], check=True, capture_output=True
        )
    except FileNotFoundError:
        pytest.skip("needs openssl to make a certificate")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(30)

    def serve() -> None:
        with server, ExitStack() as peers:
            try:
                while True:
                    peer = peers.enter_context(server.accept()[0])
                    try:
                        peers.enter_context(context.wrap_socket(peer, server_side=True))
                    except OSError:
                        continue
            except OSError:
                pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    result = browser("navigate", url=f"https://localhost:{server.getsockname()[1]}/")
    assert (result.code, "certificate of https://localhost" in result.text) == (
        "E_UNREACHABLE",
        True,
    ), result.text
    assert "browser.any_certificate" in result.text
    server.shutdown(socket.SHUT_RDWR)
    thread.join(30)


async def test_landlock_alone_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, site: Site
) -> None:
    """Chromium needs Unix sockets, which that sandbox has none of."""
    enforced = backends.check_landlock()
    if isinstance(enforced, str):
        pytest.skip(enforced)
    monkeypatch.setattr(sandbox_probe, "probe", functools.cache(lambda: enforced))
    async with open_bench(*PLUGINS, settings=SETTINGS, patience=90) as bench:
        result = await bench.call("browser_use", action="navigate", url=site.url())
    assert (result.code, "bubblewrap" in result.text) == ("E_NOT_INSTALLED", True), result.text


async def test_rules_for_hosts_hold_for_pages_that_are_opened() -> None:
    """A lasting yes is for one host; one that is denied is not opened.

    No browser is needed to say so.
    """
    settings = SETTINGS | {"guard": {}}
    async with open_bench(*PLUGINS, settings=settings, approve="ask_first", patience=60) as bench:
        bench.model.next(
            use("browser_use", action="navigate", url="http://App.localhost:1/x"), say("so")
        )
        run = await bench.start("x")
        asked = await bench.wait_for(ApprovalAsked)
        bench.session.answer(asked.id, False)
        await run.wait()
        assert asked.scope == "browser_use(domain:app.localhost)"
