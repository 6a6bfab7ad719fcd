"""Making a page readable in a process of its own: what it costs, and whether it ever ends, is up to
whoever wrote the page.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
from contextlib import asynccontextmanager, suppress
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from hilum import ToolError, errors

from hilum_web.failures import site

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hilum import Process, Processes

    from hilum_web.fetching import Page

_START = "import sys; sys.path += sys.argv[2:]; from reader.worker import main; main(sys.argv[1])"
_FOLDER = os.path.dirname(os.path.abspath(__file__))
# Bytes that the pipe to the process holds: each time it is full, the two wait for each other.
_PIPE = 1 << 20
# Characters to look for a part of a page in; that a page may have in all.
FIND = 2_000_000
MOST = 60_000_000
# How many parts are made ready at once for whoever reads on: each time the page is parsed anew.
AHEAD = 8


class Text(msgspec.Struct):
    """What was made readable of a page.

    Args:
        text: Its text from the beginning, as far as it was asked for.
        title: Its title.
        at: Where the wanted part begins; -1 where it was not found.
        whole: Whether the text ends where the page does.
    """

    text: str = ""
    title: str = ""
    at: int = -1
    whole: bool = False

    def reaches(self, start: int, limit: int, fragment: str) -> bool:
        """Return whether it is enough to show a part."""
        found = self.at >= 0 or not fragment or len(self.text) >= FIND
        return self.whole or (found and len(self.text) > (start or max(self.at, 0)) + limit)


class Reader:
    """A process that reads one page.

    It may be started while the page is still awaited: it takes a while to be ready.

    Args:
        processes: The session's.
        nursery: Owns the task that holds the process.
        kind: What it will likely read: ``html`` or ``results``.
    """

    def __init__(self, processes: Processes, nursery: trio.Nursery, kind: str) -> None:
        self._processes = processes
        self._nursery = nursery
        self._kind = kind
        self._begun = False
        self._up = trio.Event()
        self._lines: _Lines | None = None
        self._failed: Exception | None = None

    def start(self) -> None:
        """Start the process, once. Whether that fails is told to whoever gives it a page."""
        if not self._begun:
            self._begun = True
            self._nursery.start_soon(self._hold)

    async def _hold(self) -> None:
        argv = [
            sys.executable,
            "-I",
            "-S",
            "-X",
            "utf8",
            "-c",
            _START,
            self._kind,
            _FOLDER,
            *_packages(),
        ]
        try:
            async with self._processes.open(argv, stdin=True, grace=0) as process:
                self._lines = _Lines(process)
                self._up.set()
                await trio.sleep_forever()
        except Exception as error:
            self._failed = error
            self._up.set()

    async def give(self, request: dict[str, str], body: bytes) -> None:
        """Give the process its page.

        Args:
            request: ``kind`` and ``type``, the header; for HTML ``url`` and ``fragment``, too.
            body: The page.

        Raises:
            ToolError: The process could not be started.
        """
        self.start()
        await self._up.wait()
        if self._failed is not None:
            raise self._failed
        assert self._lines is not None
        self._nursery.start_soon(
            _feed,
            self._lines.process,
            json.dumps({**request, "size": len(body)}).encode() + b"\n",
            body,
        )

    async def read(self) -> dict[str, Any]:
        """Return the next frame of its answer; the last one has ``end`` or ``error``."""
        assert self._lines is not None
        line = await self._lines.next()
        if line:
            frame: dict[str, Any] = msgspec.json.decode(line)
            return frame
        code = await self._lines.process.wait()
        return {
            "error": (
                f"what reads it ended ({f'signal {-code}' if code < 0 else f'exit code {code}'})"
            )
        }


@asynccontextmanager
async def open_reader(processes: Processes, kind: str = "html") -> AsyncIterator[Reader]:
    """Return a reader whose process ends with the block.

    There is none before it is started, or given a page.

    Args:
        processes: The session's.
        kind: What it will likely read: ``html`` or ``results``.
    """
    failed: Exception | None = None
    async with trio.open_nursery() as nursery:
        try:
            yield Reader(processes, nursery, kind)
        except Exception as error:  # it reaches the caller as it is, not in a group
            failed = error
        nursery.cancel_scope.cancel()
    if failed is not None:
        raise failed


async def readable(
    reader: Reader, page: Page, kind: str, fragment: str, start: int, limit: int, seconds: float
) -> Text:
    """Create a page readable as far as it is wanted.

    Args:
        reader: What has read nothing yet.
        page: The page; what was made of it is kept with it.
        kind: ``html`` or ``pdf``.
        fragment: The part that is wanted; empty for the beginning.
        start: Where in the text the reader begins; 0 for the beginning, or the wanted part.
        limit: How many characters are shown at once.
        seconds: How long it may take.

    Raises:
        ToolError: ``E_TIMEOUT``; ``E_CONTENT``, it cannot be read.
    """
    known = page.read.get(fragment)
    if known is not None and known.reaches(start, limit, fragment):
        return known
    made = Text()
    with trio.move_on_after(seconds) as scope:
        await _convert(reader, page, kind, fragment, made, start, limit * AHEAD if start else limit)
    if scope.cancelled_caught:
        raise ToolError(
            f"The page of {site(page.url)} could not be made readable within {seconds:g} s.",
            code=errors.E_TIMEOUT,
            hint="Use another source, or the browser.",
        )
    page.read[fragment] = made
    return made


async def results(reader: Reader, body: bytes, content_type: str) -> dict[str, Any]:
    """Read a search engine's page of results.

    Returns:
        ``results``, rows of title, address and extract; ``robot``, whether it takes us for one;
        ``known``, whether it is a page of results at all; or ``error``.
    """
    await reader.give({"kind": "results", "type": content_type}, body)
    return await reader.read()


async def _convert(
    reader: Reader, page: Page, kind: str, fragment: str, made: Text, start: int, limit: int
) -> None:
    why = ""
    parts = []
    size = 0
    await reader.give(
        {"kind": kind, "url": page.url, "type": page.content_type, "fragment": fragment}, page.body
    )
    while not (why or made.whole):
        frame = await reader.read()
        why = frame.get("error", "")
        made.title = frame.get("title", made.title)
        made.whole = frame.get("end", False)
        text = frame.get("text", "")
        if text:
            if frame["at"] >= 0 and made.at < 0:
                made.at = size + frame["at"]
            parts.append(text)
            size += len(text)
        found = made.at >= 0 or not fragment or size >= FIND
        if size > MOST or (found and size > (start or max(made.at, 0)) + limit):
            break
    made.text = "".join(parts)
    if made.whole or size > MOST:
        made.text = made.text.rstrip() + "\n" if made.text.strip() else ""
        made.whole = True
    if why:
        what = "PDF" if kind == "pdf" else "page"
        raise ToolError(
            f"The {what} of {site(page.url)} cannot be read: {why.rstrip('.')}.",
            code=errors.E_CONTENT,
            hint="Use another source.",
        )


async def _feed(process: Process, *parts: bytes) -> None:
    assert process.stdin is not None
    with suppress(AttributeError, OSError):  # elsewhere than on Linux there is one size
        fcntl.fcntl(process.stdin.fileno(), fcntl.F_SETPIPE_SZ, _PIPE)
    with suppress(
        trio.BrokenResourceError, trio.ClosedResourceError
    ):  # how it ended is told by what it said
        for part in parts:
            await process.stdin.send_all(part)
        process.stdin.close()


class _Lines:
    """What a process writes, line by line."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self._rest = bytearray()

    async def next(self) -> bytes:
        """Return the next line; nothing when there are no more."""
        searched = 0
        while (end := self._rest.find(b"\n", searched)) < 0:
            searched = len(self._rest)
            chunk = await self.process.stdout.receive_some(1 << 16)
            if not chunk:
                return b""
            self._rest += chunk
        line = bytes(self._rest[:end])
        del self._rest[: end + 1]
        return line


@cache
def _packages() -> list[str]:
    """Return the folders of the libraries: the process sees no others, and reads no site's own
    configuration.
    """
    found = []
    for name in ("selectolax", "html_to_markdown", "pypdf"):
        spec = find_spec(name)
        for folder in spec.submodule_search_locations or () if spec is not None else ():
            parent = os.path.dirname(folder)
            if parent not in found:
                found.append(parent)
    return found
