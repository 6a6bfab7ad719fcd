"""The syntax check as a process that keeps running: a new Python for each edit takes longer.

The process is separate from hilum, because compiling a hostile file can need all memory or all of
the stack, and it runs in the sandbox with a memory limit. It is started again after it has ended,
and after a number of checks, because compiled names stay in its memory.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import msgspec
import trio
from hilum import HilumError, WarmFinding

from hilum_lint.checkers import MAX_LINTER_MEMORY

if TYPE_CHECKING:
    from hilum import Process, Session

# Number of checks after which the process is replaced.
MAX_CHECKS = 2_000
# Number of failures in a row after which files are only checked by new processes.
MAX_FAILURES = 3
# Seconds without a check after which the process ends.
IDLE_SECONDS = 600.0
# Maximum size of an answer in bytes.
MAX_ANSWER = 4_000_000
_CHUNK = 1 << 16
_PROGRAM = Path(__file__).with_name("compile_files.py")
_LIMITED = 'ulimit -d "$0" 2>/dev/null; exec "$@"'

_Row = tuple[str, int, int, str, str, str]


@attrs.define(eq=False)
class SyntaxWorker:
    """The process that checks the syntax of Python files.

    Args:
        session: The session.
        nursery: The nursery for the task that owns the process.

    Attributes:
        changed: Set, and replaced by a new event, when the process has started or ended.
    """

    session: Session
    nursery: trio.Nursery
    changed: trio.Event = attrs.Factory(trio.Event)
    _process: Process | None = None
    _is_started: bool = False
    _failures: int = 0
    _checks: int = 0
    _last_use: float = 0.0
    _ended: trio.Event = attrs.Factory(trio.Event)
    _lock: trio.Lock = attrs.Factory(trio.Lock)

    @property
    def is_ready(self) -> bool:
        """Whether the process runs."""
        return self._process is not None

    def start(self) -> None:
        """Start the process in the background if it does not run."""
        if self._is_started or self._failures >= MAX_FAILURES:
            return
        self._is_started = True
        self._ended = trio.Event()
        self.nursery.start_soon(self._run, name="syntax check")

    async def _run(self) -> None:
        argv = [sys.executable, "-I", "-S", str(_PROGRAM), "--serve"]
        limit = str(MAX_LINTER_MEMORY // 1024)
        self._last_use = trio.current_time()
        try:
            async with self.session.processes.open(
                ["/bin/sh", "-c", _LIMITED, limit, *argv],
                env={"PYTHONIOENCODING": "utf-8"},
                stdin=True,
                merge=True,
                grace=0.0,
                purpose="look",
            ) as process:
                self._checks = 0
                self._process = process
                self._note_change()
                await self._wait_until_idle()
        except (HilumError, OSError):
            self._failures += 1
        finally:
            self._process = None
            self._is_started = False
            self._note_change()

    def _note_change(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    async def _wait_until_idle(self) -> None:
        while not self._ended.is_set():
            left = self._last_use + IDLE_SECONDS - trio.current_time()
            if left <= 0:
                return
            with trio.move_on_after(left):
                await self._ended.wait()

    def _end(self) -> None:
        self._process = None
        self._ended.set()

    async def check(self, path: Path, text: str, seconds: float) -> Sequence[WarmFinding] | None:
        """Return the syntax errors of a text; ``None`` if the process did not answer in time.

        Args:
            path: The file, for messages of the compiler.
            text: The text.
            seconds: Time limit.
        """
        with trio.move_on_after(seconds):
            async with self._lock:
                return await self._ask(path, text)
        return None

    async def _ask(self, path: Path, text: str) -> Sequence[WarmFinding] | None:
        process = self._process
        if process is None or process.stdin is None:
            return None
        self._last_use = trio.current_time()
        self._checks += 1
        data = text.encode(errors="surrogatepass")
        head = msgspec.json.encode([str(path), len(data)])
        is_answered = False
        try:
            async with trio.open_nursery() as nursery:
                # A large text is written while the process already answers.
                nursery.start_soon(_send, process.stdin, head + b"\n" + data)
                answer = await _read_line(process)
                is_answered = answer is not None
                nursery.cancel_scope.cancel()
        finally:
            # After a check that was given up, the next answer would be the one to that check.
            if not is_answered:
                self._failures += 1
                self._end()
        if answer is None:
            return None
        try:
            rows = msgspec.json.decode(answer, type=list[_Row])
        except (msgspec.DecodeError, RecursionError):
            self._failures += 1
            self._end()
            return None
        self._failures = 0
        if self._checks >= MAX_CHECKS:
            self._end()
        return [WarmFinding(*row[1:]) for row in rows]


async def _send(stream: trio.abc.SendStream, data: bytes) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        await stream.send_all(data)


async def _read_line(process: Process) -> bytes | None:
    """Return a line of a process's output; ``None`` if the process ends or writes too much."""
    line = bytearray()
    while not line.endswith(b"\n"):
        try:
            chunk = await process.stdout.receive_some(_CHUNK)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return None
        line += chunk
        if not chunk or len(line) > MAX_ANSWER:
            return None
    return bytes(line)
