"""The HTTP client is imported behind the first prompt, and not in the event loop."""

import subprocess
import sys

PROGRAM = """
import sys, threading
import trio
from hilum.testing import open_bench
import hilum_models
from hilum_models import transport

threads = []
load = transport.load_http_client

def note():
    threads.append(threading.current_thread())
    return load()

transport.load_http_client = note

async def main():
    assert "httpx" not in sys.modules
    async with open_bench(hilum_models):
        with trio.fail_after(30):
            while "hilum_models.http_client" not in sys.modules:
                await trio.sleep(0.01)
    assert threads and threading.main_thread() not in threads, threads

async def first_request():
    sender = transport.Transport()
    try:
        async with sender.send("GET", "http://127.0.0.1:1/", {}, hilum_models_endpoint()) as response:
            pass
    except Exception as error:
        assert type(error).__name__ == "ModelError", error
    await sender.aclose()
    assert threads and threading.main_thread() not in threads, threads

async def with_tls():
    sender = transport.Transport()
    await sender.preload()
    client = sys.modules["hilum_models.http_client"]
    assert client._load_certificates.cache_info().currsize == 0
    await sender.preload(tls=True)
    assert client._load_certificates.cache_info().currsize == 1
    assert client.create_tls_context() is client.create_tls_context()
    await sender.aclose()

async def http2():
    transport.load_http_client()
    assert "h2" not in sys.modules
    assert "httpcore._async.http2" not in sys.modules
    import ssl, tempfile
    from functools import partial
    from pathlib import Path
    import httpx, trustme
    from hypercorn.config import Config
    from hypercorn.trio import serve

    async def app(scope, receive, send):
        while scope["type"] == "lifespan":
            event = await receive()
            await send({"type": event["type"] + ".complete"})
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["http_version"].encode()})

    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    with tempfile.TemporaryDirectory() as folder:
        chain, key = Path(folder, "chain.pem"), Path(folder, "key.pem")
        for number, blob in enumerate(certificate.cert_chain_pems):
            blob.write_to_path(chain, append=bool(number))
        certificate.private_key_pem.write_to_path(key)
        config = Config()
        config.bind, config.certfile, config.keyfile = ["127.0.0.1:0"], str(chain), str(key)
        trust = ssl.create_default_context()
        authority.configure_trust(trust)
        async with trio.open_nursery() as nursery:
            [url] = await nursery.start(partial(serve, app, config))
            async with httpx.AsyncClient(http2=True, verify=trust) as client:
                assert (await client.get(url)).text == "2"
            async with httpx.AsyncClient(verify=trust) as client:
                assert (await client.get(url)).text == "1.1"
            nursery.cancel_scope.cancel()

def hilum_models_endpoint():
    from hilum_models.failures import Endpoint
    return Endpoint("test", "")

"""


def run(function: str) -> None:
    code = f"{PROGRAM}\ntrio.run({function})\n"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_session_imports_the_client_in_a_thread():
    run("main")


def test_a_first_request_imports_the_client_in_a_thread():
    run("first_request")


def test_the_certificates_are_loaded_ahead_of_the_first_request():
    run("with_tls")


def test_other_clients_of_the_process_may_use_http2():
    """hilum does not import what only HTTP/2 needs; a client of a plugin does when it uses it."""
    run("http2")
