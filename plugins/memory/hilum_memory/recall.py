"""Reads shortened or removed results from the session's log, which contains them in full."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import trio
from hilum import Image, ToolError, ToolResult
from hilum.events import CallDone

if TYPE_CHECKING:
    from hilum import Session

# The tool that reads results.
RECALL = "recall_result"
PAGE_CHARACTERS = 10_000
MAX_MATCHES = 40
MAX_LINE_LENGTH = 300
SEARCH_TIMEOUT = 5.0


class ResultFinder:
    """A finder of call results in a session's log, which is read once and only as far as needed.

    Args:
        session: The session.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._read = 0
        self._places: dict[tuple[str, str], int] = {}

    async def find(self, agent: str, call: str) -> ToolResult:
        """Return the result of an agent's call.

        Raises:
            ToolError: There is no such result.
        """
        store = self._session.kernel.store
        session = self._session.id
        while (agent, call) not in self._places:
            events = await store.read(session, self._read)
            if not events:
                break
            # The log only grows, so the next search continues where this one ended.
            self._read = events[-1].seq
            for event in events:
                if isinstance(event, CallDone):
                    # If an id is repeated, it refers to the newest result.
                    self._places[event.agent, event.result.call_id] = event.seq
        place = self._places.get((agent, call))
        if place is not None:
            # Only positions in the log are kept in memory, because the results of a long session
            # take up many megabytes.
            for event in await store.read(session, place - 1, 1):
                if isinstance(event, CallDone):
                    return event.result
        hint = "Use an id from a note or a shortened result."
        raise ToolError(f"There is no result of a call {call!r}.", code="E_NOT_FOUND", hint=hint)


def format_page(text: str, offset: int, size: int = PAGE_CHARACTERS) -> str:
    """Return a page of a text, with the offset of the next page."""
    total = len(text)
    part = text[offset : offset + size]
    end = min(offset + size, total)
    if not part and offset:
        return f"The result has {total:,} characters; there is nothing after them."
    more = f"; continue with offset={end}" if end < total else ""
    if not offset and not more:
        return part
    notice = f"[characters {offset:,} to {end:,} of {total:,}{more}]"
    return f"{part}\n{notice}"


async def search_lines(text: str, pattern: str) -> str:
    """Return the lines of a text that match a regular expression, with line numbers and offsets.

    Raises:
        ToolError: The pattern is invalid, or the search takes too long.
    """
    import regex  # type: ignore[import-untyped]

    try:
        compiled = regex.compile(pattern)
    except regex.error as error:
        problem = f"The pattern is not a regular expression: {error}."
        raise ToolError(
            problem,
            code="E_BAD_ARGS",
            hint="Escape special characters with a backslash.",
        ) from None

    def matching() -> Iterator[str]:
        place = 0
        for number, line in enumerate(text.splitlines(keepends=True), 1):
            # ``concurrent`` releases the GIL, so that a slow pattern does not block the event loop.
            found = compiled.search(line, timeout=SEARCH_TIMEOUT, concurrent=True)
            if found:
                start = max(found.start() - MAX_LINE_LENGTH // 2, 0)
                excerpt = line[start : start + MAX_LINE_LENGTH].rstrip()
                yield f"{number} (offset {place + start}) | {excerpt}"
            place += len(line)

    def run() -> list[str]:
        found: list[str] = []
        for line in matching():
            found.append(line)
            if len(found) > MAX_MATCHES:
                break
        return found

    try:
        # The thread only reads a text, so a stopped run need not wait for the thread.
        found = await trio.to_thread.run_sync(run, abandon_on_cancel=True)
    except TimeoutError:
        raise ToolError(
            "The search takes too long.",
            code="E_BAD_ARGS",
            hint="Use a simpler pattern.",
        ) from None
    if len(found) > MAX_MATCHES:
        found[MAX_MATCHES:] = [f"[more than {MAX_MATCHES} lines match; use a narrower pattern]"]
    return "\n".join(found) or "No line matches."


def get_images(result: ToolResult) -> tuple[Image, ...]:
    """Return the images of a result."""
    return tuple(part for part in result.parts if isinstance(part, Image))
