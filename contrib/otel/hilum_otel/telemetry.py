"""The plugin instance of the kernel, which all sessions share: loads and closes the pipeline."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

import trio

from hilum_otel.endpoints import find_problem, find_suspicion
from hilum_otel.settings import OtelSettings

if TYPE_CHECKING:
    from hilum_otel.pipeline import Pipeline

T = TypeVar("T")

# Seconds for the threads of the SDK to end after their exports were stopped.
_END_TIMEOUT = 0.2


class Telemetry:
    """Exports the telemetry of a kernel's sessions.

    Attributes:
        settings: The settings.
        problem: Why nothing can be exported; empty if there is no such reason.
    """

    def __init__(self, settings: OtelSettings, environ: Mapping[str, str]) -> None:
        self.settings = settings
        self.problem = ""
        self._environ = environ
        self._pipeline: Pipeline | None = None
        self._loading = trio.Lock()
        # Held while a thread creates the pipeline: after a cancelled load, there may be two.
        self._creating = threading.Lock()
        # Held for a moment, to decide who ends a pipeline that was created during ``aclose``.
        self._handover = threading.Lock()
        self._is_closed = False
        self._is_failure_reported = False
        self._is_drop_reported = False
        # A thread that hangs must not take the place of a thread for something else.
        self._limiter = trio.CapacityLimiter(8)

    @property
    def is_on(self) -> bool:
        """Whether the user turned the export on."""
        if self._environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
            return False
        return self.settings.enabled or bool(self.settings.endpoint)

    async def load(self) -> Pipeline | None:
        """Return the pipeline, which the first call creates in a thread; ``None`` if it failed."""
        async with self._loading:
            if self._pipeline is None and not self.problem and not self._is_closed:
                self.problem = find_problem(self.settings, self._environ)
                if self.problem:
                    return None
                try:
                    await self._run_in_thread(self._create)
                except Exception as error:
                    # The SDK raises various errors for invalid variables.
                    self.problem = f"{type(error).__name__}: {error}"[:300]
        return self._pipeline

    def _create(self) -> None:
        """Create the pipeline, in a thread that a cancelled caller may have left behind."""
        # The import takes 0.2 seconds, which neither a start nor a turn should wait for.
        module = importlib.import_module("hilum_otel.pipeline")
        with self._creating:
            if self._pipeline is not None or self._is_closed:
                return
            pipeline: Pipeline = module.Pipeline(self.settings, self._environ)
            with self._handover:
                if not self._is_closed:
                    self._pipeline = pipeline
                    return
        # Nobody else knows the pipeline, so its threads would never end.
        pipeline.stop()
        for close in pipeline.closers:
            close()

    def take_failures(self) -> Iterator[str]:
        """Yield why telemetry was not exported or was dropped, each only once."""
        failure = self.problem
        dropped = 0
        if self._pipeline is not None:
            failure = failure or self._pipeline.failure
            dropped = self._pipeline.dropped
        if failure and not self._is_failure_reported:
            self._is_failure_reported = True
            suspicion = "" if self.problem else find_suspicion(self.settings, self._environ)
            yield f"Telemetry is not exported. {failure}{suspicion}"
        if dropped and not self._is_drop_reported:
            self._is_drop_reported = True
            yield (
                "The oldest telemetry is dropped, because the endpoint does not accept it fast "
                "enough."
            )

    async def aclose(self) -> None:
        """Export what is queued, for at most ``flush_timeout`` seconds, and end the threads."""
        with self._handover:
            self._is_closed = True
            pipeline = self._pipeline
        if pipeline is None:
            return
        is_flushed = False
        try:
            with trio.move_on_after(self.settings.flush_timeout):
                await self._close(pipeline)
                is_flushed = True
        finally:
            if not is_flushed:
                # Without this, the SDK's threads would try for 30 seconds more. The functions are
                # called again, because a caller that is cancelled has started no thread.
                pipeline.stop()
                with trio.move_on_after(_END_TIMEOUT, shield=True):
                    await self._close(pipeline)

    async def _close(self, pipeline: Pipeline) -> None:
        # One signal whose endpoint is dead must not lose the others.
        async with trio.open_nursery() as nursery:
            for close in pipeline.closers:
                nursery.start_soon(self._run_in_thread, close)

    async def _run_in_thread(self, function: Callable[[], T]) -> T:
        return await trio.to_thread.run_sync(
            function, abandon_on_cancel=True, limiter=self._limiter
        )
