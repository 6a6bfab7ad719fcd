"""What a sandboxed command may do: the paths, worked out anew for each command, as a workspace
changes.

Three kinds of paths matter. *Writable* ones are the workspace, the folders the user added and the
session's temporary folder. *Protected* ones are inside of those and stay read-only: what runs
outside the sandbox later (Git's hooks and configuration, hilum's folder, shell start-up files).
*Hidden* ones cannot even be read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import attrs
from hilum import config_folder, data_folder

from hilum_guard.executed import MASKED
from hilum_guard.secret_paths import SecretFiles, listed
from hilum_guard.settings import GuardSettings

MASKED_FILES = ("config.worktree",)
"""Files of a Git folder that may exist and be empty."""
_SECRET_FILES = SecretFiles()
_START_FILES = (
    ".profile .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .zshrc .zshenv .zprofile"
    " .zlogin .gitconfig .config/git .config/fish .config/systemd .config/autostart .local/bin bin"
).split()


@attrs.frozen
class Policy:
    """What one command may do. All paths are absolute and follow no link.

    Args:
        writable: Folders it may write to.
        protected: Paths inside of those that it may not. Links are not among them: they cannot be
            held.
        hidden: Paths it may not even read.
        unwanted: Files that are not there, and are removed if the command makes them: Git would
            take its configuration, hooks included, from where they say.
        shown: Paths in folders of temporary files that are there all the same, to be read.
        temp: The session's temporary folder.
        filter: A file with a filter of system calls (see ``seccomp``), where the sandbox reads one.
        group: Folder of a control group to join, where there is one (see ``groups``).
        loopback: What to join for the loopback of the session (see ``loopback``); without it, the
            command gets its own.
        network: Whether it reaches more than a loopback.
        processes: Most processes and threads at once.
        file_size: Most megabytes of a file.
    """

    writable: tuple[str, ...]
    protected: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    temp: str = ""
    filter: str = ""
    group: str = ""
    loopback: tuple[str, ...] = ()
    network: bool = False
    processes: int = 1024
    file_size: int = 20_000


def make_policy(workspace: Path, settings: GuardSettings, temp: str) -> Policy:
    """Work out what a command may do now. Reads the workspace, so it belongs in a thread.

    Args:
        workspace: Root of the workspace.
        settings: The user's settings.
        temp: The session's temporary folder.
    """
    roots = writable(workspace, settings)
    repositories = [folder for root in roots if (folder := worktree(root))]
    wanted = [path for root in roots for path in guarded(root)]
    wanted += [path for folder in repositories for path in _git(folder)]
    wanted += [os.path.join(home, name) for home in homes() for name in _START_FILES]
    present = [
        path for path in wanted if os.path.lexists(path) and _inside(path, (*roots, *repositories))
    ]
    return Policy(
        writable=tuple(dict.fromkeys((*roots, *repositories))),
        protected=tuple(dict.fromkeys(path for path in present if os.path.realpath(path) == path)),
        hidden=tuple(hidden(settings.readable)),
        unwanted=tuple(
            path for path in wanted if path.endswith("/commondir") and not os.path.lexists(path)
        ),
        temp=temp,
        network=settings.network == "full",
        processes=settings.processes,
        file_size=settings.file_size,
    )


def inside(policy: Policy, paths: Iterable[str]) -> Iterator[str]:
    """Return the paths that a command could write to but for being protected: they exist, and lie
    in a writable folder.
    """
    return (path for path in paths if os.path.lexists(path) and _inside(path, policy.writable))


def writable(workspace: Path, settings: GuardSettings) -> list[str]:
    """Return the folders that the user lets commands write to, without links.

    Those that do not exist are left out.
    """
    paths = [
        os.path.realpath(os.path.expanduser(path)) for path in (str(workspace), *settings.writable)
    ]
    return [path for path in paths if os.path.isdir(path)]


def homes() -> list[str]:
    """Return the user's home folders: the one of the environment, and the account's own where that
    is another.
    """
    found = [os.path.expanduser("~")]
    with suppress(ImportError, KeyError):
        import pwd

        found.append(pwd.getpwuid(os.getuid()).pw_dir)
    return list(dict.fromkeys(os.path.realpath(path) for path in found))


def hidden(readable: Iterable[str] = ()) -> Iterator[str]:
    """Yield the paths that exist and hold secrets, as they are without links, except the ones the
    user wants readable.
    """
    shown = {os.path.realpath(os.path.expanduser(path)) for path in readable}
    configs = [os.path.join(home, ".config") for home in homes()]
    configs += [path for path in [os.environ.get("XDG_CONFIG_HOME", "")] if os.path.isabs(path)]
    places = [*listed(homes(), configs)]
    places += [path for home in homes() for path in _SECRET_FILES.of_home(home)]
    places += [str(config_folder()), str(data_folder())]
    for path in dict.fromkeys(os.path.realpath(path) for path in places if os.path.exists(path)):
        if path not in shown:
            yield path


def guarded(root: str) -> list[str]:
    """Return the paths of a writable folder that should stay read-only, whether they exist or
    not.
    """
    return [os.path.join(root, ".hilum"), *_git(os.path.join(root, ".git"))]


def masked(roots: Iterable[str]) -> list[str]:
    """Return what must exist to be protected: folders that programs follow, and of a repository
    hooks and configuration.

    What has something in it is left out: that is held as it is.
    """
    wanted = []
    for root in roots:
        git = worktree(root) or os.path.join(root, ".git")
        wanted += [os.path.join(root, name) for name in MASKED]
        if os.path.isdir(git) and not os.path.islink(git):
            wanted += [os.path.join(git, name) for name in ("hooks", *MASKED_FILES)]
    return [path for path in wanted if not os.path.lexists(path) or _is_empty(path)]


def _is_empty(path: str) -> bool:
    try:
        return not (os.listdir(path) if os.path.isdir(path) else os.path.getsize(path))
    except OSError:
        return False


def worktree(root: str) -> str:
    """Return the repository that a folder is a linked worktree of; empty if it is none.

    ``.git`` is a file there and names a folder elsewhere, which a commit must write to. A command
    could have forged the file, so the other folder has to point back to it: nothing in a sandbox
    can write there.
    """
    try:
        with open(os.path.join(root, ".git"), encoding="utf-8", errors="surrogateescape") as file:
            word, _, folder = file.read(4096).strip().partition(" ")
        folder = os.path.realpath(os.path.join(root, folder))
        common = os.path.dirname(os.path.dirname(folder))
        with open(
            os.path.join(folder, "gitdir"), encoding="utf-8", errors="surrogateescape"
        ) as file:
            back = os.path.realpath(file.read(4096).strip())
    except (OSError, ValueError):
        return ""
    named = os.path.join(common, "worktrees", os.path.basename(folder))
    fits = word == "gitdir:" and folder == named and back == os.path.join(root, ".git")
    if fits and os.path.isdir(os.path.join(common, "objects")):
        return common
    return ""


def _git(folder: str) -> Iterator[str]:
    """Yield what must stay read-only in a Git folder, its submodules' and its worktrees'
    included.
    """
    if not os.path.isdir(folder):
        yield folder  # of a linked worktree or submodule: a file
        return
    yield from (
        os.path.join(folder, name)
        for name in ("hooks", "config", "config.worktree", "commondir", "gitdir")
    )
    with suppress(OSError), os.scandir(os.path.join(folder, "worktrees")) as found:
        for entry in found:
            yield from (
                os.path.join(entry.path, name)
                for name in ("commondir", "gitdir", "config.worktree")
            )
    yield from _submodules(os.path.join(folder, "modules"))


def _submodules(folder: str) -> Iterator[str]:
    """Yield the same for the Git folders below ``modules``, whose names may have slashes."""
    with suppress(OSError), os.scandir(folder) as found:
        for entry in found:
            if not entry.is_dir(follow_symlinks=False):
                continue
            if os.path.exists(os.path.join(entry.path, "HEAD")):
                yield from _git(entry.path)
            else:
                yield from _submodules(entry.path)


def _inside(path: str, roots: Iterable[str]) -> bool:
    return any(path.startswith(root.rstrip("/") + "/") for root in roots)
