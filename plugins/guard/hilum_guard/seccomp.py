"""A system call filter that refuses sockets by family, for where no network namespace keeps them
in.

The programs are BPF, built here from a few instructions per architecture. They also refuse
``io_uring``, which opens sockets without the system call, the keys of the kernel, and calls in the
way of another architecture (32-bit, x32), whose numbers mean other things.
``socketpair`` stays: it connects a process to nobody but itself.
"""

from __future__ import annotations

# AUDIT_ARCH_…, the number of socket, the numbers of what is refused always, and whether x32 shares
# the architecture. Refused are io_uring_setup, and add_key, request_key and keyctl: keys of the
# kernel belong to the user, not to a namespace.
ARCHITECTURES = {
    "x86_64": (0xC000003E, 41, (425, 248, 249, 250), True),
    "aarch64": (0xC00000B7, 198, (425, 217, 218, 219), False),
}
UNIX = 1
VSOCK = 40
UNSPACED = (VSOCK,)
"""Families that no network namespace keeps in: sockets between a virtual machine and its host."""
LOCAL = (UNIX, VSOCK)
"""These, and the ones whose names are files."""
ALL = ()
"""Every family."""

_LOAD = 0x20
_EQUAL = 0x15
_AT_LEAST = 0x35
_RETURN = 0x06  # BPF: LD|W|ABS, JMP|JEQ|K, JMP|JGE|K, RET|K
_ALLOW = 0x7FFF0000
_REFUSE = 0x00050000 | 13  # SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO | EACCES
_NUMBER = 0
_ARCHITECTURE = 4
_FAMILY = 16  # offsets in struct seccomp_data


def program(machine: str, families: tuple[int, ...]) -> bytes:
    """Build the filter.

    Args:
        machine: Architecture, as ``os.uname().machine`` names it.
        families: Address families whose sockets are refused; empty for all.

    Raises:
        KeyError: There is no filter for this architecture.
    """
    arch, socket, refused, x32 = ARCHITECTURES[machine]
    code: list[tuple[int, int, int, int]] = []
    checks = [(_EQUAL, family) for family in families] or [(_AT_LEAST, 0)]
    code += [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, arch),
        (_RETURN, 0, 0, _REFUSE),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if x32:
        code += [(_AT_LEAST, 0, 1, 0x40000000), (_RETURN, 0, 0, _REFUSE)]
    for number in refused:
        code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE)]
    code += [(_EQUAL, 1, 0, socket), (_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, _FAMILY)]
    for operation, value in checks:
        code += [(operation, 0, 1, value), (_RETURN, 0, 0, _REFUSE)]
    code += [(_RETURN, 0, 0, _ALLOW)]
    return b"".join(
        operation.to_bytes(2, "little") + bytes((yes, no)) + value.to_bytes(4, "little")
        for operation, yes, no, value in code
    )
