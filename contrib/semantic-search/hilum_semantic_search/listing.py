"""Lists the files of a workspace that belong in the index, with their state."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import trio
from hilum_search import list_files, workspace_scope

if TYPE_CHECKING:
    from hilum.processes import Processes

RACY = ""
"""The state of a file that may change again without a visible difference."""
# The clock of file systems advances in steps of up to 10 ms.
_RACY_NANOSECONDS = 50_000_000
# Files that contain no text, or none that a person wrote.
_SKIPPED_SUFFIXES = frozenset(
    """.png .jpg .jpeg .gif .bmp .ico .webp .tif .tiff .svg .pdf .ps .zip .gz .bz2 .xz .zst .tar .tgz
    .7z .rar .jar .whl .egg .so .dylib .dll .a .o .obj .lib .exe .bin .dat .pyc .pyo .class .wasm .mp3
    .mp4 .m4a .wav .ogg .flac .avi .mov .webm .ttf .otf .woff .woff2 .eot .db .sqlite .sqlite3 .npy
    .npz .parquet .feather .h5 .pkl .pt .pth .onnx .safetensors .gguf .map .lock .sum .snap .pem .crt
    .key .p12 .mo .pot""".split()
)
_SKIPPED_ENDINGS = (b".min.js", b".min.css", b"-lock.json", b"-lock.yaml", b".bundle.js")
_SKIPPED_NAMES = frozenset((b".DS_Store",))


class Listing(NamedTuple):
    """The files of a workspace.

    Attributes:
        states: The state of each file, by path relative to the workspace.
        left_out: Number of files beyond the maximum.
    """

    states: dict[bytes, str]
    left_out: int


async def list_workspace(
    processes: Processes, root: Path, *, max_size: int, max_files: int
) -> Listing:
    """List the files that ``search_files`` would search, without those that contain no text.

    Args:
        processes: What starts ripgrep.
        root: The workspace.
        max_size: Maximum size of a file in bytes.
        max_files: Maximum number of files; those nearest to the root are kept.

    Raises:
        ToolError: ripgrep is not installed, or failed.
    """
    paths = list[bytes]()

    def take(found: list[bytes]) -> bool:
        paths.extend(found)
        return False

    scope = await trio.to_thread.run_sync(workspace_scope, root, max_size, abandon_on_cancel=True)
    await list_files(processes, scope, take)
    return await trio.to_thread.run_sync(
        _read_states, root, paths, max_size, max_files, abandon_on_cancel=True
    )


def _read_states(root: Path, paths: list[bytes], max_size: int, max_files: int) -> Listing:
    kept = [path for path in paths if path and _may_contain_text(path)]
    left_out = max(len(kept) - max_files, 0)
    if left_out:
        kept = sorted(kept, key=lambda path: (path.count(b"/"), path))[:max_files]
    # Resolving a path relative to a descriptor is faster than joining it to the root.
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return Listing(dict(_find_states(folder, kept, max_size)), left_out)
    finally:
        os.close(folder)


def _find_states(folder: int, paths: list[bytes], max_size: int) -> Iterable[tuple[bytes, str]]:
    now = time.time_ns()
    for path in paths:
        try:
            status = os.stat(path, dir_fd=folder, follow_symlinks=False)
        except OSError:  # the file has just been removed
            continue
        if stat.S_ISREG(status.st_mode) and 0 < status.st_size <= max_size:
            yield path, _describe(status, now)


def _describe(status: os.stat_result, now: int) -> str:
    # Another change within the same step of the clock could leave all of these as they are.
    if abs(now - status.st_ctime_ns) < _RACY_NANOSECONDS:
        return RACY
    # The time of the last change of the inode cannot be set, unlike that of the content.
    return f"{status.st_mtime_ns:x}.{status.st_ctime_ns:x}.{status.st_size:x}.{status.st_ino:x}"


def _may_contain_text(path: bytes) -> bool:
    name = path.rpartition(b"/")[2]
    if name in _SKIPPED_NAMES or name.endswith(_SKIPPED_ENDINGS):
        return False
    suffix = os.fsdecode(os.path.splitext(name)[1]).lower()
    return suffix not in _SKIPPED_SUFFIXES
