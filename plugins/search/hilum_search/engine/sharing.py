"""Several processes for one search: they take turns at taking files and at writing."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing typing would take a fifth of the worker's start
if TYPE_CHECKING:
    from collections.abc import Iterator

MOST = 4
"""Processes: the disk, and others, want something too."""
AT_ONCE = 16
"""Files that a process takes."""


def write(data: bytes) -> None:
    """Write all of it."""
    while data:
        data = data[os.write(1, data) :]


class Crew:
    """This process and its copies."""

    def __init__(self) -> None:
        if hasattr(os, "sched_getaffinity"):
            cores = len(os.sched_getaffinity(0))
        else:
            cores = os.cpu_count() or 1
        size = min(cores, MOST) if hasattr(os, "fork") else 1
        # Each pipe has one message: who has read it has the turn, to take files or to write.
        self._files = os.pipe()
        self._output = os.pipe()
        os.write(self._files[1], bytes(8))
        os.write(self._output[1], bytes(1))
        self._copies: list[int] = []
        while len(self._copies) < size - 1:
            copy = os.fork()  # nothing but this thread runs here
            if not copy:
                self._copies = []
                break
            self._copies.append(copy)

    def share(self, files: list[str]) -> Iterator[str]:
        """Yield this process's part of the files: some, whenever it is done with those before."""
        taken = 0
        while taken < len(files):
            taken = int.from_bytes(os.read(self._files[0], 8), "big")
            os.write(self._files[1], (taken + AT_ONCE).to_bytes(8, "big"))
            yield from files[taken : taken + AT_ONCE]

    def write(self, data: bytes) -> None:
        """Write all of it, with nothing of the others between."""
        os.read(self._output[0], 1)
        write(data)
        os.write(self._output[1], bytes(1))

    def end(self) -> None:
        """Wait for the copies; exit if one of them failed."""
        failed = [copy for copy in self._copies if os.waitpid(copy, 0)[1]]
        if failed:
            raise SystemExit(1)
