"""The thin client of the fork server, which hands a start of ``hilum`` over to it.

``hilum fork-server start`` leaves a process behind that has imported everything. A later start sends
it the command line, the environment, the standard streams and the current folder, and the server
forks a process that continues from there. This module imports little, because every start runs it.

If there is no server, or it may not be used, hilum starts as usual.
"""

from __future__ import annotations

import os
import stat
import sys
import zlib

# A start in the server waits for the imports of this module: typing, collections.abc, signal, socket and
# json would take 12 ms.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable, Mapping, Sequence
else:
    import _signal

FOLDER = "fork-server"
COMMAND = "fork-server"
"""The command that manages the server, which is never handed over to it."""
ACCEPTED = b"ok"
GO = b"g"
"""What the client sends when it has read ``ACCEPTED``, so that nothing runs without a client."""
TIMEOUT = 10.0
"""Seconds to wait for the server before hilum starts as usual."""
FORWARDED = (
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGTERM",
    "SIGUSR1",
    "SIGUSR2",
    "SIGWINCH",
    "SIGTSTP",
    "SIGCONT",
)
"""The signals that the client passes on."""


def find_socket(environ: Mapping[str, str] = os.environ) -> str:
    """Return the path of the server's socket; empty if the data folder is unknown.

    The data folder is hidden from commands in the sandbox. Each Python environment has a server of
    its own.

    Args:
        environ: The environment of the user's processes.
    """
    base = environ.get("HILUM_DATA", "")
    if not base and os.path.isabs(environ.get("XDG_DATA_HOME", "")):
        base = os.path.join(environ["XDG_DATA_HOME"], "hilum")
    elif not base and environ.get("HOME"):
        base = os.path.join(environ["HOME"], ".local/share/hilum")
    if not os.path.isabs(base):
        return ""
    number = zlib.crc32(os.fsencode(f"{sys.executable}\n{sys.prefix}"))
    return os.path.join(base, FOLDER, f"{number:08x}.sock")


def call_with_address(function: Callable[[str], object], path: str) -> None:
    """Call ``connect`` or ``bind`` of a socket with an address for a path.

    The address of a Unix socket has at most 107 bytes, so the folder is named by a descriptor.

    Args:
        function: The method of the socket.
        path: The path of the socket.

    Raises:
        OSError: The folder does not exist, or the method fails.
    """
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        function(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
    finally:
        os.close(folder)


def run_in_server(arguments: Sequence[str]) -> int | None:
    """Run a command in a process that the server forks, and return its exit code.

    Args:
        arguments: The arguments of ``hilum``.

    Returns:
        The exit code; ``None`` if hilum has to start as usual.
    """
    if sys.platform != "linux" or COMMAND in arguments[:1]:
        return None
    if None in (sys.stdin, sys.stdout, sys.stderr):
        return None  # there is no stream to pass on
    path = find_socket()
    try:
        found = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.getuid():
        return None
    if not _is_private(os.path.dirname(path)):
        # Another user could put a server there that reads the environment, with its keys.
        _report_usual_start(f"other users may write to its folder {os.path.dirname(path)}")
        return None
    handover = _Handover(path, arguments)
    try:
        return handover.run()
    finally:
        handover.close()


def _is_private(folder: str) -> bool:
    """Return whether only this user may change a folder."""
    try:
        found = os.stat(folder)
    except OSError:
        return False
    return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


class _Handover:
    """A start that is handed over to the server."""

    def __init__(self, path: str, arguments: Sequence[str]) -> None:
        import _socket

        self._arguments = list(arguments)
        self._path = path
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)

    def run(self) -> int | None:
        """Hand over, and return the exit code; ``None`` if the server did not accept."""
        try:
            request = self._make_request()
            self._socket.settimeout(TIMEOUT)
            call_with_address(self._socket.connect, self._path)
            self._send(request)
            answer = self._read_line()
            if answer == ACCEPTED:
                self._socket.sendall(GO)
        except ConnectionRefusedError:
            return None  # the server was killed
        except OSError as error:
            _report_usual_start(f"it does not answer ({error})")
            return None
        if answer != ACCEPTED:
            _report_usual_start(answer.decode(errors="replace") or "it ended")
            return None
        self._socket.settimeout(None)
        return self._wait()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _make_request(self) -> bytes:
        # No text that a process gets contains a null character.
        texts = [
            describe_interpreter(),
            str(len(self._arguments)),
            *self._arguments,
            *sys.argv[:1],
        ]
        parts = [os.fsencode(text) for text in texts]
        parts += [b"%b=%b" % pair for pair in os.environb.items()]
        data = b"\0".join(parts)
        return len(data).to_bytes(4, "big") + data

    def _send(self, request: bytes) -> None:
        """Send a request, with the standard streams and the current folder."""
        import _socket

        folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            descriptors = b"".join(each.to_bytes(4, sys.byteorder) for each in (0, 1, 2, folder))
            passed = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)]
            sent = self._socket.sendmsg([request], passed)
            self._socket.sendall(request[sent:])
        except BrokenPipeError:
            # The server does not read the rest of a request that it refuses; it has said why.
            pass
        finally:
            os.close(folder)

    def _read_line(self) -> bytes:
        """Return the next line from the server; empty if the connection has ended.

        Raises:
            TimeoutError: The server does not answer in time.
        """
        line = b""
        while True:
            try:
                piece = self._socket.recv(1)
            except ConnectionError:  # the server was killed before it read all signals
                return b""
            if piece == b"\n" or not piece:
                return line if piece else b""
            line += piece

    def _wait(self) -> int:
        """Pass on signals until the forked process has ended, and return its exit code."""

        def forward(number: int, _frame: object) -> None:
            try:
                self._socket.send(bytes([number]))
            except OSError:
                pass  # the process has just ended

        handled = [getattr(_signal, name) for name in FORWARDED]
        for number in handled:
            # A signal that the caller ignores, as with nohup, is ignored in the new process, too.
            if _signal.getsignal(number) is not _signal.SIG_IGN:
                _signal.signal(number, forward)
        while True:
            word, _, rest = self._read_line().partition(b" ")
            if word == b"stopped":
                # The shell must see this process stop, and continues it.
                _signal.signal(_signal.SIGTSTP, _signal.SIG_DFL)
                os.kill(os.getpid(), _signal.SIGTSTP)
                _signal.signal(_signal.SIGTSTP, forward)
            elif word == b"exit":
                return int(rest)
            elif word == b"signal":
                number = int(rest)
                if number != _signal.SIGKILL:
                    _signal.signal(number, _signal.SIG_DFL)
                os.kill(os.getpid(), number)
                return 128 + number
            elif not word:
                os.write(2, b"hilum: the fork server ended, and this command with it.\n")
                return 128 + _signal.SIGTERM


def list_interpreter_variables(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the variables that Python and its libraries read when they start, sorted.

    Args:
        environ: The environment.
    """
    prefixes = ("PYTHON", "LANG", "LC_", "LD_", "MALLOC_", "OPENSSL_", "GLIBC_")
    return sorted(each for each in environ.items() if each[0].startswith(prefixes))


def describe_interpreter() -> str:
    """Return what must be the same in the server as in a newly started program."""
    # Only the script `hilum` has its own folder first.
    scripts = os.path.dirname(sys.executable)
    path = [folder for folder in sys.path if folder not in ("", scripts)]
    flags = [*sys.flags[:], *sorted(sys._xoptions), *sys.warnoptions]
    variables = list_interpreter_variables(os.environ)
    facts = (sys.version, sys.executable, sys.prefix, path, flags, variables)
    return repr(facts)


def _report_usual_start(reason: str) -> None:
    """Say why the server is not used."""
    text = "".join(char for char in reason if char.isprintable())
    print(f"hilum: the fork server is not used: {text}.", file=sys.stderr)
