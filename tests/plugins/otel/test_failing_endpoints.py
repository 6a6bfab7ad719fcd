"""Endpoints that are down, never answer or fail: nothing of hilum waits for them.

The threads of the SDK end with hilum, while the endpoint still does not answer.
"""

import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import hilum_otel
import pytest
import trio
from hilum import tool
from hilum.events import ErrorRaised
from hilum.testing import open_bench, plugin, use
from hilum_otel.pipeline import Pipeline
from hilum_otel.records import SpanKey, SpanRecord
from otlp_receiver import receive
from sdk_threads import join_sdk_threads

FLUSH = 0.3  # seconds


@tool(risk="read", effect="pure")
async def look() -> str:
    """Look."""
    return "seen"


TOOLS = plugin("tools", look)


@contextmanager
def closed_port():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))  # bound, but it does not listen
        yield f"http://127.0.0.1:{holder.getsockname()[1]}"


@contextmanager
def silent_server():
    """Accept connections and never answer."""
    with socket.create_server(("127.0.0.1", 0), backlog=50) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def silent_tls_server():
    """Accept connections and never answer, so that the handshake of TLS hangs."""
    with silent_server() as url:
        yield url.replace("http:", "https:")


@contextmanager
def unreachable_server():
    """Leave connections unanswered: the queue of those that are not accepted is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        fillers = [socket.socket() for _ in range(2)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        for filler in fillers:
            filler.close()


@contextmanager
def trickling_server():
    """Send a response one byte at a time, which no time limit of a single read ends."""
    over = threading.Event()

    def trickle(client):
        with client:
            client.recv(65536)
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while not over.wait(0.05):
                try:
                    client.sendall(b"x")
                except OSError:
                    return

    def accept():
        while not over.is_set():
            try:
                client, _ = listener.accept()
            except TimeoutError:
                continue
            clients.append(threading.Thread(target=trickle, args=(client,)))
            clients[-1].start()

    clients = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        acceptor = threading.Thread(target=accept)
        acceptor.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        over.set()
        for thread in (acceptor, *clients):
            thread.join()


@contextmanager
def failing_server():
    with receive(status=500) as received:
        yield received.url


@contextmanager
def busy_server():
    with receive(status=429, headers=[("Retry-After", "8")]) as received:
        yield received.url


@contextmanager
def server_in_maintenance():
    with receive(status=503, headers=[("Retry-After", "600")]) as received:
        yield received.url


@contextmanager
def unknown_server():
    yield "http://name.invalid"


ENDPOINTS = [
    closed_port,
    silent_server,
    silent_tls_server,
    unreachable_server,
    trickling_server,
    failing_server,
    busy_server,
    server_in_maintenance,
    unknown_server,
]


async def run_session(endpoint, turns=20):
    """Return the seconds that a run and the end of hilum took."""
    answers = [use("look") for _ in range(turns - 1)] + ["Done."]
    settings = {"otel.flush_timeout": FLUSH}
    if endpoint:
        settings["otel.endpoint"] = endpoint
    environ = {"OTEL_BSP_SCHEDULE_DELAY": "10", "OTEL_METRIC_EXPORT_INTERVAL": "50"}
    # The tool is called the same way in each turn, which hilum would refuse after ten calls.
    async with open_bench(
        hilum_otel, TOOLS, answers=answers[-9:], settings=settings, environ=environ
    ) as bench:
        began = time.perf_counter()
        ended = await bench.run("x")
        run_seconds = time.perf_counter() - began
        assert ended.state == "completed"
        closing = time.perf_counter()
    return run_seconds, time.perf_counter() - closing


@pytest.mark.parametrize("endpoint", ENDPOINTS)
async def test_neither_a_run_nor_the_end_waits_for_a_failing_endpoint(endpoint):
    await run_session("")  # warms up
    without, closing_without = await run_session("")
    with endpoint() as url:
        seconds, closing = await run_session(url)
        # An endpoint that ends would end the threads, too.
        assert join_sdk_threads() == []
    # The SDK waits for ten seconds by default; the machine of a test can be slow.
    assert seconds < without + 2
    assert closing < closing_without + FLUSH + 2


async def test_an_end_without_time_to_export_also_ends_the_threads():
    with silent_server() as url:
        settings = {"otel.endpoint": url, "otel.flush_timeout": 0}
        async with open_bench(hilum_otel, answers=["ok"], settings=settings) as bench:
            await bench.run("x")
            telemetry = bench.session.kernel.plugin(hilum_otel.Telemetry)
            assert await telemetry.load() is not None
        assert join_sdk_threads() == []


async def test_a_cancelled_end_also_ends_the_threads():
    with silent_server() as url:
        telemetry = hilum_otel.Telemetry(hilum_otel.OtelSettings(endpoint=url), {})
        assert await telemetry.load() is not None
        with trio.CancelScope() as scope:
            scope.cancel()
            await telemetry.aclose()
        assert scope.cancelled_caught
        assert join_sdk_threads() == []


async def test_dropped_spans_are_reported_once_and_nothing_is_printed(capfd):
    environ = {"OTEL_BSP_MAX_QUEUE_SIZE": "4", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "4"}
    with silent_server() as url:
        settings = {"otel.endpoint": url, "otel.flush_timeout": FLUSH}
        async with open_bench(
            hilum_otel,
            TOOLS,
            answers=[str(n) for n in range(22)],
            settings=settings,
            environ=environ,
        ) as bench:
            await bench.session.kernel.plugin(hilum_otel.Telemetry).load()
            for _ in range(20):
                assert (await bench.run("x")).state == "completed"
            await bench.wait_for(ErrorRaised)
            await bench.run("x")
            await bench.run("x")
            (error,) = bench.of(ErrorRaised)
    assert "dropped" in error.message
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(("content", "kept"), [(False, 2048 + 512), (True, 512 + 64)])
def test_a_pipeline_keeps_a_limited_number_of_spans(content, kept):
    """An hour without an endpoint needs no more memory than a minute."""
    count = 5000
    with silent_server() as url:
        settings = hilum_otel.OtelSettings(endpoint=url, content=content)
        made = Pipeline(settings, {})
        for number in range(1, count + 1):
            key = SpanKey(number, number)
            made.export_span(SpanRecord(key, "chat model", number, number + 1, {}))
        assert count - kept <= made.dropped < count
        made.stop()
        for close in made.closers:
            close()
        assert join_sdk_threads() == []


async def test_signals_that_are_not_exported_are_not_dropped():
    with receive() as received:
        settings = {"otel.endpoint": received.url, "otel.traces": False, "otel.logs": False}
        environ = {"OTEL_BSP_MAX_QUEUE_SIZE": "1", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "1"}
        async with open_bench(
            hilum_otel, answers=["1", "2", "3"], settings=settings, environ=environ
        ) as bench:
            for _ in range(3):
                await bench.run("x")
            assert bench.of(ErrorRaised) == []
    assert {path for path, _ in received.requests} == {"/v1/metrics"}


async def test_a_failure_after_the_last_run_is_noted_when_the_session_closes():
    environ = {"OTEL_BSP_SCHEDULE_DELAY": "1"}
    with receive(status=400) as received:
        settings = {"otel.endpoint": received.url, "otel.flush_timeout": FLUSH}
        async with open_bench(
            hilum_otel, answers=["ok"], settings=settings, environ=environ
        ) as bench:
            pipeline = await bench.session.kernel.plugin(hilum_otel.Telemetry).load()
            await bench.run("x")
            await trio.to_thread.run_sync(pipeline.has_failed.wait, 20)
            journal = bench.session.journal
        errors = [event for event in journal.since(0) if isinstance(event, ErrorRaised)]
    assert [error.code for error in errors] == ["E_FAILED"]
    assert "400" in errors[0].message


async def test_a_failure_is_noted_while_nothing_runs(monkeypatch):
    monkeypatch.setattr("hilum_otel.session_export.REPORT_SECONDS", 0.01)
    environ = {"OTEL_BSP_SCHEDULE_DELAY": "1"}
    with receive(status=400) as received:
        settings = {"otel.endpoint": received.url, "otel.flush_timeout": FLUSH}
        async with open_bench(
            hilum_otel, answers=["ok"], settings=settings, environ=environ
        ) as bench:
            await bench.session.kernel.plugin(hilum_otel.Telemetry).load()
            await bench.run("x")
            assert "400" in (await bench.wait_for(ErrorRaised)).message


async def test_a_failed_export_is_noted_once_and_nothing_is_printed(capfd):
    environ = {"OTEL_BSP_SCHEDULE_DELAY": "1"}
    with receive(status=400) as received:
        settings = {"otel.endpoint": received.url, "otel.flush_timeout": FLUSH}
        answers = [use("look"), *(str(n) for n in range(5000))]
        async with open_bench(
            hilum_otel, TOOLS, answers=answers, settings=settings, environ=environ
        ) as bench:
            while not bench.of(ErrorRaised):
                await bench.run("x")
            await bench.run("x")
            await bench.run("x")
            (error,) = bench.of(ErrorRaised)
    assert "400" in error.message
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("environ", "part"),
    [
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "grpc"),
        ({"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "grpc"}, "METRICS_PROTOCOL is grpc"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, "http/json"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "localhost:4318"}, "https://"),
        ({"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "grpc://user:pw@localhost"}, "LOGS_ENDPOINT"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:x"}, "OTLP_ENDPOINT"),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "-1"}, "max_queue_size"),
        # The traces and metrics have threads when the logs fail.
        ({"OTEL_BLRP_MAX_QUEUE_SIZE": "-1"}, "max_queue_size"),
        ({"OTEL_METRIC_EXPORT_INTERVAL": "-1"}, "interval"),
    ],
)
async def test_an_invalid_variable_switches_the_export_off_with_an_error(environ, part):
    settings = {"otel.enabled": True, "otel.flush_timeout": FLUSH}
    async with open_bench(hilum_otel, answers=["1"], settings=settings, environ=environ) as bench:
        assert (await bench.run("x")).state == "completed"
        message = (await bench.wait_for(ErrorRaised)).message
    assert part in message
    assert "user:pw" not in message


PROGRAM = """
import sys, time
import hilum_otel, trio
from hilum.testing import open_bench

async def main():
    settings = {"otel.flush_timeout": 0.3}
    if sys.argv[1]:
        settings["otel.endpoint"] = sys.argv[1]
    async with open_bench(hilum_otel, answers=["ok"], settings=settings) as bench:
        await bench.run("x")

trio.run(main)
# A copy, because the thread that exports may still be importing.
loaded = [name for name in list(sys.modules) if name.partition(".")[0] in ("opentelemetry", "google")]
print(len(loaded), "hilum_trace.spans" in sys.modules)
print(time.time())
"""


def run_program(url):
    """Return what a program prints, and the seconds from its last line to its end."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, url],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ},
    )
    ended = time.time()
    assert done.returncode == 0, done.stderr
    loaded, printed = done.stdout.splitlines()
    assert done.stderr == ""
    return loaded, ended - float(printed)


def test_nothing_of_the_sdk_is_imported_while_the_export_is_off():
    loaded, _ = run_program("")
    assert loaded == "0 False"


def test_the_process_ends_although_the_endpoint_hangs():
    with silent_server() as url:
        loaded, seconds = run_program(url)
    assert loaded.endswith("True")
    assert seconds < 5
