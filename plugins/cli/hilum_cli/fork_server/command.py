"""``hilum fork-server``: starts, stops and shows the fork server."""

from __future__ import annotations

import math
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import time
from argparse import ArgumentTypeError, Namespace
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from hilum import HilumError, UsageError, make_private_folder
from hilum.command import Parser, check_text
from hilum.errors import E_FAILED
from hilum.fork_client import COMMAND, call_with_address, find_socket

from hilum_cli import exits
from hilum_cli.terminal import Out

EPILOG = """\
The server has imported hilum and your plugins. While it runs, every start of hilum is a fork of it, which saves the
imports. It ends after a time without use, and starts again when hilum or a package changes. Logging out does not end
it, unless the system then ends all your processes. No other user and no command of an agent can use it.

  hilum fork-server start
  hilum fork-server status
  hilum fork-server stop
"""
START_TIMEOUT = 30.0
"""Seconds to wait for a server that starts."""
STOP_TIMEOUT = 15.0
"""Seconds to wait for a server that ends, with what it has started."""
IDLE_MINUTES = 240.0
"""Minutes without use after which a server ends."""
MIN_IDLE_MINUTES = 0.1
MAX_IDLE_MINUTES = 525_600  # a year
_SERVE = "serve"
"""What is passed to the server's process in place of an action; users do not need it."""
BACKLOG = 128
"""Maximum number of connections that wait to be accepted. A further client starts as usual."""
_OTHER_RUNS = "another one runs, or is starting"
_PEER = struct.Struct("iII")


def main(argv: list[str]) -> int:
    """Keep hilum in memory, so that it starts faster.

    Returns:
        The exit code (see ``exits``).
    """
    check_text(argv)
    is_server = argv[:1] == [_SERVE]
    options = _parse_serve(argv[1:]) if is_server else _parse(argv)
    path = find_socket()
    if sys.platform != "linux" or not path:
        raise UsageError("The fork server works only on Linux, and needs a home folder.")
    if is_server:
        return _serve(path, options.idle_minutes, again=options.again, kept=options.lock)
    process = find_server(path)
    if options.action == "start":
        return _start(path, process, options.idle_minutes)
    # A server that starts, or starts again, does not listen yet.
    process = process or wait_for_server(path)
    if not process:
        Out(1).say("No fork server runs.")
        return exits.COMPLETED if options.action == "stop" else exits.FAILED
    if options.action == "stop":
        stop_server(path, process)
        Out(1).say("The fork server has ended.")
    else:
        Out(1).say(f"The fork server runs as process {process}.")
    return exits.COMPLETED


def _parse(argv: list[str]) -> Namespace:
    parser = Parser("hilum fork-server", "Keep hilum in memory, so that it starts faster.", EPILOG)
    parser.add_argument(
        "action",
        choices=("start", "stop", "status"),
        metavar="ACTION",
        help="start, stop or status",
    )
    parser.add_argument(
        "--idle-minutes",
        type=_read_minutes,
        metavar="N",
        help=f"for start: end the server after N minutes without use (default: {IDLE_MINUTES:g})",
    )
    return parser.parse_args(argv)


def _parse_serve(argv: list[str]) -> Namespace:
    """Parse the arguments of the server's process, which only hilum starts."""
    parser = Parser("hilum fork-server serve")
    parser.add_argument("--idle-minutes", type=float, default=IDLE_MINUTES)
    # A server that starts again because files changed while it started.
    parser.add_argument("--again", action="store_true")
    # The descriptor of the lock, which a server keeps while it starts again.
    parser.add_argument("--lock", type=int, default=-1)
    return parser.parse_args(argv)


def _read_minutes(text: str) -> float:
    """Return a number of minutes.

    Raises:
        ArgumentTypeError: It is not a number that a server can wait.
    """
    try:
        minutes = float(text)
    except ValueError:
        minutes = math.nan
    # Also false for NaN.
    if MIN_IDLE_MINUTES <= minutes <= MAX_IDLE_MINUTES:
        return minutes
    limits = f"from {MIN_IDLE_MINUTES} to {MAX_IDLE_MINUTES:,}"
    raise ArgumentTypeError(f"{text!r} is not a number of minutes {limits}")


def _start(path: str, process: int, idle_minutes: float | None) -> int:
    """Start the server if none runs, and report its process.

    Args:
        path: The path of the socket.
        process: The process of the server that runs; 0 if none does.
        idle_minutes: Minutes without use after which it ends; ``None`` for the default.
    """
    if process and idle_minutes is not None:
        Out(1).say(
            f"The fork server runs as process {process}. --idle-minutes does not change it: to"
            " apply the option, run hilum fork-server stop first."
        )
        return exits.COMPLETED
    if not process:
        process = start_server(path, IDLE_MINUTES if idle_minutes is None else idle_minutes)
    Out(1).say(f"The fork server runs as process {process}.")
    return exits.COMPLETED


def find_server(path: str) -> int:
    """Return the process id of the server that listens on a socket; 0 if none does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            call_with_address(probe.connect, path)
        except OSError:
            return 0
        data = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        process, user, _ = _PEER.unpack(data)
        return process if user == os.getuid() else 0


def wait_for_server(path: str) -> int:
    """Wait while a server is starting, and return its process id; 0 if none is or if it ends."""
    end = time.monotonic() + START_TIMEOUT
    while time.monotonic() < end:
        is_starting = is_locked(path)
        # It may have begun to listen before the lock was looked at.
        process = find_server(path)
        if process or not is_starting:
            return process
        time.sleep(0.02)
    return 0


def start_server(path: str, idle_minutes: float) -> int:
    """Start the server, wait until it listens, and return its process id.

    If another process is starting one, this function waits for that server; if one is ending, it
    starts the next one.

    Raises:
        HilumError: It does not start.
    """
    end = time.monotonic() + START_TIMEOUT
    text = _spawn(idle_minutes)
    process = find_server(path)
    while not process and text == _OTHER_RUNS and time.monotonic() < end:
        time.sleep(0.1)
        process = find_server(path)
        if not process:
            text = _spawn(idle_minutes)
            process = find_server(path)
    if process:
        return process
    raise HilumError(
        f"The fork server did not start: {text or 'it ended at once'}.",
        code=E_FAILED,
        hint="hilum works without it.",
    )


def _spawn(idle_minutes: float) -> str:
    """Start a server process; return its error output, which it closes when it listens."""
    # The server outlives this process, so the warden must not own it.
    server = subprocess.Popen(
        _serve_words(idle_minutes),
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert server.stderr is not None
    text = server.stderr.read().decode(errors="replace").strip()
    server.stderr.close()
    # The server is not waited for: it belongs to init when this process has ended.
    server.returncode = 0
    return text


def stop_server(path: str, process: int) -> None:
    """End a server, with what it has started.

    Raises:
        HilumError: It does not end in time.
    """
    end = time.monotonic() + STOP_TIMEOUT
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGTERM)
    while time.monotonic() < end:
        # It keeps its lock until its process has ended; then, somebody else may have it.
        if not is_locked(path) or not _exists(process):
            return
        time.sleep(0.02)
    raise HilumError(
        f"The fork server (process {process}) does not end.",
        code=E_FAILED,
        hint=f"End it with: kill -9 {process}",
    )


def _exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def _serve(path: str, idle_minutes: float, *, again: bool, kept: int) -> int:
    """Serve until the server ends; in forked processes, run hilum.

    Args:
        path: The path of the socket.
        idle_minutes: Minutes without use after which the server ends.
        again: Whether this is the second attempt to start.
        kept: The descriptor of the lock, if the server starts again; otherwise -1.
    """
    started = time.time()
    from hilum.module_archive import use_archive

    from hilum_cli.fork_server import server, stamps, take_over
    from hilum_cli.fork_server.preloading import preload, warm_up

    try:
        lock = lock_folder_of(path, kept)
        listener = listen(path)
    except BlockingIOError:
        print(_OTHER_RUNS, file=sys.stderr)
        return exits.FAILED
    except OSError as error:
        print(f"it cannot listen: {error}", file=sys.stderr)
        return exits.FAILED
    before = stamps.read_stamps()
    # Forked processes find in it what they compile. They load more modules than one run does.
    use_archive("run", save=False)
    preload()
    found = stamps.read_stamps()
    changed = stamps.find_changed(before) or stamps.find_newer(found, started)
    if changed and again:
        print(f"{changed} changed while the server started", file=sys.stderr)
        return exits.FAILED
    if changed:
        # A first import also changes a folder, when it creates the one for bytecode.
        _execute(path, idle_minutes, lock, "--again")
    null = os.open(os.devnull, os.O_RDWR)
    listener.listen(BACKLOG)
    # The process that started this one waits for the end of its error output.
    os.dup2(null, 2)
    os.close(null)
    code = stamps.CodeWatch(found)
    forks = server.ForkServer(listener, lock, code, idle_minutes * 60, warm_up)
    request = forks.serve()
    if request is not None:
        take_over.run(request)
    listener.close()
    if forks.is_stale and not forks.ended_by:
        _execute(path, idle_minutes, lock)
    Path(path).unlink(missing_ok=True)
    return exits.COMPLETED


def _execute(path: str, idle_minutes: float, lock: int, *options: str) -> NoReturn:
    """Start the server again in this process, which keeps the lock."""
    # Whoever asks meanwhile learns from the lock that a server is starting.
    os.set_inheritable(lock, True)
    words = [*_serve_words(idle_minutes), "--lock", str(lock), *options]
    os.execv(sys.executable, words)


def _serve_words(idle_minutes: float) -> list[str]:
    """Return the command line of a server."""
    words = ["-m", "hilum", COMMAND, _SERVE, "--idle-minutes", str(idle_minutes)]
    return [sys.executable, *words]


def lock_folder_of(path: str, kept: int = -1) -> int:
    """Create the private folder of a socket, and lock the socket's name for this process.

    Args:
        path: The path of the socket.
        kept: The descriptor of a lock that this process had before it started again; -1 for none.

    Returns:
        The descriptor that holds the lock.

    Raises:
        BlockingIOError: Another server has the lock.
        OSError: The folder cannot be created, or belongs to somebody else.
    """
    import fcntl  # only on POSIX

    folder = os.path.dirname(path)
    make_private_folder(folder)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(f"{folder} is not a folder of this user")
    os.chmod(folder, 0o700)
    lock = _adopt_lock(path, kept)
    if lock < 0:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        lock = os.open(_name_lock(path), flags, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock


def _name_lock(path: str) -> str:
    return f"{path}.lock"


def _adopt_lock(path: str, kept: int) -> int:
    """Return a descriptor that was kept if it is that of the lock, and -1 otherwise."""
    try:
        if kept >= 0 and os.path.samestat(os.fstat(kept), os.stat(_name_lock(path))):
            os.set_inheritable(kept, False)
            return kept
    except OSError:
        pass
    return -1


def is_locked(path: str) -> bool:
    """Return whether a server has the lock: it runs, starts or ends."""
    import fcntl  # only on POSIX

    try:
        lock = os.open(_name_lock(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # `start` tries again if this lock is in the way of a server for a moment.
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def listen(path: str) -> socket.socket:
    """Return a socket that is bound to a path, in place of one that a killed server left.

    Raises:
        OSError: The socket cannot be created.
    """
    Path(path).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        call_with_address(listener.bind, path)
        os.chmod(path, 0o600)
    except BaseException:
        listener.close()
        raise
    return listener
