"""The port of a server, and the file that describes the server that uses it."""

from __future__ import annotations

import errno
import os
import socket
import time
from contextlib import suppress
from pathlib import Path

import msgspec
from hilum import UsageError, make_private_folder
from hilum.listening import listen
from hilum.settings import data_folder

from hilum_serve.problems import E_PORT
from hilum_serve.tokens import write_private

FOLDER = "serve"


class ServerFile(msgspec.Struct, frozen=True, kw_only=True):
    """A description of a running server, readable only by the user.

    Attributes:
        pid: Id of the process.
        port: The port.
        url: The address with the token of this start, which logs a browser in.
        token: The token of this start, for programs; empty if only named tokens are accepted.
        workspaces: The folders that the server works in.
        started: Unix time.
    """

    pid: int
    port: int
    url: str
    token: str
    workspaces: list[str]
    started: float


def server_file_path(port: int) -> Path:
    """Return the path of the file about the server on a port."""
    return Path(data_folder()) / FOLDER / f"{port}.json"


def write_server_file(
    port: int, url: str, token: str, workspaces: list[str], path: Path | None = None
) -> Path:
    """Write the file about this server, and return its path."""
    found = path or server_file_path(port)
    make_private_folder(found.parent)
    about = ServerFile(
        pid=os.getpid(),
        port=port,
        url=url,
        token=token,
        workspaces=workspaces,
        started=time.time(),
    )
    write_private(found, msgspec.json.encode(about) + b"\n")
    return found


def read_server_file(port: int) -> ServerFile | None:
    """Return what the server on a port wrote about itself, if anything."""
    return _read(server_file_path(port))


def find_running_servers() -> list[ServerFile]:
    """Return what the servers of this user that are running wrote about themselves."""
    folder = Path(data_folder()) / FOLDER
    found = [_read(path) for path in sorted(folder.glob("*.json"))]
    return [about for about in found if about is not None and _is_alive(about.pid)]


def remove_server_file(path: Path) -> None:
    """Remove the file about this server, unless another one has written it since."""
    about = _read(path)
    if about is not None and about.pid == os.getpid():
        with suppress(OSError):
            path.unlink()


def _read(path: Path) -> ServerFile | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=ServerFile)
    except (OSError, msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def listen_or_explain(host: str, port: int) -> list[socket.socket]:
    """Listen on a port of an address.

    Raises:
        UsageError: The port is in use, with the server that uses it, or the address cannot be used
            (``E_PORT``).
    """
    try:
        return [listen(host, port)]
    except UsageError as error:
        cause = error.__cause__
        if not isinstance(cause, OSError) or cause.errno != errno.EADDRINUSE:
            raise
        text = f"Port {port} is in use. {_find_user_of(port)}"
        raise UsageError(text, code=E_PORT, hint=error.hint) from None


def _find_user_of(port: int) -> str:
    about = read_server_file(port)
    if about is None or not _is_alive(about.pid):
        return "Another program uses it."
    folders = ", ".join(about.workspaces)
    return f"`hilum serve` (process {about.pid}) uses it, for {folders}."


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return error.errno == errno.EPERM
    return True
