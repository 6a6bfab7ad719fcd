"""Prints the output of a command in an editor's terminal while hilum runs the command.

hilum asks the editor to start this program (``terminal/create``). It connects to a socket of hilum
and prints what arrives until the command has ended. If it ends earlier, hilum stops the command.

The program is started by its path, without hilum's packages (``python -I -S``). It therefore imports
only small modules of the standard library.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import sys

SOCKET = "HILUM_TERMINAL_SOCKET"
"""The environment variable with the path of the socket."""
TOKEN = "HILUM_TERMINAL_TOKEN"
"""The environment variable that says which command is shown. Other users cannot read it."""
HEADER = struct.Struct("!cI")
"""What precedes each message of hilum: its kind and the number of its bytes."""
OUTPUT = b"o"
"""The kind of a message with output."""
END = b"e"
"""The kind of the last message, whose only byte is the exit code."""
FAILED = 1
"""The exit code if the connection ends before the command."""


def main() -> int:
    """Print the output of a command, and return its exit code."""
    # Ctrl-C ends the program at once, and hilum then stops the command.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        folder, name = os.path.split(os.environ[SOCKET])
        token = os.environ[TOKEN].encode()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            # A path to a socket must be short, but the name of a file in a folder always is.
            os.chdir(folder)
            connection.connect(name)
            connection.sendall(token)
            return show(connection)
    except (KeyError, OSError):
        # The editor has closed the terminal, or hilum does not listen any more.
        return FAILED


def show(connection: socket.socket) -> int:
    """Print the output that arrives, and return the exit code that follows it."""
    with connection.makefile("rb") as messages:
        while header := messages.read(HEADER.size):
            if len(header) < HEADER.size:
                break
            kind, size = HEADER.unpack(header)
            data = messages.read(size)
            if kind == END:
                return data[0] if data else FAILED
            write(data)
    write(b"\r\n[The connection to hilum has ended.]\r\n")
    return FAILED


def write(data: bytes) -> None:
    """Write to standard output; wait while the terminal reads too slowly."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]


if __name__ == "__main__":
    sys.exit(main())
