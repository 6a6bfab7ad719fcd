"""Find new files in a workspace that programs outside the sandbox would execute.

The sandbox protects paths that exist. A path that does not exist yet, such as a nested repository,
`.envrc` or a pointer to other metadata, cannot be protected without creating files that the user
and Git would see. Therefore the workspace's folders are checked before and after every command and,
while a command runs, several times a second. New files that would be executed are made inert (see
``quarantine``). A file that the user writes while no command runs belongs to the user and is left
alone. While only services run, so does what no service can write: the Git folders that the sandbox
closes to them. Of other files, it is not known whether a service or the user wrote them.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from hilum_guard.file_names import is_below, printable, resolve_links, select_unlinked
from hilum_guard.repositories import git_metadata
from hilum_guard.repositories.git_metadata import Entry
from hilum_guard.sandbox.sandbox_policy import find_repository, is_empty
from hilum_guard.watching.checked_out_files import is_checked_out
from hilum_guard.watching.executed_files import find_name, inner_paths
from hilum_guard.watching.folder_events import FolderEvents
from hilum_guard.watching.folder_scan import (
    SETTLED,
    SKIPPED,
    FolderScan,
    ScannedFolders,
    describe_kind,
    is_settled,
    read_inode,
    read_stamp,
)
from hilum_guard.watching.quarantine import Quarantine
from hilum_guard.watching.run_markers import RunMarker, WatchState

MAX_ROUNDS = 20
"""Maximum number of scans in one check: making an entry inert may reveal another entry."""
MAX_HELD = 200
"""Maximum number of paths to protect in one workspace; those nearest the root come first."""
Stamps = tuple[object, ...]
"""The state of some files; it changes when one of the files changes."""
MAX_INTERVALS = 100
"""Maximum number of intervals in which commands ran; earlier ones are joined."""
_ENDLESS = 1 << 63
_GIT_NAMES = ("config", "config.worktree", "hooks", "commondir", "gitdir")


class _Repository(NamedTuple):
    """The data read from a Git folder.

    Attributes:
        paths: The paths whose stamps show whether the folder has changed.
        stamps: Their stamps, read before the entries.
        entries: The entries in the folder that Git executes.
        is_settled: Whether a change after the stamps were read would change the stamps.
        is_trusted: Whether equal stamps also mean that the same paths matter.
    """

    paths: tuple[str, ...]
    stamps: Stamps
    entries: tuple[Entry, ...]
    is_settled: bool
    is_trusted: bool


class WorkspaceWatcher:
    """A watcher of folders for files that other programs execute.

    Methods block, and any thread may call them.

    Args:
        roots: The folders that commands write to, resolved.
        temp: The commands' temporary folder, which is not watched.
        alive: Returns the number of commands that may be running.
        exempt: Returns paths that a file tool is about to write with the user's approval.
        mark: Records that commands run and what existed before, in case this process is killed.
        commands: Returns how many of those that ``alive`` counts are no services.
        unclosed: Returns how many services may be running for which no Git folder is closed.
        report: Receives the sentences of each check that made something inert, in the thread of the
            check, and before any other check can begin.
        uses_events: Whether to watch the folders of a large workspace by inotify; the caller must
            then call ``close``.

    Attributes:
        dirty: Whether commands may have run since the last scan.
        seconds: The duration of the last scan.
        unmarked: Why the marker could not be written; empty if it was written.
    """

    def __init__(
        self,
        roots: Sequence[str],
        temp: str = "",
        alive: Callable[[], int] = lambda: 0,
        exempt: Callable[[], Iterable[str]] = tuple,
        mark: RunMarker | None = None,
        commands: Callable[[], int] | None = None,
        unclosed: Callable[[], int] = lambda: 0,
        report: Callable[[list[str]], object] = lambda _: None,
        uses_events: bool = False,
    ) -> None:
        self.roots = tuple(roots)
        self.temp = temp
        self.alive = alive
        self.exempt = exempt
        self.commands = alive if commands is None else commands
        self.unclosed = unclosed
        self.report = report
        self.dirty = False
        self.seconds = 0.0
        self.unmarked = ""
        self._mark = mark
        # The lock is reentrant, because `begin` calls `check`.
        self._lock = threading.RLock()
        self._events = FolderEvents(roots) if uses_events else None
        self._scan = FolderScan(roots, self._events)
        self._quarantine = Quarantine(roots)
        # The time at which the running commands began, and the folders of installed packages that
        # existed then: see `_was_there_before`.
        self._since = 0
        self._packages: dict[str, int] = {}
        # The intervals in which commands ran that may have written to folders of installed packages,
        # which are scanned only at the end: from when until when, as Unix time in nanoseconds. While
        # commands run, the last one has no end.
        self._intervals: list[tuple[int, int]] = []
        # The folders of installed packages, with their inodes, when a command first found them.
        self._first_packages: dict[str, int] = {}
        # Whether something other than services may have run since the last check.
        self._commanded = False
        # The Git folders, with their inodes, that are closed to all services that have begun since
        # nothing ran; None if no service has.
        self._closed: dict[str, int] | None = None
        # Whether, at the last check, a service ran for which no Git folder is closed.
        self._was_unclosed = False
        # The executed files that existed before the commands.
        self._known: set[Entry] = set()
        # The executed files that Git wrote to linked working trees. They are compared at each check
        # instead of being protected, so that Git can check out other ones or remove them.
        self._checked_out: set[Entry] = set()
        # Protected paths with their inodes, as sandboxes mounted them.
        self._mounted: dict[str, int] = {}
        # The masks of the sandbox, and those that were created while commands ran.
        self._masks: set[str] = set()
        self._late_masks: set[str] = set()
        # Sentences that are not logged yet, and those logged since the marker was written.
        self._unreported: list[str] = []
        self._reported: list[str] = []
        # Paths, as shown to the user, of entries that are about to be made inert.
        self._undoing: tuple[str, ...] = ()
        # The data read from Git folders, indexes and configurations, with their stamps.
        self._repositories: dict[str, _Repository] = {}
        self._indexes: dict[str, tuple[object, frozenset[str]]] = {}
        self._named: tuple[Stamps, tuple[str, ...]] = ((), ())

    def pop_renamed(self) -> list[tuple[str, str]]:
        """Return the former and the new paths of entries that were renamed since the last call.

        This method does not block.
        """
        renamed = self._quarantine.renamed
        return [renamed.popleft() for _ in range(len(renamed))]

    @property
    def truncated(self) -> bool:
        """Whether there are more folders than hilum watches."""
        return self._scan.truncated

    @property
    def scanned(self) -> ScannedFolders:
        """The folders, as of the last check or the beginning of the last command."""
        return self._scan.scanned

    def begin(
        self,
        put_masks: Callable[[], Collection[str]] = tuple,
        *,
        closed: Collection[str] | None = None,
        writes: bool = True,
    ) -> tuple[list[str], list[str]]:
        """Prepare for a command. Call this before each command starts.

        Args:
            put_masks: Creates the missing masks of the sandbox (see ``masks``) and returns them.
            closed: For a service, the Git folders that its sandbox makes read-only as a whole.
            writes: Whether the command can write to the workspace.

        Returns:
            The paths that the sandbox should protect, and a sentence for each entry that was made
            inert.
        """
        with self._lock:
            sentences: list[str] = []
            if self.dirty:
                sentences = self.check()
                self._add_late_masks(put_masks())
            else:
                self._closed = None
                self._masks.update(put_masks())
                self._late_masks.clear()
                self._since = time.time_ns() - SETTLED
                self._begin_interval()
                # An entry that could not be made inert must not become known, so that each check
                # tries it again.
                self._known = self._look() - self._quarantine.failed.keys()
                self._checked_out &= self._find_checked_out(self._checked_out & self._known)
                self._known -= self._checked_out
                skipped = self._scan.skipped_folders()
                self._packages = {path: read_inode(path) for path in skipped}
                for path, inode in self._packages.items():
                    self._first_packages.setdefault(path, inode)
                self._mounted.clear()
            # The marker must be on disk before the command starts. If hilum is killed while the
            # command runs, the next session learns from the marker what existed before.
            self.dirty = True
            if closed is not None:
                self._close_to_services(closed)
            elif writes:
                self._commanded = True
            self._write_mark()
            held = self._list_held()
            for path in held:
                self._mounted.setdefault(path, read_inode(path))
            return held, sentences

    def scan_ahead(self) -> None:
        """Read what the first command needs, so that `begin` reads only what has changed.

        This lists the folders of the workspace and reads the configurations of Git. Blocks.
        """
        with self._lock:
            self._scan.refresh(self._has_nested_repositories())
            self.named_files()

    def _close_to_services(self, folders: Collection[str]) -> None:
        """Remember the Git folders that no service can write to."""
        inodes = {path: read_inode(path) for path in folders}
        before = self._closed
        self._closed = {
            path: inode
            for path, inode in inodes.items()
            # A service that began earlier may write to a folder that did not exist then.
            if inode and (before is None or before.get(path) == inode)
        }

    def _is_closed(self, path: str) -> bool:
        """Return whether no service that runs can have written to a path."""
        if not self._closed or self._was_unclosed or self.unclosed():
            return False
        resolved = resolve_links(path)
        # The sandbox no longer protects a folder that another one has replaced.
        intact = [folder for folder, inode in self._closed.items() if read_inode(folder) == inode]
        return is_below(resolved, intact)

    def _add_late_masks(self, paths: Collection[str]) -> None:
        """Attribute masks to hilum that were created while commands may still run.

        This happens if the user removes the masks, for example with ``git clean``.
        """
        if not paths:
            return
        self._masks.update(paths)
        self._late_masks.update(paths)
        self._known |= {entry for entry in self._look() if entry.path in paths}
        for path in paths:
            if path in self._mounted:
                self._mounted[path] = read_inode(path)

    def check(self, *, everywhere: bool = False) -> list[str]:
        """Make inert the files that appeared since the last scan while commands ran.

        Args:
            everywhere: Whether to also scan folders of installed packages.

        Returns:
            A sentence for each entry.
        """
        with self._lock:
            if not self.dirty:
                return self._check_packages() if everywhere else []
            alive = self.alive()
            has_commands = self.commands() > 0
            is_unclosed = self.unclosed() > 0
            # Processes that have not called `begin` yet are counted, but have written nothing.
            by_command = self._commanded
            exempt = set(map(resolve_links, self.exempt()))
            sentences: list[str] = []
            tried: set[Entry] = set()
            is_last = False
            for _ in range(MAX_ROUNDS):
                new, more = self._check_once(tried, exempt, everywhere, by_command=by_command)
                sentences += more
                if new <= self._quarantine.failed.keys():
                    # No entries are left that can be made inert.
                    if not has_commands:
                        self._commanded = False
                    # One that ends between two checks may have written before it ended.
                    self._was_unclosed = is_unclosed
                    is_last = not alive
                    break
                if new <= tried:
                    self._was_unclosed |= is_unclosed
                    # A running program keeps creating the entry, so leave it to the next check.
                    break
                tried |= new
            self._unreported += sentences
            if sentences:
                # Whoever waits for the lock, or finds that nothing is dirty, must find this report,
                # because it takes the result of the command that wrote the files to be complete.
                self.report(sentences)
            if is_last:
                self.dirty = False
                self._end_interval()
            self._undoing = ()
            self._write_mark()
            return sentences

    def _begin_interval(self) -> None:
        """Note that commands run from now on."""
        if len(self._intervals) >= MAX_INTERVALS:
            first, second = self._intervals[:2]
            self._intervals[:2] = [(first[0], second[1])]
        self._intervals.append((self._since, _ENDLESS))

    def _end_interval(self) -> None:
        """Note that no command runs any more."""
        if self._intervals:
            self._intervals[-1] = (self._intervals[-1][0], time.time_ns())

    def _check_packages(self) -> list[str]:
        """Make inert what earlier commands left in folders of installed packages.

        What changed while no command ran is the user's, and so is everything elsewhere: nothing was
        left there when the last command ended.

        Returns:
            A sentence for each entry.
        """
        if not self._intervals or not self._scan.has_changed_packages(self._intervals[0][0]):
            return []
        sentences: list[str] = []
        tried: set[Entry] = set()
        for _ in range(MAX_ROUNDS):
            found = self._look(everywhere=True) - self._known - tried
            left = {entry for entry in found if self._was_left_in_packages(entry.path)}
            if not left:
                break
            tried |= left
            sentences += self._quarantine.make_inert(left, self._known, by_command=True)
        self._unreported += sentences
        if sentences:
            self.report(sentences)
        self._write_mark()
        return sentences

    def _was_left_in_packages(self, path: str) -> bool:
        """Return whether commands put a path into a folder of installed packages.

        A rename updates the change time (ctime) of the renamed file, which no program can set.
        Therefore it is enough if the path or a folder above it changed while commands ran.
        """
        root = next((each for each in self.roots if path.startswith(f"{each}/")), "")
        inner = path.removeprefix(f"{root}/").split("/")
        packages = [number for number, part in enumerate(inner[:-1]) if part in SKIPPED]
        if not root or not packages:
            return False
        for last in range(packages[0], len(inner)):
            each = "/".join([root, *inner[: last + 1]])
            inode, changed = read_stamp(each)
            # What is added to a folder changes the folder, too. That does not matter if the folder
            # is still the same, because it was not moved here.
            is_same = self._first_packages.get(each, 0) == inode
            if not is_same and self._have_commands_run_at(changed):
                return True
        return False

    def _have_commands_run_at(self, moment: int) -> bool:
        return any(begin <= moment <= end for begin, end in self._intervals)

    def _check_once(
        self, tried: set[Entry], exempt: set[str], everywhere: bool, *, by_command: bool
    ) -> tuple[set[Entry], list[str]]:
        """Scan once, and make new entries inert.

        Args:
            tried: Entries that an earlier round tried to make inert.
            exempt: Paths that the user approved.
            everywhere: Whether to also scan folders of installed packages.
            by_command: Whether something other than services may have written what is new.

        Returns:
            The new entries, and a sentence for each that was made inert.
        """
        quarantine = self._quarantine
        found = self._look(everywhere=everywhere)
        # The sandboxes of earlier commands do not protect a mask that was created after they began.
        # What is in it may therefore come from a command, so the mask counts as new.
        late = {entry for entry in self._known if entry.path in self._late_masks}
        self._known -= {entry for entry in late if not is_empty(entry.path)}
        for entry in found - self._known - quarantine.failed.keys():
            is_closed = not by_command and self._is_closed(entry.path)
            if is_closed or self._was_there_before(entry.path):
                self._known.add(entry)
        copies = self._find_checked_out(found - self._known, is_partial=self.commands() > 0)
        self._checked_out |= copies
        others = found - self._known - copies
        new = {entry for entry in others if not _is_exempt(entry.path, exempt)}
        failed = quarantine.failed.items()
        quarantine.failed = {entry: text for entry, text in failed if entry in new}
        remaining = new - tried
        if remaining:
            # If hilum is killed before it has reported these entries, the next session no longer
            # finds them, but finds their names here.
            shown = {quarantine.show(entry.path) for entry in remaining}
            self._undoing = tuple(sorted(shown.union(self._undoing)))
            self._write_mark()
        sentences = quarantine.make_inert(remaining, self._known, by_command=by_command)
        # Exempt entries keep their state until the tool has written them.
        before = {entry for entry in self._known if _is_exempt(entry.path, exempt)}
        kept = found - new - copies
        unchanged = {entry for entry in kept if not _is_exempt(entry.path, exempt)}
        # Restored entries must not be mistaken for new entries in the next scan.
        self._known = before | unchanged | quarantine.restored
        quarantine.restored = set()
        return new, sentences

    def _find_checked_out(
        self, entries: Collection[Entry], *, is_partial: bool = False
    ) -> set[Entry]:
        """Return the entries that Git has written to linked working trees of the repository."""
        named = [entry for entry in entries if entry.kind == "name"]
        if not named:
            return set()
        known = {entry.path for entry in self._known if entry.kind == "name"}
        git_folders = [(root, self.git_folder(root)) for root in self.roots]
        return {
            entry
            for entry in named
            if is_checked_out(entry.path, known, git_folders, is_partial=is_partial)
        }

    def accept(self, path: str) -> None:
        """Attribute a file to the user because a file tool wrote it with the user's approval."""
        with self._lock:
            paths = {resolve_links(path)}
            self._known |= {entry for entry in self._look() if _is_exempt(entry.path, paths)}
            for held in self._mounted:
                if _is_exempt(held, paths):
                    self._mounted[held] = read_inode(held)
            if self.dirty:
                self._write_mark()

    def replaced(self) -> list[str]:
        """Return protected paths that another file replaced, which sandboxes no longer protect.

        A mask that was removed is not among them: it contained nothing, and whatever appears at its
        path is new, so the next check makes it inert. Nor is one that was created again, because a
        sandbox that is being built creates the paths on which it mounts: what appears in it is new.
        """
        with self._lock:
            found = []
            created = []
            for path, before in self._mounted.items():
                now = read_inode(path)
                if now == before:
                    continue
                self._mounted[path] = now
                if path not in self._masks:
                    found.append(path)
                elif not now:
                    self._known = {entry for entry in self._known if entry.path != path}
                elif is_empty(path) and not os.path.islink(path):
                    created.append(path)
                else:
                    found.append(path)
            self._add_late_masks(created)
            return found

    def close(self) -> None:
        """Stop watching by inotify; later checks scan all folders."""
        with self._lock:
            if self._events is not None:
                self._events.close()

    # --- the mark ---------------------------------------------------------------------------------

    def resume(self, state: WatchState) -> None:
        """Continue from the state recorded by a killed process. Call ``check`` next."""
        with self._lock:
            self._known = {Entry(*entry) for entry in state.known}  # type: ignore[arg-type]
            self._since = state.since
            self._packages = dict(state.packages)
            self._unreported = list(state.unreported)
            self._undoing = state.undoing
            self._commanded = True
            self.dirty = True

    def note_reported(self, sentences: Iterable[str]) -> None:
        """Record that the given sentences have been logged.

        This method does not block; call ``settle`` in a thread afterwards.
        """
        self._reported += sentences

    def settle(self) -> None:
        """Update the marker after sentences were logged."""
        with self._lock:
            self._write_mark()

    def _write_mark(self) -> None:
        """Record that commands run, what existed before, and which sentences are not logged yet."""
        if self._mark is None:
            return
        # The event loop may add sentences at the same time, because `note_reported` takes no lock.
        # Therefore the list of sentences is replaced, not cleared.
        reported = self._reported
        self._reported = []
        self._unreported = [sentence for sentence in self._unreported if sentence not in reported]
        try:
            if self.dirty or self._unreported:
                self._mark.write(self._make_state())
            else:
                self._mark.clear()
            self.unmarked = ""
        except OSError as error:  # the disk is full or read-only, but watching itself needs no file
            self.unmarked = printable(str(error))

    def _make_state(self) -> WatchState:
        known = sorted((entry.kind, entry.path, entry.detail) for entry in self._known)
        return WatchState(
            roots=self.roots,
            known=tuple(known),
            # Without such folders, the time does not matter, and the marker need not be written
            # for each command.
            since=self._since if self._packages else 0,
            packages=self._packages,
            unreported=tuple(self._unreported),
            running=self.dirty,
            undoing=self._undoing,
        )

    # --- looking ----------------------------------------------------------------------------------

    def _look(self, *, everywhere: bool = False) -> set[Entry]:
        """Return all entries that are currently executed."""
        began = time.perf_counter()
        # Git enters nested repositories in the index, even in folders of installed packages.
        self._scan.refresh(everywhere or self._has_nested_repositories())
        found: set[Entry] = set()
        unlisted: list[str] = []
        # Git folders, each with its working tree if that is known.
        git_folders: dict[str, str] = {}
        for path, folder in self._scan.relevant:
            if not folder.listed:
                unlisted.append(path)
            if folder.repository:
                git_folders.setdefault(path, "")
            for name in folder.names:
                found.update(self._find_named_entries(f"{path}/{name}", git_folders))
        for common in filter(None, map(find_repository, self.roots)):
            git_folders.setdefault(common, "")
        found.update(self._follow_gitlinks(git_folders))
        for path in filter(os.path.lexists, self.named_files()):
            found.add(Entry("name", path, describe_kind(path)))
        seen = self._find_inner_folders(git_folders, unlisted)
        for git_folder in seen:
            found.update(self._read_repository(git_folder))
        found.update(Entry("folder", path, _describe_unlisted(path)) for path in unlisted)
        self._repositories = {
            path: state for path, state in self._repositories.items() if path in seen
        }
        self.seconds = time.perf_counter() - began
        return found

    def _follow_gitlinks(self, git_folders: dict[str, str]) -> Iterator[Entry]:
        """Yield the pointers of all nested repositories that an index names, wherever they are.

        Git enters nested repositories from the outer repository, even if no scan of folders reaches
        them.

        Args:
            git_folders: Git folders, each with its working tree; nested repositories are added.
        """
        waiting = list(git_folders.items())
        seen: set[str] = set()
        while waiting:
            git_folder, files = waiting.pop()
            for path in self._read_gitlinks(git_folder) if files else ():
                pointer = f"{files}/{path}/.git"
                # Most of these paths do not exist, and resolving a path takes longer.
                if pointer in seen or not os.path.lexists(pointer):
                    continue
                real = f"{resolve_links(os.path.dirname(pointer))}/.git"
                if not is_below(real, self.roots):
                    continue
                seen.add(pointer)
                before = set(git_folders)
                yield from self._find_named_entries(real, git_folders)
                waiting += [(each, git_folders[each]) for each in git_folders.keys() - before]

    def _find_named_entries(self, path: str, git_folders: dict[str, str]) -> Iterator[Entry]:
        """Yield the entries for a name, and add the Git folders that it leads to."""
        name = os.path.basename(path)
        if name.lower() == ".git":
            yield from self._find_pointers(path, git_folders)
            return
        for inner in inner_paths(name):
            below = f"{path}/{inner}"
            if os.path.lexists(below):
                yield Entry("name", below, describe_kind(below))
        row = find_name(name)
        if row and not row.data:
            yield Entry("name", path, describe_kind(path))

    def _find_pointers(self, path: str, git_folders: dict[str, str]) -> Iterator[Entry]:
        """Yield the entry for a ``.git`` that leads elsewhere, and add its Git folder."""
        kind = describe_kind(path)
        if kind == "folder":
            git_folders[path] = os.path.dirname(path)
            return
        if kind != "file":
            self._note_git_folder(resolve_links(path), path, git_folders)
            yield Entry("link", path, kind)
            return
        pointer = git_metadata.read_pointer(path)
        is_inside = self._note_git_folder(pointer.target, path, git_folders)
        if pointer.is_unusual or (pointer.target and not is_inside):
            yield Entry("pointer", path, pointer.detail)

    def _note_git_folder(self, target: str, path: str, git_folders: dict[str, str]) -> bool:
        """Add the Git folder to which a ``.git`` leads; return whether it is in the workspace."""
        is_inside = bool(target) and is_below(target, self.roots)
        if is_inside:
            git_folders[target] = os.path.dirname(path)
        return is_inside

    def _find_inner_folders(
        self, git_folders: Iterable[str], unlisted: list[str]
    ) -> Collection[str]:
        """Return the given Git folders, those inside them, and those whose settings they share.

        Args:
            git_folders: The Git folders.
            unlisted: Receives the folders that cannot be listed.
        """
        seen: dict[str, None] = {}
        waiting = list(git_folders)
        while waiting:
            folder = waiting.pop()
            if folder in seen:
                continue
            for each in (folder, *git_metadata.inner_folders(folder, unlisted)):
                seen[each] = None
                common = git_metadata.common_folder(each)
                if common and is_below(common, self.roots):
                    waiting.append(common)
        return seen.keys()

    def _read_repository(self, folder: str) -> tuple[Entry, ...]:
        """Return the entries in a Git folder that Git executes, reloaded if the folder changed."""
        known = self._repositories.get(folder)
        # Listing the folders would take longer than everything else.
        is_trusted = known is not None and known.is_trusted
        if known and is_trusted and git_metadata.read_stamps(known.paths) == known.stamps:
            return known.entries
        paths = git_metadata.list_stamped(folder)
        stamps = git_metadata.read_stamps(paths)
        if known is not None and known.is_settled and known[:2] == (paths, stamps):
            entries = known.entries
        else:
            entries = tuple(git_metadata.entries(folder))
        # What changes just after the stamps were read may not change them.
        has_settled = is_settled(stamps)
        # A folder that appeared before its parent's stamp was read is missing in the first list.
        is_complete = has_settled and git_metadata.list_stamped(folder) == paths
        self._repositories[folder] = _Repository(paths, stamps, entries, has_settled, is_complete)
        return entries

    def named_files(self) -> tuple[str, ...]:
        """Return the files inside the roots that configurations name, whether they exist or not.

        Git executes these hooks, included files and filter programs as soon as they exist.
        """
        users = git_metadata.user_configs()
        configs = {}
        for root in self.roots:
            git_folder = self.git_folder(root)
            configs[root] = [f"{git_folder}/config", f"{git_folder}/config.worktree"]
        own = [path for paths in configs.values() for path in paths]
        now = tuple(map(read_stamp, [*own, *users]))
        if now != self._named[0] or not self._named[0]:
            found: dict[str, None] = {}
            for root, paths in configs.items():
                for path in git_metadata.named_files([*users, *paths], root):
                    if is_below(path, self.roots) and path not in self.roots:
                        found[path] = None
            self._named = now, tuple(found)
        return self._named[1]

    def git_folder(self, root: str) -> str:
        """Return the resolved path of a root's Git folder. The folder may not exist.

        For a linked worktree, return its repository's Git folder.
        """
        path = f"{root}/.git"
        if not os.path.isfile(path):
            return resolve_links(path)
        own = git_metadata.pointed(path)
        if os.path.basename(os.path.dirname(own)) == "worktrees":
            return os.path.dirname(os.path.dirname(own))
        return own

    def _has_nested_repositories(self) -> bool:
        """Return whether an index contains a nested repository, which Git would enter."""
        return any(self._read_gitlinks(self.git_folder(root)) for root in self.roots)

    def _read_gitlinks(self, git_folder: str) -> frozenset[str]:
        """Return the paths of the nested repositories in a Git folder's index."""
        # The Git folder's own stamp changes with its shared indexes, because Git writes shared
        # indexes under another name and renames them.
        now = (read_stamp(f"{git_folder}/index"), read_stamp(git_folder))
        known = self._indexes.get(git_folder)
        if known is not None and known[0] == now:
            return known[1]
        # Whether a change after this point would change the stamps.
        has_settled = is_settled(now)
        found = frozenset(git_metadata.gitlinks(git_folder))
        if has_settled:
            self._indexes[git_folder] = now, found
        else:
            self._indexes.pop(git_folder, None)
        return found

    def _was_there_before(self, path: str) -> bool:
        """Return whether a path in a folder of installed packages existed before the commands.

        Folders of installed packages are scanned only at the end, because scanning them before each
        command would take too long. A rename updates the renamed file's change time (ctime), which
        no program can set. So if a file and all the folders that contain it are older than the
        commands, the file already existed when they began.
        """
        package = next((each for each in self._packages if path.startswith(f"{each}/")), "")
        if not package or self._packages[package] != read_inode(package):
            return False
        while path != package:
            inode, changed = read_stamp(path)
            if not inode or changed >= self._since or self._have_commands_run_at(changed):
                return False
            path = os.path.dirname(path)
        return True

    def _list_held(self) -> list[str]:
        """Return the existing paths to protect, except links, which cannot be protected."""
        named = [entry for entry in self._known if entry.kind == "name"]
        wanted = {entry.path for entry in named if entry.detail in ("file", "folder")}
        wanted.update(self._find_pointer_files())
        for path in self._repositories:
            wanted.update(f"{path}/{name}" for name in _GIT_NAMES)
        return sorted(select_unlinked(wanted), key=lambda path: (path.count("/"), path))[:MAX_HELD]

    def _find_pointer_files(self) -> Iterator[str]:
        """Yield the files named ``.git``, which point to a Git folder."""
        for path, folder in self._scan.relevant:
            for name in folder.names:
                pointer = f"{path}/{name}"
                if name.lower() == ".git" and describe_kind(pointer) == "file":
                    yield pointer


def _is_exempt(path: str, exempt: set[str]) -> bool:
    """Return whether a path is exempt, or is inside or contains an exempt path."""
    if path in exempt or is_below(path, exempt):
        return True
    return any(is_below(each, [path]) for each in exempt)


def _describe_unlisted(folder: str) -> str:
    """Return text that changes when an unlistable folder may contain something new."""
    try:
        status = os.lstat(folder)
    except OSError:
        return ""
    if status.st_uid == os.geteuid():
        return f"{status.st_ino} {status.st_ctime_ns}"
    return str(status.st_ino)
