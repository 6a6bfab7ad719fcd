"""A listening socket in the network of the sandbox, which hilum itself holds.

A socket belongs to the network namespace in which it was created, not to that of the process that
uses it. A short-lived process therefore joins the session's loopback, creates the socket there and
passes it to hilum. Commands reach the socket, while hilum never leaves its own network, and no
process has to forward anything.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Sequence

_TIMEOUT = 15.0  # seconds; on a very busy machine, starting a program takes seconds
_BACKLOG = 64
# The process inherits one end of a socket pair as descriptor 0, through which it passes the socket.
_SCRIPT = f"""
import array, socket
pair = socket.socket(fileno=0)
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
listener.bind(("127.0.0.1", 0))
listener.listen({_BACKLOG})
rights = array.array("i", [listener.fileno()])
pair.sendmsg([b"s"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
"""


def open_listener(join: Sequence[str], interpreter: str) -> socket.socket:
    """Return a socket that listens on 127.0.0.1 in a loopback, on a free port. Blocks.

    Args:
        join: The command prefix that joins the loopback; empty for the machine's own network.
        interpreter: The Python interpreter that creates the socket in the loopback.

    Raises:
        OSError: The socket cannot be created.
    """
    if not join:
        return _listen_here()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        argv = [*join, interpreter, "-I", "-S", "-c", _SCRIPT]
        ours.settimeout(_TIMEOUT)
        with subprocess.Popen(
            argv, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as process:
            theirs.close()
            try:
                _, fds, _, _ = socket.recv_fds(ours, 1, 1)
            except TimeoutError:
                process.kill()
                raise OSError("the process in the sandbox's network does not respond") from None
            assert process.stderr is not None
            problem = process.stderr.read().decode(errors="replace").strip()
    if not fds:
        raise OSError(problem.rpartition("\n")[2] or "the sandbox's network cannot be joined")
    listener = socket.socket(fileno=fds[0])
    os.set_inheritable(listener.fileno(), False)
    return listener


def _listen_here() -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.bind(("127.0.0.1", 0))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener
