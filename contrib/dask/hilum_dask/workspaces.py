"""The workspace of a task: a copy of a repository or folder of its own, and the patch of its changes.

The commands of Git never read a configuration that the agent could have written, because they run
outside of the sandbox: the patch is made with a Git folder beside the workspace.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import trio
from hilum import Command, HilumError, Processes
from hilum.errors import E_CMD_FAIL, E_FAILED, E_NOT_FOUND
from hilum.processes import CommandError, Warden

from hilum_dask.folders import FULL, describe_os_error, names_full_disk

_URL = re.compile(r"[a-z][a-z0-9+.-]*://|[\w.-]+@[\w.-]+:", re.IGNORECASE)
# Programs that a repository or the user may have configured must not run, and patches must look
# the same for every user.
_GIT = (
    "git",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "diff.ignoreSubmodules=all",
    "-c",
    "advice.addEmbeddedRepo=false",
    "-c",
    "advice.detachedHead=false",
    "-c",
    "gc.auto=0",
)
_DIFF = (
    "diff --cached --binary --full-index --no-color --no-ext-diff --no-textconv --no-renames"
    " --ignore-submodules=all --src-prefix=a/ --dst-prefix=b/"
).split()
# Every repository knows the tree without files by this name.
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_MAX_LIST = 64 << 20  # bytes of a list of the modes of all files
_CHUNK = 1 << 20


class WorkspaceError(HilumError):
    """A workspace or its patch cannot be made.

    Args:
        full: Whether the disk is full, so that another machine may have room.
    """

    code = E_FAILED

    def __init__(self, message: str, *, code: str = "", hint: str = "", full: bool = False) -> None:
        super().__init__(message, code=code, hint=hint)
        self.full = full


class TaskWorkspace:
    """The workspace of one attempt at a task.

    Args:
        folder: A folder of its own, which must not exist yet.
        warden: The owner of the commands of Git.
        environ: The environment of this process.

    Attributes:
        tree: The folder in which the agent works.
    """

    def __init__(self, folder: Path, warden: Warden, environ: Mapping[str, str]) -> None:
        self.folder = folder
        self.tree = folder / "tree"
        self._scratch = folder / "git"
        own = {name: value for name, value in environ.items() if not name.startswith("GIT_")}
        quiet = {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
        self._processes = Processes(warden, _pass, str(folder), own | quiet)
        self._base = ""

    async def create(self, repo: str, ref: str, files: Mapping[str, bytes], exclude: Path) -> None:
        """Create the workspace.

        Args:
            repo: Folder or URL of the repository; empty for an empty workspace.
            ref: The commit, branch or tag to start from; empty for the current one.
            files: Contents of files to write, by path in the workspace.
            exclude: A folder that is not copied, because it contains the workspace itself.

        Raises:
            WorkspaceError: The repository or the ref does not exist, or the disk is full.
        """
        try:
            await trio.to_thread.run_sync(self._make_folder)
            if not repo:
                self.tree.mkdir()
            elif _URL.match(repo):
                source = self.folder / "source.git"
                await self._git("clone", "--quiet", "--bare", "--", repo, str(source))
                await self._clone(source, ref)
            else:
                await self._take_folder(Path(repo), ref, exclude)
            await trio.to_thread.run_sync(self._write_files, files)
            if files or (repo and not self._base):
                await self._record_base()
            if self._base:
                (self.folder / "base").write_text(self._base)
        except OSError as error:
            raise _from_os(error, "The workspace cannot be created") from None

    def reopen(self) -> None:
        """Use the workspace of an earlier attempt.

        Raises:
            WorkspaceError: It no longer exists.
        """
        if not self.tree.is_dir():
            raise WorkspaceError(
                f"The workspace {str(self.tree)!r} no longer exists.", code=E_NOT_FOUND
            )
        with contextlib.suppress(FileNotFoundError):
            self._base = (self.folder / "base").read_text()

    async def write_patch(self, path: Path) -> int:
        """Write a patch of all changes, new files included.

        Args:
            path: The file to write; it is not written if there are no changes.

        Returns:
            The number of changed files.

        Raises:
            WorkspaceError: The patch cannot be made, or the disk is full.
        """
        try:
            if not self._base:
                if not any(self.tree.iterdir()):
                    return 0
                if not self._scratch.exists():
                    await self._git("init", "--quiet", "--bare", str(self._scratch))
                self._base = _EMPTY_TREE
            await self._add_all()
            temporary = path.with_name(f".{path.name}")
            await self._own_git(*_DIFF, f"--output={temporary}", self._base)
            return await trio.to_thread.run_sync(_finish_patch, temporary, path)
        except OSError as error:
            raise _from_os(error, "The patch cannot be written") from None

    async def _add_all(self) -> None:
        """Add all files to the index, also those in folders that are repositories of their own."""
        hidden = await self._hide_repositories()
        try:
            await self._own_git("add", "--all", "--", ".")
        finally:
            for source, target in hidden:
                os.rename(target, source)

    async def _hide_repositories(self) -> list[tuple[Path, Path]]:
        """Move the Git folders below the root aside, and return where they were and where they are.

        Git would take a folder with a repository of its own, which the agent may have made, for a
        submodule, and leave out its files.
        """
        found = await trio.to_thread.run_sync(_find_repositories, self.tree)
        if not found:
            return []
        listing = await self._own_git("ls-tree", "-r", "-z", self._base or _EMPTY_TREE)
        rows = [row.split("\t", 1) for row in listing.split("\0") if row]
        submodules = {self.tree / path for mode, path in rows if mode.startswith("160000 ")}
        aside = self.folder / "nested"
        aside.mkdir(exist_ok=True)
        hidden: list[tuple[Path, Path]] = []
        for number, source in enumerate(found):
            if source.parent not in submodules:
                target = aside / str(number)
                os.rename(source, target)
                hidden.append((source, target))
        return hidden

    async def remove(self) -> None:
        """Remove the workspace, also files that were made read-only."""
        await trio.to_thread.run_sync(remove_folder, self.folder)

    # --- creation ---------------------------------------------------------------------------------

    def _make_folder(self) -> None:
        if self.folder.exists():
            remove_folder(self.folder)
        self.folder.mkdir(parents=True)

    async def _take_folder(self, source: Path, ref: str, exclude: Path) -> None:
        """Clone a local repository, or copy a folder that is none."""
        if not await trio.Path(source).is_dir():
            raise WorkspaceError(
                f"There is no repository {str(source)!r} on the machine {socket.gethostname()}.",
                code=E_NOT_FOUND,
                hint="Name a folder that exists on every machine of the batch, or a URL.",
            )
        found = await self._try_git("-C", str(source), "rev-parse", "--is-inside-work-tree")
        is_root = (source / ".git").exists() or found == "false"
        if found is not None and is_root:
            await self._clone(source, ref)
            return
        if ref:
            raise WorkspaceError(
                f"{str(source)!r} is not the root of a Git repository, so it has no {ref!r}.",
                code=E_NOT_FOUND,
                hint="Leave out the ref, or name the repository's root.",
            )
        ignore = partial(_ignore_folder, exclude)
        await trio.to_thread.run_sync(
            partial(shutil.copytree, source, self.tree, symlinks=True, ignore=ignore)
        )

    async def _clone(self, source: Path, ref: str) -> None:
        """Clone a local repository, whose objects are shared and never written."""
        wanted = f"{ref or 'HEAD'}^{{commit}}"
        place = ("-C", str(source))
        commit = await self._try_git(*place, "rev-parse", "--verify", "--end-of-options", wanted)
        if commit is None:
            raise WorkspaceError(
                f"The repository {str(source)!r} has no commit {ref or 'HEAD'!r}.",
                code=E_NOT_FOUND,
                hint="`git rev-parse` in the repository shows what a name stands for.",
            )
        objects = await self._git(
            *place, "rev-parse", "--path-format=absolute", "--git-path", "objects"
        )
        tree = str(self.tree)
        await self._git("clone", "--quiet", "--shared", "--no-checkout", "--", str(source), tree)
        await self._git("-C", tree, "checkout", "--quiet", "--detach", commit)
        # `git push` in the workspace must not reach the user's repository.
        await self._try_git("-C", tree, "remote", "remove", "origin")
        await self._git("init", "--quiet", "--bare", str(self._scratch))
        alternates = self._scratch / "objects" / "info" / "alternates"
        alternates.write_text(f"{objects.rstrip()}\n")
        modes = await self._try_git("-C", tree, "ls-files", "--format=%(objectmode)")
        # The index spares reading all files again. For a submodule, Git would look into its folder,
        # whose configuration the agent can write.
        if modes is not None and "160000" not in modes.split():
            shutil.copyfile(self.tree / ".git" / "index", self._scratch / "index")
        self._base = commit

    def _write_files(self, files: Mapping[str, bytes]) -> None:
        for path, data in files.items():
            target = self.tree / path
            # A link in the repository may lead outside.
            if not os.path.realpath(target).startswith(f"{os.path.realpath(self.tree)}{os.sep}"):
                raise WorkspaceError(
                    f"The file {path!r} is not inside the workspace.", code=E_NOT_FOUND
                )
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)

    async def _record_base(self) -> None:
        """Record the files of the workspace as what the patch starts from."""
        if not self._scratch.exists():
            await self._git("init", "--quiet", "--bare", str(self._scratch))
        await self._add_all()
        self._base = (await self._own_git("write-tree")).strip()

    # --- commands ---------------------------------------------------------------------------------

    async def _own_git(self, *arguments: str) -> str:
        """Run Git with its folder beside the workspace."""
        places = {
            "GIT_DIR": str(self._scratch),
            "GIT_WORK_TREE": str(self.tree),
            "GIT_INDEX_FILE": str(self._scratch / "index"),
        }
        return await self._git("-C", str(self.tree), *arguments, env=places)

    async def _git(self, *arguments: str, env: Mapping[str, str] | None = None) -> str:
        """Run Git and return its output.

        Raises:
            WorkspaceError: Git failed.
        """
        code, output, errors = await self._run_git(arguments, env)
        if code == 0:
            return output
        words = [word for word in arguments if not word.startswith("-") and os.sep not in word]
        reason = errors.strip().splitlines()
        last = reason[-1] if reason else f"exit code {code}"
        full = names_full_disk(errors)
        raise WorkspaceError(
            f"git {words[0] if words else ''} failed: {last}.",
            code=E_CMD_FAIL,
            hint="Free space on the disk." if full else "Check the task's repo and ref.",
            full=full,
        )

    async def _try_git(self, *arguments: str) -> str | None:
        """Run Git and return its output without surrounding space; ``None`` if it failed."""
        code, output, _ = await self._run_git(arguments, None)
        return output.strip() if code == 0 else None

    async def _run_git(
        self, arguments: tuple[str, ...], env: Mapping[str, str] | None
    ) -> tuple[int, str, str]:
        try:
            done = await self._processes.run([*_GIT, *arguments], env=env, limit=_MAX_LIST)
        except CommandError as error:
            raise WorkspaceError(
                f"Git cannot be started: {error.message}",
                code=E_CMD_FAIL,
                hint="Install git on this machine.",
            ) from None
        return done.returncode, os.fsdecode(done.stdout), os.fsdecode(done.stderr)


async def _pass(command: Command) -> Command:
    """Let a command start as it is: no agent chose it."""
    return command


def _ignore_folder(exclude: Path, folder: str, names: list[str]) -> list[str]:
    """Return the names in a folder that ``shutil.copytree`` must not copy."""
    excluded = os.path.realpath(exclude)
    return [name for name in names if os.path.realpath(os.path.join(folder, name)) == excluded]


def _find_repositories(tree: Path) -> list[Path]:
    """Return the Git folders, and the files in place of such folders, below the root of a tree."""
    found = []
    for folder, folders, files in os.walk(tree):
        if ".git" in folders or ".git" in files:
            if Path(folder) != tree:
                found.append(Path(folder, ".git"))
            folders[:] = [name for name in folders if name != ".git"]
    return found


def _finish_patch(temporary: Path, path: Path) -> int:
    """Keep a patch unless it is empty, and return the number of its files."""
    count = 0
    with open(temporary, "rb") as file:
        for line in file:
            # The lines of contents begin with a space, a plus or a minus.
            count += line.startswith(b"diff --git ")
    if count:
        os.replace(temporary, path)
    else:
        temporary.unlink()
    return count


def _from_os(error: OSError, what: str) -> WorkspaceError:
    """Return an error of the operating system as one of hilum's errors."""
    full = error.errno in FULL
    return WorkspaceError(
        f"{what}: {describe_os_error(error)}.",
        hint="Free space on the disk." if full else "Check the folder's permissions.",
        full=full,
    )


def remove_folder(folder: Path) -> None:
    """Remove a folder with all its contents, also folders that were made read-only."""

    def retry(function: object, path: str, _: object) -> None:
        try:
            os.chmod(os.path.dirname(path), 0o700)
            if os.path.isdir(path) and not os.path.islink(path):
                os.chmod(path, 0o700)
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)
        except OSError:
            pass

    shutil.rmtree(folder, onerror=retry)
