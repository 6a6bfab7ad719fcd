"""The Unix sockets of open sessions, and the check of who connects to them.

A session's socket is in the data folder, next to the store, because every process that can read the
session finds it there, and because the sandbox hides this folder from the commands of agents. The
folder and the socket are accessible to the user only.

Whoever connects can answer approvals. The owner therefore refuses other users. On Linux, it also
refuses its own child processes, and processes that are in a sandbox: a command of an agent must not
approve itself. macOS reports only the user at the other end; there, the sandbox alone keeps commands
from the socket.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import trio

from hilum.private_folders import make_private_folder
from hilum.settings import data_folder, lock_folder

FOLDER = "sockets"
# The field for the path of a Unix socket has 108 bytes on Linux and 104 on macOS, with a zero.
_MAX_PATH = 100
_MAX_ANCESTORS = 1_000


def has_sockets() -> bool:
    """Return whether this system has Unix sockets, and reports who is at their other end."""
    return sys.platform in ("linux", "darwin")


def find_socket(session: str) -> Path:
    """Return the path of a session's socket."""
    return data_folder() / FOLDER / f"{session}.sock"


@contextlib.contextmanager
def _address(path: Path) -> Iterator[str]:
    """Yield the address of a socket, which is short enough for the system.

    Raises:
        OSError: The path is too long, and the system has no other name for the folder.
    """
    if len(os.fsencode(path)) <= _MAX_PATH:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def listen(path: Path) -> trio.SocketListener:
    """Create the socket of a session that this process has open.

    A socket that a killed process left is replaced. No other process can be using it, because the
    caller has the session's lease.

    Raises:
        OSError: The socket cannot be created, or the folder belongs to somebody else.
    """
    make_private_folder(path.parent)
    _make_private(path.parent)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # A socket exists before its process listens. No other process may sweep meanwhile, because
        # it would take the socket for one that a killed process left.
        with lock_folder(path.parent):
            _sweep(path.parent)
            path.unlink(missing_ok=True)
            with _address(path) as address:
                listener.bind(address)
            os.chmod(path, 0o600)
            listener.listen(16)
        listener.setblocking(False)
        return trio.SocketListener(trio.socket.from_stdlib_socket(listener))
    except BaseException:
        listener.close()
        raise


def _make_private(folder: Path) -> None:
    """Make a folder accessible to the user only.

    Raises:
        OSError: The folder belongs to somebody else, or is a link.
    """
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(f"{folder} is not a folder of this user")
    if stat.S_IMODE(found.st_mode) != 0o700:
        os.chmod(folder, 0o700)


def _sweep(folder: Path) -> None:
    """Remove the sockets that killed processes left.

    Args:
        folder: The folder, which the caller has locked.
    """
    for path in folder.glob("*.sock"):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            probe.setblocking(False)
            try:
                with _address(path) as address:
                    probe.connect(address)
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)


async def connect(path: Path) -> trio.SocketStream | None:
    """Connect to the owner of a session; return ``None`` if nobody listens."""
    if not has_sockets():
        return None
    stream = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        found = os.lstat(path)
        if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.getuid():
            raise FileNotFoundError(path)
        with _address(path) as address:
            await stream.connect(address)
        return trio.SocketStream(stream)
    except OSError:  # no process has the session open, or it is not shared
        stream.close()
        return None
    except BaseException:
        stream.close()
        raise


def explain_refusal(stream: trio.SocketStream) -> str:
    """Return why a process that connected must be refused; empty if it may join.

    The system reports the user and the process at the other end of a Unix socket.
    """
    if sys.platform == "darwin":
        # struct xucred: version, user, groups; see unix(4) for LOCAL_PEERCRED.
        data = stream.socket.getsockopt(0, 1, 8)
        _, user = struct.unpack("iI", data)
        return "" if user == os.getuid() else "another user"
    data = stream.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    process, user, _ = struct.unpack("iII", data)
    return explain_peer_refusal(process, user)


def explain_peer_refusal(process: int, user: int) -> str:
    """Return why a process that connected must be refused on Linux; empty if it may connect.

    Args:
        process: The process at the other end.
        user: Its user.
    """
    if user != os.getuid():
        return "another user"
    if process == os.getpid():
        return ""
    status = _read_status(process)
    if not status:
        # Its parents are unknown, so it may be a command that gave its connection to another one.
        return "a process that has ended"
    if _descends_from(process, os.getpid()):
        return "a process that this session started"
    # Every sandbox sets this flag, which a process cannot remove.
    if _has_no_new_privileges(process) and not _has_no_new_privileges(os.getpid()):
        return "a process in a sandbox"
    return ""


def _read_status(process: int) -> dict[str, str]:
    """Return the fields of ``/proc/PID/status``; empty if the process has ended."""
    try:
        text = Path(f"/proc/{process}/status").read_text(errors="replace")
    except OSError:
        return {}
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def _descends_from(process: int, ancestor: int) -> bool:
    """Return whether a process is a descendant of another one, as far as the system tells."""
    for _ in range(_MAX_ANCESTORS):
        if process == ancestor:
            return True
        parent = _read_status(process).get("PPid", "0")
        process = int(parent) if parent.isdigit() else 0
        if process <= 1:
            return False
    return True


def _has_no_new_privileges(process: int) -> bool:
    return _read_status(process).get("NoNewPrivs", "0") == "1"
