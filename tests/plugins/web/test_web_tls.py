"""TLS: sites with certificates of one's own authority, and what is said of those that cannot be
trusted.
"""

import datetime
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import trio

trustme = pytest.importorskip("trustme")
NAME = "docs.example"


class Secure:
    """Sites on loopback under the names that their certificates, or others, have."""

    def __init__(self) -> None:
        self.authority = trustme.CA()
        self.served: list[str] = []
        self._ended: list[Callable[[], None]] = []

    def open(self, certificate: Any, newest: ssl.TLSVersion | None = None) -> int:
        """Open a site and give its port."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(context)
        if newest is not None:
            context.minimum_version, context.maximum_version = (
                ssl.TLSVersion.MINIMUM_SUPPORTED,
                newest,
            )
        served = self.served

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                served.append(self.path)
                body = b"<p>the secret word</p>"
                self.send_response(200)
                self.send_header("content-type", "text/html")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def finish_request(self, request: Any, address: Any) -> None:
                try:
                    with context.wrap_socket(request, server_side=True) as secured:
                        super().finish_request(secured, address)
                except OSError:
                    pass  # whoever came does not trust us

        server = Server(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()

        def end() -> None:
            server.shutdown()
            thread.join()
            server.server_close()

        self._ended.append(end)
        return server.server_port

    def close(self) -> None:
        for end in self._ended:
            end()


class Here(trio.abc.HostnameResolver):
    """Every name is this machine."""

    async def getaddrinfo(self, host: Any, port: Any, *_: Any, **__: Any) -> Any:
        await trio.lowlevel.checkpoint()
        return [(2, 1, 6, "", ("127.0.0.1", port or 0))]

    async def getnameinfo(self, *_: Any) -> Any:
        raise AssertionError("nobody asks for the name of an address")


@pytest.fixture
def secure(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Secure]:
    sites = Secure()
    sites.authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    yield sites
    sites.close()


async def read(tool: Any, port: int, name: str = NAME, **settings: Any) -> Any:
    trio.socket.set_custom_hostname_resolver(Here())
    call = ("web_fetch", {"url": f"https://{name}:{port}/page"})
    return (await tool(call, hosts=[f"{name}:{port}"], **settings))[0]


async def test_a_site_with_a_good_certificate_is_read(secure: Secure, tool: Any) -> None:
    """A company's own authority is trusted where the environment names it.

    The certificate is for the name, not the address.
    """
    result = await read(tool, secure.open(secure.authority.issue_cert(NAME)))
    assert result.code == ""
    assert "the secret word" in result.text


def expired(secure: Secure) -> Any:
    day = datetime.timedelta(days=1)
    now = datetime.datetime.now(datetime.UTC)
    return secure.authority.issue_cert(NAME, not_before=now - 3 * day, not_after=now - day)


@pytest.mark.parametrize(
    ("certificate", "words"),
    [
        (lambda secure: secure.authority.issue_cert("other.example"), "Hostname mismatch"),
        (lambda secure: secure.authority.issue_cert("127.0.0.1"), "mismatch"),
        (lambda secure: secure.authority.issue_cert(f"*.{NAME}"), "mismatch"),
        (lambda secure: trustme.CA().issue_cert(NAME), "unable to get local issuer certificate"),
        (expired, "certificate has expired"),
    ],
    ids=["other-name", "address", "wildcard", "unknown-authority", "expired"],
)
async def test_a_certificate_that_cannot_be_trusted_is_told(
    secure: Secure, tool: Any, certificate: Any, words: str
) -> None:
    """The site, what is wrong with it, what to do; nothing was asked of it."""
    port = secure.open(certificate(secure))
    result = await read(tool, port)
    assert result.code == "E_UNREACHABLE"
    assert f"{NAME}:{port} cannot be trusted" in result.text
    assert words in result.text
    assert "another source" in result.text
    assert secure.served == []


async def test_a_certificate_that_signs_itself_is_told(
    secure: Secure, tool: Any, tmp_path: Any
) -> None:
    """Also where the site sends no other certificate than its own."""
    leaf = trustme.CA().issue_cert(NAME)
    leaf.cert_chain_pems[1:] = []
    result = await read(tool, secure.open(leaf))
    assert result.code == "E_UNREACHABLE"
    assert "cannot be trusted" in result.text
    assert secure.served == []


async def test_a_site_that_does_not_speak_tls_is_told(site: Any, tool: Any) -> None:
    result = await read(tool, int(site.host.rpartition(":")[2]))
    assert result.code == "E_UNREACHABLE"
    assert NAME in result.text
    assert "TLS" in result.text


async def test_a_redirect_to_an_untrusted_site_names_that_site(
    secure: Secure, site: Any, tool: Any
) -> None:
    """And not the one that was asked for."""
    trio.socket.set_custom_hostname_resolver(Here())
    port = secure.open(secure.authority.issue_cert("other.example"))
    url = site.redirect("/old", f"https://{NAME}:{port}/page")
    [result] = await tool(("web_fetch", {"url": url}), hosts=[site.host, f"{NAME}:{port}"])
    assert f"{NAME}:{port} cannot be trusted" in result.text
