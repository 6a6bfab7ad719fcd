"""List the Unix sockets that programs on this machine have bound to a path.

``/proc/net/unix`` shows the name that a program passed to ``bind``, which need not be the path of the
socket today: it may be relative, go through links, or have been renamed (OpenSSH binds another name,
links it to the path of a shared connection, and removes it). Therefore the kernel is also asked for
the inodes of the sockets, by netlink (sock_diag(7)).
"""

from __future__ import annotations

import os
import re
import socket
import struct
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

# The number of a socket, and its name.
_ENTRY = re.compile(rb"^[0-9a-f]+: \w+ \w+ \w+ \w+ \w+ +(\d+) ([^\n]+)", re.MULTILINE)

# From linux/netlink.h, linux/sock_diag.h and linux/unix_diag.h.
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_DONE = 3
_ERROR = 2
_ALL_STATES = 0xFFFFFFFF
_SHOW_NAME_AND_FILE = 3
_ATTRIBUTE_NAME = 0
_ATTRIBUTE_FILE = 1
_HEADER = struct.Struct("=IHHII")
_MESSAGE = struct.Struct("=BBBBIII")  # family, type, state, padding, number, two cookies
_ATTRIBUTE = struct.Struct("=HH")
_FILE = struct.Struct("=II")  # inode, device
_BUFFER_BYTES = 65_536
_TIMEOUT = 1.0


class BoundSocket(NamedTuple):
    """A socket that a program has bound to a path.

    Attributes:
        number: The kernel's number of the socket.
        name: The path as it was passed to ``bind``.
        inode: The lower 32 bits of the inode of its file; 0 if it is unknown.
    """

    number: int
    name: str
    inode: int = 0


def read_list() -> bytes | None:
    """Return the kernel's list of sockets, which changes whenever a socket appears; or ``None``."""
    try:
        with open("/proc/net/unix", "rb", 0) as file:
            return file.read()
    except OSError:
        return None


def select_named(listed: bytes) -> tuple[tuple[bytes, bytes], ...]:
    """Return the numbers and names in a list of sockets."""
    return tuple(_ENTRY.findall(listed))


def find_bound_sockets(named: Iterable[tuple[bytes, bytes]]) -> list[BoundSocket]:
    """Return the sockets of this network namespace that have a file.

    Args:
        named: The result of ``select_named``, for kernels that do not tell more. It has names only up
            to the first line break, and may lack some while others come and go. Names that begin
            with ``@`` are those of abstract sockets, which have no file.
    """
    found = {int(number): BoundSocket(int(number), os.fsdecode(name)) for number, name in named}
    known = _ask_kernel()
    if not known:
        return [each for each in found.values() if not each.name.startswith("@")]
    named_only = [each for each in found.values() if each.name.startswith("/")]
    return list({each.number: each for each in (*named_only, *known)}.values())


def _ask_kernel() -> list[BoundSocket]:
    """Return the sockets that have a file; none if the kernel does not tell."""
    found: list[BoundSocket] = []
    with (
        suppress(OSError, struct.error),
        socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG) as connection,
    ):
        connection.settimeout(_TIMEOUT)
        show = _SHOW_NAME_AND_FILE
        no_cookie = 0xFFFFFFFF
        body = struct.pack(
            "=BBHIIIII", socket.AF_UNIX, 0, 0, _ALL_STATES, 0, show, no_cookie, no_cookie
        )
        size = _HEADER.size + len(body)
        header = _HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 1, 0)
        connection.send(header + body)
        while _read_part(connection.recv(_BUFFER_BYTES), found):
            pass
    return found


def _read_part(data: bytes, found: list[BoundSocket]) -> bool:
    """Read a part of the kernel's answer; return whether another part follows."""
    start = 0
    while start < len(data):
        size, kind, _, _, _ = _HEADER.unpack_from(data, start)
        if kind in (_DONE, _ERROR) or size < _HEADER.size:
            return False
        body = start + _HEADER.size
        number = _MESSAGE.unpack_from(data, body)[4]
        name, inode = _read_attributes(data, body + _MESSAGE.size, start + size)
        if name and inode:
            found.append(BoundSocket(number, os.fsdecode(name), inode))
        start += _align(size)
    return bool(data)


def _read_attributes(data: bytes, start: int, end: int) -> tuple[bytes, int]:
    """Return the name of a socket and the inode of its file, if it has them."""
    name = b""
    inode = 0
    while start < end:
        size, kind = _ATTRIBUTE.unpack_from(data, start)
        if size < _ATTRIBUTE.size:
            break
        value = start + _ATTRIBUTE.size
        if kind == _ATTRIBUTE_NAME:
            name = data[value : start + size].rstrip(b"\0")
        elif kind == _ATTRIBUTE_FILE:
            inode = _FILE.unpack_from(data, value)[0]
        start += _align(size)
    return name, inode


def _align(size: int) -> int:
    return (size + 3) & ~3


def find_folders_of_owners(numbers: frozenset[int]) -> dict[int, set[str]]:
    """Return the current folders of the processes that have some sockets open.

    Processes of other users are left out. This reads the descriptors of all processes of the user.

    Args:
        numbers: The kernel's numbers of the sockets.
    """
    links = {f"socket:[{number}]": number for number in numbers}
    found: dict[int, set[str]] = {}
    for process in filter(str.isdigit, os.listdir("/proc")):
        # The process has ended, or belongs to another user.
        with suppress(OSError):
            for descriptor in os.listdir(f"/proc/{process}/fd"):
                number = _read_number(f"/proc/{process}/fd/{descriptor}", links)
                if number is not None:
                    found.setdefault(number, set()).add(os.readlink(f"/proc/{process}/cwd"))
    return found


def _read_number(path: str, links: dict[str, int]) -> int | None:
    """Return the number of the socket to which a descriptor leads, if it is among the given ones."""
    try:
        return links.get(os.readlink(path))
    except OSError:
        return None
