"""The first process of a sandbox's process namespace, without Perl: it starts the command, reaps,
and tells its end.

bubblewrap reports a command that a signal ended as an exit code, as shells do. So this one, on the
inside, writes it down: ``s`` and the signal's number, or ``e``. It runs outside the package on
built-in modules alone, as its start is the greater part of what the sandbox costs.
"""

from __future__ import annotations

import posix
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal  # signal itself costs two milliseconds

STATUS = 3
"""The descriptor to tell the end to."""
NOTICE = 9
"""The descriptor to tell that the command has exited and left something running.

Open where that may go on.
"""
LINGER = 0.1
"""Seconds for what an exited command left behind, as the warden gives it."""
_ERRORS = "surrogateescape"
_CANNOT = 126
_NOT_FOUND = 127


def limit(processes: int, file_size: int) -> None:
    """Set the limits of this process and all that come of it: processes and threads, and megabytes
    of a file.
    """
    import resource

    for kind, most in (
        (resource.RLIMIT_NPROC, processes),
        (resource.RLIMIT_FSIZE, file_size * 1_000_000),
    ):
        hard = resource.getrlimit(kind)[1]
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (value, value))


def default_signals() -> None:
    """Take back that Python ignores some signals; being ignored is inherited."""
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(number, _signal.SIG_DFL)


def is_open(number: int) -> bool:
    """Return whether a descriptor is open."""
    try:
        posix.fstat(number)
    except OSError:
        return False
    return True


def refused(program: str, error: OSError) -> int:
    """Say that a program cannot be started; give the exit code that shells give."""
    posix.write(2, f"{program}: {error.strerror}\n".encode(errors=_ERRORS))
    if isinstance(error, FileNotFoundError):
        return _NOT_FOUND
    return _CANNOT


def run(argv: tuple[str, ...], env: dict[bytes, bytes]) -> tuple[bytes, int]:
    """Run the command to its end: how it ended, and the exit code a shell would give."""
    default = set(_signal.valid_signals()) - {_signal.SIGKILL, _signal.SIGSTOP}
    holds = is_open(NOTICE)
    closed = [STATUS, NOTICE] if holds else [STATUS]
    actions = [(posix.POSIX_SPAWN_CLOSE, number) for number in closed]
    try:
        pid = posix.posix_spawnp(argv[0], argv, env, file_actions=actions, setsigdef=default)
    except OSError as error:
        return b"e", refused(argv[0], error)
    code = None
    told = False
    until = 0.0
    while True:
        try:
            found, status = posix.waitpid(-1, posix.WNOHANG if code is not None and not told else 0)
        except ChildProcessError:
            break
        if found == pid:
            code = posix.waitstatus_to_exitcode(status)
            until = time.monotonic() + LINGER
        elif not found:
            if time.monotonic() <= until:
                time.sleep(0.005)
            elif holds:
                assert code is not None
                posix.write(NOTICE, b"%d" % code)
                posix.close(NOTICE)
                told = True
            else:
                break
    assert code is not None
    if code >= 0:
        return (b"e", code)
    return (b"s%d" % -code, 128 - code)


def main(processes: str, file_size: str, added: str, *argv: str) -> None:
    """Be the first process: the limits, then the command, whose environment has more (in
    hexadecimal).
    """
    limit(int(processes), int(file_size))
    lines = bytes.fromhex(added).split(b"\0")
    told, code = run(argv, {**posix.environ, **dict(line.split(b"=", 1) for line in lines if line)})
    posix.write(STATUS, told)
    posix._exit(code)
