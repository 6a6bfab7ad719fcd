"""The warden, a small process that ends all of its owner's processes when the owner ends.

::

    owner ── socket ──► warden ── fork ──► keeper ── spawn ──► the command ──► its tree
      └────────────── channel ───────────────┘

For each command, the owner sends one byte together with the descriptors of a channel and of the
command's standard streams. An idle keeper receives the descriptors, reads the request from the
channel, starts the command in a separate process session, and writes::

    started PID        (or: failed ERRNO folder|program)
    left CODE          (only if processes may continue)
    ended CODE LEFT

CODE is the exit code, or a negative signal number. LEFT is 1 if the command exited and left
processes that had to be ended, and otherwise 0. If the owner allows such processes to continue, the
keeper writes ``left`` when the command has exited and some of its processes are still running.
Before ``ended``, the owner may write a number of seconds. The keeper then sends SIGTERM to the
command, and ends the process tree after this time. Warden and keepers are subreapers: a process
that outlives its parent becomes their child, even after ``setsid`` or a double fork.

- If the command exits, the processes that it left have ``LINGER`` seconds to finish. They are then
  ended or reported as ``left``.
- If the channel ends, the command is no longer needed, and its tree is ended.
- If the warden dies, each keeper's lifeline ends, and the keeper ends its tree.
- If a keeper dies, the processes in its tree become the warden's children, and are ended.
- If the owner dies, its end of every socket closes, and all of the above happens.

The module runs outside the package and imports only small modules of the standard library, so that
starting and forking stay fast. On systems without subreapers (all except Linux), the same code ends
only the command's process group.
"""

from __future__ import annotations

import _socket  # importing socket takes as long as all other imports
import errno
import marshal
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    # Arguments, working directory and environment of the command; whether processes that it leaves
    # may continue; whether the command is a sandbox that reports them; whether the command is a
    # spare process, which gets a control socket.
    Request = tuple[list[bytes], bytes, Mapping[bytes, bytes], bool, bool, bool]

LINGER = 0.1
"""Seconds that processes left by an exited command have to finish, for example to write output."""
ROUND = 0.01
"""Maximum number of seconds between two attempts to kill the remaining processes."""
GIVE_UP = 4.0
"""Seconds after which a tree that cannot be killed is abandoned: it belongs to another user, or is
stuck in a system call.
"""
SEATS = 3
"""Maximum number of keepers that wait for another command. Other keepers end with their command."""
NOTICE = 9
"""The descriptor on which a sandbox writes the exit code of its command when that has exited and
left processes running.
"""
CONTROL = 8
"""The descriptor of the control socket, from which a spare process reads what to run."""
REPORT = 7
"""The descriptor on which a spare process may write ``ended CODE 0`` in place of the keeper, when
every process that its command started has ended. The owner then has the spare process itself ended.
"""
FAREWELL = 2.0
"""Seconds that the command of ``hilum-warden`` has to exit after SIGTERM."""
NEVER = float("inf")


def contained() -> bool:
    """Return whether this system can contain whole process trees, not only process groups."""
    return sys.platform == "linux" and os.path.exists("/proc/self/stat")


def note_signals() -> None:
    """Record signals instead of acting on them, also in all processes forked from this one."""
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # The handler is a function and not SIG_IGN, because only signals with a Python handler are
        # written to the wakeup descriptor.
        signal.signal(number, lambda *_: None)


def become_subreaper() -> int:
    """Make this process the parent of its orphaned descendants, and record its signals.

    Returns:
        A file descriptor from which the numbers of received signals can be read.
    """
    if contained():
        # Importing ctypes takes a third of the warden's start time, and a process that only imports
        # this module does not need it.
        import ctypes

        ctypes.pythonapi.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    wake, noted = os.pipe()
    os.set_blocking(noted, False)
    signal.set_wakeup_fd(noted, warn_on_full_buffer=False)
    return wake


def watch(*sources: int) -> select.poll:
    """Create a poll object that waits until one of the file descriptors is readable."""
    poll = select.poll()
    for fd in sources:
        poll.register(fd, select.POLLIN)
    return poll


def watch_process(pid: int) -> list[int]:
    """Return a list with a file descriptor that becomes readable when a process ends.

    The list is empty on systems without pidfds.
    """
    try:
        return [os.pidfd_open(pid)]
    except (AttributeError, OSError):
        return []


def children() -> list[int]:
    """Return the pids of this process's children, including those that have exited.

    The list is empty on systems that do not report the children of a process.
    """
    if not contained():
        return []
    try:
        with open("/proc/thread-self/children") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:  # the Linux kernel may lack this file; every process is then checked
        me = str(os.getpid()).encode()
        found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb", 0) as file:
                    stat = file.read(512)
            except OSError:
                continue
            # The program's name, which is in parentheses, may itself contain parentheses and
            # spaces.
            if stat[stat.rindex(b")") + 4 :].split(b" ", 1)[0] == me:
                found.append(int(name))
    return found


def reap() -> tuple[dict[int, int], bool]:
    """Reap the children that have exited; return exit codes by pid, and whether a child is left."""
    codes: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return codes, False
        if not pid:
            return codes, True
        codes[pid] = os.waitstatus_to_exitcode(status)


def kill_group(group: int, number: int = 9) -> None:
    """Send a signal to a process group, unless the group is this process's own or has ended."""
    try:
        if group != os.getpgrp():
            os.killpg(group, number)
    except OSError:
        pass


def kill_children(spare: Collection[int] = ()) -> bool:
    """Kill the children of this process and their process groups, except those to spare.

    Grandchildren become children as their parents die; the caller repeats this until there are no
    children left.

    Returns:
        Whether there was a child to kill.
    """
    # Only direct children are killed: no other process can reap a child, so the system cannot have
    # reused its pid.
    found = [pid for pid in children() if pid not in spare]
    for pid in found:
        try:
            kill_group(os.getpgid(pid))
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    return bool(found)


def end_all(keepers: Collection[int]) -> None:
    """Wait for the keepers to end, and kill all other children."""
    begun = time.monotonic()
    while reap()[1] and time.monotonic() < begun + 2 * GIVE_UP:
        kill_children(keepers if time.monotonic() < begun + GIVE_UP else ())
        time.sleep(ROUND / 5)


def fork(body: Callable[[], int]) -> int:
    """Run a function in a forked process and exit with its result.

    The exit code is 1 if the function raises an exception.

    Returns:
        The id of the new process, or 0 if the system cannot create another process.
    """
    try:
        pid = os.fork()
        if pid:
            return pid
    except OSError:
        return 0
    code = 1
    try:
        code = body()
    finally:
        # _exit is used so that the parent's buffers are not flushed and its exit handlers not run a
        # second time.
        os._exit(code)


def start(
    stdio: Sequence[int],
    argv: list[bytes],
    cwd: bytes,
    env: Mapping[bytes, bytes],
    notice: int = -1,
    control: int = -1,
    report: int = -1,
) -> int:
    """Start the command in a new process session, with default signals.

    All other file descriptors are closed in the command, because they are not inheritable.
    """
    # posix_spawn has no portable way to set the working directory of the child.
    os.chdir(cwd)
    try:
        if b"PATH" in env:
            # posix_spawnp would otherwise search this process's PATH for the program, and not the
            # command's.
            os.putenv(b"PATH", env[b"PATH"])
        else:
            os.unsetenv(b"PATH")
        actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(stdio)]
        for fd, number in ((notice, NOTICE), (control, CONTROL), (report, REPORT)):
            if fd >= 0:
                actions.append((os.POSIX_SPAWN_DUP2, fd, number))
        # No process can change the actions for these two signals.
        default = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
        return os.posix_spawnp(
            argv[0], argv, env, file_actions=actions, setsid=True, setsigmask=(), setsigdef=default
        )
    finally:
        os.chdir("/")


def move_up(fd: int) -> int:
    """Return a descriptor for the same file with a number above those that a command inherits.

    The given descriptor is closed if the number differs. A negative number stays as it is.
    """
    low = []
    while 0 <= fd <= NOTICE:
        low.append(fd)
        fd = os.dup(fd)  # the new descriptor is not inheritable
    for each in low:
        os.close(each)
    return fd


def tell(channel: int, text: str) -> None:
    """Write a line to a channel.

    If the reader is gone, the error is ignored.
    """
    try:
        os.write(channel, f"{text}\n".encode())
    except OSError:
        pass


def hear(channel: int) -> bytes:
    """Read the data that arrived on a channel; empty data means that the channel has ended."""
    try:
        return os.read(channel, 4096)
    except OSError:
        return b""


def end_children(number: int) -> None:
    """Send a signal to the children of this process and to their process groups.

    The children are the processes that an exited command left.
    """
    for pid in children():
        try:
            kill_group(os.getpgid(pid), number)
            os.kill(pid, number)
        except OSError:
            pass


class Keeper:
    """The supervisor of one command, which ends all processes that the command started.

    Args:
        channel: File descriptor of the connection to the owner.
        lifelines: File descriptors that reach end-of-file when the command is no longer needed.
        wake: File descriptor that becomes readable on a signal.
        main: Process id of the command.
        notice: File descriptor on which a sandbox reports that the command inside it has exited and
            left processes running; -1 for none.
        hold: Whether processes that an exited command left running may continue until the owner
            ends them.
    """

    def __init__(
        self,
        channel: int,
        lifelines: Sequence[int],
        wake: int,
        main: int,
        notice: int = -1,
        *,
        hold: bool = False,
    ) -> None:
        self.channel = channel
        self.wake = wake
        self.main = main
        self.notice = notice
        self.hold = hold
        self.poll: select.poll = watch(channel, wake, *lifelines)
        if notice >= 0:
            self.poll.register(notice, select.POLLIN)
        self.code: int = -signal.SIGKILL
        self.running: bool = True
        # Whether the command exited before it was stopped, and whether processes that it had left
        # were killed.
        self.exited_alone: bool = False
        self.swept: bool = False
        # Whether a lifeline has ended, which means that the owner is gone and nobody reads reports.
        self.lost: bool = False
        self.kill_at: float = NEVER
        self.report_at: float = NEVER

    def run(self) -> int:
        """Supervise the command until its whole tree has ended.

        Returns:
            The command's exit code in a shell's form.

        Raises:
            TimeoutError: The process tree cannot be killed. The warden will try again when this
                process has ended.
        """
        while True:
            codes, left = reap()
            now = time.monotonic()
            if self.main in codes:
                self.on_exit(codes[self.main], now)
            if not left or now > self.kill_at + GIVE_UP:
                break
            if now >= self.report_at:
                self.report_left()
            if now >= self.kill_at:
                self.kill()
            self.handle_events(now)
        if not self.lost:
            tell(self.channel, f"ended {self.code} {int(self.swept)}")
        if left:
            raise TimeoutError
        return self.code if self.code >= 0 else 128 - self.code

    def on_exit(self, code: int, now: float) -> None:
        """Handle the exit of the command."""
        self.exited_alone = self.kill_at == NEVER
        self.code = code
        self.running = False
        # Without subreapers, it is not known which processes are left, so none can be allowed to
        # continue.
        if self.hold and contained():
            self.report_at = now + LINGER
        else:
            self.kill_at = min(self.kill_at, now + LINGER)
        if not contained():
            kill_group(self.main)

    def report_left(self) -> None:
        """Report that the command has exited and left processes, unless they will be ended."""
        self.report_at = NEVER
        if self.kill_at == NEVER:
            tell(self.channel, f"left {self.code}")

    def kill(self) -> None:
        """Kill the command, and the processes that became children of this one."""
        if self.running:
            kill_group(self.main)
        killed = kill_children()
        self.swept = self.swept or (killed and self.exited_alone)

    def handle_events(self, now: float) -> None:
        """Wait for an event on any descriptor until the next deadline, and handle it."""
        if now >= self.kill_at:
            timeout = ROUND
        else:
            # poll accepts only a finite timeout, and NEVER is infinite.
            timeout = min(max(min(self.kill_at, self.report_at) - now, 0), 1e6)
        for fd, _ in self.poll.poll(1000 * timeout):
            if fd == self.wake:
                os.read(fd, 4096)
            elif fd == self.notice:
                self.poll.unregister(fd)
                exit_code = hear(fd)
                if exit_code:
                    tell(self.channel, f"left {int(exit_code)}")
            else:
                request = hear(fd) if fd == self.channel else b""
                if request:
                    self.stop(float(request.split()[-1]))
                    continue
                self.poll.unregister(fd)
                self.kill_at = now
                self.lost = self.lost or fd != self.channel

    def stop(self, grace: float) -> None:
        """Send SIGTERM, and end the process tree after ``grace`` seconds."""
        # A second request can shorten the time, but never extend it.
        self.kill_at = min(self.kill_at, time.monotonic() + grace)
        if self.running:
            kill_group(self.main, signal.SIGTERM)
        else:
            end_children(signal.SIGTERM)


def run(
    channel: int, lifelines: Sequence[int], wake: int, stdio: Sequence[int], request: Request
) -> int:
    """Start a command and supervise it.

    Args:
        channel: File descriptor of the connection to the owner.
        lifelines: File descriptors that reach end-of-file when the command is no longer needed.
        wake: File descriptor that becomes readable on a signal.
        stdio: File descriptors of the three standard streams and, for a spare process, of the
            control socket.
        request: What to start.
    """
    argv, cwd, env, hold, reports, is_spare = request
    notice = -1
    given = -1
    control = -1
    report = -1
    if hold and reports:
        notice, given = os.pipe()
    if is_spare:
        # Copying one of these descriptors to its number must not overwrite another.
        *stdio, control = map(move_up, stdio)
        given = move_up(given)
        report = move_up(os.dup(channel))
    try:
        main = start(stdio, argv, cwd, env, given, control, report)
    except (OSError, ValueError) as error:
        what = "folder" if getattr(error, "filename", None) == cwd else "program"
        tell(channel, f"failed {getattr(error, 'errno', errno.EINVAL)} {what}")
        print(f"hilum-warden: the command could not be started: {error}", file=sys.stderr)
        return 127
    finally:
        for fd in (*stdio, given, control, report):
            if fd >= 0:
                os.close(fd)
    tell(channel, f"started {main}")
    try:
        return Keeper(channel, lifelines, wake, main, notice, hold=hold).run()
    finally:
        if notice >= 0:
            os.close(notice)


def be_keeper(sock: _socket.socket, news: int, seats: int, lifeline: int) -> None:
    """Wait for a request on the owner's socket, report the request to the warden, and carry it out.

    The keeper then waits for another request if there is a free seat.
    """
    wake = become_subreaper()
    poll = watch(sock.fileno(), lifeline)
    seat = b""
    while lifeline not in dict(poll.poll()):
        try:
            _, extra, _, _ = sock.recvmsg(1, _socket.CMSG_SPACE(20), _socket.MSG_DONTWAIT)
        except BlockingIOError:  # another keeper was faster
            continue
        received = b"".join(data for _, _, data in extra)
        descriptors = memoryview(received).cast("i").tolist()
        # The owner has closed its socket.
        if not descriptors:
            return
        os.write(news, b"+")
        for fd in descriptors:
            # If the command's processes inherited the file descriptors, they would keep the streams
            # open.
            os.set_inheritable(fd, False)
        channel, stdout, stderr, *more = descriptors
        try:
            with open(channel, "rb") as file:
                request = marshal.load(file)
                control = [more.pop()] if request[-1] else []
                # The warden's own standard input is the null device.
                stdio = [*(more or [os.dup(0)]), stdout, stderr, *control]
                run(channel, [lifeline], wake, stdio, request)
            seat = seat or os.read(seats, 1)
        except (EOFError, BlockingIOError):  # the owner withdrew the request, or no seat is free
            return
        os.write(news, b"-")


def serve(fd: int, owner: int) -> None:
    """Run the warden of the process ``owner`` until either of them ends.

    Requests arrive over the socket ``fd``. An idle keeper always exists and takes the next request
    itself, which halves the time needed to start a command.
    """
    os.set_inheritable(fd, False)
    os.chdir("/")
    note_signals()
    sock = _socket.socket(fileno=fd)
    wake = become_subreaper()
    lifeline, grip = os.pipe()
    told, news = os.pipe()
    seats, seat = os.pipe()
    os.set_blocking(seats, False)
    # A pipe serves as a semaphore: each byte is a seat, and reading one is atomic between
    # processes.
    os.write(seat, b"-" * SEATS)
    # A process that the owner forked may have a copy of the socket, so the owner itself is also
    # watched.
    poll = watch(told, wake, *watch_process(owner))
    poll.register(fd, 0)  # for its closing only, because the keepers read the requests
    keepers: set[int] = set()
    idle = 0
    sweep_until = 0.0

    def body() -> int:
        os.close(grip)
        be_keeper(sock, news, seats, lifeline)
        return 0

    while True:
        if not idle:
            pid = fork(body)
            if pid:
                keepers.add(pid)
                idle = 1
        ready = dict(poll.poll(1000 * ROUND if sweep_until or not idle else None))
        # The owner has ended, or has closed its end of the socket.
        if ready.keys() - {told, wake}:
            break
        if wake in ready:
            os.read(wake, 4096)
        if told in ready:
            reports = os.read(told, 4096)
            idle = max(idle + reports.count(b"-") - reports.count(b"+"), 0)
        codes, _ = reap()
        keepers -= codes.keys()
        if any(codes.values()):
            # A keeper failed, perhaps an idle one. The process tree that it supervised now belongs
            # to this process.
            idle = 0
            sweep_until = time.monotonic() + GIVE_UP
        if sweep_until and (not kill_children(keepers) or time.monotonic() > sweep_until):
            sweep_until = 0.0
    os.close(grip)
    end_all(keepers)


def main() -> int:
    """Run ``hilum-warden -- CMD ARGS…``.

    The command's process tree ends when the command, this process or the parent of this process
    ends.

    Returns:
        The command's exit code, 128 plus the number of the signal that ended it, 127 if it could
        not be started, or 2 for wrong usage.
    """
    argv = [os.fsencode(arg) for arg in sys.argv[1:]]
    if argv[:1] != [b"--"] or not argv[1:]:
        print("usage: hilum-warden -- COMMAND [ARGUMENT …]", file=sys.stderr)
        return 2
    note_signals()
    stdio = [os.dup(number) for number in range(3)]
    parent = watch_process(os.getppid())
    ours, theirs = (end.detach() for end in _socket.socketpair())
    lifeline, grip = os.pipe()
    wake = become_subreaper()

    def body() -> int:
        os.setsid()  # signals to the caller's process group must not reach the keeper
        os.close(grip)
        request = (argv[1:], os.getcwdb(), os.environb, False, False, False)
        return run(theirs, [lifeline, *parent], become_subreaper(), stdio, request)

    keeper = fork(body)
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(2):
        os.dup2(null, number)
        # This process must not keep the pipe open, so that the reader of the command's output
        # reaches end-of-file when the command ends.
        os.close(stdio[number])
    codes: dict[int, int] = {}
    while keeper not in codes:
        if set(os.read(wake, 4096)) - {signal.SIGCHLD}:
            tell(ours, str(FAREWELL))
        codes |= reap()[0]
    end_all(())
    # For a signal, the exit code is 128 plus the signal number, as in a shell.
    if codes[keeper] >= 0:
        return codes[keeper]
    return 128 - codes[keeper]
