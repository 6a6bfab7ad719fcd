"""The lease of a batch, so that two drivers never work on one batch at the same time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import msgspec
from hilum import HilumError
from hilum.errors import E_BUSY, E_FAILED

from hilum_dask.folders import BatchFolder, describe_os_error

HEARTBEAT = 5.0
"""Seconds between two signs of life of a driver."""
HEARTBEAT_TIMEOUT = 30.0
"""Seconds after which a driver on another machine that gave no sign of life is taken for dead."""


class Holder(msgspec.Struct):
    """The driver that has the lease, as the file says.

    Attributes:
        epoch: Number of the driver, which grows with each.
        host: Its machine.
        pid: Its process id.
        since: Unix time at which it started.
        ended: Whether it has given the lease back.
    """

    epoch: int = 0
    host: str = ""
    pid: int = 0
    since: float = 0.0
    ended: bool = False

    def describe(self) -> str:
        """Return who it is, as a part of a sentence."""
        since = datetime.fromtimestamp(self.since).strftime("%H:%M on %Y-%m-%d")
        return f"process {self.pid} on {self.host}, since {since}"


class Lease:
    """A lease that this process holds.

    Attributes:
        epoch: The epoch of this driver.
    """

    def __init__(self, descriptor: int, epoch: int) -> None:
        self._descriptor = descriptor
        self.epoch = epoch

    def beat(self) -> None:
        """Give a sign of life."""
        with contextlib.suppress(OSError):
            os.utime(self._descriptor)


@contextmanager
def hold_lease(folder: BatchFolder) -> Iterator[Lease]:
    """Hold the lease of a batch within the block.

    Raises:
        HilumError: ``E_BUSY``: another driver holds it; or the file cannot be written.
    """
    try:
        descriptor = os.open(folder.lease_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _write_error(folder, error) from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_free = True
        except OSError:
            is_free = False
        before = _read(descriptor)
        age = time.time() - os.fstat(descriptor).st_mtime
        # Not every file system shares locks between machines.
        is_elsewhere = before.host not in ("", socket.gethostname()) and not before.ended
        if not is_free or (is_elsewhere and age < HEARTBEAT_TIMEOUT):
            raise HilumError(
                f"Another driver works on {str(folder.root)!r}: {before.describe()}.",
                code=E_BUSY,
                hint="`hilum batch status` shows its progress; `hilum batch cancel` stops it.",
            )
        holder = Holder(before.epoch + 1, socket.gethostname(), os.getpid(), time.time())
        try:
            _write(descriptor, holder)
        except OSError as error:
            raise _write_error(folder, error) from None
        try:
            yield Lease(descriptor, holder.epoch)
        finally:
            holder.ended = True
            with contextlib.suppress(OSError):
                _write(descriptor, holder)
    finally:
        os.close(descriptor)


def find_holder(folder: BatchFolder) -> Holder | None:
    """Return the driver that works on a batch; ``None`` if there is none."""
    try:
        descriptor = os.open(folder.lease_file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        holder = _read(descriptor)
        if holder.ended or not holder.epoch:
            return None
        if holder.host != socket.gethostname():
            age = time.time() - os.fstat(descriptor).st_mtime
            return holder if age < HEARTBEAT_TIMEOUT else None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return holder
        return None
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> Holder:
    """Return what the file says; an empty or damaged file names no driver."""
    try:
        return msgspec.json.decode(os.pread(descriptor, 4096, 0), type=Holder)
    except (OSError, msgspec.DecodeError):
        return Holder()


def _write(descriptor: int, holder: Holder) -> None:
    """Write the file in place, because the lock belongs to this file and not to its name."""
    data = msgspec.json.encode(holder)
    os.pwrite(descriptor, data, 0)
    os.ftruncate(descriptor, len(data))
    os.fsync(descriptor)


def _write_error(folder: BatchFolder, error: OSError) -> HilumError:
    return HilumError(
        f"The folder {str(folder.root)!r} cannot be written: {describe_os_error(error)}.",
        code=E_FAILED,
        hint="Choose another folder with --out.",
    )
