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
