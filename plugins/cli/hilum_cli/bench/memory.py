"""The memory of a process and all its descendants (Linux)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_SUPERVISOR = "warden.serve"


class ProcessMemory(NamedTuple):
    """The memory of the processes with one task.

    Attributes:
        part: The task.
        processes: The number of processes.
        megabytes: Their memory. A page that several of them share counts once in all parts
            together; other programs that use it do not matter.
    """

    part: str
    processes: int
    megabytes: float


def measure_memory(mark: str) -> list[ProcessMemory]:
    """Return the memory of some processes and of their descendants, the largest part first.

    Args:
        mark: ``NAME=value`` in the environment of the processes. Commands in a sandbox do not
            inherit it, so descendants are found by their parents.
    """
    counted: set[tuple[str, str]] = set()
    kilobytes: dict[str, float] = {}
    processes: dict[str, int] = {}
    for process in _find_processes(mark):
        try:
            size = _measure(process, counted)
            part = _describe(process)
        except OSError:  # the process has just ended
            continue
        kilobytes[part] = kilobytes.get(part, 0) + size
        processes[part] = processes.get(part, 0) + 1
    found = [ProcessMemory(part, processes[part], kilobytes[part] / 1024) for part in kilobytes]
    return sorted(found, key=lambda each: -each.megabytes)


def _find_processes(mark: str) -> list[Path]:
    """Return the folders of the processes in ``/proc``, parents before their children."""
    found: list[Path] = []
    children: dict[str, list[Path]] = {}
    for process in _PROC.glob("[0-9]*"):
        try:
            fields = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()
            children.setdefault(fields[1], []).append(process)
            if mark.encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append(process)
        except OSError:  # it has just ended, or belongs to another user
            continue
    for process in found:
        found += [each for each in children.get(process.name, []) if each not in found]
    return found


def _measure(process: Path, counted: set[tuple[str, str]]) -> float:
    """Return the kilobytes of a process, without the file pages that have been counted."""
    total = 0.0
    mapping = ("", "")
    resident = 0.0
    share = 0.0
    for line in (process / "smaps").read_text(errors="replace").splitlines():
        name, _, value = line.partition(":")
        if "-" in name.partition(" ")[0]:
            # The line begins a mapping: addresses, permissions, offset, device, inode, path.
            fields = line.split(maxsplit=5)
            mapping = (fields[5], fields[2]) if len(fields) > 5 else ("", "")
        elif name == "Rss":
            resident = float(value.split()[0])
        elif name == "Pss":
            share = float(value.split()[0])
        elif name == "Anonymous":
            anonymous = float(value.split()[0])
            # Private pages of children that were forked are shared, so their share counts.
            total += min(share, anonymous)
            if mapping[0].startswith("/") and mapping not in counted:
                counted.add(mapping)
                total += resident - anonymous
    return total


def _describe(process: Path) -> str:
    command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    if _SUPERVISOR in command:
        return "supervision of commands"
    if "bare_loop" in command:
        return "bare loop"
    if "hilum" in command.partition(" run ")[0] and "hilum-sandbox" not in command:
        return "hilum"
    return "other programs"
