"""The warden: a small process that ends whatever its owner started, however that ends.

::

    owner ── socket ──► warden ── fork ──► keeper ── spawn ──► the command ──► its tree
      └────────────── channel ───────────────┘

For each command the owner sends one byte, and with it the descriptors of a channel and of the
command's stdio. An idle keeper takes them, reads the request from the channel, starts the command
in a session of its own, and writes::

    started PID      or      failed ERRNO folder|program      then      left CODE, if it may      then      ended CODE LEFT

CODE is below zero for a signal; LEFT is 1 if the command exited and left something that had to be
ended, else 0. ``left`` comes where the owner lets what a command leaves go on: the command has
exited, and something of it still runs. In between the owner may write a time in seconds: ask the
command to go with SIGTERM, and end the tree after that time. Warden and keepers are subreapers: a
process that outlives its parent becomes their child, and neither ``setsid`` nor a double fork
changes that.

- The command exits: what it left gets ``LINGER`` to finish by itself, and is then ended, or
  reported as ``left``.
- The channel ends: nobody wants the command any more; its tree is ended.
- The warden dies: each keeper's lifeline ends, and with it the keeper's tree.
- A keeper dies: its tree becomes the warden's children, and is ended.
- The owner dies: its end of every socket closes, and all of the above happens.

It runs outside the package, on nothing but the standard library's fast parts, so that start and
fork stay cheap. Where there are no subreapers (not Linux) the same code ends the command's process
group and no more.
"""

from __future__ import annotations

import _socket  # socket itself takes as long to import as all the rest
import errno
import marshal
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False  # typing takes long, too
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    # Arguments, working directory, environment; whether what it leaves goes on; whether it is a
    # sandbox that reports that.
    Request = tuple[list[bytes], bytes, Mapping[bytes, bytes], bool, bool]

LINGER = 0.1
"""Seconds for what an exited command left behind: a ``tee`` may still have to write."""
ROUND = 0.01
"""Seconds between two rounds of killing, at most."""
GIVE_UP = 4.0
"""Seconds after which a tree that cannot be killed (another user's, or stuck in the system) is left
to itself.
"""
SEATS = 3
"""Keepers that wait for another command when theirs has ended; those beyond end with it."""
NOTICE = 9
"""The descriptor on which a sandbox writes the exit code of its command when that has exited and
left something running.
"""
FAREWELL = 2.0
"""Seconds that ``hilum-warden`` gives its command to go by itself when it is told to stop."""


def contained() -> bool:
    """Return whether whole trees can be held on this system, or process groups only."""
    return sys.platform == "linux" and os.path.exists("/proc/self/stat")


def note_signals() -> None:
    """Have signals noted instead of acted on, here and in every process forked from here."""
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)


def settle() -> int:
    """Make this very process the parent of its orphaned descendants, and the noter of its own
    signals.

    Returns:
        A descriptor that the numbers of signals can be read from.
    """
    if contained():
        # A third of the warden's start; the owner may import this module and does not need it
        import ctypes

        ctypes.pythonapi.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    wake, noted = os.pipe()
    os.set_blocking(noted, False)
    signal.set_wakeup_fd(noted, warn_on_full_buffer=False)
    return wake


def watch(*sources: int) -> select.poll:
    """Build a poll of descriptors for reading."""
    poll = select.poll()
    for fd in sources:
        poll.register(fd, select.POLLIN)
    return poll


def watch_process(pid: int) -> list[int]:
    """Return a descriptor that becomes readable when a process dies.

    None where the system has no such thing.
    """
    try:
        return [os.pidfd_open(pid)]
    except (AttributeError, OSError):
        return []


def children() -> list[int]:
    """List the children of this process, the ones that exited included.

    None where the system does not tell.
    """
    if not contained():
        return []
    try:
        with open("/proc/thread-self/children") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:  # a Linux built without it: look at every process
        me = str(os.getpid()).encode()
        found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb", 0) as file:
                    stat = file.read(512)
            except OSError:
                continue
            if stat[stat.rindex(b")") + 4 :].split(b" ", 1)[0] == me:
                found.append(int(name))
    return found


def reap() -> tuple[dict[int, int], bool]:
    """Collect the children that exited: their exit codes by pid, and whether any child is left."""
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
    """Send a signal to a process group, if it is there and not one's own."""
    try:
        if group != os.getpgrp():
            os.killpg(group, number)
    except OSError:
        pass


def kill_children(spare: Collection[int] = ()) -> bool:
    """Kill the children of this process, each with its group, except those to spare.

    Tell whether there was one.

    Only children are named, never their children: nobody else can reap a child, so no pid can have
    become a stranger's. The grandchildren become children as their parents die; the caller comes
    again until none is left.
    """
    found = [pid for pid in children() if pid not in spare]
    for pid in found:
        try:
            kill_group(os.getpgid(pid))
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    return bool(found)


def end_all(keepers: Collection[int]) -> None:
    """Wait for keepers that have been told to end, and kill whatever else is left."""
    begun = time.monotonic()
    while reap()[1] and time.monotonic() < begun + 2 * GIVE_UP:
        kill_children(keepers if time.monotonic() < begun + GIVE_UP else ())
        time.sleep(ROUND / 5)


def fork(body: Callable[[], int]) -> int:
    """Run a function in a forked process; what it returns is the exit code, and 1 if it raises.

    Returns:
        The process id, or 0 if the system has no room for one.
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
        os._exit(code)


def start(
    stdio: Sequence[int],
    argv: list[bytes],
    cwd: bytes,
    env: Mapping[bytes, bytes],
    notice: int = -1,
) -> int:
    """Start the command in a session of its own, with default signals.

    All other descriptors close by themselves.
    """
    os.chdir(cwd)
    try:
        if b"PATH" in env:
            os.putenv(
                b"PATH", env[b"PATH"]
            )  # the program is looked for where the command would look
        else:
            os.unsetenv(b"PATH")
        actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(stdio)]
        if notice >= 0:
            actions.append((os.POSIX_SPAWN_DUP2, notice, NOTICE))
        default = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
        return os.posix_spawnp(
            argv[0], argv, env, file_actions=actions, setsid=True, setsigmask=(), setsigdef=default
        )
    finally:
        os.chdir("/")


def tell(channel: int, text: str) -> None:
    """Write a line to a channel; that nobody is there to read it shows elsewhere."""
    try:
        os.write(channel, f"{text}\n".encode())
    except OSError:
        pass


def hear(channel: int) -> bytes:
    """Read what has come over a channel; nothing means that it has ended."""
    try:
        return os.read(channel, 4096)
    except OSError:
        return b""


def end_children(number: int) -> None:
    """Send a signal to the children of this process, each with its group: what a command left that
    has exited.
    """
    for pid in children():
        try:
            kill_group(os.getpgid(pid), number)
            os.kill(pid, number)
        except OSError:
            pass


def keep(
    channel: int,
    lifelines: Sequence[int],
    wake: int,
    main: int,
    notice: int = -1,
    *,
    hold: bool = False,
) -> int:
    """Be the keeper of a command that runs: end everything that came of it.

    Args:
        channel: Connection to the owner.
        lifelines: Descriptors that end when nobody wants the command any more.
        wake: Descriptor that tells of signals.
        main: Process id of the command.
        notice: Where a sandbox reports that the command inside it has exited and left something
            running; -1 for none.
        hold: Whether what an exited command left may go on until the owner asks for its end.

    Returns:
        The command's exit code, as a shell would give it.
    """
    poll = watch(channel, wake, *lifelines)
    if notice >= 0:
        poll.register(notice, select.POLLIN)
    code = -signal.SIGKILL
    lost = False
    kill_at = float("inf")
    running = True
    by_itself = False
    swept = False
    report_at = float("inf")
    while True:
        codes, left = reap()
        now = time.monotonic()
        if main in codes:
            by_itself = kill_at == float("inf")
            code = codes[main]
            running = False
            if hold and contained():
                report_at = now + LINGER
            else:
                kill_at = min(kill_at, now + LINGER)
            if not contained():
                kill_group(main)
        if not left or now > kill_at + GIVE_UP:
            break
        if now >= report_at:
            report_at = float("inf")
            if kill_at == float("inf"):
                tell(channel, f"left {code}")
        if now >= kill_at:
            if running:
                kill_group(main)
            swept |= kill_children() and by_itself
        until = min(kill_at, report_at)
        for fd, _ in poll.poll(1000 * (ROUND if now >= kill_at else min(max(until - now, 0), 1e6))):
            if fd == wake:
                os.read(wake, 4096)
            elif fd == notice:
                poll.unregister(fd)
                said = hear(fd)
                if said:
                    tell(channel, f"left {int(said)}")
            elif fd == channel and (said := hear(channel)):
                kill_at = min(kill_at, time.monotonic() + float(said.split()[-1]))
                if running:
                    kill_group(main, signal.SIGTERM)
                else:
                    end_children(signal.SIGTERM)
            else:
                poll.unregister(fd)
                kill_at = now
                lost = lost or fd != channel
    if not lost:
        tell(channel, f"ended {code} {int(swept)}")
    if left:
        raise TimeoutError  # the warden may have more luck
    return code if code >= 0 else 128 - code


def run(
    channel: int, lifelines: Sequence[int], wake: int, stdio: Sequence[int], request: Request
) -> int:
    """Start a command, and keep it."""
    argv, cwd, env, hold, reports = request
    notice, given = os.pipe() if hold and reports else (-1, -1)
    try:
        main = start(stdio, argv, cwd, env, given)
    except (OSError, ValueError) as error:
        what = "folder" if getattr(error, "filename", None) == cwd else "program"
        tell(channel, f"failed {getattr(error, 'errno', errno.EINVAL)} {what}")
        print(f"hilum-warden: the command could not be started: {error}", file=sys.stderr)
        return 127
    finally:
        for fd in (*stdio, *([given] if given >= 0 else [])):
            os.close(fd)
    tell(channel, f"started {main}")
    try:
        return keep(channel, lifelines, wake, main, notice, hold=hold)
    finally:
        if notice >= 0:
            os.close(notice)


def be_keeper(sock: _socket.socket, news: int, seats: int, lifeline: int) -> None:
    """Wait for a request on the owner's socket, tell the warden of it, see to it, and wait again if
    there is a free seat.
    """
    wake = settle()
    poll = watch(sock.fileno(), lifeline)
    seat = b""
    while lifeline not in dict(poll.poll()):
        try:
            _, extra, _, _ = sock.recvmsg(1, _socket.CMSG_SPACE(16), _socket.MSG_DONTWAIT)
        except BlockingIOError:  # another keeper was faster
            continue
        descriptors = memoryview(b"".join(part for _, _, part in extra)).cast("i").tolist()
        if not descriptors:
            return
        os.write(news, b"+")
        for fd in descriptors:
            os.set_inheritable(fd, False)
        channel, stdout, stderr, *stdin = descriptors
        try:
            with open(channel, "rb") as file:
                request = marshal.load(file)
                run(channel, [lifeline], wake, [*(stdin or [os.dup(0)]), stdout, stderr], request)
            seat = seat or os.read(seats, 1)
        except (EOFError, BlockingIOError):  # the owner has thought better of it; no seat is free
            return
        os.write(news, b"-")


def serve(fd: int, owner: int) -> None:
    """Be the warden of the process ``owner``, whose requests come over the socket ``fd``, until
    either is gone.

    An idle keeper is always there and takes the next request itself: this halves what a command
    costs.
    """
    os.set_inheritable(fd, False)
    os.chdir("/")
    note_signals()
    sock = _socket.socket(fileno=fd)
    wake = settle()
    (lifeline, grip), (told, news), (seats, seat) = os.pipe(), os.pipe(), os.pipe()
    os.set_blocking(seats, False)
    os.write(seat, b"-" * SEATS)
    # A process that the owner forked may hold a copy of the socket, so the owner itself is watched
    # as well.
    poll = watch(told, wake, *watch_process(owner))
    poll.register(fd, 0)  # its end only: what comes is for the keepers
    keepers: set[int] = set()
    idle = 0
    sweep_until = 0.0

    def body() -> int:
        os.close(grip)
        be_keeper(sock, news, seats, lifeline)
        return 0

    while True:
        if not idle and (pid := fork(body)):
            keepers.add(pid)
            idle = 1
        ready = dict(poll.poll(1000 * ROUND if sweep_until or not idle else None))
        if ready.keys() - {told, wake}:
            break
        if wake in ready:
            os.read(wake, 4096)
        if told in ready:
            said = os.read(told, 4096)
            idle = max(idle + said.count(b"-") - said.count(b"+"), 0)
        codes, _ = reap()
        keepers -= codes.keys()
        if any(
            codes.values()
        ):  # a keeper that did not end as it should, maybe an idle one: what it kept is now here
            idle = 0
            sweep_until = time.monotonic() + GIVE_UP
        if sweep_until and (not kill_children(keepers) or time.monotonic() > sweep_until):
            sweep_until = 0.0
    os.close(grip)
    end_all(keepers)


def main() -> int:
    """Run ``hilum-warden -- CMD ARGS…``: a command whose tree ends with it, with this process, or
    with its parent.

    Returns:
        The command's exit code, 128 plus the signal that ended it, 127 if it could not be started,
        2 for a wrong call.
    """
    argv = [os.fsencode(arg) for arg in sys.argv[1:]]
    if argv[:1] != [b"--"] or not argv[1:]:
        print("usage: hilum-warden -- COMMAND [ARGUMENT …]", file=sys.stderr)
        return 2
    note_signals()
    stdio = [os.dup(number) for number in range(3)]
    parent = watch_process(os.getppid())
    ours, theirs = (end.detach() for end in _socket.socketpair())
    (lifeline, grip), wake = os.pipe(), settle()

    def body() -> int:
        os.setsid()  # what is sent to the caller's group must not reach the keeper
        os.close(grip)
        return run(
            theirs,
            [lifeline, *parent],
            settle(),
            stdio,
            (argv[1:], os.getcwdb(), os.environb, False, False),
        )

    keeper = fork(body)
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(2):
        os.dup2(null, number)
        os.close(stdio[number])
    codes: dict[int, int] = {}
    while keeper not in codes:
        if set(os.read(wake, 4096)) - {signal.SIGCHLD}:
            tell(ours, str(FAREWELL))
        codes |= reap()[0]
    end_all(())
    if codes[keeper] >= 0:
        return codes[keeper]
    return 128 - codes[keeper]
