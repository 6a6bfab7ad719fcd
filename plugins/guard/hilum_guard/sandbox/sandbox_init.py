"""The first process (init) of a sandbox's process namespace.

This program starts the command, reaps the command's processes, and reports how the command ended.
bubblewrap alone would report the death of a command by a signal as an exit code, as shells do.
Therefore this process writes to a descriptor: ``b`` when it starts the command, and then the
outcome: ``s`` and the signal number, or ``e`` for an exit.

Without a command in its arguments, this process is that of a spare sandbox (see ``spares``). It
waits until it reads a command from a socket, or until the socket is closed. It then writes ``u``
(unused) and ends. When everything that the command started has ended, the process of a spare also
tells hilum directly, because removing the namespaces takes several milliseconds.

``landlock.main`` uses the same limits, signals and messages. The module runs outside the package
and imports only built-in modules, because its startup time is most of a sandboxed command's
overhead.
"""

from __future__ import annotations

import posix
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal  # importing `signal` instead takes two milliseconds

STATUS = 3
"""Descriptor to which the outcome of the command is written."""
NOTICE = 9
"""Descriptor that announces that the command has exited and left processes running.

The descriptor is open only if these processes may continue.
"""
CONTROL = 8
"""The socket from which a spare sandbox reads its command (see ``hilum.processes``).

It answers ``r`` when it waits, and ``b`` before it starts the command.
"""
ERRORS = 6
"""Descriptor for the command's errors. This process's own errors are a part of bubblewrap's."""
REPORT = 7
"""Descriptor on which a spare sandbox reports the end of its command to hilum."""
LINGER = 0.1
"""Grace period for remaining processes after the command exits, in seconds; the warden uses the
same value.
"""
_POLL_SECONDS = 0.005
# Options of prctl(2), from linux/prctl.h.
_PR_GET_DUMPABLE = 3
_PR_SET_DUMPABLE = 4
_ERRORS = "surrogateescape"
# The shell script outside the sandbox ignores some signals, and child processes inherit this
# disposition.
_RESTORED = set(_signal.valid_signals()) - {_signal.SIGKILL, _signal.SIGSTOP}
# The exit codes that shells use for a program that cannot be executed or does not exist.
_CANNOT_EXECUTE = 126
_NOT_FOUND = 127


def set_limits(processes: int, file_size: int) -> None:
    """Limit the processes and file sizes of this process and its descendants.

    Args:
        processes: Maximum number of processes and threads.
        file_size: Maximum size of a file, in megabytes.
    """
    import resource

    limits = {resource.RLIMIT_NPROC: processes, resource.RLIMIT_FSIZE: file_size * 1_000_000}
    for kind, limit in limits.items():
        # An unprivileged process cannot raise its hard limit: setrlimit fails for a higher value.
        hard = resource.getrlimit(kind)[1]
        value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        # The hard limit is also set, because the command could raise its soft limit up to the hard
        # limit.
        resource.setrlimit(kind, (value, value))


def restore_signals() -> None:
    """Restore the signals that Python ignores, because a command would also ignore them."""
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(number, _signal.SIG_DFL)


def report_start_failure(program: str, error: OSError) -> int:
    """Report why a program cannot be started, and return the exit code that a shell would use."""
    posix.write(2, f"{program}: {error.strerror}\n".encode(errors=_ERRORS))
    if isinstance(error, FileNotFoundError):
        return _NOT_FOUND
    return _CANNOT_EXECUTE


def run_command(
    argv: tuple[str, ...], env: dict[bytes, bytes], unwanted: tuple[str, ...] | None = None
) -> tuple[bytes, int]:
    """Run the command and wait for it.

    Args:
        argv: The command.
        env: The environment of the command.
        unwanted: The files that the sandbox removes at its end, if the end of the command may be
            reported to hilum before that.

    Returns:
        The report for ``STATUS``, and the exit code that a shell would use.
    """
    may_continue = _is_open(NOTICE)
    # The command does not inherit these descriptors, because it could otherwise forge the report of
    # how it ended.
    closed = [STATUS]
    if may_continue:
        closed.append(NOTICE)
    if unwanted is not None:
        closed.append(REPORT)
    actions = [(posix.POSIX_SPAWN_CLOSE, number) for number in closed]
    posix.write(STATUS, b"b")
    try:
        pid = posix.posix_spawnp(argv[0], argv, env, file_actions=actions, setsigdef=_RESTORED)
    except OSError as error:
        return b"e", report_start_failure(argv[0], error)
    code = _reap_until(pid)
    remains = _reap_remaining()
    if not remains and unwanted is not None and not any(map(_exists, unwanted)):
        posix.write(REPORT, b"ended %d 0\n" % code)
    if remains and may_continue:
        posix.write(NOTICE, b"%d" % code)
        posix.close(NOTICE)
        _reap_all()
    # If no process may continue, this process exits, and the kernel kills the rest of the
    # namespace.
    if code >= 0:
        return b"e", code
    return b"s%d" % -code, 128 - code


def _exists(path: str) -> bool:
    try:
        posix.lstat(path)
    except FileNotFoundError:
        return False
    except OSError:
        pass
    return True


def _is_open(number: int) -> bool:
    """Return whether a descriptor is open."""
    try:
        posix.fstat(number)
    except OSError:
        return False
    return True


def _reap_until(pid: int) -> int:
    """Reap processes until one of them ends, and return its exit code."""
    while True:
        # As process 1 of the namespace, this process also has to reap orphans.
        found, status = posix.waitpid(-1, 0)
        if found == pid:
            return posix.waitstatus_to_exitcode(status)


def _reap_remaining() -> bool:
    """Reap processes for ``LINGER`` seconds, and return whether any process is still running."""
    until = time.monotonic() + LINGER
    while True:
        try:
            found, _ = posix.waitpid(-1, posix.WNOHANG)
        except ChildProcessError:
            return False
        if found:
            continue
        if time.monotonic() > until:
            return True
        time.sleep(_POLL_SECONDS)


def _reap_all() -> None:
    """Reap processes until none are left."""
    while True:
        try:
            posix.waitpid(-1, 0)
        except ChildProcessError:
            return


def read_command() -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Wait for the command of a spare sandbox. The socket is closed before the command starts.

    Returns:
        The command, empty if there is none, and ``unwanted`` for ``run_command``.
    """
    import marshal

    may_report = _become_undumpable()
    # A mount disappears from a running sandbox when its mount point is renamed or removed outside,
    # and mounts that are made outside appear. The command must not run in a sandbox that changed.
    mounts = _read_mounts()
    points = {line.split(b" ", 5)[4] for line in mounts.splitlines()}
    # Everything that does not depend on the command is done before this: a call waits for the rest.
    posix.write(CONTROL, b"r")
    argv: tuple[str, ...]
    unwanted: tuple[str, ...]
    try:
        size = int.from_bytes(_read(8), "little")
        argv, expected, unwanted = marshal.loads(_read(size))
        if _read_mounts() != mounts or not points.issuperset(expected):
            return (), None
        posix.write(CONTROL, b"b")
    except (OSError, EOFError):
        return (), None
    finally:
        posix.close(CONTROL)
    if may_report:
        return argv, unwanted
    posix.close(REPORT)
    return argv, None


def _become_undumpable() -> bool:
    """Keep the command from tracing this process and from opening its descriptors.

    Otherwise a command could forge the report of its end while its processes still run.

    Returns:
        Whether this succeeded.
    """
    try:
        import ctypes

        prctl = ctypes.pythonapi.prctl
        prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        return not prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0)
    except (ImportError, AttributeError, OSError):
        return False


def _read(size: int) -> bytes:
    """Read from the control socket.

    Raises:
        EOFError: The socket was closed.
    """
    data = b""
    while len(data) < size:
        more = posix.read(CONTROL, size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _read_mounts() -> bytes:
    """Return the mounts of this sandbox."""
    with open("/proc/self/mountinfo", "rb", 0) as file:
        return file.read()


def main(processes: str, file_size: str, added: str, *argv: str) -> None:
    """Set the limits, run the command, and exit with its exit code.

    Args:
        processes: Maximum number of processes and threads.
        file_size: Maximum size of a file, in megabytes.
        added: Additional environment variables: ``NAME=value`` separated by NUL, in hexadecimal.
        argv: The command; without one, it is read from the control socket.
    """
    set_limits(int(processes), int(file_size))
    posix.dup2(ERRORS, 2)
    posix.close(ERRORS)
    lines = bytes.fromhex(added).split(b"\0")
    variables = dict(line.split(b"=", 1) for line in lines if line)
    unwanted = None
    if not argv:
        argv, unwanted = read_command()
    if not argv:
        posix.write(STATUS, b"u")
        posix._exit(0)
    report, code = run_command(argv, {**posix.environ, **variables}, unwanted)
    posix.write(STATUS, report)
    posix._exit(code)
