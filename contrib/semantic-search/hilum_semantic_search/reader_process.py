"""Starts the process that reads files, and receives their chunks."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import trio

from hilum_semantic_search.store import ReadFile

if TYPE_CHECKING:
    from hilum import Process
    from hilum.processes import Processes

# The options -I and -S below exclude site packages and their start-up code. The paths of the
# required libraries are passed as arguments.
# Nobody reads standard error, so a full pipe would block the process.
_START = """
import os, sys
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
sys.path += sys.argv[4:]
from reader.worker import main
main(*sys.argv[1:4])
"""
_FLAGS = ("-I", "-S", "-X", "utf8")
_FOLDER = os.path.dirname(os.path.abspath(__file__))
_CHUNK_BYTES = 1 << 18
MAX_LINE_BYTES = 64_000_000
"""Maximum size of what the process sends for one file."""


class ReaderFailed(Exception):
    """The process ended, or took too long."""


class LineReader:
    """Reads lines from a process.

    Args:
        process: The process.
    """

    def __init__(self, process: Process) -> None:
        self.process = process
        self._rest = bytearray()

    async def next(self) -> bytes:
        """Return the next line.

        Raises:
            ReaderFailed: The process ended, or the line is too long.
        """
        searched = 0
        end = self._rest.find(b"\n")
        while end < 0:
            searched = len(self._rest)
            chunk = await self.process.stdout.receive_some(_CHUNK_BYTES)
            if not chunk or searched > MAX_LINE_BYTES:
                raise ReaderFailed
            self._rest += chunk
            end = self._rest.find(b"\n", searched)
        line = bytes(self._rest[:end])
        del self._rest[: end + 1]
        return line

    async def send(self, data: object) -> None:
        """Send a line of JSON to the process.

        Raises:
            ReaderFailed: The process ended.
        """
        assert self.process.stdin is not None
        try:
            await self.process.stdin.send_all(json.dumps(data).encode() + b"\n")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise ReaderFailed from None


class FileReader:
    """A process that reads files of a workspace (see ``open_file_reader``)."""

    def __init__(self, lines: LineReader) -> None:
        self._lines = lines

    async def read(self, paths: Sequence[bytes], seconds: float) -> list[ReadFile]:
        """Return the chunks of files.

        Args:
            paths: The paths relative to the workspace.
            seconds: The time limit.

        Raises:
            ReaderFailed: The process ended, or took too long.
        """
        received = list[bytes]()
        with trio.move_on_after(seconds) as scope:
            await self._lines.send([os.fsdecode(path) for path in paths])
            for _ in paths:
                received.append(await self._lines.next())
        if scope.cancelled_caught:
            raise ReaderFailed
        # A large file takes milliseconds to decode.
        return await trio.to_thread.run_sync(_decode, received, abandon_on_cancel=True)


@asynccontextmanager
async def open_file_reader(
    processes: Processes, root: Path, max_size: int, niceness: int
) -> AsyncIterator[FileReader]:
    """Yield a reader of files. Its process ends with the ``async with`` block.

    Args:
        processes: What starts the process.
        root: The workspace.
        max_size: Maximum size of a file in bytes.
        niceness: How much to lower the priority of the process.
    """
    argv = [sys.executable, *_FLAGS, "-c", _START]
    argv += [str(root), str(max_size), str(niceness), _FOLDER, *find_libraries()]
    # The process gets no grace period, because it has nothing to save.
    async with processes.open(argv, cwd=root, stdin=True, grace=0, purpose="look") as process:
        yield FileReader(LineReader(process))


@cache
def find_libraries(names: tuple[str, ...] = ("tree_sitter", "tree_sitter_bash")) -> list[str]:
    """Return the folders that contain libraries, as far as these are installed."""
    found = dict[str, None]()
    for name in names:
        spec = find_spec(name)
        if spec is not None:
            for folder in spec.submodule_search_locations or ():
                found[os.path.dirname(folder)] = None
    return list(found)


def _decode(lines: Sequence[bytes]) -> list[ReadFile]:
    try:
        return [_decode_file(line) for line in lines]
    except msgspec.DecodeError as error:
        raise ReaderFailed from error


_decode_file = msgspec.json.Decoder(ReadFile).decode
