"""Endpoints that are down, never answer or fail: nothing of hilum waits for them."""

import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import hilum_otel
import pytest
from hilum import tool
from hilum.events import ErrorRaised
from hilum.testing import open_bench, plugin, use
from otlp_receiver import receive

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
def failing_server():
    with receive(status=500) as received:
        yield received.url


@contextmanager
def redirected_nowhere():
    yield "http://name.invalid"


ENDPOINTS = [closed_port, silent_server, failing_server, redirected_nowhere]


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
    ) as kit:
        began = time.perf_counter()
        ended = await kit.run("x")
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
    # The SDK waits for ten seconds by default; the machine of a test can be slow.
    assert seconds < without + 2
    assert closing < closing_without + FLUSH + 2


async def test_the_queue_of_a_hanging_endpoint_is_bounded():
    environ = {"OTEL_BSP_MAX_QUEUE_SIZE": "4", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "4"}
    with silent_server() as url:
        settings = {"otel.endpoint": url, "otel.flush_timeout": FLUSH}
        async with open_bench(
            hilum_otel,
            TOOLS,
            answers=[str(n) for n in range(20)],
            settings=settings,
            environ=environ,
        ) as kit:
            for _ in range(20):
                assert (await kit.run("x")).state == "completed"


async def test_a_failed_export_is_noted_once_and_nothing_is_printed(capfd):
    environ = {"OTEL_BSP_SCHEDULE_DELAY": "1"}
    with receive(status=400) as received:
        settings = {"otel.endpoint": received.url, "otel.flush_timeout": FLUSH}
        answers = [use("look"), *(str(n) for n in range(5000))]
        async with open_bench(
            hilum_otel, TOOLS, answers=answers, settings=settings, environ=environ
        ) as kit:
            while not kit.of(ErrorRaised):
                await kit.run("x")
            await kit.run("x")
            await kit.run("x")
            (error,) = kit.of(ErrorRaised)
    assert "400" in error.message
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("environ", "part"),
    [
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "grpc"),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "-1"}, "max_queue_size"),
    ],
)
async def test_an_invalid_variable_switches_the_export_off_with_an_error(environ, part):
    settings = {"otel.enabled": True, "otel.flush_timeout": FLUSH}
    async with open_bench(hilum_otel, answers=["1"], settings=settings, environ=environ) as kit:
        assert (await kit.run("x")).state == "completed"
        assert part in (await kit.wait_for(ErrorRaised)).message


PROGRAM = """
import sys, time
import hilum_otel, trio
from hilum.testing import open_bench

async def main():
    settings = {"otel.flush_timeout": 0.3}
    if sys.argv[1]:
        settings["otel.endpoint"] = sys.argv[1]
    async with open_bench(hilum_otel, answers=["ok"], settings=settings) as kit:
        await kit.run("x")

trio.run(main)
loaded = [name for name in sys.modules if name.partition(".")[0] in ("opentelemetry", "google")]
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
