"""Find which files a formatter leaves out because of a list of ignored files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise

from hilum_guard.effects.file_access import UNKNOWN
from hilum_guard.small_files import read_small_file

READERS = frozenset(("prettier", "prettierd"))
"""Programs that read ``.prettierignore``."""
MAX_BYTES = 100_000
_DEFAULT = ".prettierignore"
_OPTION = "--ignore-path"


def find_left_out(words: Sequence[str], cwds: Sequence[str | None]) -> tuple[str, ...]:
    """Return absolute patterns of the files that Prettier ignores. Reads the disk.

    A file with exceptions (`!docs/`) is passed over, so that no file is left out by mistake.

    Args:
        words: The words after the program.
        cwds: The folders in which it may run.
    """
    if len(cwds) != 1 or cwds[0] is None:
        return ()
    named = [value for option, value in pairwise(words) if option == _OPTION]
    named += [word.partition("=")[2] for word in words if word.startswith(f"{_OPTION}=")]
    patterns: list[str] = []
    for name in named or [_DEFAULT]:
        path = os.path.join(cwds[0], name)
        patterns += _read_patterns(path) if UNKNOWN not in path else ()
    return tuple(patterns)


def _read_patterns(path: str) -> Iterator[str]:
    """Yield the patterns in a file with the syntax of ``.gitignore``, relative to its folder."""
    data = read_small_file(path, MAX_BYTES) or b""
    lines = [line.strip() for line in data.decode("utf-8", "replace").split("\n")]
    if any(line.startswith("!") for line in lines):
        return
    folder = os.path.dirname(path)
    for line in lines:
        name = line.rstrip("/")
        if not name or line.startswith("#") or any(char in name for char in "\\[?"):
            continue
        yield os.path.join(folder, name.lstrip("/"))
        # A name without a slash means a file in any folder.
        if "/" not in name:
            yield os.path.join(folder, "*", name)
