"""The plugin instance of the kernel, which all sessions share: loads and closes the pipeline."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

import trio

from hilum_otel.settings import OtelSettings

if TYPE_CHECKING:
    from hilum_otel.pipeline import Pipeline

T = TypeVar("T")


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
        self._is_closed = False
        self._is_reported = False
        # A thread that hangs must not take the place of a thread for something else.
        self._limiter = trio.CapacityLimiter(4)

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
                protocol = self._find_unsupported_protocol()
                if protocol:
                    self.problem = (
                        f"hilum exports over HTTP, but OTEL_EXPORTER_OTLP_PROTOCOL is {protocol}."
                    )
                    return None
                try:
                    self._pipeline = await self._run_in_thread(self._create)
                except Exception as error:
                    # The SDK raises various errors for invalid variables.
                    self.problem = f"{type(error).__name__}: {error}"[:300]
        return self._pipeline

    def _find_unsupported_protocol(self) -> str:
        """Return the protocol that the variables choose, if hilum cannot use it."""
        protocol = self._environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "")
        if self.settings.endpoint or protocol in ("", "http/protobuf"):
            return ""
        return protocol

    def _create(self) -> Pipeline:
        # The import takes 0.2 seconds, which neither a start nor a turn should wait for.
        module = importlib.import_module("hilum_otel.pipeline")
        pipeline: Pipeline = module.Pipeline(self.settings, self._environ)
        return pipeline

    def take_failure(self) -> str:
        """Return why exports fail, at the first call after a failure; otherwise an empty text."""
        failure = self.problem
        if self._pipeline is not None:
            failure = failure or self._pipeline.failure
        if self._is_reported or not failure:
            return ""
        self._is_reported = True
        return failure

    async def aclose(self) -> None:
        """Export what is queued, for at most ``flush_timeout`` seconds."""
        self._is_closed = True
        pipeline = self._pipeline
        if pipeline is None:
            return
        # One signal whose endpoint is dead must not lose the others. The threads of the SDK and of
        # trio are daemons, so a hanging one does not hold up the end of the process.
        with trio.move_on_after(self.settings.flush_timeout, shield=True):
            async with trio.open_nursery() as nursery:
                for close in pipeline.closers:
                    nursery.start_soon(self._run_in_thread, close)

    async def _run_in_thread(self, function: Callable[[], T]) -> T:
        return await trio.to_thread.run_sync(
            function, abandon_on_cancel=True, limiter=self._limiter
        )
