"""The fork server: a process that has imported hilum, and forks a child process for each task.

The owner writes requests to standard input, and the server writes replies to standard output, each as
a line of JSON. The server ends with its standard input, and its children end with the server: each
has a lifeline, a pipe whose other end only the server holds. On Linux, the kernel kills them, too.

The first child that ends names the modules that it has imported, which the server then imports.
Later children therefore start with them.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import select
import signal
import sys
import threading
import time
from typing import NoReturn

import msgspec

from hilum_dask.records import Assignment, Record

PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG, prctl(2)
READ_SIZE = 1 << 16
KILLED = -signal.SIGKILL


class Request(msgspec.Struct, omit_defaults=True):
    """A request: to start an attempt, or to stop one.

    Attributes:
        number: Number of the attempt, which the owner chooses.
        assignment: The attempt to start; ``None`` to stop one.
        log: File for what the child writes to standard error.
        grace: Seconds between SIGTERM and SIGKILL.
    """

    number: int
    assignment: Assignment | None = None
    log: str = ""
    grace: float = 10.0


class Reply(msgspec.Struct, omit_defaults=True):
    """The end of an attempt.

    Attributes:
        number: Number of the attempt.
        status: Exit code of the child; if negative, the signal that ended it.
        record: The record; ``None`` if the child did not report one.
    """

    number: int
    status: int
    record: Record | None = None


class _Report(msgspec.Struct, omit_defaults=True):
    """What a child reports: its record, and the modules that it has imported."""

    record: Record
    modules: list[str] = []


_decode_request = msgspec.json.Decoder(Request).decode
_decode_report = msgspec.json.Decoder(_Report).decode
_encode = msgspec.json.Encoder().encode


class _Child:
    """A child process.

    Attributes:
        number: Number of its attempt.
        pid: Its process id.
        pipe: The pipe for its report.
        report: What has arrived of the report.
        kill_at: When to kill it, on the monotonic clock.
    """

    def __init__(self, number: int, pid: int, pipe: int) -> None:
        self.number = number
        self.pid = pid
        self.pipe = pipe
        self.report = bytearray()
        self.kill_at = float("inf")


class _Server:
    def __init__(self) -> None:
        self._children: dict[int, _Child] = {}  # by the descriptor of the pipe
        self._lifeline, self._grip = os.pipe()
        self._input = bytearray()
        self._has_learned = False

    def serve(self) -> None:
        """Serve requests until standard input ends; then end all children."""
        poll = select.poll()
        poll.register(0, select.POLLIN)
        is_open = True
        while is_open:
            for descriptor, _ in poll.poll(self._patience()):
                if descriptor == 0:
                    is_open = self._read_requests(poll)
                elif descriptor in self._children:
                    self._read_report(self._children[descriptor], poll)
            self._kill_late()
        for child in self._children.values():
            _kill_group(child.pid)

    def _patience(self) -> float | None:
        """Return the milliseconds until a child must be killed."""
        first = min((child.kill_at for child in self._children.values()), default=float("inf"))
        if first == float("inf"):
            return None
        return max(0.0, first - time.monotonic()) * 1000 + 1

    def _kill_late(self) -> None:
        for child in self._children.values():
            if child.kill_at <= time.monotonic():
                child.kill_at = float("inf")
                _kill_group(child.pid)

    def _read_requests(self, poll: select.poll) -> bool:
        """Carry out the requests that have arrived; return whether more may follow."""
        data = os.read(0, READ_SIZE)
        self._input += data
        if b"\n" in data:
            *lines, rest = self._input.split(b"\n")
            self._input = rest
            for line in lines:
                self._carry_out(_decode_request(line), poll)
        return bool(data)

    def _carry_out(self, request: Request, poll: select.poll) -> None:
        if request.assignment is not None:
            child = self._fork(request.number, request.assignment, request.log)
            self._children[child.pipe] = child
            poll.register(child.pipe, select.POLLIN)
            return
        for child in self._children.values():
            if child.number == request.number:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGTERM)
                child.kill_at = time.monotonic() + request.grace

    def _fork(self, number: int, assignment: Assignment, log: str) -> _Child:
        reading, writing = os.pipe()
        server = os.getpid()
        try:
            pid = os.fork()
        except OSError:  # too many processes
            os.close(writing)
            return _Child(number, 0, reading)
        if pid == 0:
            os.close(reading)
            os.close(self._grip)
            for child in self._children.values():
                os.close(child.pipe)
            _live(server, self._lifeline, writing, assignment, log, not self._has_learned)
        os.close(writing)
        return _Child(number, pid, reading)

    def _read_report(self, child: _Child, poll: select.poll) -> None:
        """Read what a child reports; at the end, tell the owner."""
        data = os.read(child.pipe, READ_SIZE)
        if data:
            child.report += data
            return
        poll.unregister(child.pipe)
        os.close(child.pipe)
        del self._children[child.pipe]
        status = KILLED
        if child.pid:
            # Its number must not be used again before the processes that it left are killed.
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
            _kill_group(child.pid)
            _, waited = os.waitpid(child.pid, 0)
            status = os.waitstatus_to_exitcode(waited)
        report = None
        with contextlib.suppress(msgspec.DecodeError):
            report = _decode_report(child.report)
        record = report.record if report is not None else None
        _write_all(1, _encode(Reply(child.number, status, record)) + b"\n")
        if report is not None and report.modules and not self._has_learned:
            self._has_learned = True
            _import_all(report.modules)


def _kill_group(pid: int) -> None:
    """Kill a child, and the processes in its group."""
    if not pid:
        return
    for send in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            send(pid, signal.SIGKILL)


def _import_all(names: list[str]) -> None:
    """Import modules, so that later children have them."""
    for name in names:
        # What fails here fails again, and visibly, in the child that needs it.
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    gc.collect()
    # Otherwise, the collector would write to, and thereby copy, every shared page of memory.
    gc.freeze()


def _live(
    server: int, lifeline: int, report: int, assignment: Assignment, log: str, learns: bool
) -> NoReturn:
    """Be the child process of an attempt."""
    code = 1
    try:
        os.setsid()
        _die_with(server, lifeline)
        _replace_streams(log)
        # Imported here, so that the server is ready at once; it learns from the first child what to
        # import.
        from hilum_dask.execution import run_assignment

        record = run_assignment(assignment)
        modules = _list_modules() if learns else []
        _write_all(report, _encode(_Report(record, modules)))
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        # The interpreter would destroy all modules, and so copy all memory.
        os._exit(code)


def _die_with(server: int, lifeline: int) -> None:
    """End this process when the server ends, whatever this process does then."""
    if sys.platform == "linux":
        ctypes.pythonapi.prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != server:
            os._exit(1)

    def watch() -> None:
        os.read(lifeline, 1)
        os.killpg(0, signal.SIGKILL)

    # A thread, because the event loop may be blocked. On Linux, it is the second line of defence.
    threading.Thread(target=watch, daemon=True).start()


def _replace_streams(log: str) -> None:
    """Detach the child from the server's streams, which carry requests and replies."""
    null = os.open(os.devnull, os.O_RDWR)
    errors = null
    if log:
        with contextlib.suppress(OSError):
            errors = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(null, 0)
    os.dup2(errors, 1)
    os.dup2(errors, 2)


def _list_modules() -> list[str]:
    """Return the names of the imported modules that another process can import, too."""
    found = []
    for name, module in list(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        if spec is not None and spec.name == name and name != "__main__":
            found.append(name)
    return found


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def main() -> int:
    """Serve the owner of this process."""
    server = _Server()
    with contextlib.suppress(BrokenPipeError):
        server.serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
