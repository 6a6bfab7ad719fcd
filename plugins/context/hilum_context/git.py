"""What Git says of the workspace: one ``git status`` a prompt, which all sources share."""

from __future__ import annotations

import os
from pathlib import Path

import attrs
import trio
from hilum import Session

ARGV = (
    "git --no-optional-locks -c core.fsmonitor=false status --porcelain=v2 --branch -z --no-renames"
    " --ignore-submodules=all --untracked-files=normal -- ."
).split()


@attrs.frozen
class GitStatus:
    """The state of the repository that a folder is in.

    Attributes:
        branch: Name of the branch; empty when no branch is checked out.
        commit: Hash of the commit that is checked out; empty before the first one.
        upstream: The branch that it follows, such as ``origin/main``; may be empty.
        ahead: Commits that the upstream does not have.
        behind: Commits of the upstream that the branch does not have.
        changed: Absolute paths of tracked files that differ from the last commit, without deleted
            ones.
        deleted: Number of tracked files that are gone.
        untracked: Absolute paths of files and folders that Git does not know.
    """

    branch: str = ""
    commit: str = ""
    upstream: str = ""
    ahead: int = 0
    behind: int = 0
    changed: tuple[str, ...] = ()
    deleted: int = 0
    untracked: tuple[str, ...] = ()


async def read_status(session: Session, top: str) -> GitStatus | None:
    """Return what ``git status`` says of the workspace, ``None`` if Git fails.

    Args:
        session: The session; its workspace is looked at.
        top: Top folder of the repository.
    """
    done = await session.processes.run(ARGV, cwd=session.workspace.root, grace=0)
    if done.returncode:
        return None
    return parse_status(done.stdout, top)


def parse_status(output: bytes, top: str) -> GitStatus:
    """Parse the output of ``git status --porcelain=v2 --branch -z``.

    Args:
        output: What Git printed; see "Porcelain Format Version 2" in its manual.
        top: Top folder of the repository, which the paths are relative to.
    """
    headers: dict[str, str] = {}
    changed = list[str]()
    untracked = list[str]()
    deleted = 0
    for entry in output.split(b"\0"):
        kind, _, rest = entry.partition(b" ")
        if kind == b"#":
            name, _, value = rest.partition(b" ")
            headers[name.decode()] = value.decode(errors="replace")
        elif kind == b"?":
            untracked.append(_path(top, rest))
        elif kind in (b"1", b"u"):
            # The number of fields before the path is fixed: 8 for an ordinary change, 10 for an
            # unmerged file.
            fields = rest.split(b" ", 7 if kind == b"1" else 9)
            if b"D" in fields[0]:
                deleted += 1
            else:
                changed.append(_path(top, fields[-1]))
    ahead, _, behind = headers.get("branch.ab", "+0 -0").partition(" ")
    branch = headers.get("branch.head", "")
    commit = headers.get("branch.oid", "")
    return GitStatus(
        branch="" if branch == "(detached)" else branch,
        commit="" if commit == "(initial)" else commit,
        upstream=headers.get("branch.upstream", ""),
        ahead=abs(int(ahead)),
        behind=abs(int(behind)),
        changed=tuple(changed),
        deleted=deleted,
        untracked=tuple(untracked),
    )


def find_repository(root: str | Path) -> str:
    """Return the top folder of the repository that a folder is in.

    Empty if it is in none, or if asking Git could run a program that the repository names. Blocks.
    """
    folder = str(root)
    while not os.path.lexists(os.path.join(folder, ".git")):
        if folder == os.path.dirname(folder):
            return ""
        folder = os.path.dirname(folder)
    from hilum_guard import (
        repository_doubt,
    )  # reads commands, too: not where there is no repository

    return "" if repository_doubt(str(root)) else folder


class Git:
    """Asks Git once for all sources of a prompt.

    Args:
        session: The session.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = trio.Lock()
        self._asked = False
        self._status: GitStatus | None = None

    async def status(self) -> GitStatus | None:
        """Return the state of the workspace's repository, ``None`` if there is none or it cannot be
        read.
        """
        async with self._lock:
            if not self._asked:
                root = self._session.workspace.root
                top = await trio.to_thread.run_sync(find_repository, root, abandon_on_cancel=True)
                self._status = await read_status(self._session, top) if top else None
                self._asked = True
            return self._status


def _path(top: str, name: bytes) -> str:
    return os.path.join(top, os.fsdecode(name))
