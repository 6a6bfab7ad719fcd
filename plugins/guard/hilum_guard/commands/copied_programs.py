"""Recognise copies of installed programs, which have another name in another folder."""

from __future__ import annotations

import filecmp
import os
import stat
from functools import lru_cache

from hilum_guard.command_paths import locate

_SYSTEM_FOLDERS = ("/usr/", "/bin/", "/sbin/", "/lib/", "/opt/", "/nix/")
# The beginnings of programs for Linux, and for macOS with one or several architectures.
_COMPILED = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
MAX_NAMES = 4
"""Maximum number of names of a program that has several, such as those of BusyBox."""


def find_copied_program(path: str) -> list[str]:
    """Return the installed programs of which a compiled program is a copy. Reads the disk.

    Args:
        path: The absolute path of the program.
    """
    if path.startswith(_SYSTEM_FOLDERS):
        return []
    try:
        path = locate(path)
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            return []
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not file.read(4).startswith(_COMPILED):
                return []
    except (OSError, ValueError):
        return []
    stamp = (status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
    return list(_find_equal(path, status.st_size, stamp))


@lru_cache(64)
def _find_equal(path: str, size: int, stamp: tuple[int, ...]) -> tuple[str, ...]:
    found = []
    for folder in dict.fromkeys(os.environ.get("PATH", os.defpath).split(os.pathsep)):
        for program in _list_programs(folder, size):
            if program != path and _is_equal(program, path):
                found.append(program)
    # The shortest name is the usual one: `git`, not `git-upload-pack`.
    return tuple(sorted(found, key=len)[:MAX_NAMES])


def _list_programs(folder: str, size: int) -> list[str]:
    """Return the files of a certain size in a folder."""
    try:
        with os.scandir(folder) as entries:
            return [each.path for each in entries if each.is_file() and each.stat().st_size == size]
    except OSError:
        return []


def _is_equal(one: str, other: str) -> bool:
    try:
        return filecmp.cmp(one, other, shallow=False)
    except OSError:
        return False
