"""Determine the paths that a sandboxed command may access. Each command has its own policy.

Three kinds of paths matter. *Writable* paths are the workspace, the folders that the user added and
the session's temporary folder. *Protected* paths are inside writable paths but stay read-only,
because programs outside the sandbox execute them later: Git's hooks and configuration, hilum's
folder, shell start-up files. *Hidden* paths cannot even be read.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import attrs
from hilum import config_folder, data_folder

from hilum_guard.file_names import is_below, resolve_listed, select_unlinked
from hilum_guard.secrets.hidden_paths import HiddenPaths
from hilum_guard.settings import GuardSettings
from hilum_guard.watching.executed_files import MASKED

MASKED_FILES = ("config.worktree",)
"""Files in a Git folder that the sandbox may mask with an empty file."""
_MAX_POINTER = 4096  # maximum size of a `.git` file, in bytes
# All sessions in this process share this finder, because it caches unchanged folders.
_HIDDEN_PATHS = HiddenPaths()
# The user's shells, Git and the desktop read or execute these files later, outside any sandbox.
_START_FILES = tuple(
    ".profile .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .zshrc .zshenv .zprofile"
    " .zlogin .gitconfig .config/git .config/fish .config/systemd .config/autostart .local/bin"
    " bin".split()
)
# Through these files, Git executes programs or reads its settings from another location.
_GIT_NAMES = ("hooks", "config", "config.worktree", "commondir", "gitdir")
_WORKTREE_NAMES = ("commondir", "gitdir", "config.worktree")


@attrs.frozen
class SandboxPolicy:
    """The permissions of one command. All paths are absolute and contain no links.

    Args:
        writable: Folders that the command may write to.
        protected: Paths inside the writable folders that the command must not write to. Links are
            not included, because a sandbox cannot protect a link.
        ignored: The protected folders that are empty, each with the folder that the sandbox shows
            instead, which contains nothing but a `.gitignore` file that excludes it.
        hidden: Paths that the command must not read.
        sockets: The hidden sockets in writable folders; the folders that contain them cannot be
            renamed.
        placeholders: The hidden paths for which the sandbox shows a read-only file or folder, each
            with that file or folder (see ``placeholders``).
        unwanted: Files that do not exist and are removed if the command creates them: Git would
            read its configuration, including hooks, from the location named in these files.
        shown: Paths in temporary folders that the command may nevertheless read.
        temp: The session's temporary folder.
        filter: A file with a system call filter (see ``seccomp``), if the sandbox uses one.
        group: Folder of the control group to join, if there is one (see ``control_groups``).
        loopback: Namespaces to join for the session's loopback (see ``loopback``); without them,
            the command gets its own loopback.
        network: Whether the command can use a network other than the loopback.
        processes: Maximum number of processes and threads at once.
        file_size: Maximum size of a file, in megabytes.
    """

    writable: tuple[str, ...]
    protected: tuple[str, ...] = ()
    ignored: tuple[tuple[str, str], ...] = ()
    hidden: tuple[str, ...] = ()
    sockets: tuple[str, ...] = ()
    placeholders: tuple[tuple[str, str], ...] = ()
    unwanted: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    temp: str = ""
    filter: str = ""
    group: str = ""
    loopback: tuple[str, ...] = ()
    network: bool = False
    processes: int = 1024
    file_size: int = 20_000


def make_policy(
    workspace: Path,
    settings: GuardSettings,
    temp: str,
    roots: Sequence[str] = (),
    *,
    is_early: bool = False,
) -> SandboxPolicy:
    """Return a command's current permissions. Reads the workspace, so run it in a thread.

    Args:
        workspace: Root of the workspace.
        settings: The user's settings.
        temp: The session's temporary folder.
        roots: The result of ``find_writable``, if the caller has called it.
        is_early: Whether no model can choose what the command reads (see ``find_hidden``).
    """
    roots = roots or find_writable(workspace, settings)
    repositories = [folder for folder in map(find_repository, roots) if folder]
    writable = tuple(dict.fromkeys((*roots, *repositories)))
    homes = find_homes()
    candidates = list(_list_candidates(roots, repositories, homes))
    inside = tuple(f"{path.rstrip('/')}/" for path in writable)
    # A mount over a link would protect only the link's target.
    protected = select_unlinked(path for path in candidates if path.startswith(inside))
    unwanted = [path for path in candidates if path.endswith("/commondir")]
    shown = resolve_listed(settings.readable, str(workspace))
    return SandboxPolicy(
        writable=writable,
        protected=tuple(dict.fromkeys(protected)),
        hidden=tuple(find_hidden(shown, homes, writable, is_early=is_early)),
        unwanted=tuple(path for path in unwanted if not os.path.lexists(path)),
        temp=temp,
        network=settings.network == "full",
        processes=settings.processes,
        file_size=settings.file_size,
    )


def _list_candidates(
    roots: Iterable[str], repositories: Iterable[str], homes: Iterable[str]
) -> Iterator[str]:
    """Yield the paths that should be read-only, whether they exist or not."""
    for root in roots:
        yield os.path.join(root, ".hilum")
        yield from _list_git_paths(os.path.join(root, ".git"))
    for folder in repositories:
        yield from _list_git_paths(folder)
    for home in homes:
        yield from _list_start_files(home)


@functools.lru_cache(maxsize=8)
def _list_start_files(home: str) -> tuple[str, ...]:
    return tuple(os.path.join(home, name) for name in _START_FILES)


def select_writable(policy: SandboxPolicy, paths: Iterable[str]) -> Iterator[str]:
    """Yield the paths that exist in a writable folder."""
    return (path for path in paths if os.path.lexists(path) and is_below(path, policy.writable))


def find_writable(workspace: Path, settings: GuardSettings) -> list[str]:
    """Return the existing folders that commands may write to, without links."""
    expanded = map(os.path.expanduser, (str(workspace), *settings.writable))
    return [path for path in map(os.path.realpath, expanded) if os.path.isdir(path)]


def find_homes() -> list[str]:
    """Return the user's home folders: $HOME, and the account's home folder if it differs."""
    found = [os.path.expanduser("~")]
    with suppress(ImportError, KeyError):
        # Programs such as ssh look up the account's home folder and ignore $HOME.
        import pwd  # the module does not exist on Windows

        found.append(pwd.getpwuid(os.getuid()).pw_dir)
    return list(dict.fromkeys(map(os.path.realpath, found)))


def find_hidden(
    shown: Collection[str] = (),
    homes: Sequence[str] | None = None,
    writable: Iterable[str] = (),
    *,
    is_early: bool = False,
) -> Iterator[str]:
    """Yield the existing paths with secrets, without links.

    Args:
        shown: Resolved paths that the user lets commands read.
        homes: The result of ``find_homes``, if the caller has called it.
        writable: Folders that commands may write to, which are not hidden because of their modes.
        is_early: Whether a first search for files by their mode covers only the folders near a home
            folder. To search thousands of folders takes 0.2 s.
    """
    if homes is None:
        homes = find_homes()
    configs = [os.path.join(home, ".config") for home in homes]
    # The XDG Base Directory Specification says that relative paths are to be ignored.
    configs += filter(os.path.isabs, [os.environ.get("XDG_CONFIG_HOME", "")])
    others = (str(config_folder()), str(data_folder()))
    used = (*shown, *writable)
    hidden = _HIDDEN_PATHS.find(tuple(homes), tuple(configs), others, used, is_early=is_early)
    for path in hidden:
        if path not in shown:
            yield path


def find_masks(roots: Iterable[str], is_held: Callable[[str], bool]) -> list[str]:
    """Return the missing or empty paths that must exist so that the sandbox can protect them.

    Running programs use these paths: folders of editors and agents, and a repository's hooks and
    configuration. A path with contents is omitted, because it is protected anyway.

    Args:
        roots: The writable folders.
        is_held: Returns whether the mask at a path exists and is locked, so that it is omitted, too.
    """
    found = []
    for root in roots:
        git = find_repository(root) or os.path.join(root, ".git")
        found += [os.path.join(root, name) for name in MASKED]
        if os.path.isdir(git) and not os.path.islink(git):
            found += [os.path.join(git, name) for name in ("hooks", *MASKED_FILES)]
    wanted = [path for path in found if not is_held(path)]
    return [path for path in wanted if not os.path.lexists(path) or is_empty(path)]


def is_empty(path: str) -> bool:
    """Return whether a path is an empty folder or file."""
    try:
        return not (os.listdir(path) if os.path.isdir(path) else os.path.getsize(path))
    except OSError:
        return False


def find_repository(root: str) -> str:
    """Return a linked worktree's repository; empty if the folder is not a linked worktree.

    In a linked worktree, ``.git`` is a file that names a folder elsewhere, to which a commit must
    write. A command could have forged the `.git` file. Therefore the named folder must point back
    to the worktree; nothing in a sandbox can write to that folder.
    """
    pointer = os.path.join(root, ".git")
    try:
        word, _, folder = _read_pointer(pointer).partition(" ")
        folder = os.path.realpath(os.path.join(root, folder))
        back = os.path.realpath(_read_pointer(os.path.join(folder, "gitdir")))
    except (OSError, ValueError):
        return ""
    common = os.path.dirname(os.path.dirname(folder))
    named = os.path.join(common, "worktrees", os.path.basename(folder))
    fits = word == "gitdir:" and folder == named and back == pointer
    if fits and os.path.isdir(os.path.join(common, "objects")):
        return common
    return ""


def _read_pointer(path: str) -> str:
    """Return the beginning of a file that names a folder.

    Raises:
        OSError: There is no such file, or it cannot be read.
    """
    # Mostly, `.git` is a folder, and an attempt to open it takes ten times as long.
    if not os.path.isfile(path):
        raise FileNotFoundError(path)
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read(_MAX_POINTER).strip()


def _list_git_paths(folder: str) -> Iterator[str]:
    """Yield the paths to keep read-only in a Git folder, its submodules and its worktrees."""
    if not os.path.isdir(folder):
        yield folder  # the `.git` file of a linked worktree or submodule
        return
    yield from (os.path.join(folder, name) for name in _GIT_NAMES)
    with suppress(OSError), os.scandir(os.path.join(folder, "worktrees")) as found:
        for entry in found:
            yield from (os.path.join(entry.path, name) for name in _WORKTREE_NAMES)
    yield from _list_submodule_paths(os.path.join(folder, "modules"))


def _list_submodule_paths(folder: str) -> Iterator[str]:
    """Yield the read-only paths in the Git folders of submodules; a name may contain slashes."""
    with suppress(OSError), os.scandir(folder) as found:
        for entry in found:
            if not entry.is_dir(follow_symlinks=False):
                continue
            if os.path.exists(os.path.join(entry.path, "HEAD")):
                yield from _list_git_paths(entry.path)
            else:
                yield from _list_submodule_paths(entry.path)
