"""The port of a server, and the file that describes the server that uses it."""

from __future__ import annotations

import errno
import os
import socket
import time
from contextlib import suppress
from pathlib import Path

import msgspec
from hilum import UsageError
from hilum.settings import data_folder

from hilum_serve.problems import E_PORT
from hilum_serve.tokens import write_private

LOOPBACK = ("127.0.0.1", "::1", "localhost")
EVERY_ADDRESS = ("0.0.0.0", "::")
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
    found.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
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
    try:
        return msgspec.json.decode(server_file_path(port).read_bytes(), type=ServerFile)
    except (OSError, msgspec.MsgspecError):
        return None


def remove_server_file(path: Path) -> None:
    """Remove the file about this server, unless another one has written it since."""
    with suppress(OSError, msgspec.MsgspecError):
        about = msgspec.json.decode(path.read_bytes(), type=ServerFile)
        if about.pid == os.getpid():
            path.unlink()


def listen(host: str, port: int) -> list[socket.socket]:
    """Listen on a port of an address.

    Raises:
        UsageError: The port is in use (``E_PORT``), or the address cannot be used.
    """
    try:
        found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_ADDRCONFIG
        )
    except OSError as error:
        raise UsageError(
            f"The address {host} cannot be used: {error.strerror}.",
            code=E_PORT,
            hint="Name an address of this machine, or leave --host out for 127.0.0.1.",
        ) from None
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    # Without this option, the port could not be used for a while after another server has ended.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise _explain(port, error) from None
    listener.setblocking(False)
    return [listener]


def _explain(port: int, error: OSError) -> UsageError:
    hint = "Choose another port with --port, or --port 0 for any free one."
    if error.errno != errno.EADDRINUSE:
        return UsageError(f"Port {port} cannot be used: {error.strerror}.", code=E_PORT, hint=hint)
    about = read_server_file(port)
    who = "Another program uses it."
    if about is not None and _is_alive(about.pid):
        folders = ", ".join(about.workspaces)
        who = f"`hilum serve` (process {about.pid}) uses it, for {folders}."
    return UsageError(f"Port {port} is in use. {who}", code=E_PORT, hint=hint)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return error.errno == errno.EPERM
    return True


def format_host(host: str) -> str:
    """Return an address as it is written in a URL: one of IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def allowed_hosts(host: str, port: int, more: list[str]) -> list[str]:
    """Return the allowed values of the Host header.

    Args:
        host: The address that the server listens on.
        port: The port.
        more: Further names, each with its port unless that is the standard one.
    """
    names = ["127.0.0.1", "localhost", "[::1]"]
    if host not in (*LOOPBACK, *EVERY_ADDRESS):
        names.append(format_host(host))
    own = [f"{name}:{port}" for name in names]
    if port == 80:
        own += names
    return own + [name.lower() for name in more]
