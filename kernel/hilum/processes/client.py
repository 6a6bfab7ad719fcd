"""The trio client of the warden, which starts commands, communicates with them, and ends them.

Every command runs under the warden (see ``warden``). When the command exits, is stopped or is
cancelled, or when the process that started it dies for any reason, none of the command's child
processes keeps running.
"""

from __future__ import annotations

import marshal
import os
import select
import socket
import sys
import time
from array import array
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from errno import E2BIG, EAGAIN, EINVAL, ENOENT
from subprocess import DEVNULL
from typing import NamedTuple, Self

import attrs
import trio

from hilum.errors import ToolError

GRACE = 0.15
"""Default number of seconds between SIGTERM and SIGKILL: stopping a command takes less than 0.2."""

READY = b"r"
"""What a spare process answers when it waits for its command."""
BEGUN = b"b"
"""What a spare process answers before it starts its command."""
ANSWER_SECONDS = 3.0
"""Time in which a spare process must begin its command."""
_PATIENCE = 4.5  # seconds that the keeper has to end a process tree, in addition to the grace
_DRAIN = 2.0  # seconds in which the rest of an ended command's output is read
_CHUNK_BYTES = 65536
_MAX_REST_BYTES = 1 << 21  # twice the size to which a program can enlarge a pipe
_LOST = "The process that supervises this command was killed, and the command was ended with it."
_FOLDER = os.path.dirname(os.path.abspath(__file__))
_START = (
    "import sys; sys.path.append(sys.argv[1]); import warden; warden.serve(int(sys.argv[2]),"
    " int(sys.argv[3]))"
)


class CommandError(ToolError):
    """A command could not be started, or its keeper was killed."""

    code = "E_CMD_FAIL"


class CommandLost(CommandError):
    """A running command was ended, because its keeper was killed."""


class Streams(NamedTuple):
    """How a process is connected to this one, with the meanings of ``Warden.open``.

    Args:
        stdin: Whether it gets a pipe to read from.
        merge: Whether its standard error is merged into its standard output.
        hold: Whether processes that its command leaves running may continue.
    """

    stdin: bool = False
    merge: bool = False
    hold: bool = False


@attrs.frozen
class Command:
    """The description of a child process to start.

    Args:
        argv: Program and arguments; no shell is involved.
        cwd: Absolute path of the working directory; by default, that of this process.
        env: The complete environment of the child; by default, that of this process.
        reports: Whether the program is a sandbox that writes to file descriptor 9 when its command
            has exited and left processes running.
        read_only: Whether the command only reads the workspace, so that a sandbox need not let it
            write there.
        take_spare: Returns the process that was started ahead of time for exactly this command, if
            there is one with these streams. The caller owns the process and must close it.
    """

    argv: tuple[str, ...]
    cwd: str = attrs.field(factory=os.getcwd)
    env: dict[str, str] = attrs.field(factory=lambda: dict(os.environ))
    reports: bool = False
    read_only: bool = False
    take_spare: Callable[[Streams], Spare | None] | None = attrs.field(
        default=None, eq=False, repr=False
    )


class Completed(NamedTuple):
    """The outcome of a command.

    Args:
        returncode: Exit code; if negative, the signal number that ended the command.
        stdout: The standard output. If the output exceeded the limit, a line replaces its middle
            part.
        stderr: The standard error, limited in the same way.
        seconds: Seconds that the command took.
        dropped: Number of bytes that were left out of the two streams.
    """

    returncode: int
    stdout: bytes
    stderr: bytes
    seconds: float
    dropped: int


class Warden:
    """The process that starts and ends all of its owner's child processes.

    The process starts with the first command. If it is killed, it starts again with the next
    command. The class is an async context manager: on exit, it ends all processes that are still
    running, and waits for their end.
    """

    def __init__(self) -> None:
        self._lock = trio.Lock()
        self._socket: trio.socket.SocketType | None = None
        self._process: trio.Process | None = None

    async def __aenter__(self) -> Self:
        return self

    async def start(self) -> None:
        """Start the process ahead of the first command.

        Raises:
            CommandError: This system cannot run commands.
        """
        async with self._lock:
            if self._process is None:
                await self._start()

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End all processes, and wait until they and the warden have ended.

        A later command starts a new warden.
        """
        if self._socket is not None:
            # The warden ends all processes when its socket is closed, even if this process does not
            # wait.
            self._socket.close()
        if self._process is not None:
            # The wait is shielded, because a caller that is cancelled must not leave processes
            # behind.
            with trio.move_on_after(2 * _PATIENCE, shield=True):
                await self._process.wait()
        self._socket = self._process = None

    async def run(
        self,
        command: Command,
        *,
        input: bytes = b"",
        on_output: Callable[[str, bytes], None] | None = None,
        limit: int = 1_000_000,
        grace: float = GRACE,
        begun: trio.Event | None = None,
    ) -> Completed:
        """Run a command to completion.

        If this method is cancelled, it ends the whole process tree before the cancellation
        propagates.

        Args:
            command: The command.
            input: The standard input of the command.
            on_output: Called with ``"stdout"`` or ``"stderr"`` and each chunk as it arrives. An
                exception in this function ends the command.
            limit: Maximum number of bytes to keep of each stream, half from its beginning and half
                from its end.
            grace: Seconds between SIGTERM and SIGKILL when the method is cancelled.
            begun: Set when the command has been handed to the warden.

        Raises:
            CommandError: The command could not be started, or its keeper was killed.
        """
        began = time.perf_counter()
        stdout = _Window(limit)
        stderr = _Window(limit)
        code = 0
        faults: list[Exception] = []

        def take(name: str, window: _Window, chunk: bytes) -> None:
            window.add(chunk)
            if on_output is not None:
                on_output(name, chunk)

        async def pump(name: str, stream: trio.lowlevel.FdStream, window: _Window) -> None:
            try:
                while chunk := bytes(await stream.receive_some(_CHUNK_BYTES)):
                    take(name, window, chunk)
            except Exception as error:  # raised below, so that the caller gets no exception group
                faults.append(error)
                nursery.cancel_scope.cancel()

        async def feed(stream: trio.lowlevel.FdStream) -> None:
            with suppress(trio.BrokenResourceError):  # the command need not read all input
                await stream.send_all(input)
            stream.close()

        async with self.open(command, stdin=bool(input), grace=grace) as process:
            if begun is not None:
                begun.set()
            windows = {"stdout": (process.stdout, stdout)}
            if process.stderr is not None:
                windows["stderr"] = (process.stderr, stderr)
            async with trio.open_nursery() as nursery:
                for name, (stream, window) in windows.items():
                    nursery.start_soon(pump, name, stream, window)
                if process.stdin is not None:
                    nursery.start_soon(feed, process.stdin)
                try:
                    code = await process.wait()
                except CommandError as error:
                    faults.append(error)
                # No process can write any more, unless the command passed a file descriptor to a
                # process outside its tree.
                nursery.cancel_scope.deadline = process.drain_deadline(_DRAIN)
            if not faults:
                for name, (stream, window) in windows.items():
                    for chunk in process.read_rest(stream):
                        take(name, window, chunk)
        if faults:
            raise faults[0]
        seconds = time.perf_counter() - began
        return Completed(
            code, stdout.value(), stderr.value(), seconds, stdout.dropped + stderr.dropped
        )

    @asynccontextmanager
    async def open(
        self,
        command: Command,
        *,
        stdin: bool = False,
        merge: bool = False,
        grace: float = GRACE,
        hold: bool = False,
    ) -> AsyncIterator[Process]:
        """Start a command and communicate with it.

        Leaving the ``async with`` block ends the whole process tree.

        Args:
            command: The command.
            stdin: Whether the command gets a pipe to read from; otherwise its standard input is
                empty.
            merge: Whether standard error is merged into standard output.
            grace: Seconds between SIGTERM and SIGKILL when the block is left.
            hold: Whether processes that the command leaves running may continue after its exit,
                until they end or are stopped (Linux only).

        Raises:
            CommandError: The command could not be started.
        """
        if not command.argv:
            raise CommandError("There is no command to run.", hint="Name a program.")
        streams = Streams(stdin, merge, hold)
        spare = command.take_spare(streams) if command.take_spare else None
        if spare is not None:
            try:
                if await spare.begin():
                    yield spare.process
                    return
            finally:
                await spare.aclose(grace)
        # Without a spare process, or if it died or no longer fits, the command starts as usual.
        process, given = _connect(streams)
        try:
            await self._begin(process, given, command, streams)
            yield process
        finally:
            await process._finish(grace)

    async def start_spare(self, command: Command, streams: Streams) -> Spare:
        """Start a process that waits for a command.

        The process reads what to run from its control socket (descriptor ``warden.CONTROL``). The
        caller must close the result.

        Args:
            command: The program that waits. ``begin`` makes it run something.
            streams: How the process is connected.

        Raises:
            CommandError: The process could not be started.
        """
        with ExitStack() as stack:
            ours, theirs = map(stack.enter_context, socket.socketpair())
            process, given = _connect(streams)
            stack.pop_all()
        process.is_spare = True
        given.append(theirs.detach())
        control = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
        try:
            await self._begin(process, given, command, streams)
        except BaseException:
            control.socket.close()
            await process._finish(0)
            raise
        return Spare(process, control)

    async def _begin(
        self, process: Process, given: Sequence[int], command: Command, streams: Streams
    ) -> None:
        """Start a command; closes the descriptors ``given``, which belong to it.

        Raises:
            CommandError: The command could not be started.
        """
        try:
            await self._admit(given)
        finally:
            for descriptor in given:
                os.close(descriptor)
        await process._begin(command, streams.hold)

    async def _admit(self, descriptors: Sequence[int]) -> None:
        """Send the file descriptors of a command's channel and standard streams to the warden.

        The caller must close its own copies.
        """
        message = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", descriptors))]
        # Two concurrent commands must not start two wardens.
        async with self._lock:
            if self._process is not None and self._process.returncode is not None:
                await self.aclose()
            try:
                # Descriptors can only be sent along with at least one byte of data (unix(7)).
                await (self._socket or await self._start()).sendmsg([b"+"], message)
            except OSError:  # the warden was just killed: start a new one
                await self.aclose()
                await (await self._start()).sendmsg([b"+"], message)

    async def _start(self) -> trio.socket.SocketType:
        if not hasattr(os, "fork"):
            raise CommandError("Commands cannot be run on this system.", hint="Use Linux or macOS.")
        ours, theirs = socket.socketpair()
        with theirs, ExitStack() as stack:
            stack.enter_context(ours)
            fd = theirs.fileno()
            # -I and -S exclude site packages and PYTHON* variables, for safety and a fast start.
            argv = [sys.executable, "-I", "-S", "-c", _START, _FOLDER, str(fd), str(os.getpid())]
            self._process = await trio.lowlevel.open_process(
                argv,
                stdin=DEVNULL,
                stdout=DEVNULL,
                stderr=DEVNULL,
                pass_fds=[fd],
                # Ctrl-C signals all foreground processes, and the warden must survive to end the
                # others.
                start_new_session=True,
            )
            stack.pop_all()
        self._socket = trio.socket.from_stdlib_socket(ours)
        return self._socket


@attrs.define(eq=False)
class Process:
    """A running command, from ``Warden.open``.

    Args:
        channel: The connection to the command's keeper.
        stdin: The pipe to the command's standard input, if there is one.
        stdout: The pipe from the command's standard output.
        stderr: The pipe from the command's standard error; ``None`` if it is merged into standard
            output.
        pid: The command's process id.
        left: Whether the command exited on its own and left processes running, which were ended.
        is_spare: Whether the process was started ahead of time. It may report that everything that
            its command started has ended before it ends itself.
    """

    _channel: trio.SocketStream
    stdin: trio.lowlevel.FdStream | None
    stdout: trio.lowlevel.FdStream
    stderr: trio.lowlevel.FdStream | None
    pid: int = 0
    left: bool = False
    is_spare: bool = False
    _heard: bytes = b""
    _end: list[str] = attrs.Factory(list)
    _lock: trio.Lock = attrs.Factory(trio.Lock)

    async def wait(self) -> int:
        """Wait until the command has exited and its whole process tree has ended.

        Returns:
            The exit code; if negative, the signal number that ended the command.

        Raises:
            CommandError: Another process killed the warden or the keeper, which also ended the
                command.
        """
        # The end of a command is often known already, and to acquire a lock takes a turn of the event
        # loop.
        if self._is_running:
            async with self._lock:
                while self._is_running:
                    await self._note_report()
        return self._code()

    async def wait_exit(self) -> int:
        """Wait until the command has exited.

        With ``hold``, processes that the command left may still run (see ``remains``).

        Returns:
            The exit code, as for ``wait``.

        Raises:
            CommandError: As for ``wait``.
        """
        async with self._lock:
            while not self._end or self._end[0] == "started":
                await self._note_report()
        return self._code()

    @property
    def _is_running(self) -> bool:
        return not self._end or self._end[0] in ("started", "left")

    @property
    def remains(self) -> bool:
        """Whether the command has exited and left processes that are still running."""
        return bool(self._end) and self._end[0] == "left"

    def drain_deadline(self, seconds: float) -> float:
        """Return until when to wait for more output of an ended command, on trio's clock.

        A sandbox that was built ahead of time reports the end of its command at once, and keeps the
        pipes open for some milliseconds. Everything that the command wrote is in the pipes then, so
        nothing is waited for; ``read_rest`` returns it.

        Args:
            seconds: How long to wait otherwise for the end of the pipes, which comes at once unless
                the command passed its output to a process outside its tree.
        """
        if self._is_reported_early:
            return trio.current_time()
        return trio.current_time() + seconds

    def read_rest(self, stream: trio.lowlevel.FdStream) -> Iterator[bytes]:
        """Yield what is left in one of the output streams when ``drain_deadline`` was reached.

        This method never waits. It yields nothing for a command whose output was read to its end.
        """
        total = 0
        while self._is_reported_early and total < _MAX_REST_BYTES:
            try:
                chunk = os.read(stream.fileno(), _CHUNK_BYTES)
            except OSError:  # the pipe is empty
                return
            if not chunk:
                return
            total += len(chunk)
            yield chunk

    @property
    def _is_reported_early(self) -> bool:
        return self.is_spare and bool(self._end) and self._end[0] == "ended"

    def _code(self) -> int:
        if self._end[0] == "lost":
            raise CommandLost(_LOST, hint="Run the command again if it is safe to repeat.")
        self.left = self._end[0] == "ended" and self._end[2] == "1"
        return int(self._end[1])

    async def stop(self, grace: float = GRACE) -> int:
        """End the command with its whole process tree.

        Args:
            grace: Seconds between SIGTERM to the command's process group and SIGKILL to the whole
                process tree.

        Returns:
            The exit code, as for ``wait``.

        Raises:
            CommandError: As for ``wait``.
        """
        try:
            if not self.pid:
                # The command has not started yet; perhaps only a part of the request was sent.
                self._channel.socket.shutdown(socket.SHUT_WR)
            elif not self._end or self._end[0] == "left":
                await self._channel.socket.send(b"%f\n" % max(grace, 0))
        except OSError:  # the command has just ended
            pass
        return await self.wait()

    async def _begin(self, command: Command, hold: bool) -> None:
        """Send the request to the keeper, and wait until the command runs."""
        try:
            env = {os.fsencode(name): os.fsencode(value) for name, value in command.env.items()}
            argv = [os.fsencode(arg) for arg in command.argv]
            # marshal is built into Python, so the warden starts fast; both ends run the same
            # version.
            request = marshal.dumps(
                (argv, os.fsencode(command.cwd), env, hold, command.reports, self.is_spare)
            )
        # A surrogate that does not represent a byte cannot be encoded for the file system.
        except UnicodeEncodeError:
            raise self._refused(command, EINVAL, "program") from None
        with suppress(trio.BrokenResourceError):  # in this case, the keeper reports the reason
            await self._channel.send_all(request)
        report = await self._report()
        if report[0] == "failed":
            raise self._refused(command, int(report[1]), report[2])
        if report[0] == "lost":
            self._end = report
            await self.wait()
        self.pid = int(report[1])

    async def _note_report(self) -> None:
        self._end = await self._report()

    async def _report(self) -> list[str]:
        while b"\n" not in self._heard:
            more = b""
            with suppress(trio.BrokenResourceError):
                more = await self._channel.receive_some()
            # A keeper reports the end of its command before its channel ends, unless it is killed.
            if not more:
                return ["lost"]
            self._heard += more
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode().split()

    async def _finish(self, grace: float) -> None:
        """End the process tree if it still runs, and close all streams, also after a cancellation."""
        # The wait is shielded, because the caller has usually been cancelled when this code runs.
        with trio.move_on_after(grace + _PATIENCE, shield=True), suppress(CommandError):
            await self.stop(grace)
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self._channel.socket.close()

    def _refused(self, command: Command, number: int, what: str) -> CommandError:
        program = command.argv[0]
        reason = os.strerror(number).lower()
        if what == "folder":
            message = f"The working directory {command.cwd!r} cannot be used: {reason}."
            return CommandError(message, hint="Name a folder that exists.")
        if number == ENOENT and "/" not in program:
            message = f"There is no program {program!r} on the PATH."
            return CommandError(message, hint="Check the name, or install the program.")
        message = f"The program {program!r} cannot be started: {reason}."
        hint = "Check the path and mode of the program, and its arguments."
        if number == E2BIG:
            hint = "Put the long argument into a file."
        elif number == EAGAIN:
            hint = "Too many processes run. End some of them, and run the command again."
        return CommandError(message, hint=hint)


@attrs.define(eq=False)
class Spare:
    """A process that was started ahead of time and waits for its command.

    Args:
        process: The process, which becomes the command's process.
        control: The socket from which the process reads what to run. It answers ``READY`` when it
            waits, and ``BEGUN`` before it starts the command; if the sandbox no longer fits, it
            ends without this answer.
        request: What to run, in the format of the program that waits.
        started: When the process was started (``time.monotonic``).
        is_ready: Whether the process has said that it waits.
    """

    process: Process
    _control: trio.SocketStream
    request: bytes = b""
    started: float = attrs.Factory(time.monotonic)
    is_ready: bool = False
    _heard: bytes = b""
    # Only one task may read from the socket at a time.
    _lock: trio.Lock = attrs.Factory(trio.Lock)

    async def wait_ready(self) -> bool:
        """Wait until the process waits for its command.

        Returns:
            Whether it waits; False if it has ended.
        """
        self.is_ready = await self._hear(READY)
        return self.is_ready

    def has_ended(self) -> bool:
        """Return whether the process has ended or is about to end."""
        if self._control.socket.fileno() < 0:
            return True
        # A process that waits says nothing more, and its socket is open.
        poll = select.poll()
        poll.register(self._control.socket, select.POLLIN)
        return self.is_ready and bool(poll.poll(0))

    async def begin(self) -> bool:
        """Make the process run its command; end it if it does not answer.

        Returns:
            Whether the command has begun. If False, it has not begun and never will.
        """
        with trio.move_on_after(ANSWER_SECONDS):
            with suppress(trio.BrokenResourceError):
                size = len(self.request).to_bytes(8, sys.byteorder)
                await self._control.send_all(size + self.request)
            return await self._hear(BEGUN)
        # For example, somebody has stopped the process. It may still read the request, so it is
        # ended before it is known whether the command has begun: no command may run twice.
        with trio.move_on_after(_PATIENCE), suppress(CommandError):
            await self.process.stop(0)
            return await self._hear(BEGUN)
        return False

    async def aclose(self, grace: float = 0.0) -> None:
        """End the process with its whole process tree, also after a cancellation."""
        self._control.socket.close()
        await self.process._finish(grace)

    async def _hear(self, answer: bytes) -> bool:
        """Read from the socket until an answer; return False if the process ends without it."""
        async with self._lock:
            while answer not in self._heard:
                more = b""
                with suppress(trio.BrokenResourceError):
                    more = await self._control.receive_some()
                if not more:
                    return False
                self._heard += more
        return True


def _connect(streams: Streams) -> tuple[Process, list[int]]:
    """Return a process that is to be started, and the descriptors that it gets.

    The descriptors are those of the channel and of the standard streams.
    """
    given: list[int] = []
    # There may be too few descriptors for all of them.
    with ExitStack() as stack:
        ours, theirs = map(stack.enter_context, socket.socketpair())

        def pipe(kept: int) -> trio.lowlevel.FdStream:
            ends = os.pipe()
            given.append(ends[1 - kept])
            stack.callback(os.close, ends[1 - kept])
            stream = trio.lowlevel.FdStream(ends[kept])
            stack.callback(stream.close)
            return stream

        stdout = pipe(0)
        stderr = None if streams.merge else pipe(0)
        if streams.merge:
            # Standard error shares the pipe of standard output, so that their output arrives in
            # order.
            given.append(os.dup(given[0]))
            stack.callback(os.close, given[-1])
        stdin = pipe(1) if streams.stdin else None
        stack.pop_all()
    channel = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
    return Process(channel, stdin, stdout, stderr), [theirs.detach(), *given]


class _Window:
    """A buffer for the beginning and the end of a stream, at most ``limit`` bytes in total."""

    def __init__(self, limit: int) -> None:
        self._half = max(limit // 2, 1)
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, chunk: bytes) -> None:
        free = self._half - len(self._head)
        self._head += chunk[:free]
        self._tail += chunk[free:]
        self._total += len(chunk)
        if len(self._tail) > 2 * self._half + 65536:  # seldom, because it copies
            del self._tail[: -self._half]

    @property
    def dropped(self) -> int:
        return max(self._total - 2 * self._half, 0)

    def value(self) -> bytes:
        mark = b"\n[... %d bytes left out ...]\n" % self.dropped if self.dropped else b""
        return bytes(self._head + mark + self._tail[-self._half :])
