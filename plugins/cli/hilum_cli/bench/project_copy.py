"""Copies the user's project, so that a measurement never touches the user's files."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import trio
from hilum import remove_folder, walk_folders
from hilum.processes import Command, CommandError, Warden

MAX_FILES = 100_000
"""Maximum number of files to copy from a folder that is not in a Git repository."""
MAX_BYTES = 300_000_000
CLONE_TIMEOUT = 20.0  # seconds
_SKIPPED = frozenset({".git", ".hg", ".venv", "venv", "node_modules", "__pycache__"})
_SYSTEM_TYPES = frozenset(
    {
        "binfmt_misc",
        "bpf",
        "cgroup",
        "cgroup2",
        "configfs",
        "debugfs",
        "devpts",
        "devtmpfs",
        "efivarfs",
        "fusectl",
        "mqueue",
        "proc",
        "pstore",
        "securityfs",
        "sysfs",
        "tracefs",
    }
)
# The clone has only what the last commit has. It shares the objects of the user's repository, which
# it only reads. No program that the repository or the user configures runs: no hook, no filter that
# downloads files, no password prompt.
_CLONE = (
    "git",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "advice.detachedHead=false",
    "clone",
    "-q",
    "--shared",
    "--template=",
)
_CLONE_ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_TERMINAL_PROMPT": "0",
}


class ProjectCopy(NamedTuple):
    """The copy of a project.

    Attributes:
        folder: The folder to work in.
        files: The number of its files.
        folders: The number of its folders.
        is_repository: Whether it is a clone of a Git repository.
        is_whole: Whether the whole project was copied.
        problem: Why the copy of a Git repository is no clone, without a full stop; empty if it is
            one, or if there is no repository.
    """

    folder: Path
    files: int
    folders: int
    is_repository: bool
    is_whole: bool
    problem: str = ""


async def copy_project(warden: Warden, source: Path, target: Path) -> ProjectCopy:
    """Copy a project: the last commit of a Git repository, or the files of another folder.

    Args:
        warden: The owner of the processes.
        source: The project.
        target: The folder to create.

    Raises:
        OSError: The copy cannot be written.
    """
    top = find_repository(source)
    problem = ""
    if top is not None:
        problem = await _clone(warden, top, target)
    if top is not None and not problem:
        inside = target / source.relative_to(top)
        # The folder may not be in the last commit.
        work = inside if inside.is_dir() else target
        files, folders = await trio.to_thread.run_sync(_count, target)
        is_whole = True
        if not files:
            # A repository without a commit.
            is_whole = await trio.to_thread.run_sync(_copy_files, top, target)
            files, folders = await trio.to_thread.run_sync(_count, target)
            work = inside if inside.is_dir() else target
        return ProjectCopy(work, files, folders, True, is_whole)
    is_whole = await trio.to_thread.run_sync(_copy_files, source, target)
    files, folders = await trio.to_thread.run_sync(_count, target)
    return ProjectCopy(target, files, folders, False, is_whole, problem)


def find_repository(folder: Path) -> Path | None:
    """Return the top folder of the Git repository that contains a folder, if there is one."""
    for parent in (folder, *folder.parents):
        # A folder that the user may not enter has no repository that hilum could use.
        if os.path.lexists(parent / ".git"):
            return parent
    return None


def make_git_environment(*, uses_settings: bool = False) -> dict[str, str]:
    """Return the environment in which Git examines a project.

    In a hook, Git's own variables lead to the index and the files of the user's repository.

    Args:
        uses_settings: Whether the user's settings of Git apply. They may name programs that Git runs.
    """
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return env if uses_settings else env | _CLONE_ENVIRONMENT


async def _clone(warden: Warden, top: Path, target: Path) -> str:
    """Clone a repository, and return why that failed; empty if it succeeded."""
    env = make_git_environment()
    command = Command((*_CLONE, "--", str(top), str(target)), str(top), env)
    problem = f"Git could not clone the project within {CLONE_TIMEOUT:g} seconds"
    try:
        with trio.move_on_after(CLONE_TIMEOUT):
            done = await warden.run(command)
            if not done.returncode:
                return ""
            problem = "Git could not clone the project"
    except CommandError:
        problem = "Git is not installed"
    with trio.CancelScope(shield=True):
        await trio.to_thread.run_sync(remove_folder, target)
    return problem


def _copy_files(source: Path, target: Path) -> bool:
    """Copy regular files, and return whether all of them were copied."""
    target.mkdir(exist_ok=True)
    copied = 0
    size = 0
    is_whole = True
    for path, file_size in _list_files(source):
        trio.from_thread.check_cancelled()
        if size + file_size > MAX_BYTES:
            is_whole = False  # smaller files may still fit
            continue
        copied += 1
        if copied > MAX_FILES:
            return False
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copyfile(path, copy)
        except (PermissionError, FileNotFoundError):  # unreadable, or just deleted
            is_whole = False
            continue
        size += file_size
    return is_whole


def _list_files(source: Path) -> Iterator[tuple[Path, int]]:
    """Yield the regular files in a folder with their sizes in bytes; links are not followed."""
    system = find_system_folders()
    for folder, names, files in walk_folders(source):
        names[:] = sorted(name for name in names if name not in _SKIPPED)
        names[:] = [name for name in names if Path(folder, name) not in system]
        for name in sorted(files):
            path = Path(folder, name)
            try:
                status = path.lstat()
            except OSError:  # just deleted, or in a folder that the user may not enter
                continue
            if stat.S_ISREG(status.st_mode):
                yield path, status.st_size


def find_system_folders() -> set[Path]:
    """Return the folders whose files Linux makes up, such as ``/proc``. Blocks.

    Their files count as regular ones, but reading one may never end.
    """
    found = set()
    with suppress(OSError), open("/proc/self/mountinfo", encoding="utf-8") as file:
        for line in file:
            mount, _, source = line.partition(" - ")
            if source.split(" ")[0] in _SYSTEM_TYPES:
                found.add(Path(mount.split(" ")[4]))
    return found


def _count(folder: Path) -> tuple[int, int]:
    """Return the numbers of files and of folders, without those of Git."""
    files = 0
    folders = 0
    for _, names, found in walk_folders(folder):
        names[:] = [name for name in names if name != ".git"]
        folders += 1
        files += len(found)
    return files, folders
