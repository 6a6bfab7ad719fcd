"""The Git status of the workspace: one ``git status`` for each prompt, shared by all sources.

GitPython is not used: to list the changed files, it would start ``git`` itself, outside the warden
and the sandbox, and importing it takes 65 ms, whereas the single process below takes about 10 ms.
"""

from __future__ import annotations

import os

import attrs
import trio
from hilum import ContentPolicy, Session

# --no-optional-locks: the user's own Git commands must not wait for this one. core.fsmonitor names
# a program that Git would run.
STATUS_COMMAND = (
    "git --no-optional-locks -c core.fsmonitor=false status --porcelain=v2 --branch -z --no-renames"
    " --ignore-submodules=all --untracked-files=normal -- ."
).split()


@attrs.frozen
class GitStatus:
    """The state of the repository that contains a folder.

    Attributes:
        branch: Name of the branch; empty if none is checked out.
        commit: Id of the current commit; empty before the first one.
        upstream: The upstream branch that the branch tracks, such as ``origin/main``; may be empty.
        ahead: Number of commits that the upstream branch lacks.
        behind: Number of commits in the upstream branch that this branch lacks.
        changed: Absolute paths of tracked files that differ from the last commit, excluding deleted
            ones.
        deleted: Number of deleted tracked files.
        untracked: Absolute paths of untracked files and folders.
    """

    branch: str = ""
    commit: str = ""
    upstream: str = ""
    ahead: int = 0
    behind: int = 0
    changed: tuple[str, ...] = ()
    deleted: int = 0
    untracked: tuple[str, ...] = ()


async def read_status(
    session: Session, top: str, begun: trio.Event | None = None
) -> GitStatus | None:
    """Return the Git status of a session's workspace, or ``None`` if Git fails.

    Args:
        session: The session.
        top: Top folder of the repository.
        begun: Set when Git has been started.
    """
    # No grace period: reading the status leaves nothing to clean up, and the prompt waits for it.
    done = await session.processes.run(
        STATUS_COMMAND, cwd=session.workspace.root, grace=0, purpose="look", begun=begun
    )
    # Git may be missing or too old, or the repository may be damaged; the prompt does not depend on
    # it.
    if done.returncode:
        return None
    return parse_status(done.stdout, top)


def parse_status(output: bytes, top: str) -> GitStatus:
    """Parse the output of ``git status --porcelain=v2 --branch -z``.

    Args:
        output: Git's output; see "Porcelain Format Version 2" in its manual.
        top: Top folder of the repository, to which the paths are relative.
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
        # Git writes "+1 -2": the number of commits behind is negative.
        ahead=abs(int(ahead)),
        behind=abs(int(behind)),
        changed=tuple(changed),
        deleted=deleted,
        untracked=tuple(untracked),
    )


def find_repository(session: Session, policy: ContentPolicy) -> str:
    """Return the top folder of the repository that contains the workspace. Blocks.

    Args:
        session: The session.
        policy: The policy that decides whether ``git status`` is safe in a folder.

    Returns:
        The folder; empty if the workspace is not in a repository, or if ``git status`` could run a
        program that the repository configures.
    """
    root = folder = str(session.workspace.root)
    # ``.git`` is a file in worktrees and submodules.
    while not os.path.lexists(os.path.join(folder, ".git")):
        if folder == os.path.dirname(folder):
            return ""
        folder = os.path.dirname(folder)
    # A cloned repository may configure a filter or another program that ``git status`` would run.
    return "" if policy.explain_unsafe_repository(root) else folder


MAX_AGE = 1.0
"""Seconds after which a status that was read ahead of a prompt may no longer be true."""


class GitStatusReader:
    """A reader of the Git status, which is read once for all sources of a prompt.

    Args:
        session: The session.
        policy: See ``find_repository``.
        nursery: Where the status is read, which may take longer than a prompt waits for it.
        patience: Seconds for which a prompt waits for the status.
    """

    def __init__(
        self,
        session: Session,
        policy: ContentPolicy,
        nursery: trio.Nursery,
        patience: float,
    ) -> None:
        self._session = session
        self._policy = policy
        self._nursery = nursery
        self._patience = patience
        self._began: float | None = None
        self._process_begun = trio.Event()
        self._ended = trio.Event()
        self._scope = trio.CancelScope()
        self._status: GitStatus | None = None
        self._error: Exception | None = None

    def start(self) -> None:
        """Begin to read the status, unless that has begun already."""
        if self._began is None:
            self._began = trio.current_time()
            self._nursery.start_soon(self._read, name="context: Git status")

    async def wait_begun(self) -> None:
        """Wait until the process of Git has been started, or there will be none."""
        await self._process_begun.wait()

    def stop(self) -> None:
        """Stop reading, with the process of Git."""
        self._scope.cancel()

    @property
    def is_fresh(self) -> bool:
        """Whether the status is new enough for a prompt, or is being read."""
        if self._error is not None or self._began is None:
            return False
        return trio.current_time() - self._began < MAX_AGE

    @property
    def is_late(self) -> bool:
        """Whether the status is still being read."""
        return self._began is not None and not self._ended.is_set()

    @property
    def found(self) -> GitStatus | None:
        """The status; ``None`` if it was not read yet, or there is no readable repository."""
        return self._status

    async def status(self) -> GitStatus | None:
        """Return the Git status, or ``None`` if there is no readable repository.

        If reading takes too long, ``None`` is returned, and ``found`` has the status later.

        Raises:
            HilumError: Git could not be run.
        """
        self.start()
        with trio.move_on_after(self._patience):
            await self._ended.wait()
        if self._error is not None:
            raise self._error
        return self._status

    async def _read(self) -> None:
        try:
            with self._scope:
                top = await trio.to_thread.run_sync(
                    find_repository, self._session, self._policy, abandon_on_cancel=True
                )
                if top:
                    self._status = await read_status(self._session, top, self._process_begun)
        # The sources that wait for the status raise the error, each isolated. Here, it would end
        # the whole plugin.
        except Exception as error:
            self._error = error
        finally:
            self._process_begun.set()
            self._ended.set()


def _path(top: str, name: bytes) -> str:
    # Git prints paths as bytes, which need not be UTF-8.
    return os.path.join(top, os.fsdecode(name))
