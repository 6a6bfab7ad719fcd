"""The Landlock sandbox, for systems without bubblewrap.

A process gives up its rights and then executes the command. Landlock can grant access to paths but
cannot make exceptions: everything in a writable folder is writable, and to hide a folder, hilum
grants access to each of its siblings. Landlock covers neither modes, owners and times, nor sockets
other than TCP sockets. A namespace, if the system lets users create one, and a system call filter
(``seccomp``) restrict the network.

hilum imports this module, and also runs it before each command (``main``). ``main`` runs outside
the package and imports few modules, because every command waits for it to start.
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
    from typing import Any

# System calls landlock_create_ruleset, landlock_add_rule and landlock_restrict_self. The system
# call numbers are the same on every architecture.
_CREATE = 444
_ADD = 445
_RESTRICT = 446
# Options of prctl(2), from linux/prctl.h.
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAPBSET_DROP = 24
_PR_SET_SECCOMP = 22
# Flags of unshare(2) and setns(2), from linux/sched.h.
_NEWUSER = 0x10000000
_NEWNET = 0x40000000
_NEWIPC = 0x08000000
# Bits of the access rights (linux/landlock.h): 0 execute, 1 write, 2 read, 3 list, 4 to 12 remove
# and make, 13 refer, 14 truncate, 15 ioctl on devices.
_EXECUTE = 1
_WRITE = 2
_READ = 4
_LIST = 8
_TRUNCATE = 1 << 14
_IOCTL = 1 << 15
_OF_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE | _IOCTL
# Rights that each ABI version below 5 supports; later versions support all 16 rights.
_OF_SYSTEM = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF}
_ALL_RIGHTS = 0xFFFF
# Size of struct landlock_ruleset_attr in bytes, by ABI version; 24 from version 6 on.
_ATTRIBUTE_SIZES = {1: 8, 2: 8, 3: 8, 4: 16, 5: 16}
_SCOPED = 3  # abstract Unix sockets and signals, from ABI 6 on
_TYPE_MASK = 0o170000
_LINK = 0o120000
_FOLDER = 0o040000
_CAPABILITIES = 64
_FAILED = 125  # the exit code that bubblewrap uses
# Programs expect to write to these devices. Other devices, such as disks, stay read-only.
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm")


def load_libc() -> Callable[..., int]:
    """Return a function that calls a C library function by name.

    The returned function raises ``OSError`` if the called function fails.
    """
    library = ctypes.CDLL(None, use_errno=True)

    def call(name: str, *arguments: object) -> int:
        values = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
        result: int = getattr(library, name)(*values)
        if result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), name)
        return result

    return call


def read_abi_version() -> int:
    """Return the version of this kernel's Landlock ABI; 0 if Landlock is unavailable."""
    try:
        # The flag 1 (LANDLOCK_CREATE_RULESET_VERSION) returns the version instead of a ruleset.
        return load_libc()("syscall", _CREATE, None, 0, 1)
    except OSError:
        return 0


def restrict(
    call: Callable[..., int], version: int, writable: Iterable[str], hidden: Iterable[str]
) -> None:
    """Permanently give up all rights to other files for this process and its descendants.

    Args:
        call: The C library.
        version: The version of the Landlock ABI.
        writable: Files and folders that may be written.
        hidden: Files and folders that may not be read.
    """
    # The kernel rejects a ruleset with rights that it does not know, so an older version receives
    # fewer.
    handled = _OF_SYSTEM.get(version, _ALL_RIGHTS)
    scoped = _SCOPED if version >= 6 else 0
    # The second field (rights to TCP ports) stays 0: a namespace or the system call filter confines
    # the network, and both also cover other protocols.
    attributes = b"".join(value.to_bytes(8, sys.byteorder) for value in (handled, 0, scoped))
    size = _ATTRIBUTE_SIZES.get(version, 24)
    ruleset = call("syscall", _CREATE, attributes, size, 0)

    def allow(path: str, rights: int) -> None:
        _add_rule(call, ruleset, path, rights & handled)

    excepted = tuple(hidden)
    # The parents of hidden paths get no other rule, and programs must be able to list them. A rule
    # applies to everything below its path, so the names of hidden files are also visible.
    allow("/", _LIST)
    for path in find_readable_paths(excepted):
        allow(path, _EXECUTE | _READ | _LIST)
    for folder in writable:
        # The command cannot create files directly in a folder that contains a hidden path.
        for path in find_readable_paths(excepted, folder):
            allow(path, handled)
    for name in _DEVICES:
        is_folder = name in ("pts", "shm")
        allow(f"/dev/{name}", handled if is_folder else _OF_FILES & ~_EXECUTE)
    # The kernel requires no_new_privs for processes without CAP_SYS_ADMIN.
    call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    call("syscall", _RESTRICT, ruleset, 0)


def _add_rule(call: Callable[..., int], ruleset: int, path: str, rights: int) -> None:
    """Grant access rights to a path if it exists and is not a link."""
    try:
        # A link grants no access to its target, which may be hidden and needs its own rule.
        fd = posix.open(path, posix.O_PATH | posix.O_CLOEXEC | posix.O_NOFOLLOW)
    except OSError:  # the path does not exist, or this user cannot open it
        return
    try:
        kind = posix.fstat(fd).st_mode & _TYPE_MASK
        if kind == _LINK:
            return
        # The kernel rejects a rule that gives a file rights that only folders have (EINVAL).
        if kind != _FOLDER:
            rights &= _OF_FILES
        rule = rights.to_bytes(8, sys.byteorder) + fd.to_bytes(4, sys.byteorder)
        call("syscall", _ADD, ruleset, 1, rule, 0)
    finally:
        posix.close(fd)


def find_readable_paths(hidden: tuple[str, ...], folder: str = "/") -> Iterator[str]:
    """Yield the paths that need a rule to make all but the hidden paths in a folder readable."""
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
            yield from find_readable_paths(hidden, path)
        else:
            yield path


def enter_namespaces(call: Callable[..., int], network: bool) -> bool:
    """Enter a new user namespace and a new network namespace that has only a loopback.

    Args:
        call: The C library.
        network: Whether to create the network namespace.

    Returns:
        Whether the system allowed the namespaces.
    """
    user = posix.geteuid()
    group = posix.getegid()
    # A group can be mapped only after setgroups is denied (user_namespaces(7)).
    mappings = {
        "setgroups": "deny",
        "uid_map": f"{user} {user} 1",
        "gid_map": f"{group} {group} 1",
    }
    try:
        call("unshare", _NEWUSER | _NEWIPC | (_NEWNET if network else 0))
        for name, text in mappings.items():
            _write(f"/proc/self/{name}", text)
        if network:
            _start_loopback(call)
    except OSError:
        return False
    return True


def _write(path: str, text: str) -> None:
    fd = posix.open(path, posix.O_WRONLY)
    try:
        posix.write(fd, text.encode())
    finally:
        posix.close(fd)


def join_namespaces(call: Callable[..., int], paths: tuple[str, ...]) -> None:
    """Enter a user namespace and the network namespace that it owns (see ``loopback``)."""
    # Open both namespaces first, because their paths are not visible inside the user namespace.
    fds = [posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC) for path in paths]
    # Join the user namespace first, because joining the network namespace needs the capabilities
    # that a process has in the owning user namespace (setns(2)).
    for fd, kind in zip(fds, (_NEWUSER, _NEWNET), strict=False):
        call("setns", fd, kind)
        posix.close(fd)


def _start_loopback(call: Callable[..., int]) -> None:
    """Enable the loopback device in a new network namespace."""
    # An ioctl on a network device needs a socket, of any type (netdevice(7)).
    fd = call("socket", 2, 2, 0)
    request = b"lo".ljust(16, b"\0") + (1).to_bytes(2, sys.byteorder).ljust(24, b"\0")  # IFF_UP
    call("ioctl", fd, 0x8914, request)  # SIOCSIFFLAGS
    posix.close(fd)


def drop_capabilities(call: Callable[..., int]) -> None:
    """Remove all capabilities from the command, even if it runs as root."""
    # A program that root executes gets its capabilities from the bounding set (capabilities(7)), so
    # the set is emptied before the command is executed.
    for number in range(_CAPABILITIES):
        try:
            call("prctl", _PR_CAPBSET_DROP, number, 0, 0, 0)
        except OSError:  # the capability does not exist, or the process is not root
            return


def install_filter(call: Callable[..., int], program: bytes) -> None:
    """Install a BPF program that rejects system calls."""
    # The variable keeps the buffer alive during the call, because the structure contains only the
    # buffer's address.
    kept = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: the number of instructions, padding, and a pointer to them.
    head = (len(program) // 8).to_bytes(2, sys.byteorder).ljust(8, b"\0")
    address = ctypes.addressof(kept).to_bytes(ctypes.sizeof(ctypes.c_void_p), sys.byteorder)
    fprog = ctypes.create_string_buffer(head + address, len(head + address))
    call("prctl", _PR_SET_SECCOMP, 2, fprog, 0, 0)


def hold_loopback(script: str) -> None:
    """Create a loopback that can be shared, and run a shell script in its namespaces."""
    if not enter_namespaces(load_libc(), True):
        posix._exit(_FAILED)
    os.execv("/bin/sh", ("sh", "-c", script))


def main(spec: str, *argv: str) -> None:
    """Give up rights as specified, and execute the command.

    Args:
        spec: A marshalled tuple in hexadecimal, made by ``backends.confine``.
        argv: The command.
    """
    init = __import__("sandbox_init")  # a module next to this one; the package is not loaded
    *options, env = marshal.loads(bytes.fromhex(spec))
    try:
        _give_up_rights(init, *options)
    except OSError as error:
        # If any part of the sandbox fails, the command does not start.
        sys.stderr.write(f"hilum: the sandbox could not be built: {error}\n")
        sys.stderr.flush()
        posix._exit(_FAILED)
    init.restore_signals()
    # The environment variables are set only now, so that LD_PRELOAD and similar variables affect
    # the command but not this process.
    os.environ.update(env)
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        posix._exit(init.report_start_failure(argv[0], error))


def _give_up_rights(
    init: Any,
    version: int,
    writable: tuple[str, ...],
    hidden: tuple[str, ...],
    apart: bool,
    network: bool,
    shared: tuple[str, ...],
    filters: bytes,
    processes: int,
    file_size: int,
) -> None:
    """Build the sandbox around this process.

    Args:
        init: The module ``sandbox_init``.
        version: The version of the Landlock ABI.
        writable: Files and folders that may be written.
        hidden: Files and folders that may not be read.
        apart: Whether to create and enter new namespaces.
        network: Whether to block network access.
        shared: The namespaces of the session's loopback, if any.
        filters: The system call filter; empty for none.
        processes: Maximum number of processes and threads.
        file_size: Maximum size of a file, in megabytes.

    Raises:
        OSError: A part of the sandbox cannot be built.
    """
    call = load_libc()
    # The order matters: creating namespaces needs rights that the later steps give up.
    join_namespaces(call, shared)
    if apart and not enter_namespaces(call, network and not shared):
        raise OSError(0, "the namespaces cannot be created")
    drop_capabilities(call)
    restrict(call, version, writable, hidden)
    if filters:
        # The filter is the last restriction, because it would reject system calls that the other
        # restrictions need.
        install_filter(call, filters)
    if not apart:
        # Outside a user namespace, all of the user's processes count towards the limit.
        with open("/proc/loadavg") as file:
            # The fourth field ends with the number of threads on the whole system, which is an
            # upper bound for the user's threads.
            processes += int(file.read().split()[3].partition("/")[2])
    init.set_limits(processes, file_size)
