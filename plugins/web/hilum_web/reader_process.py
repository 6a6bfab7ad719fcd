"""Makes a page readable in a separate process.

The author of a page controls how much time and memory parsing takes, and whether parsing ever ends.
A separate process can be limited and killed.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from hilum import ToolError, errors

from hilum_web.fetching import Page
from hilum_web.messages import format_site

if TYPE_CHECKING:
    from hilum import Process, Processes

# The options -I and -S below exclude site packages and their start-up code. The paths of the
# required libraries are passed as arguments.
_START = "import sys; sys.path += sys.argv[2:]; from reader.worker import main; main(sys.argv[1])"
_FOLDER = os.path.dirname(os.path.abspath(__file__))
# Size, in bytes, of the pipe to the process. Whenever the pipe is full, its writer has to wait for
# its reader.
_PIPE_SIZE = 1 << 20
# Maximum number of characters to search for a fragment.
MAX_FRAGMENT_OFFSET = 2_000_000
# Maximum number of characters in a page's text.
MAX_TEXT = 60_000_000
# Number of parts to convert when a later part is requested: converting parts one by one would parse
# the page from its beginning each time.
PARTS_AHEAD = 8


class PageText(msgspec.Struct):
    """The readable text of a page.

    Args:
        text: The text from the beginning of the page up to the last converted part.
        title: The title.
        at: The offset of the fragment; -1 if it was not found.
        complete: Whether the text extends to the end of the page.
    """

    text: str = ""
    title: str = ""
    at: int = -1
    complete: bool = False

    def begin(self, start: int) -> int:
        """Return the offset of a part: the given one or, if it is 0, that of the fragment."""
        return start or max(self.at, 0)

    def covers(self, start: int, limit: int, fragment: str) -> bool:
        """Return whether the text is long enough to show a given part."""
        return self.complete or self.reaches(len(self.text), start, limit, fragment)

    def reaches(self, size: int, start: int, limit: int, fragment: str) -> bool:
        """Return whether ``size`` characters are enough to show a given part."""
        was_searched = self.at >= 0 or not fragment or size >= MAX_FRAGMENT_OFFSET
        return was_searched and size > self.begin(start) + limit


class ReaderProcess:
    """A process that reads one page.

    A caller may start the process before the site responds, because starting it takes a while.

    Args:
        processes: The session's processes.
        nursery: The nursery with the task that waits for the process.
        kind: The kind of page that the process will probably read: ``html`` or ``results``.
    """

    def __init__(self, processes: Processes, nursery: trio.Nursery, kind: str) -> None:
        self._processes = processes
        self._nursery = nursery
        self._kind = kind
        self._has_started = False
        self._is_up = trio.Event()
        self._lines: _Lines | None = None
        self._error: Exception | None = None

    def start(self) -> None:
        """Start the process once. If the process cannot be started, ``send`` raises the error."""
        if not self._has_started:
            self._has_started = True
            self._nursery.start_soon(self._hold)

    async def _hold(self) -> None:
        flags = ["-I", "-S", "-X", "utf8"]
        libraries = _find_library_folders()
        argv = [sys.executable, *flags, "-c", _START, self._kind, _FOLDER, *libraries]
        try:
            # The process gets no grace period, because it has nothing to save.
            async with self._processes.open(argv, stdin=True, grace=0, purpose="look") as process:
                self._lines = _Lines(process)
                self._is_up.set()
                await trio.sleep_forever()
        except Exception as error:
            self._error = error
            self._is_up.set()

    async def send(self, request: dict[str, str], body: bytes) -> None:
        """Send the page to the process.

        Args:
            request: ``kind``, and the content type header as ``type``; for HTML, also ``url`` and
                ``fragment``.
            body: The page.

        Raises:
            ToolError: The process could not be started.
        """
        self.start()
        await self._is_up.wait()
        if self._error is not None:
            raise self._error
        assert self._lines is not None
        head = json.dumps({**request, "size": len(body)}).encode() + b"\n"
        self._nursery.start_soon(_write, self._lines.process, head, body)

    async def read(self) -> dict[str, Any]:
        """Return the next frame of the output; the last one has ``end`` or ``error``."""
        assert self._lines is not None
        line = await self._lines.next()
        if line:
            frame: dict[str, Any] = msgspec.json.decode(line)
            return frame
        code = await self._lines.process.wait()
        status = f"exit code {code}"
        if code < 0:
            status = f"signal {-code}"
        return {"error": f"the process that was reading it exited ({status})"}


@asynccontextmanager
async def open_reader(processes: Processes, kind: str = "html") -> AsyncIterator[ReaderProcess]:
    """Yield a reader. Leaving the ``async with`` block ends its process, if it was started.

    Args:
        processes: The session's processes.
        kind: The kind of page that the process will probably read: ``html`` or ``results``.
    """
    failed: Exception | None = None
    async with trio.open_nursery() as nursery:
        try:
            yield ReaderProcess(processes, nursery, kind)
        except Exception as error:  # raised below, because the nursery would wrap it
            failed = error
        nursery.cancel_scope.cancel()
    if failed is not None:
        raise failed


async def convert_page(
    reader: ReaderProcess,
    page: Page,
    kind: str,
    fragment: str,
    start: int,
    limit: int,
    seconds: float,
) -> PageText:
    """Return the readable text of a page, at least up to the end of the requested part.

    Args:
        reader: A reader that has not been used yet.
        page: The page, in which the text is stored.
        kind: ``html`` or ``pdf``.
        fragment: The ID of the requested element; empty for the beginning.
        start: The offset of the part; 0 means the fragment or, without one, the beginning.
        limit: The length of the part in characters.
        seconds: The time limit.

    Raises:
        ToolError: ``E_TIMEOUT``; or ``E_CONTENT`` if the page cannot be read.
    """
    known = page.texts.get(fragment)
    if known is not None and known.covers(start, limit, fragment):
        return known
    request = {
        "kind": kind,
        "url": page.url,
        "type": page.content_type,
        "fragment": fragment,
    }
    text = PageText()
    with trio.move_on_after(seconds) as scope:
        await reader.send(request, page.body)
        error = await _receive(
            reader, text, fragment, start, limit * PARTS_AHEAD if start else limit
        )
    if scope.cancelled_caught:
        raise ToolError(
            f"The page from {format_site(page.url)} could not be made readable within {seconds:g} "
            "s.",
            code=errors.E_TIMEOUT,
            hint="Use another source, or the browser.",
        )
    if error:
        document = "PDF" if kind == "pdf" else "page"
        reason = error.rstrip(".")
        raise ToolError(
            f"The {document} from {format_site(page.url)} cannot be read: {reason}.",
            code=errors.E_CONTENT,
            hint="Use another source.",
        )
    page.texts[fragment] = text
    return text


async def _receive(
    reader: ReaderProcess, page_text: PageText, fragment: str, start: int, limit: int
) -> str:
    """Read frames until the text covers a part or ends. Return an error message, or ``""``."""
    parts = []
    size = 0
    while not page_text.complete:
        frame = await reader.read()
        error: str = frame.get("error", "")
        if error:
            return error
        page_text.title = frame.get("title", page_text.title)
        page_text.complete = frame.get("end", False)
        text = frame.get("text", "")
        if text and frame["at"] >= 0 and page_text.at < 0:
            page_text.at = size + frame["at"]
        parts.append(text)
        size += len(text)
        if size > MAX_TEXT:
            page_text.complete = True
        if page_text.reaches(size, start, limit, fragment):
            break
    page_text.text = "".join(parts)
    if page_text.complete:
        stripped = page_text.text.rstrip()
        page_text.text = f"{stripped}\n" if stripped else ""
    return ""


async def read_search_results(
    reader: ReaderProcess, body: bytes, content_type: str
) -> dict[str, Any]:
    """Read the result page of a search engine.

    Returns:
        ``results``, rows of title, URL and extract; ``robot``, whether the engine mistakes the
        client for a bot; ``known``, whether the page is a result page; or ``error``.
    """
    await reader.send({"kind": "results", "type": content_type}, body)
    return await reader.read()


async def _write(process: Process, *parts: bytes) -> None:
    assert process.stdin is not None
    with suppress(AttributeError, OSError):  # the size of a pipe can only be changed on Linux
        fcntl.fcntl(process.stdin.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
    # If the process exits early, its output contains the reason.
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        for part in parts:
            await process.stdin.send_all(part)
        process.stdin.close()


class _Lines:
    """A reader of a process's output, line by line."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self._rest = bytearray()

    async def next(self) -> bytes:
        """Return the next line, or an empty one at the end of the output."""
        searched = 0
        end = self._rest.find(b"\n")
        while end < 0:
            searched = len(self._rest)
            chunk = await self.process.stdout.receive_some(1 << 16)
            if not chunk:
                return b""
            self._rest += chunk
            end = self._rest.find(b"\n", searched)
        line = bytes(self._rest[:end])
        del self._rest[: end + 1]
        return line


@cache
def _find_library_folders() -> list[str]:
    """Return the folders of the libraries that the process imports."""
    found: dict[str, None] = {}
    for name in ("selectolax", "html_to_markdown", "pypdf"):
        spec = find_spec(name)
        if spec is None:
            continue
        for folder in spec.submodule_search_locations or ():
            found[os.path.dirname(folder)] = None
    return list(found)
