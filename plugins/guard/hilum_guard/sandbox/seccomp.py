"""Build a system call filter that rejects sockets by address family.

The filter confines commands if no network namespace confines them. The filter is a BPF program,
which this module builds from a few instructions per architecture. The filter also rejects
``io_uring``, which opens sockets without the ``socket`` call; the kernel's key management; and
system calls from another architecture (32-bit, x32), in which the same numbers mean other system
calls. ``socketpair`` is allowed, because it only connects a process to itself.
"""

from __future__ import annotations

# By architecture: AUDIT_ARCH_…, the number of socket(2), the numbers of system calls that are
# always rejected, and whether x32 shares the architecture. The rejected system calls are
# io_uring_setup, add_key, request_key and keyctl; kernel keys belong to the user and not to a
# namespace.
ARCHITECTURES = {
    "x86_64": (0xC000003E, 41, (425, 248, 249, 250), True),
    "aarch64": (0xC00000B7, 198, (425, 217, 218, 219), False),
}
UNIX = 1
VSOCK = 40
UNSPACED = (VSOCK,)
"""Address families that no network namespace confines: sockets between a virtual machine and its
host.
"""
LOCAL = (UNIX, VSOCK)
"""The address families in ``UNSPACED``, and Unix sockets, whose addresses are files."""
ALL = ()
"""All address families."""

# BPF operations: LD|W|ABS, JMP|JEQ|K, JMP|JGE|K, RET|K.
_LOAD = 0x20
_EQUAL = 0x15
_AT_LEAST = 0x35
_RETURN = 0x06
# SECCOMP_RET_ALLOW, and SECCOMP_RET_ERRNO with EACCES.
_ALLOW = 0x7FFF0000
_REFUSE = 0x00050000 | 13
# Offsets in struct seccomp_data.
_NUMBER = 0
_ARCHITECTURE = 4
# Offset of the lower half of the first argument; both architectures are little-endian.
_FAMILY = 16


def program(machine: str, families: tuple[int, ...]) -> bytes:
    """Return the system call filter as a BPF program.

    Args:
        machine: The architecture, as returned by ``os.uname().machine``.
        families: Address families whose sockets are rejected; empty for all.

    Raises:
        KeyError: No filter exists for this architecture.
    """
    arch, socket, refused, x32 = ARCHITECTURES[machine]
    code: list[tuple[int, int, int, int]] = []
    # Every number is at least 0, so this check matches all families if none are given.
    checks = [(_EQUAL, family) for family in families] or [(_AT_LEAST, 0)]
    code += [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, arch),
        (_RETURN, 0, 0, _REFUSE),
        (_LOAD, 0, 0, _NUMBER),
    ]
    # x32 system calls report the same architecture, and bit 30 of their numbers is set.
    if x32:
        code += [(_AT_LEAST, 0, 1, 0x40000000), (_RETURN, 0, 0, _REFUSE)]
    for number in refused:
        code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE)]
    code += [(_EQUAL, 1, 0, socket), (_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, _FAMILY)]
    for operation, value in checks:
        code += [(operation, 0, 1, value), (_RETURN, 0, 0, _REFUSE)]
    code += [(_RETURN, 0, 0, _ALLOW)]
    # Each instruction is a struct sock_filter: the operation, two jump distances and a value.
    return b"".join(
        operation.to_bytes(2, "little") + bytes((yes, no)) + value.to_bytes(4, "little")
        for operation, yes, no, value in code
    )
