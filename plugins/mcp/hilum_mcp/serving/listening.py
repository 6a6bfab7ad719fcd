"""Claims standard input and output, or a port, before the server opens anything."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Collection

from hilum import UsageError
from hilum.errors import E_BUSY

ADDRESS = "127.0.0.1"
PATH = "/mcp"


def claim_stdio() -> tuple[int, int]:
    """Reserve standard input and output for the protocol.

    From then on, other code gets end-of-file when it reads standard input, and its output goes to
    standard error.

    Returns:
        File descriptors to read from and to write to, which no child process inherits.
    """
    sys.stdout.flush()
    wire = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return wire


def listen(port: int) -> socket.socket:
    """Listen on this machine only, not on the network.

    Args:
        port: The port; 0 for any free one.

    Raises:
        UsageError: The port is in use, or hilum lacks permission to use it.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # Without this option, the port could not be reused for a while after another server has ended.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((ADDRESS, port))
    except OSError as error:
        listener.close()
        raise UsageError(
            f"Port {port} cannot be used: {error.strerror}.",
            code=E_BUSY,
            hint="Choose another port, or 0 for any free one.",
        ) from None
    listener.listen(100)
    return listener


def allowed_hosts(port: int, more: Collection[str] = ()) -> list[str]:
    """Return the allowed values of the Host header, including those that the user adds."""
    own = [f"{name}:{port}" for name in (ADDRESS, "localhost", "[::1]")]
    return own + [name.lower() for name in more]
