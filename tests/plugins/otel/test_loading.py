"""The pipeline is loaded once, and does not outlive a load that is cancelled."""

import os
import threading

import hilum_otel
import pytest
import trio
from hilum_otel import pipeline
from otlp_receiver import receive

TIMEOUT = 20  # seconds


class SlowPipeline(pipeline.Pipeline):
    """A pipeline whose creation waits until the test continues."""

    created = []
    has_started = threading.Event()
    may_continue = threading.Event()
    has_ended = threading.Event()

    def __init__(self, *arguments):
        self.has_started.set()
        assert self.may_continue.wait(TIMEOUT)
        super().__init__(*arguments)
        self.created.append(self)
        self.has_ended.set()


@pytest.fixture
def slow(monkeypatch):
    """Return the class that replaces the pipeline."""
    SlowPipeline.created = []
    for event in (SlowPipeline.has_started, SlowPipeline.may_continue, SlowPipeline.has_ended):
        event.clear()
    monkeypatch.setattr(pipeline, "Pipeline", SlowPipeline)
    return SlowPipeline


async def cancel_load(telemetry, slow):
    """Cancel a load while its thread creates the pipeline."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(telemetry.load)
        assert await trio.to_thread.run_sync(slow.has_started.wait, TIMEOUT)
        nursery.cancel_scope.cancel()


async def test_a_pipeline_that_is_created_after_the_end_is_closed(slow):
    with receive() as received:
        settings = hilum_otel.OtelSettings(endpoint=received.url)
        telemetry = hilum_otel.Telemetry(settings, os.environ)
        await cancel_load(telemetry, slow)
        await telemetry.aclose()
        slow.may_continue.set()
        assert await trio.to_thread.run_sync(slow.has_ended.wait, TIMEOUT)
        # The fixture of this folder checks that its threads end.
        assert await telemetry.load() is None


async def test_a_load_after_a_cancelled_one_finds_the_same_pipeline(slow):
    with receive() as received:
        settings = hilum_otel.OtelSettings(endpoint=received.url)
        telemetry = hilum_otel.Telemetry(settings, os.environ)
        await cancel_load(telemetry, slow)
        slow.may_continue.set()
        loaded = await telemetry.load()
        assert [loaded] == slow.created
        await telemetry.aclose()
