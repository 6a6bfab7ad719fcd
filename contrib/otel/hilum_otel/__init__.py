"""Exports traces, metrics and logs of sessions with OpenTelemetry. Off unless the user turns it on.

While the export is off, nothing of the SDK is imported.
"""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import trio
from hilum import hookimpl

from hilum_otel.settings import OtelSettings
from hilum_otel.telemetry import Telemetry

if TYPE_CHECKING:
    from hilum import Kernel, Session

__all__ = ["OtelSettings", "Telemetry", "open_kernel", "open_session"]


@hookimpl
async def open_kernel(kernel: Kernel) -> AsyncIterator[Telemetry]:
    """Yield what all sessions share. Its end waits a limited time for the last export."""
    telemetry = Telemetry(kernel.settings(OtelSettings), kernel.environ)
    try:
        yield telemetry
    finally:
        await telemetry.aclose()


@hookimpl
async def open_session(session: Session) -> AsyncIterator[object]:
    """Yield the exporter of a session, or nothing if the export is off."""
    telemetry = session.kernel.plugin(Telemetry)
    if telemetry is None or not telemetry.is_on:
        yield None
        return
    # Without the export, sessions need neither this module nor the spans.
    export = importlib.import_module("hilum_otel.session_export").SessionExport(session, telemetry)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(export.run)
        nursery.start_soon(export.watch)
        yield export
        nursery.cancel_scope.cancel()
    await export.finish()
