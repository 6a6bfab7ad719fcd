"""A certificate that is not accepted is told as such, with what to do.

Through real TLS connections.
"""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path
from typing import Any

import pytest
import trio
import trustme
from hilum.errors import ModelError
from hilum.models import Request, read_answer
from hilum_models.providers import create_providers
from hilum_models.settings import ModelsSettings
from hilum_models.transport import Transport


async def failure(url: str) -> ModelError:
    transport = Transport()
    try:
        environ = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "k"}
        found = {p.name: p for p in create_providers(ModelsSettings(), environ, transport)}[
            "openai"
        ]
        with trio.fail_after(60), pytest.raises(ModelError) as caught:
            await read_answer(found.model("m"), Request(b"{}", (), (), ()), silence=50)
        return caught.value
    finally:
        await transport.aclose()


async def listen(nursery: trio.Nursery, context: ssl.SSLContext | None) -> int:
    """Serve nothing on a port, over TLS or without; return the port."""

    async def handle(stream: Any) -> None:
        try:
            await stream.receive_some()
            await stream.send_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        except (trio.BrokenResourceError, ssl.SSLError):
            pass

    if context is None:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    else:
        listeners = await trio.open_ssl_over_tcp_listeners(0, context, host="127.0.0.1")  # type: ignore[assignment]
    nursery.start_soon(trio.serve_listeners, handle, listeners)
    inner = getattr(listeners[0], "transport_listener", listeners[0])
    port: int = inner.socket.getsockname()[1]
    return port


def context_with(cert: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    cert.configure_cert(context)
    return context


async def test_an_unknown_authority(nursery: trio.Nursery) -> None:
    port = await listen(nursery, context_with(trustme.CA().issue_cert("localhost", "127.0.0.1")))
    error = await failure(f"https://127.0.0.1:{port}")
    assert error.kind == "request"
    assert "certificate of openai" in error.message
    assert "unable to get local issuer certificate" in error.message
    assert "SSL_CERT_FILE" in error.hint


@pytest.mark.parametrize(
    ("name", "expires", "why", "what"),
    [
        ("elsewhere.example", None, "not valid for", "host in the base URL"),
        ("127.0.0.1", datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), "expired", "clock"),
    ],
)
async def test_a_certificate_of_a_known_authority(
    name: str,
    expires: datetime.datetime | None,
    why: str,
    what: str,
    nursery: trio.Nursery,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    begins = datetime.datetime(2019, 1, 1, tzinfo=datetime.UTC) if expires else None
    cert = authority.issue_cert(name, not_before=begins, not_after=expires)
    port = await listen(nursery, context_with(cert))
    error = await failure(f"https://127.0.0.1:{port}")
    assert error.kind == "request"
    assert why in error.message
    assert what in error.hint


async def test_a_server_without_tls(nursery: trio.Nursery) -> None:
    port = await listen(nursery, None)
    error = await failure(f"https://127.0.0.1:{port}")
    assert error.kind == "request"
    assert "over TLS" in error.message
    assert "http://" in error.hint
