"""The sandbox of Landlock, for where bubblewrap is not: the command's own process gives up its
rights, then becomes it.

Landlock allows and cannot except: what is in a writable folder is writable, and to hide a folder,
everything beside it is allowed one by one. It does not know modes, owners and times, nor sockets
but TCP ones. For the network there is a namespace where the system lets users make one, and a
filter of system calls (``seccomp``).

This module is what hilum imports, and what runs before the command: ``main``, outside the package,
on few modules.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_CREATE = 444
_ADD = 445
_RESTRICT = 446  # the same on every architecture
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAPBSET_DROP = 24
_PR_SET_SECCOMP = 22
_NEWUSER = 0x10000000
_NEWNET = 0x40000000
_NEWIPC = 0x08000000
# Rights: 0 execute, 1 write, 2 read, 3 list, 4 to 12 remove and make, 13 refer, 14 truncate, 15
# device ioctl.
_EXECUTE = 1
_WRITE = 2
_READ = 4
_LIST = 8
_TRUNCATE = 1 << 14
_IOCTL = 1 << 15
_OF_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE | _IOCTL
_OF_SYSTEM = {
    1: (1 << 13) - 1,
    2: (1 << 14) - 1,
    3: (1 << 15) - 1,
    4: (1 << 15) - 1,
}  # by ABI; all from 5 on
_SCOPED = 3  # abstract Unix sockets and signals, from ABI 6 on
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm")


def libc() -> Callable[..., int]:
    """Return a function that calls one of the C library's by name, and raises ``OSError`` when it
    fails.
    """
    library = ctypes.CDLL(None, use_errno=True)

    def call(name: str, *arguments: object) -> int:
        values = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
        result: int = getattr(library, name)(*values)
        if result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), name)
        return result

    return call


def abi() -> int:
    """Return the version of Landlock that this kernel has, 0 for none."""
    try:
        return libc()("syscall", _CREATE, None, 0, 1)
    except OSError:
        return 0


def restrict(
    call: Callable[..., int], version: int, writable: Iterable[str], hidden: Iterable[str]
) -> None:
    """Give up the rights to all files but these, for this process and all that come of it.

    Nothing brings them back.

    Args:
        call: The C library.
        version: Landlock's version.
        writable: Files and folders to write to.
        hidden: Files and folders not to read.
    """
    handled = _OF_SYSTEM.get(version, (1 << 16) - 1)
    scoped = _SCOPED if version >= 6 else 0
    attributes = b"".join(value.to_bytes(8, sys.byteorder) for value in (handled, 0, scoped))
    ruleset = call(
        "syscall", _CREATE, attributes, {1: 8, 2: 8, 3: 8, 4: 16, 5: 16}.get(version, 24), 0
    )

    def allow(path: str, rights: int) -> None:
        try:
            # What a link leads to has a place of its own, which may be hidden.
            fd = posix.open(path, posix.O_PATH | posix.O_CLOEXEC | posix.O_NOFOLLOW)
        except OSError:  # not there, or not for this user
            return
        kind = posix.fstat(fd).st_mode & 0o170000
        if kind == 0o120000:
            return posix.close(fd)
        if kind != 0o040000:
            rights &= _OF_FILES
        rule = (rights & handled).to_bytes(8, sys.byteorder) + fd.to_bytes(4, sys.byteorder)
        call("syscall", _ADD, ruleset, 1, rule, 0)
        posix.close(fd)

    allow("/", _LIST)
    for path in readable(tuple(hidden)):
        allow(path, _EXECUTE | _READ | _LIST)
    for folder in writable:
        for path in readable(
            tuple(hidden), folder
        ):  # one with a hidden path in it loses the right to new names
            allow(path, handled)
    for name in _DEVICES:
        allow(f"/dev/{name}", handled if name in ("pts", "shm") else _OF_FILES & ~_EXECUTE)
    call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    call("syscall", _RESTRICT, ruleset, 0)


def readable(hidden: tuple[str, ...], folder: str = "/") -> Iterator[str]:
    """Yield what to allow reading so that all but the hidden paths can be read: folders, and what
    is beside hidden ones.
    """
    prefix = folder.rstrip("/") + "/"
    if folder in hidden:
        return
    if not any(path.startswith(prefix) for path in hidden):
        yield folder
        return
    try:
        names = posix.listdir(folder)
    except OSError:
        return
    for name in names:
        path = prefix + name
        if any(each == path or each.startswith(path + "/") for each in hidden):
            yield from readable(hidden, path)
        else:
            yield path


def separate(call: Callable[..., int], network: bool) -> bool:
    """Enter a user namespace of one's own, and with it a network of one's own with a loopback only.

    Args:
        call: The C library.
        network: Whether to make the network.

    Returns:
        Whether the system let this be done.
    """
    user = posix.geteuid()
    group = posix.getegid()
    try:
        call("unshare", _NEWUSER | _NEWIPC | (_NEWNET if network else 0))
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            fd = posix.open(f"/proc/self/{name}", posix.O_WRONLY)
            try:
                posix.write(fd, text.encode())
            finally:
                posix.close(fd)
        if network:
            _loopback(call)
    except OSError:
        return False
    return True


def join(call: Callable[..., int], namespaces: tuple[str, ...]) -> None:
    """Enter a user namespace and the network namespace that it owns, given by their paths (see
    ``loopback``).
    """
    fds = [
        posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC) for path in namespaces
    ]  # from the inside they are not seen
    for fd, kind in zip(fds, (_NEWUSER, _NEWNET), strict=False):
        call("setns", fd, kind)
        posix.close(fd)


def _loopback(call: Callable[..., int]) -> None:
    """Switch the loopback device of a new network on."""
    fd = call("socket", 2, 2, 0)
    request = b"lo".ljust(16, b"\0") + (1).to_bytes(2, sys.byteorder).ljust(24, b"\0")  # IFF_UP
    call("ioctl", fd, 0x8914, request)  # SIOCSIFFLAGS
    posix.close(fd)


def drop_capabilities(call: Callable[..., int]) -> None:
    """See to it that the command has no capability, even where it runs as root."""
    for number in range(64):
        try:
            call("prctl", _PR_CAPBSET_DROP, number, 0, 0, 0)
        except OSError:  # beyond the last one, or not root
            return


def install_filter(call: Callable[..., int], program: bytes) -> None:
    """Have the system refuse calls by a BPF program."""
    kept = ctypes.create_string_buffer(program, len(program))
    head = (len(program) // 8).to_bytes(2, sys.byteorder).ljust(8, b"\0")
    address = ctypes.addressof(kept).to_bytes(ctypes.sizeof(ctypes.c_void_p), sys.byteorder)
    call(
        "prctl",
        _PR_SET_SECCOMP,
        2,
        ctypes.create_string_buffer(head + address, len(head + address)),
        0,
        0,
    )


def make(script: str) -> None:
    """Make a loopback to share, and run a shell script in it."""
    if not separate(libc(), True):
        posix._exit(125)
    os.execv("/bin/sh", ("sh", "-c", script))


def main(spec: str, *argv: str) -> None:
    """Give up rights as the specification says, and become the command.

    Args:
        spec: A marshalled tuple in hexadecimal, made by ``sandbox.confine``.
        argv: The command.
    """
    inside = __import__("inside")  # beside this one
    version, writable, hidden, apart, network, shared, *rest = marshal.loads(bytes.fromhex(spec))
    filters, processes, file_size, env = rest
    try:
        call = libc()
        join(call, shared)
        separated = separate(call, network and not shared) if apart else False
        if apart and not separated:
            raise OSError(0, "the namespaces cannot be made")
        drop_capabilities(call)
        restrict(call, version, writable, hidden)
        if filters:
            install_filter(call, filters)
        if not separated:  # all of the user's processes count
            with open("/proc/loadavg") as file:
                processes += int(file.read().split()[3].partition("/")[2])
        inside.limit(processes, file_size)
    except OSError as error:
        sys.stderr.write(f"hilum: the sandbox could not be built: {error}\n")
        sys.stderr.flush()
        posix._exit(125)
    inside.default_signals()
    os.environ.update(env)
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        posix._exit(inside.refused(argv[0], error))
