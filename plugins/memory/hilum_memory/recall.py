"""Fetching back what was thinned or cut: the results stand whole in the session's log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import trio
from hilum import Image, ToolError, ToolResult
from hilum.events import CallDone

if TYPE_CHECKING:
    from hilum import Session

PAGE = 10_000
MATCHES = 40
WIDTH = 300
SECONDS = 5.0


class Results:
    """Where in the log the result of each call stands: read as far as asked for, once.

    Args:
        session: Whose log.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._read = 0
        self._places: dict[tuple[str, str], int] = {}

    async def find(self, agent: str, call: str) -> ToolResult:
        """Return the result of an agent's call.

        Raises:
            ToolError: There is none.
        """
        store = self._session.kernel.store
        session = self._session.id
        while (agent, call) not in self._places and (
            events := await store.read(session, self._read)
        ):
            self._read = events[-1].seq
            self._places |= {
                (e.agent, e.result.call_id): e.seq for e in events if isinstance(e, CallDone)
            }
        place = self._places.get((agent, call))
        if place is not None:
            for event in await store.read(session, place - 1, 1):
                if isinstance(event, CallDone):
                    return event.result
        hint = "Take an id as a note or a shortened result names it."
        raise ToolError(f"There is no result of a call {call!r}.", code="E_NOT_FOUND", hint=hint)


def page(text: str, offset: int, size: int = PAGE) -> str:
    """Return a page of a text, and where the next one begins."""
    part = text[offset : offset + size]
    end = min(offset + size, len(text))
    if not part and offset:
        return f"The result has {len(text):,} characters; there is nothing after them."
    more = f"; go on with offset={end}" if end < len(text) else ""
    if not offset and not more:
        return part
    return f"{part}\n[characters {offset:,} to {end:,} of {len(text):,}{more}]"


async def search(text: str, pattern: str) -> str:
    """Return the lines of a text that match a regular expression, with number and place.

    Raises:
        ToolError: The pattern is none, or takes too long.
    """
    import regex  # type: ignore[import-untyped]

    try:
        compiled = regex.compile(pattern)
    except regex.error as error:
        problem = f"The pattern is no regular expression: {error}."
        raise ToolError(
            problem, code="E_BAD_ARGS", hint="Escape special characters with a backslash."
        ) from None

    def matching() -> Iterator[str]:
        place = 0
        for number, line in enumerate(text.splitlines(keepends=True), 1):
            found = compiled.search(line, timeout=SECONDS, concurrent=True)
            if found:
                start = max(found.start() - WIDTH // 2, 0)
                yield f"{number} (offset {place + start}) | {line[start : start + WIDTH].rstrip()}"
            place += len(line)

    def run() -> list[str]:
        found: list[str] = []
        for line in matching():
            found.append(line)
            if len(found) > MATCHES:
                break
        return found

    try:
        found = await trio.to_thread.run_sync(run, abandon_on_cancel=True)
    except TimeoutError:
        raise ToolError(
            "The pattern takes too long.", code="E_BAD_ARGS", hint="Use a simpler one."
        ) from None
    if len(found) > MATCHES:
        found[MATCHES:] = [f"[more than {MATCHES} lines match; use a narrower pattern]"]
    return "\n".join(found) or "No line matches."


def images_of(result: ToolResult) -> tuple[Image, ...]:
    """The images of a result."""
    return tuple(part for part in result.parts if isinstance(part, Image))
