"""The fork server: forks a process for each start of hilum, and supervises it.

The server has one thread and never runs trio, because a fork copies only the calling thread.

One process, the standby, is forked before it is needed. Memory that a process changes is copied first,
which would take 20 ms of a start; the standby has changed much of it already. If there is no standby
that is ready, the server forks for the request.
"""

from __future__ import annotations

import marshal
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from hilum.fork_client import ACCEPTED, FORWARDED, GO

from hilum_cli.fork_server.callers import Caller, CallerRefused, apply_limits, read_caller
from hilum_cli.fork_server.requests import REQUEST_TIMEOUT, IncomingRequest
from hilum_cli.fork_server.stamps import CodeWatch
from hilum_cli.fork_server.take_over import Request, take_over

MAX_INCOMING = 64
"""Maximum number of connections without a complete request. The oldest one is closed for a new one."""
TERM_TIMEOUT = 10.0
"""Seconds for a process to end after its client has gone."""
STANDBY_DELAY = 0.3
"""Seconds after a start in which no standby is forked, which would slow the start down."""
_MAX_WAIT = 3600.0
"""Seconds; the system counts the milliseconds of a wait with 32 bits."""
_READY = b"r"
"""What a standby sends when it has prepared itself."""
_SIZE_BYTES = 4
_PASSED = 6
"""Number of descriptors that a standby gets: the client, the pipe to the server, and the request's."""


class _Running:
    """A forked process with the connection to its client.

    Attributes:
        kill_at: When the process is killed, on the monotonic clock; ``None`` while it has a client.
        started: The pipe on which the process says that it has taken over; -1 once it has. Until
            then, the process itself reads from the client.
    """

    def __init__(self, process: int, client: socket.socket, started: int) -> None:
        self.process = process
        self.client = client
        self.kill_at: float | None = None
        self.started = started

    def read_started(self) -> None:
        """Read whether the process has taken over, which waits until it has or ends."""
        if self.started >= 0 and os.read(self.started, 1):
            self.close_started()

    def close_started(self) -> None:
        """Close the pipe on which the process says that it has taken over."""
        if self.started >= 0:
            os.close(self.started)
            self.started = -1

    def send_line(self, text: str) -> None:
        """Send a line to the client, which may be gone."""
        with suppress(OSError):
            self.client.sendall(f"{text}\n".encode())

    def send_signal(self, number: int) -> None:
        """Send a signal to the process, and to what it started in its process group."""
        with suppress(ProcessLookupError):
            os.killpg(self.process, number)


class _Standby(NamedTuple):
    """The standby, as the server sees it.

    Attributes:
        process: The process id.
        socket: The socket on which it waits for a request. It ends when the socket is closed.
    """

    process: int
    socket: socket.socket


class _Start(NamedTuple):
    """A start that a forked process takes over.

    Attributes:
        request: The request.
        caller: The properties of the calling process.
        client: The connection to the calling process.
        report: The end of a pipe on which the forked process says that it has taken over.
    """

    request: Request
    caller: Caller
    client: socket.socket
    report: int


class ForkServer:
    """The server.

    Args:
        listener: The socket on which it listens.
        lock: The descriptor that holds the server's lock, which a forked process closes.
        code: The watch of the imported code.
        prepare: What a standby does before it has a request.
        idle_seconds: After so many seconds without any process, the server ends.
    """

    def __init__(
        self,
        listener: socket.socket,
        lock: int,
        code: CodeWatch,
        idle_seconds: float,
        prepare: Callable[[], object],
    ) -> None:
        self._listener = listener
        self._lock = lock
        self._code = code
        self._idle_seconds = idle_seconds
        self._prepare = prepare
        self._standby: _Standby | None = None
        self._standby_at = time.monotonic()
        self._running: dict[int, _Running] = {}
        self._incoming: list[IncomingRequest] = []
        self._used_at = time.monotonic()
        self._signals = {getattr(signal, name) for name in FORWARDED}
        self.is_stale = False
        self.ended_by = 0

    def serve(self) -> Request | None:
        """Serve until the server is idle, stale or ended by a signal.

        Returns:
            In a forked process, the request that it has taken over; ``None`` in the server.
        """
        wake, wake_end = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(wake_end, False)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._end)
        own = [wake, wake_end]
        while not self._is_done():
            if self._wants_standby() and time.monotonic() >= self._standby_at:
                request = self._fork_standby(own)
                if request is not None:
                    return request
            readable = self._wait(wake)
            if wake in readable:
                with suppress(BlockingIOError):
                    os.read(wake, 4096)
            self._collect()
            self._kill_late()
            for running in [*self._running.values()]:
                if running.started in readable:
                    running.read_started()
                elif running.client.fileno() in readable:
                    self._read_client(running)
            if self._listener.fileno() in readable:
                self._accept()
            for incoming in self._receive(readable):
                request = self._answer(incoming, own)
                if request is not None:
                    return request
        signal.set_wakeup_fd(-1)
        self._end_standby()
        return None

    def _end(self, number: int, _frame: object) -> None:
        self.ended_by = number
        for running in self._running.values():
            running.send_signal(signal.SIGTERM)
            running.kill_at = time.monotonic() + TERM_TIMEOUT

    def _is_done(self) -> bool:
        if self._running:
            self._used_at = time.monotonic()
            return False
        is_idle = time.monotonic() - self._used_at >= self._idle_seconds
        return bool(self.ended_by) or self.is_stale or is_idle

    def _wait(self, wake: int) -> set[int]:
        """Wait for something to do, and return the descriptors that are readable.

        Args:
            wake: The pipe that a signal writes to.
        """
        sources = [wake, self._listener.fileno()]
        sources += [incoming.client.fileno() for incoming in self._incoming]
        for running in self._running.values():
            if running.started >= 0:
                sources.append(running.started)
            elif running.kill_at is None:
                sources.append(running.client.fileno())
        end = self._used_at + self._idle_seconds
        if self._running:
            end = time.monotonic() + 60
        for running in self._running.values():
            if running.kill_at is not None:
                end = min(end, running.kill_at)
        for incoming in self._incoming:
            end = min(end, incoming.discard_at)
        if self._wants_standby():
            end = min(end, self._standby_at)
        return _poll(sources, max(0.0, end - time.monotonic()))

    def _collect(self) -> None:
        """Report the processes that have ended or stopped."""
        for running in [*self._running.values()]:
            process, status = os.waitpid(running.process, os.WNOHANG | os.WUNTRACED)
            if not process:
                continue
            if os.WIFSTOPPED(status):
                running.send_line("stopped")
                continue
            running.read_started()
            if running.started >= 0:
                running.close_started()  # it has not taken over, and hilum starts as usual
            elif os.WIFSIGNALED(status):
                running.send_line(f"signal {os.WTERMSIG(status)}")
            else:
                running.send_line(f"exit {os.WEXITSTATUS(status)}")
            running.client.close()
            del self._running[process]
        if self._standby is not None and os.waitpid(self._standby.process, os.WNOHANG)[0]:
            self._standby.socket.close()
            self._standby = None
            self._standby_at = time.monotonic() + TERM_TIMEOUT

    def _kill_late(self) -> None:
        now = time.monotonic()
        for running in self._running.values():
            if running.kill_at is not None and running.kill_at <= now:
                running.send_signal(signal.SIGKILL)
                running.kill_at = now + TERM_TIMEOUT

    def _read_client(self, running: _Running) -> None:
        """Pass on the signals of a client, or end the process if its client has gone."""
        try:
            data = running.client.recv(64)
        except OSError:
            data = b""
        for number in data:
            if number in self._signals:
                running.send_signal(number)
        if not data:
            # The client was killed. Its process ends as if the terminal had been closed.
            running.kill_at = time.monotonic() + TERM_TIMEOUT
            running.send_signal(signal.SIGHUP)
            running.send_signal(signal.SIGCONT)

    def _accept(self) -> None:
        """Accept a connection, whose request is read when it arrives."""
        with suppress(OSError):  # the client has gone
            client, _ = self._listener.accept()
            self._incoming.append(IncomingRequest(client))
        if len(self._incoming) > MAX_INCOMING:
            self._incoming.pop(0).close()

    def _receive(self, readable: Collection[int]) -> Iterator[IncomingRequest]:
        """Read what has arrived, and yield the requests that are complete."""
        for incoming in [*self._incoming]:
            is_complete = False
            is_over = incoming.discard_at <= time.monotonic()
            if incoming.client.fileno() in readable:
                try:
                    is_complete = incoming.receive()
                except CallerRefused as refused:
                    _refuse(incoming.client, refused)
                    is_over = True
                except OSError:  # the client has gone
                    is_over = True
            if is_complete or is_over:
                self._incoming.remove(incoming)
            if is_complete:
                yield incoming
            elif is_over:
                incoming.close()

    def _answer(self, incoming: IncomingRequest, own: Iterable[int]) -> Request | None:
        """Let a process take over a start; in a process that is forked for it, return the request.

        Args:
            incoming: The request.
            own: Further descriptors of the server, which the forked process closes.
        """
        client = incoming.client
        client.settimeout(REQUEST_TIMEOUT)
        try:
            # Requests from processes that may not connect are discarded.
            caller = read_caller(*incoming.read_peer())
            request = incoming.parse()
            self._check()
        except CallerRefused as refused:
            _refuse(client, refused)
            incoming.close()
            return None
        except OSError:  # the client has gone
            incoming.close()
            return None
        started, report = os.pipe()
        start = _Start(request, caller, client, report)
        server = os.getpid()
        try:
            process = self._hand_over(start) or os.fork()
        except OSError as error:
            os.close(started)
            reason = f"it cannot create a process ({error.strerror})"
            _refuse(client, CallerRefused(reason))
        else:
            if not process:
                self._leave([*own, started])
                return _take_over(start, server)
            self._watch(process, client, started)
            self._standby_at = time.monotonic() + STANDBY_DELAY
        os.close(report)
        incoming.close()
        return None

    def _watch(self, process: int, client: socket.socket, started: int) -> None:
        """Supervise a forked process.

        Args:
            process: The process id.
            client: The connection to the calling process.
            started: The pipe on which the forked process says that it has taken over.
        """
        with suppress(OSError):
            os.setpgid(process, process)
        kept = client.dup()
        kept.settimeout(REQUEST_TIMEOUT)
        self._running[process] = _Running(process, kept, started)

    def _leave(self, own: Iterable[int]) -> None:
        """Close what belongs to the server, in a forked process.

        Args:
            own: Further descriptors of the server.
        """
        signal.set_wakeup_fd(-1)
        self._listener.close()
        for incoming in self._incoming:
            incoming.close()
        for running in self._running.values():
            running.client.close()
            running.close_started()
        if self._standby is not None:
            self._standby.socket.close()
        for descriptor in (*own, self._lock):
            os.close(descriptor)
        self._code.close()

    # --- the standby ------------------------------------------------------------------------------

    def _wants_standby(self) -> bool:
        if self._standby is not None or self.ended_by or self.is_stale:
            return False
        return _has_one_thread()

    def _fork_standby(self, own: Iterable[int]) -> Request | None:
        """Fork a standby; in this process, return the request that it has taken over.

        Args:
            own: Further descriptors of the server, which the standby closes.
        """
        ours, theirs = socket.socketpair()
        server = os.getpid()
        try:
            process = os.fork()
        except OSError:  # there are too many processes
            ours.close()
            theirs.close()
            self._standby_at = time.monotonic() + TERM_TIMEOUT
            return None
        if not process:
            ours.close()
            self._leave(own)
            return _stand_by(theirs, server, self._prepare)
        theirs.close()
        self._standby = _Standby(process, ours)
        return None

    def _hand_over(self, start: _Start) -> int:
        """Let the standby take over a start; return its process id, or 0 if none is ready."""
        standby = self._standby
        # One that is still preparing would be later than a new process.
        if standby is None or not _poll([standby.socket.fileno()], 0):
            return 0
        self._standby = None
        with standby.socket as connection:
            connection.settimeout(REQUEST_TIMEOUT)
            try:
                _send_start(connection, start)
            except OSError:  # it was killed or stopped
                os.kill(standby.process, signal.SIGKILL)
                os.waitpid(standby.process, 0)
                return 0
        return standby.process

    def _end_standby(self) -> None:
        """End the standby, if there is one."""
        if self._standby is not None:
            self._standby.socket.close()
            os.kill(self._standby.process, signal.SIGKILL)
            os.waitpid(self._standby.process, 0)
            self._standby = None

    def _check(self) -> None:
        """Check that a forked process would behave like a newly started one.

        Raises:
            CallerRefused: It would not.
        """
        if self.ended_by:
            raise CallerRefused("it is ending")
        changed = self._code.find_changed()
        if changed or self.is_stale:
            self.is_stale = True
            raise CallerRefused(f"{changed or 'a file'} has changed, so the server starts again")
        if not _has_one_thread():
            raise CallerRefused("the server has several threads")


def _has_one_thread() -> bool:
    """Return whether a fork copies all of this process."""
    return len(os.listdir("/proc/self/task")) == 1


def _poll(descriptors: Iterable[int], seconds: float) -> set[int]:
    """Return the descriptors that are readable or closed, after waiting for one of them.

    Args:
        descriptors: The descriptors.
        seconds: How long to wait; less for more than ``_MAX_WAIT``.
    """
    # `select.select` cannot watch descriptors above 1,023.
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _events in poll.poll(min(seconds, _MAX_WAIT) * 1000)}


# --- in a forked process --------------------------------------------------------------------------


def _stand_by(
    connection: socket.socket, server: int, prepare: Callable[[], object]
) -> Request | None:
    """Wait for a start as the standby, and take it over.

    Args:
        connection: The socket on which the server sends it. It is closed.
        server: The process id of the server.
        prepare: What to do before.

    Returns:
        The request.
    """
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    prepare()
    connection.sendall(_READY)
    start = _receive_start(connection)
    connection.close()
    if start is None:
        os._exit(0)  # the server has ended
    return _take_over(start, server)


def _take_over(start: _Start, server: int) -> Request:
    """Become what a caller would have started, and return the request.

    Args:
        start: The start. Its connection and its pipe are closed.
        server: The process id of the server.
    """
    client = start.client
    try:
        os.setpgid(0, 0)
        apply_limits(start.caller)
        client.sendall(ACCEPTED + b"\n")
        if client.recv(1) != GO:
            os._exit(1)
    except CallerRefused as refused:
        _refuse(client, refused)
        os._exit(1)
    except OSError:
        os._exit(1)
    os.write(start.report, b"1")
    os.close(start.report)
    client.close()
    take_over(start.request, server)
    return start.request


# --- between the server and the standby -----------------------------------------------------------


def _send_start(connection: socket.socket, start: _Start) -> None:
    """Send a start to the standby.

    Raises:
        OSError: The standby has ended, or does not read.
    """
    request = start.request
    data = marshal.dumps(
        (tuple(start.caller), request.arguments, request.argv, request.environment)
    )
    passed = [start.client.fileno(), start.report, *request.descriptors]
    socket.send_fds(connection, [len(data).to_bytes(_SIZE_BYTES, "big")], passed)
    connection.sendall(data)


def _receive_start(connection: socket.socket) -> _Start | None:
    """Return the start that the server sends; ``None`` if the server ends before."""
    data, descriptors, _flags, _address = socket.recv_fds(connection, _SIZE_BYTES, _PASSED)
    left = int.from_bytes(data, "big")
    parts = []
    while left and (part := connection.recv(min(left, 1 << 16))):
        parts.append(part)
        left -= len(part)
    if left or len(descriptors) != _PASSED:
        return None
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    facts, arguments, argv, environment = marshal.loads(b"".join(parts))
    client = socket.socket(fileno=descriptors[0])
    client.settimeout(REQUEST_TIMEOUT)
    request = Request(arguments, argv, environment, descriptors[2:])
    return _Start(request, Caller(*facts), client, descriptors[1])


def _refuse(client: socket.socket, reason: CallerRefused) -> None:
    """Send a client why its start is not taken over."""
    with suppress(OSError):
        client.sendall(f"{reason}\n".encode())
