"""Keep the result of trying the sandbox between two starts of hilum.

Trying bubblewrap starts three processes. Only a result in which bubblewrap enforces everything that
matters is kept, so a wrong entry cannot weaken the sandbox: hilum then still runs each command in
bubblewrap, and a command for which bubblewrap fails does not run at all. Such a failure removes the
entry (see ``Sandbox``). An entry holds only for the file that was tried: another bubblewrap must first
prove that it confines.
"""

from __future__ import annotations

import os
import stat
import tempfile
import time
from contextlib import suppress

import msgspec
from hilum import cache_folder

from hilum_guard.sandbox import bubblewrap
from hilum_guard.sandbox.enforcement import Enforcement

_FILE = "sandbox.json"
_PREFIX = "new-"
_ABANDONED_SECONDS = 60
# What the trial proves. A change makes the results of earlier versions of hilum invalid.
_TRIAL = "starts and confines"
_MAX_SIZE = 100_000
_PRIVATE = 0o700
_OTHERS = 0o077
# What decides whether a process of this user may create namespaces: the start of the system, the
# container (its namespaces), the security module's profile, the system call filter, and the limits.
_FACTS = (
    "/proc/sys/kernel/random/boot_id",
    "/proc/self/attr/current",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/user/max_net_namespaces",
)
_NAMESPACES = ("user", "mnt", "net", "pid")
_STATUS_LINES = ("CapEff:", "CapBnd:", "NoNewPrivs:", "Seccomp:")


class _Entry(msgspec.Struct):
    """A kept result.

    Attributes:
        key: What the result depends on.
        limits: As in ``Enforcement``.
        shared: As in ``Enforcement``.
        reasons: As in ``Enforcement``.
    """

    key: list[str]
    limits: bool
    shared: bool
    reasons: tuple[str, ...]


def read_probe() -> Enforcement | None:
    """Return the kept result, or None if there is none that applies. Blocks for a moment."""
    try:
        folder = os.open(_folder(), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        data = _read_private(folder)
    except OSError:
        return None
    finally:
        os.close(folder)
    try:
        entry = msgspec.json.decode(data, type=_Entry)
    except msgspec.DecodeError:
        return None
    if entry.key != _make_key():
        return None
    return Enforcement(
        "bubblewrap", True, True, "namespace", True, entry.limits, entry.reasons, entry.shared
    )


def write_probe(found: Enforcement) -> None:
    """Keep a result if it may be kept. Blocks for a moment."""
    if found.by != "bubblewrap" or not found.whole or found.network != "namespace":
        return
    entry = _Entry(_make_key(), found.limits, found.shared, found.reasons)
    folder = _folder()
    # The result is found again by trying, so a folder that cannot be written to is no problem.
    with suppress(OSError):
        os.makedirs(folder, mode=_PRIVATE, exist_ok=True)
        if not _is_private(os.lstat(folder)):
            return
        _remove_abandoned(folder)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=_PREFIX, delete=False) as file:
            try:
                file.write(msgspec.json.encode(entry))
                file.flush()
                os.replace(file.name, os.path.join(folder, _FILE))
            except OSError:
                os.unlink(file.name)
                raise


def _remove_abandoned(folder: str) -> None:
    """Remove the temporary files of processes that were killed while they wrote."""
    oldest = time.time() - _ABANDONED_SECONDS
    with os.scandir(folder) as entries:
        for entry in entries:
            is_temporary = entry.name.startswith(_PREFIX)
            if is_temporary and entry.stat(follow_symlinks=False).st_mtime < oldest:
                os.unlink(entry.path)


def forget_probe() -> None:
    """Remove the kept result."""
    with suppress(OSError):
        os.unlink(os.path.join(_folder(), _FILE))


def _folder() -> str:
    return str(cache_folder() / "sandbox")


def _read_private(folder: int) -> bytes:
    """Read the file in a folder, if nobody else can have written either of them.

    Raises:
        OSError: The file cannot be read, or it or the folder is not private.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    file = os.open(_FILE, flags, dir_fd=folder)
    try:
        status = os.fstat(file)
        if not (stat.S_ISREG(status.st_mode) and _is_private(status)):
            raise PermissionError
        if not _is_private(os.fstat(folder)):
            raise PermissionError
        return os.read(file, _MAX_SIZE)
    finally:
        os.close(file)


def _is_private(status: os.stat_result) -> bool:
    return status.st_uid == os.getuid() and not status.st_mode & _OTHERS


def _make_key() -> list[str]:
    """Return what the result depends on."""
    key = [_TRIAL, str(os.getuid()), str(os.getgid()), os.uname().release]
    for program in (bubblewrap.find_bubblewrap(), bubblewrap.find_nsenter()):
        key += (program, *map(str, bubblewrap.identify(program)))
    for name in _NAMESPACES:
        key.append(_read_link(f"/proc/self/ns/{name}"))
    # Only root needs a control group (see ``backends``); each terminal of a user may have another.
    facts = _FACTS if os.getuid() else (*_FACTS, "/proc/self/cgroup")
    for path in facts:
        key.append(_read_text(path))
    for line in _read_text("/proc/self/status").splitlines():
        if line.startswith(_STATUS_LINES):
            key.append(line)
    return key


def _read_link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _read_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
