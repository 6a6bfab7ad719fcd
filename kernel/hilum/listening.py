"""What commands that serve a port have in common: the port, the Host header and the signals."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterable

import trio

from hilum.errors import E_BAD_ARGS, E_PORT, UsageError

__all__ = [
    "EVERY_ADDRESS",
    "LOOPBACK",
    "allowed_hosts",
    "format_host",
    "listen",
    "parse_port",
    "receive_stop_signals",
]

LOOPBACK = ("127.0.0.1", "::1", "localhost")
EVERY_ADDRESS = ("0.0.0.0", "::")
MAX_PORT = 65_535
_BACKLOG = 128
_STOP_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


def parse_port(text: str) -> int:
    """Return the port in an argument.

    Raises:
        UsageError: The text is no number of a port.
    """
    # `isdigit` alone also accepts characters such as "²", which `int` rejects.
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(MAX_PORT))
    if not is_number or int(text) > MAX_PORT:
        raise UsageError(
            f"{text!r} is not a port.",
            code=E_BAD_ARGS,
            hint=f"A port is a number up to {MAX_PORT}; 0 is any free one.",
        )
    return int(text)


def listen(host: str, port: int, *, option: str = "--port") -> socket.socket:
    """Listen on a port of an address.

    Args:
        host: The address.
        port: The port; 0 for any free one.
        option: The option with which the user chooses another port.

    Raises:
        UsageError: The port is in use, or the address cannot be used (``E_PORT``). The cause is
            the error of the system.
    """
    try:
        found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_ADDRCONFIG
        )
    except OSError as error:
        raise UsageError(
            f"The address {host} cannot be used: {error.strerror}.",
            code=E_PORT,
            hint="Name an address of this machine, or leave it out for 127.0.0.1.",
        ) from None
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    # Without this option, the port could not be used for a while after another server has ended.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise UsageError(
            f"Port {port} cannot be used: {error.strerror}.",
            code=E_PORT,
            hint=f"Choose another port with {option}, or {option} 0 for any free one.",
        ) from error
    listener.setblocking(False)
    return listener


def format_host(host: str) -> str:
    """Return an address as it is written in a URL: one of IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def allowed_hosts(host: str, port: int, more: Iterable[str] = ()) -> list[str]:
    """Return the allowed values of the Host header, in lower case.

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
    return [*own, *(name.lower() for name in more)]


async def receive_stop_signals(
    stop: Callable[[int], None], task_status: trio.TaskStatus[None]
) -> None:
    """Receive signals that end a server, until cancelled. A second signal ends the process.

    Args:
        stop: Function that is called with the number of the first signal.
        task_status: Reports that signals are received from now on.
    """
    is_stopping = False
    with trio.open_signal_receiver(*_STOP_SIGNALS) as signals:
        task_status.started()
        async for number in signals:
            if is_stopping:
                # The warden ends the child processes.
                os._exit(128 + number)
            is_stopping = True
            stop(int(number))
