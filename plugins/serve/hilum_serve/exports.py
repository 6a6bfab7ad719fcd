"""Exports of sessions, written while they are read, so that a long session fits in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import trio
from hilum import make_redactor
from hilum.events import AnyEvent, encode
from hilum.store import SessionInfo, Store
from hilum_cli.transcript import markdown_parts
from hilum_cli.transcript_html import html_parts
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

ExportFormat = Literal["markdown", "html", "json"]
MEDIA: Mapping[ExportFormat, str] = {
    "markdown": "text/markdown",
    "html": "text/html",
    "json": "application/json",
}
_SUFFIXES: Mapping[ExportFormat, str] = {"markdown": "md", "html": "html", "json": "json"}
CHUNK_CHARACTERS = 64_000
"""Number of characters that are sent at once, unless a single entry is longer."""
MAX_EXPORTS = 2
"""Maximum number of exports that are worked on at the same time; others wait."""


class ExportResponse(Response):
    """The response with an exported session, written by a thread as fast as the client reads it.

    Args:
        store: The store that has the session.
        info: The session's entry in the store.
        format: The format.
        limit: Limits the number of exports that are worked on at the same time.
    """

    def __init__(
        self, store: Store, info: SessionInfo, format: ExportFormat, limit: trio.CapacityLimiter
    ) -> None:
        super().__init__(media_type=MEDIA[format])
        # The length is not known before the export is complete.
        del self.headers["content-length"]
        name = f"hilum-{info.id}.{_SUFFIXES[format]}"
        # An exported page must not run as a page of the server.
        self.headers["content-disposition"] = f'attachment; filename="{name}"'
        self._limit = limit
        self._chunks = _join_parts(_write_parts(info, _read_events(store, info.id), format))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the export, until it is complete or the client has left."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_watch, receive, nursery.cancel_scope)
            await self._send(send)
            nursery.cancel_scope.cancel()

    async def _send(self, send: Send) -> None:
        # The first part is made before the headers are sent, so that an error gets a status.
        chunk = await self._make_chunk()
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        while chunk is not None:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
            chunk = await self._make_chunk()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _make_chunk(self) -> bytes | None:
        # Only the work is limited, not the time that a slow client takes to read.
        async with self._limit:
            return await trio.to_thread.run_sync(next, self._chunks, None)


async def _watch(receive: Receive, scope: trio.CancelScope) -> None:
    """Cancel an export whose client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def _read_events(store: Store, session: str) -> Iterator[AnyEvent]:
    """Yield the events of a session. The thread calls the store in the server's trio loop."""
    last = 0
    while page := trio.from_thread.run(store.read, session, last):
        yield from page
        last = page[-1].seq


def _write_parts(
    info: SessionInfo, events: Iterable[AnyEvent], format: ExportFormat
) -> Iterator[str]:
    """Yield the parts of an export without secrets."""
    # Logs that were written by earlier versions, or without the guard, may contain keys.
    redact = make_redactor()
    if format == "json":
        separator = "["
        for event in events:
            yield separator + redact(encode(event).decode(), guess=False)
            separator = ",\n"
        yield "[]\n" if separator == "[" else "]\n"
        return
    if format == "markdown":
        parts = markdown_parts(info, events)
        end = "\n\n"
    else:
        parts = html_parts(info, events)
        end = "\n"
    for part in parts:
        yield redact(part, guess=False) + end


def _join_parts(parts: Iterable[str]) -> Iterator[bytes]:
    """Yield the parts as chunks of bytes."""
    ready: list[str] = []
    size = 0
    for part in parts:
        ready.append(part)
        size += len(part)
        if size >= CHUNK_CHARACTERS:
            yield "".join(ready).encode(errors="backslashreplace")
            ready = []
            size = 0
    yield "".join(ready).encode(errors="backslashreplace")
