"""Reads the requests of clients, without waiting for them."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Mapping

from hilum.fork_client import describe_interpreter, list_interpreter_variables

from hilum_cli.fork_server.callers import CallerRefused
from hilum_cli.fork_server.take_over import Request

REQUEST_TIMEOUT = 5.0
"""Seconds to wait for a request, which clients prepare before they connect."""
MAX_REQUEST = 8 << 20  # bytes; the kernel limits arguments and environment to 6 MB
_PIECE = 1 << 16
_SIZE_BYTES = 4
_DESCRIPTORS = 4
_MAX_NAMED = 3
_PEER = struct.Struct("iII")


class IncomingRequest:
    """A connection whose request has not arrived completely.

    Args:
        client: The connection.

    Attributes:
        client: The connection.
        descriptors: The descriptors that came with the request.
        discard_at: When the connection is closed, on the monotonic clock.
    """

    def __init__(self, client: socket.socket) -> None:
        client.setblocking(False)
        self.client = client
        self.descriptors: list[int] = []
        self.discard_at = time.monotonic() + REQUEST_TIMEOUT
        self._data = bytearray()

    def receive(self) -> bool:
        """Read what has arrived, and return whether the request is complete.

        Raises:
            CallerRefused: The request is too large.
            OSError: The client has gone.
        """
        try:
            data = self._read_piece()
        except BlockingIOError:
            return False
        if not data:
            raise ConnectionResetError
        self._data += data
        if self._size > MAX_REQUEST:
            raise CallerRefused("the request is too large")
        return len(self._data) >= _SIZE_BYTES + self._size

    @property
    def _size(self) -> int:
        """The size of the request in bytes, which comes first."""
        return int.from_bytes(self._data[:_SIZE_BYTES], "big")

    def _read_piece(self) -> bytes:
        if self._data:
            return self.client.recv(_PIECE)
        # The descriptors come with the first byte.
        data, descriptors, _, _ = socket.recv_fds(self.client, _PIECE, _DESCRIPTORS)
        self.descriptors += descriptors
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        return data

    def parse(self) -> Request:
        """Return the request, which has arrived completely.

        Raises:
            CallerRefused: It is not valid, or needs another interpreter.
        """
        data = bytes(self._data[_SIZE_BYTES : _SIZE_BYTES + self._size])
        return _parse(data, self.descriptors)

    def read_peer(self) -> tuple[int, int]:
        """Return the process and the user at the other end of the connection."""
        data = self.client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        process, user, _ = _PEER.unpack(data)
        return process, user

    def close(self) -> None:
        """Close the connection, and the descriptors that came with the request."""
        self.client.close()
        while self.descriptors:
            os.close(self.descriptors.pop())


def _parse(data: bytes, descriptors: list[int]) -> Request:
    try:
        interpreter, count, *texts = map(os.fsdecode, data.split(b"\0"))
        end = int(count)
        arguments = texts[:end]
        program = texts[end]
        environment = dict(text.split("=", 1) for text in texts[end + 1 :])
    except (ValueError, IndexError):
        raise CallerRefused("the request is not valid") from None
    if len(descriptors) != _DESCRIPTORS:
        raise CallerRefused("the request has no standard streams")
    if interpreter != describe_interpreter():
        raise CallerRefused(_describe_difference(environment))
    return Request(arguments, [program], environment, [*descriptors])


def _describe_difference(environment: Mapping[str, str]) -> str:
    """Return why Python would be another one in a newly started program."""
    theirs = dict(list_interpreter_variables(environment))
    ours = dict(list_interpreter_variables(os.environ))
    names = [name for name in sorted(theirs | ours) if theirs.get(name) != ours.get(name)]
    if not names:
        return "Python would run with other options or another search path"
    shown = ", ".join(names[:_MAX_NAMED])
    if len(names) > _MAX_NAMED:
        shown = f"{shown} and {len(names) - _MAX_NAMED} more"
    return (
        f"{shown} had another value when the server was started. To use the present value, run"
        " `hilum fork-server stop` and `hilum fork-server start`"
    )
