"""Notices what appears in a workspace that programs outside the sandbox would execute, and makes it
inert.

The sandbox holds what exists. What does not exist yet cannot be held without leaving files that the
user and Git would see: a nested repository, `.envrc`, a pointer to other metadata. So the folders
of the workspace are looked at before and after every command and, while one runs, several times a
second. What is new and would be executed gets another name, which nothing executes; a setting is
taken out of its file. What the user does while no command runs is the user's, and stays.

A look costs one `lstat` for each folder that is known; only folders that changed are listed again.
A program can set times of modification, but not times of change (ctime), which are compared.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import attrs

from hilum_guard import repositories
from hilum_guard.executed import PARENTS, find_name, inner_paths
from hilum_guard.marks import Mark, Remembered
from hilum_guard.names import QUARANTINED, original, printable
from hilum_guard.policy import worktree
from hilum_guard.repositories import Entry

MAX_ROUNDS = 20
"""Looks in one check: what hides behind a thing that is made inert is seen at the next one."""
MAX_FOLDERS = 20_000
"""Folders that are looked at, those near the root first."""
MAX_HELD = 200
"""Paths that the sandbox holds in one workspace, those near the root first."""
# Packages that are installed there: nobody opens or enters these folders. Looked into where the
# index has nested repositories.
_SKIPPED = frozenset({"node_modules", "site-packages", "__pycache__"})
# A folder that changed this recently may change once more without its time showing it.
_SETTLED = 50_000_000  # nanoseconds
_Stamp = tuple[int, int]


@attrs.define
class _Folder:
    """A folder as it was listed last: paths of folders in it, of those mostly skipped, and names
    that tell something.

    ``executed`` has those of ``folders`` that are executed as a whole: in them only Git is looked
    for.
    """

    stamp: _Stamp
    settled: bool
    folders: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    executed: tuple[str, ...] = ()
    repository: bool = False
    listed: bool = True


class Watch:
    """What is executed in some folders, and what of it is new.

    Methods block, and may be called from any thread.

    Args:
        roots: The folders that commands write to, resolved.
        temp: The temporary folder of commands, in which nothing is looked for and to which nothing
            may point.
        alive: Returns the number of commands that may be running.
        exempt: Returns paths that a file tool is about to write with the user's consent.
        mark: Where it is remembered that commands run and what was there before, for the case that
            this process is killed.

    Attributes:
        dirty: Whether commands may have run since the last look.
        seconds: How long the last look took.
        unmarked: Why the mark could not be written; empty where it was.
        truncated: Whether there are more folders than are looked at.
    """

    def __init__(
        self,
        roots: Sequence[str],
        temp: str = "",
        alive: Callable[[], int] = lambda: 0,
        exempt: Callable[[], Iterable[str]] = tuple,
        mark: Mark | None = None,
    ) -> None:
        self.roots = tuple(roots)
        self.temp = temp
        self.alive = alive
        self.exempt = exempt
        self._mark = mark
        # When the commands that run now began, and the folders of installed packages that were
        # there then: for these two see `_was_there_before`.
        self._since = 0
        self._packages: dict[str, int] = {}
        self._lock = threading.RLock()
        self._folders: dict[str, _Folder] = {}
        self._telling: list[tuple[str, _Folder]] = []
        self._repositories: dict[str, tuple[tuple[object, ...], tuple[Entry, ...]]] = {}
        self._known: set[Entry] = set()
        # What could not be made inert, with what was said of it: never the user's, tried again, and
        # said once.
        self._failed: dict[Entry, str] = {}
        # The user's pointers and links that were put back in this look, so that they are not taken
        # for new ones.
        self._restored: set[Entry] = set()
        # What was made inert and is not logged yet, and what was logged since the mark was written
        # last.
        self._untold: list[str] = []
        self._told: list[str] = []
        self._named: tuple[tuple[object, ...], tuple[str, ...]] = ((), ())
        self.dirty = False
        self._indexes: dict[str, tuple[object, frozenset[str]]] = {}
        self._executed: set[str] = set()
        self._mounted: dict[str, int] = {}
        self.seconds = 0.0
        self.unmarked = ""
        self.truncated = False

    # --- from outside -----------------------------------------------------------------------------

    def begin(self) -> tuple[list[str], list[str]]:
        """Prepare for a command. Call it before each one starts.

        Returns:
            The paths that the sandbox should hold, and a sentence for each thing that was made
            inert.
        """
        with self._lock:
            said: list[str] = []
            if self.dirty:
                said = self.check()
            else:
                self._since = time.time_ns() - _SETTLED
                self._known = self._look() - self._failed.keys()
                self._packages = {path: _identity(path) for path in self._skipped_folders()}
                self._mounted.clear()
            self.dirty = True
            self._remember()
            held = self._held()
            for path in held:
                self._mounted.setdefault(path, _identity(path))
            return held, said

    def check(self, *, everywhere: bool = False) -> list[str]:
        """Make inert what has appeared since the last look while commands ran.

        Returns a sentence for each.

        Args:
            everywhere: Whether folders of installed packages are looked into as well.
        """
        with self._lock:
            if not self.dirty:
                return []
            alive = self.alive()
            exempt = {os.path.realpath(path) for path in self.exempt()}
            said = []
            tried: set[Entry] = set()
            for _ in range(MAX_ROUNDS):
                found = self._look(everywhere=everywhere)
                unknown = found - self._known - self._failed.keys()
                self._known |= {entry for entry in unknown if self._was_there_before(entry.path)}
                new = {entry for entry in found - self._known if not _is_exempt(entry.path, exempt)}
                self._failed = {
                    entry: said_before
                    for entry, said_before in self._failed.items()
                    if entry in new
                }
                said += self._neutralise(new - tried)
                before = {entry for entry in self._known if _is_exempt(entry.path, exempt)}
                unchanged = {entry for entry in found - new if not _is_exempt(entry.path, exempt)}
                self._known = before | unchanged | self._restored
                self._restored = set()
                if new <= self._failed.keys():
                    if not alive:
                        self.dirty = False
                    break
                if (
                    new <= tried
                ):  # a program that still runs makes it again and again: until the next check
                    break
                tried |= new
            self._untold += said
            self._remember()
            return said

    def accept(self, path: str) -> None:
        """Take what a file tool has written with the user's consent for the user's."""
        with self._lock:
            real = os.path.realpath(path)
            self._known |= {entry for entry in self._look() if _is_exempt(entry.path, {real})}
            for held in self._mounted:
                if _is_exempt(held, {real}):
                    self._mounted[held] = _identity(held)
            if self.dirty:
                self._remember()

    def replaced(self) -> list[str]:
        """Return the held paths that another file has taken the place of, so that running sandboxes
        hold them no more.
        """
        with self._lock:
            found = []
            for path, before in self._mounted.items():
                now = _identity(path)
                if now != before:
                    found.append(path)
                    self._mounted[path] = now
            return found

    def resume(self, remembered: Remembered) -> None:
        """Take what a killed process remembered for what was there before its commands ran.

        Call ``check`` next.
        """
        with self._lock:
            self._known = {Entry(*entry) for entry in remembered.known}  # type: ignore[arg-type]
            self._since = remembered.since
            self._packages = dict(remembered.packages)
            self.dirty = True

    def note_told(self, said: Iterable[str]) -> None:
        """Note that sentences are logged.

        Does not block; call ``settle`` in a thread afterwards.
        """
        self._told += said

    def settle(self) -> None:
        """Bring the mark up to date after sentences were logged."""
        with self._lock:
            self._remember()

    def _remember(self) -> None:
        """Write down that commands run, what was there before, and what is not logged yet.

        Remove it when that is nothing.
        """
        if self._mark is None:
            return
        told = self._told
        self._told = []
        self._untold = [sentence for sentence in self._untold if sentence not in told]
        try:
            if self.dirty or self._untold:
                self._mark.write(self._remembered())
            else:
                self._mark.clear()
            self.unmarked = ""
        except OSError as error:  # a disk that is full or read-only: the watch itself needs no file
            self.unmarked = printable(str(error))

    def _remembered(self) -> Remembered:
        known = tuple(sorted((entry.kind, entry.path, entry.detail) for entry in self._known))
        return Remembered(
            self.roots, known, self._since, self._packages, tuple(self._untold), self.dirty
        )

    # --- looking ----------------------------------------------------------------------------------

    def _look(self, *, everywhere: bool = False) -> set[Entry]:
        """Return all that is executed now."""
        began = time.perf_counter()
        everywhere = everywhere or self._has_nested_repositories()
        self._refresh(everywhere)
        found: set[Entry] = set()
        unlisted: list[str] = []
        # Git folders, each with the folder of the files that it keeps, where that is known.
        git_folders: dict[str, str] = {}
        for folder, state in self._telling:
            if not state.listed:
                unlisted.append(folder)
            if state.repository:
                git_folders.setdefault(folder, "")
            for name in state.names:
                found.update(self._named_entries(f"{folder}/{name}", git_folders))
        for root in self.roots:
            common = worktree(root)
            if common:
                git_folders.setdefault(common, "")
        found.update(self._follow_gitlinks(git_folders))
        for path in self.named_files():
            if os.path.lexists(path):
                found.add(Entry("name", path, _kind(path)))
        for git_folder in self._with_inner(git_folders, unlisted):
            found.update(self._repository(git_folder))
        found.update(Entry("folder", path, _state(path)) for path in unlisted)
        self._repositories = {
            path: state for path, state in self._repositories.items() if path in self._seen
        }
        self.seconds = time.perf_counter() - began
        return found

    def _follow_gitlinks(self, git_folders: dict[str, str]) -> Iterator[Entry]:
        """Yield the pointers of nested repositories that an index names, wherever they are.

        Add their Git folders.

        Git enters them from the repository that they are nested in: also those that no look at
        folders has come to.
        """
        waiting = list(git_folders.items())
        seen: set[str] = set()
        while waiting:
            git_folder, files = waiting.pop()
            for path in self._gitlinks(git_folder) if files else ():
                inner = f"{files}/{path}/.git"
                real = f"{os.path.realpath(os.path.dirname(inner))}/.git"
                if inner in seen or not self._is_inside(real) or not os.path.lexists(inner):
                    continue
                seen.add(inner)
                before = set(git_folders)
                yield from self._named_entries(real, git_folders)
                waiting += [(each, git_folders[each]) for each in git_folders.keys() - before]

    def _named_entries(self, path: str, git_folders: dict[str, str]) -> Iterator[Entry]:
        """Yield what a name stands for; add the Git folders that it leads to."""
        name = os.path.basename(path)
        if name.lower() != ".git":
            for inner in inner_paths(name):
                if os.path.lexists(f"{path}/{inner}"):
                    yield Entry("name", f"{path}/{inner}", _kind(f"{path}/{inner}"))
            row = find_name(name)
            if row and not row.data:
                yield Entry("name", path, _kind(path))
            return
        kind = _kind(path)
        if kind == "folder":
            git_folders[path] = os.path.dirname(path)
            return
        target = os.path.realpath(path) if kind != "file" else repositories.pointed(path)
        if target and self._is_inside(target):
            git_folders[target] = os.path.dirname(path)
        if kind != "file":
            yield Entry("link", path, kind)
        elif target and not self._is_inside(target):
            yield Entry("pointer", path, target)
        elif repositories.is_untold(path):
            yield Entry("pointer", path, repositories.digest(path))

    def _with_inner(self, git_folders: Iterable[str], unlisted: list[str]) -> Iterator[str]:
        self._seen: set[str] = set()
        waiting = list(git_folders)
        while waiting:
            folder = waiting.pop()
            if folder in self._seen:
                continue
            for each in (folder, *repositories.inner_folders(folder, unlisted)):
                if each not in self._seen:
                    self._seen.add(each)
                    yield each
                common = repositories.common_folder(each)
                if common and self._is_inside(common):
                    waiting.append(common)

    def _repository(self, folder: str) -> tuple[Entry, ...]:
        now = repositories.stamp(folder)
        known = self._repositories.get(folder)
        if known is None or known[0] != now or not _is_settled(now):
            known = now, tuple(repositories.entries(folder))
            self._repositories[folder] = known
        return known[1]

    def named_files(self) -> tuple[str, ...]:
        """Return the files inside the roots that configurations name: hooks, included files,
        programs of filters.

        They are returned whether they exist or not, if Git would execute them as soon as they do.
        """
        users = repositories.user_configs()
        configs = [(root, f"{self.git_folder(root)}/config") for root in self.roots]
        configs += [(root, f"{self.git_folder(root)}/config.worktree") for root in self.roots]
        now = (*(_stamp(path) for _, path in configs), *(_stamp(path) for path in users))
        if now != self._named[0] or not self._named[0]:
            found: dict[str, None] = {}
            for root in self.roots:
                own = [path for base, path in configs if base == root]
                for path in repositories.named_files([*users, *own], root):
                    if self._is_inside(path) and path not in self.roots:
                        found[path] = None
            self._named = now, tuple(found)
        return self._named[1]

    def git_folder(self, root: str) -> str:
        """Return the Git folder of a root, resolved.

        Of a linked worktree the one of its repository. It may not exist.
        """
        path = f"{root}/.git"
        if not os.path.isfile(path):
            return os.path.realpath(path)
        own = repositories.pointed(path)
        if os.path.basename(os.path.dirname(own)) == "worktrees":
            return os.path.dirname(os.path.dirname(own))
        return own

    def _has_nested_repositories(self) -> bool:
        """Return whether an index has a nested repository in it, which Git would enter wherever it
        is.
        """
        return any(self._gitlinks(self.git_folder(root)) for root in self.roots)

    def _gitlinks(self, git_folder: str) -> frozenset[str]:
        """Return the paths of the nested repositories in the index of a Git folder."""
        # The folder's own stamp changes with its shared indexes: Git writes them under another name
        # and renames them.
        now = (_stamp(f"{git_folder}/index"), _stamp(git_folder))
        known = self._indexes.get(git_folder)
        if known is None or known[0] != now or not _is_settled(now):
            known = now, frozenset(repositories.gitlinks(git_folder))
            self._indexes[git_folder] = known
        return known[1]

    def _refresh(self, everywhere: bool) -> None:
        """List again the folders that changed, nearest to the root first, and forget those that are
        gone.
        """
        # The one loop that runs for every folder of a workspace, at every command: it does no more
        # than it must.
        old = self._folders
        found: dict[str, _Folder] = {}
        telling: list[tuple[str, _Folder]] = []
        lstat = os.lstat
        executed = self._executed
        waiting = list(self.roots)
        while waiting and len(found) < MAX_FOLDERS:
            deeper: list[str] = []
            for path in waiting:
                try:
                    status = lstat(path)
                except OSError:
                    continue
                state = old.get(path)
                if (
                    state is None
                    or not state.settled
                    or state.stamp != (status.st_ino, status.st_ctime_ns)
                ):
                    if not stat.S_ISDIR(status.st_mode):
                        continue
                    is_executed = path in executed
                    state = _list(path, (status.st_ino, status.st_ctime_ns), only_git=is_executed)
                    executed.update(state.folders if is_executed else state.executed)
                found[path] = state
                if state.names or state.repository or not state.listed:
                    telling.append((path, state))
                deeper += state.folders
                if everywhere:
                    deeper += state.skipped
            waiting = deeper
        self._folders = found
        self._telling = telling
        self.truncated = bool(waiting)

    def _skipped_folders(self) -> Iterator[str]:
        """Yield the folders of installed packages that were seen last.

        Those of compiled modules are many, and hold none.
        """
        for state in self._folders.values():
            for path in state.skipped:
                if not path.endswith("/__pycache__"):
                    yield path

    def _was_there_before(self, path: str) -> bool:
        """Check whether a path in a folder of installed packages was there before the commands ran.

        These folders are not looked into before each command, as that takes long, but are at the
        end. A rename changes the time of change (ctime) of what is renamed, and no program can set
        it. So what is older than the commands, with every folder that it is in, was in the same
        place when they began.
        """
        package = next((each for each in self._packages if path.startswith(f"{each}/")), "")
        if not package or self._packages[package] != _identity(package):
            return False
        while path != package:
            try:
                if os.lstat(path).st_ctime_ns >= self._since:
                    return False
            except OSError:
                return False
            path = os.path.dirname(path)
        return True

    def _is_inside(self, path: str) -> bool:
        return any(path.startswith(f"{root}/") for root in self.roots)

    # --- holding ----------------------------------------------------------------------------------

    def _held(self) -> list[str]:
        """Return what exists and should stay as it is, without links: they cannot be held."""
        wanted: dict[str, None] = {}
        for entry in self._known:
            if entry.kind == "name" and entry.detail in ("file", "folder"):
                wanted[entry.path] = None
        for folder, state in self._telling:
            for name in state.names:
                if name.lower() == ".git" and _kind(f"{folder}/{name}") == "file":
                    wanted[f"{folder}/{name}"] = None
        for folder in self._repositories:
            for name in ("config", "config.worktree", "hooks", "commondir", "gitdir"):
                wanted[f"{folder}/{name}"] = None
        found = [
            path for path in wanted if os.path.lexists(path) and os.path.realpath(path) == path
        ]
        return sorted(found, key=lambda path: (path.count("/"), path))[:MAX_HELD]

    # --- making inert -----------------------------------------------------------------------------

    def _neutralise(self, new: set[Entry]) -> list[str]:
        """Make entries inert, each by itself: one that cannot be is reported and leaves the others
        alone.
        """
        said: list[str] = []
        together: dict[str, list[Entry]] = {}
        for entry in sorted(new):
            together.setdefault(
                entry.path if entry.kind in ("setting", "todo") else f"{entry.path}\0", []
            ).append(entry)
        for entries in together.values():
            try:
                for entry in entries if entries[0].kind not in ("setting", "todo") else entries[:1]:
                    said.append(self._make_inert(entry, [each.detail for each in entries]))
            except (FileNotFoundError, NotADirectoryError):
                # It is gone, or a link has taken the place of its folder: the next look tells
                continue
            except (OSError, ValueError) as error:
                path = self._shown(entries[0].path)
                why = printable(str(error))
                text = (
                    f"{path} could not be made inert ({why}). Do not use this folder; remove {path}"
                    " yourself."
                )
                said += [] if entries[0] in self._failed else [text]
                self._failed |= dict.fromkeys(entries, text)
        return said

    def _make_inert(self, entry: Entry, details: list[str]) -> str:
        """Create an entry inert, with all settings or steps of its file.

        Returns a sentence about it.
        """
        if entry.kind == "folder":
            with _opened(entry.path) as folder:
                _grant(folder)
            return (
                f"{self._shown(entry.path)} could not be listed, so nobody knew what is in it. Its"
                " owner may list it now."
            )
        if entry.kind in ("setting", "todo"):
            kept = self._rewrite(entry.path, details)
            listed = ", ".join(printable(detail[:100]) for detail in details[:5])
            what = "steps of a rebase" if entry.kind == "todo" else "settings"
            text = (
                f"{self._shown(entry.path)} had {what} that execute programs ({listed}). They are"
                " taken out;"
            )
            return f"{text} the file as it was is {self._shown(kept)}."
        text = (
            f"{self._shown(entry.path)} {_why(entry)}. It is now"
            f" {self._shown(self._rename(entry.path))}."
        )
        self._restore(entry)
        return text

    def _restore(self, entry: Entry) -> None:
        """Put back the pointer or link of the user's that another one took the place of."""
        before = next(
            (
                each
                for each in self._known
                if each.path == entry.path and each.kind in ("pointer", "link")
            ),
            None,
        )
        if before is None:
            return
        with _opened(os.path.dirname(entry.path)) as folder:
            name = os.path.basename(entry.path)
            if before.kind == "link":
                os.symlink(before.detail.removeprefix("link to "), name, dir_fd=folder)
            else:
                _write(name, f"gitdir: {before.detail}\n", folder)
        self._restored.add(before)

    def _rename(self, path: str) -> str:
        """Return a file or folder another name, in its own folder. Returns its path."""
        with _opened(os.path.dirname(path)) as folder:
            try:
                name = _free(os.path.basename(path), folder)
                os.rename(os.path.basename(path), name, src_dir_fd=folder, dst_dir_fd=folder)
            except PermissionError:
                _grant(folder)
                name = _free(os.path.basename(path), folder)
                os.rename(os.path.basename(path), name, src_dir_fd=folder, dst_dir_fd=folder)
        return f"{os.path.dirname(path)}/{name}"

    def _rewrite(self, path: str, details: list[str]) -> str:
        """Write a file again without some of its lines; keep the old one beside it.

        Returns the path of that.
        """
        text = repositories.read(path) or ""
        if path.endswith("git-rebase-todo"):
            lines = [f"# {line}" if line.strip() in details else line for line in text.split("\n")]
            text = "\n".join(lines)
        else:
            text = repositories.without(text, details)
        kept = self._rename(path)
        with _opened(os.path.dirname(path)) as folder:
            _write(os.path.basename(path), text, folder)
        return kept

    def _shown(self, path: str) -> str:
        root = next((root for root in self.roots if path.startswith(f"{root}/")), "")
        return printable(path[len(root) + 1 :] if root else path)


def _is_exempt(path: str, exempt: set[str]) -> bool:
    return any(
        path == each or path.startswith(f"{each}/") or each.startswith(f"{path}/")
        for each in exempt
    )


def _why(entry: Entry) -> str:
    if entry.kind == "name":
        row = find_name(os.path.basename(entry.path))
        if row:
            return f"was written by a command, and {row.program} executes it {row.when}"
        return "was written by a command"
    if entry.kind == "hook":
        return "is a hook that Git would execute"
    return f"leads Git to other metadata ({printable(entry.detail[:200])})"


def _list(path: str, stamp: _Stamp, *, only_git: bool = False) -> _Folder:
    """List a folder.

    Args:
        path: The folder.
        stamp: What changes when it changes.
        only_git: Whether it is executed as a whole, so that only Git's metadata in it is looked
            for.
    """
    folders: list[str] = []
    skipped: list[str] = []
    executed: list[str] = []
    names: list[str] = []
    seen: set[str] = set()
    settled = time.time_ns() - stamp[1] > _SETTLED
    try:
        with os.scandir(path) as found:
            for entry in found:
                name = entry.name
                seen.add(name)
                if name.lower() == ".git":
                    names.append(name)
                    continue
                row = find_name(original(name) if name.endswith(QUARANTINED) else name)
                if (row or name.lower() in PARENTS) and not (
                    only_git or name.endswith(QUARANTINED)
                ):
                    names.append(name)
                if not entry.is_dir(follow_symlinks=False):
                    continue
                if name in _SKIPPED:
                    skipped.append(entry.path)
                    continue
                folders.append(entry.path)
                if row and row.folder and not row.data:
                    executed.append(entry.path)
    except (FileNotFoundError, NotADirectoryError):
        return _Folder(stamp, settled)
    except OSError:
        return _Folder(stamp, settled, listed=False)
    # What only a folder or only a file makes dangerous is one where it is the other thing.
    names = [name for name in names if _counts(path, name)]
    return _Folder(
        stamp,
        settled,
        tuple(folders),
        tuple(skipped),
        tuple(names),
        tuple(executed),
        repositories.is_repository(seen),
    )


def _counts(folder: str, name: str) -> bool:
    row = find_name(name)
    return row is None or row.folder or not os.path.isdir(f"{folder}/{name}")


def _stamp(path: str) -> _Stamp:
    """Return what changes when a file changes; zeros where there is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return (0, 0)
    return status.st_ino, status.st_ctime_ns


def _identity(path: str) -> int:
    """Return the number of a file, which changes when another file takes its place.

    Zero where there is none.
    """
    try:
        return os.lstat(path).st_ino
    except OSError:
        return 0


def _is_settled(stamps: Iterable[object]) -> bool:
    now = time.time_ns()
    return all(
        now - each[1] > _SETTLED for each in stamps if isinstance(each, tuple) and len(each) > 1
    )


def _kind(path: str) -> str:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return "nothing"
    if stat.S_ISLNK(mode):
        try:
            return f"link to {os.readlink(path)}"
        except OSError:
            return "link to nothing"
    return "folder" if stat.S_ISDIR(mode) else "file"


@contextmanager
def _opened(path: str) -> Iterator[int]:
    """Open a folder without following links in its path: a command that still runs may put one
    there.
    """
    fd = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in path.strip("/").split("/"):
            inner = os.open(
                part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd
            )
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


def _grant(folder: int) -> None:
    """Let the owner of an open folder list and change it.

    By its descriptor: no link can be put in the way.
    """
    os.chmod(f"/proc/self/fd/{folder}", stat.S_IMODE(os.fstat(folder).st_mode) | stat.S_IRWXU)


def _state(folder: str) -> str:
    """Return what changes when a folder of this user's that cannot be listed may have got something
    new in it.
    """
    try:
        status = os.lstat(folder)
    except OSError:
        return ""
    if status.st_uid == os.geteuid():
        return f"{status.st_ino} {status.st_ctime_ns}"
    return str(status.st_ino)


def _free(name: str, folder: int) -> str:
    for number in range(1, 1000):
        wanted = f"{name}{QUARANTINED}" if number == 1 else f"{name}.{number}{QUARANTINED}"
        try:
            os.stat(wanted, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return wanted
    return f"{name}.{time.time_ns()}{QUARANTINED}"


def _write(name: str, text: str, folder: int) -> None:
    """Write a file that must not be there yet."""
    fd = os.open(
        name,
        os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
        0o644,
        dir_fd=folder,
    )
    with open(fd, "wb") as file:
        file.write(text.encode(errors="surrogateescape"))
