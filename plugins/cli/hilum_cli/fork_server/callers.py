"""Reads what a caller's process is allowed, and gives a forked process the same.

A forked process inherits everything from the server. What the caller has in its place is read from
``/proc`` and set in the forked process. Where that is impossible, the caller has to start as usual.
"""

from __future__ import annotations

import functools
import os
import resource
import signal
from pathlib import Path
from typing import NamedTuple

from hilum.sharing import explain_peer_refusal

# Fields of /proc/PID/status that a process cannot give itself.
_SAME = (
    "Uid",
    "Gid",
    "Groups",
    "NoNewPrivs",
    "Seccomp",
    "CapInh",
    "CapPrm",
    "CapEff",
    "CapBnd",
    "CapAmb",
)
_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts")
_CGROUPS = "/sys/fs/cgroup"
_LIMITS = {getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}


class Caller(NamedTuple):
    """What the process of a caller has.

    Attributes:
        umask: Its file mode creation mask.
        ignored: The signals that it ignores.
        blocked: The signals that it blocks.
        limits: Its resource limits.
        nice: Its nice value.
        processors: The processors that it may use.
        group: Its control group, if the server is in another one.
        oom_score_adj: Its adjustment for the out-of-memory killer.
    """

    umask: int
    ignored: frozenset[int]
    blocked: frozenset[int]
    limits: dict[int, tuple[int, int]]
    nice: int
    processors: frozenset[int]
    group: str
    oom_score_adj: str


class CallerRefused(Exception):
    """The server must not, or cannot, start a process for a caller."""


def read_caller(process: int, user: int) -> Caller:
    """Return what a process has.

    Args:
        process: The process at the other end of a socket.
        user: Its user.

    Raises:
        CallerRefused: The process is not allowed what the server is allowed, or the reverse.
    """
    reason = explain_peer_refusal(process, user)
    if reason:
        raise CallerRefused(f"it was asked by {reason}")
    try:
        return _read(process)
    except (OSError, ValueError, KeyError) as error:
        raise CallerRefused(f"the calling process cannot be examined ({error})") from None


def _read(process: int) -> Caller:
    theirs = _read_status(process)
    ours = _read_own_status(os.getpid())
    for name in _SAME:
        if theirs.get(name) != ours.get(name):
            raise CallerRefused(f"it has other privileges ({name})")
    for name, own in _read_own_namespaces(os.getpid()).items():
        if _read_link(process, f"ns/{name}") != own:
            raise CallerRefused(f"it is in another namespace ({name})")
    if not os.path.samestat(os.stat(f"/proc/{process}/root"), os.stat("/")):
        raise CallerRefused("it has another root folder")
    if _read_text(process, "attr/current") != _read_text(os.getpid(), "attr/current"):
        raise CallerRefused("it is confined differently")
    group = _read_text(process, "cgroup")
    if group == _read_text(os.getpid(), "cgroup"):
        group = ""
    elif group.count("\n") != 1 or not group.startswith("0::/"):
        raise CallerRefused("it is in another control group")
    return Caller(
        umask=int(theirs["Umask"], 8),
        ignored=_read_signals(theirs["SigIgn"]),
        blocked=_read_signals(theirs["SigBlk"]),
        limits={kind: resource.prlimit(process, kind) for kind in _LIMITS},
        nice=os.getpriority(os.PRIO_PROCESS, process),
        processors=frozenset(os.sched_getaffinity(process)),
        group=group.strip()[3:],
        oom_score_adj=_read_text(process, "oom_score_adj"),
    )


def apply_limits(caller: Caller) -> None:
    """Apply the limits, the priorities and the signals of a caller to this process.

    Raises:
        CallerRefused: The system does not allow it.
    """
    try:
        if caller.group:
            folder = os.path.join(_CGROUPS, caller.group.lstrip("/"))
            Path(folder, "cgroup.procs").write_text(str(os.getpid()))
        if caller.oom_score_adj != _read_text(os.getpid(), "oom_score_adj"):
            Path("/proc/self/oom_score_adj").write_text(caller.oom_score_adj)
        if caller.nice != os.getpriority(os.PRIO_PROCESS, 0):
            os.setpriority(os.PRIO_PROCESS, 0, caller.nice)
        os.sched_setaffinity(0, caller.processors)
        for kind, limits in caller.limits.items():
            if resource.getrlimit(kind) != limits:
                resource.setrlimit(kind, limits)
    except (OSError, ValueError) as error:
        raise CallerRefused(f"the new process cannot have its limits ({error})") from None
    os.umask(caller.umask)
    signal.pthread_sigmask(signal.SIG_SETMASK, caller.blocked)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        wanted = signal.SIG_IGN if number in caller.ignored else signal.SIG_DFL
        # Python ignores these two itself.
        if number not in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, wanted)
    if signal.SIGINT not in caller.ignored:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _read_signals(mask: str) -> frozenset[int]:
    """Return the signals in a mask of ``/proc/PID/status``."""
    bits = int(mask, 16)
    return frozenset(int(number) for number in signal.valid_signals() if bits >> (number - 1) & 1)


def _read_status(process: int) -> dict[str, str]:
    text = Path(f"/proc/{process}/status").read_text(errors="replace")
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


# Only a process itself can change its privileges and its namespaces, and the server does not. Reading
# them takes 0.4 ms of each start.
@functools.lru_cache(maxsize=1)
def _read_own_status(process: int) -> dict[str, str]:
    return _read_status(process)


@functools.lru_cache(maxsize=1)
def _read_own_namespaces(process: int) -> dict[str, str]:
    return {name: _read_link(process, f"ns/{name}") for name in _NAMESPACES}


def _read_link(process: int, name: str) -> str:
    return os.readlink(f"/proc/{process}/{name}")


def _read_text(process: int, name: str) -> str:
    """Return a small file of a process; empty if the kernel does not have it."""
    try:
        return Path(f"/proc/{process}/{name}").read_text()
    except OSError:
        return ""
