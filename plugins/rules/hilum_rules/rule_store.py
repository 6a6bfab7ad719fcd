"""Finds, loads and activates the rules of a workspace, and reloads them when they change."""

from __future__ import annotations

import glob
import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import chain, filterfalse, islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import msgspec
from hilum import UsageError, config_folder
from hilum.settings import load
from msgspec.structs import replace

from hilum_rules.discovery import (
    OVERRIDE,
    FoundFile,
    RulesFinder,
    WorkspacePaths,
    find_paths,
    folders_between,
    guess_dialect,
)
from hilum_rules.nested_folders import find_nested_folders, may_have_rules
from hilum_rules.rule import Bundle, Mode, Problem, Rule, RulesFile
from hilum_rules.settings import RulesSettings
from hilum_rules.source import Stamp, digest_text, follow_links, read_stamp

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

    from hilum_rules.loading import Loader
    from hilum_rules.signed_rules import Locks

MAX_LISTED = 200
"""Maximum number of files that one pattern of the setting ``rules.files`` may match."""
MAX_FOLDERS = 400
"""Maximum number of nested folders without rules to watch; the most recently used are kept."""
MAX_TOUCHED = 10 * MAX_FOLDERS
MAX_QUICK_STAMPS = 128
"""Maximum number of files to look at in the event loop. On a local disk, each takes 5 µs."""
MAX_QUICK_SECONDS = 0.01
"""After a look that takes longer, the looks move to a thread: the files may be on a network."""
SLOW_SECONDS = 10.0
"""Seconds until another look in the event loop, because the machine may only have been busy."""
MAX_TEXT = 50_000
"""Maximum number of characters to search for file names in a prompt."""
# Command lines without patterns, variables and code, in which each folder is named in full.
_PLAIN_COMMAND = re.compile(r"(?:[\w\s/:=,@+\"'&;|>-]|(?<![\s\"'=])\.|\.(?=[\w.]))*+")
_SEARCHES = re.compile(r"\b(?:find|fd|xargs|parallel|clean|apply|am|patch)\b")
_NAME = re.compile(r"[\w.@+-]+")


class Snapshot(msgspec.Struct, frozen=True):
    """All rules at one point in time.

    Attributes:
        files: All files, in order of precedence: later files win.
        active: The files whose rules are active.
        bundle: The active rules.
        problems: The parts of all files that hilum might not read as their author intended.
        numbers: The number of each file, by path. A file keeps its number during the session.
    """

    files: tuple[RulesFile, ...] = ()
    active: tuple[RulesFile, ...] = ()
    bundle: Bundle = Bundle()
    problems: tuple[Problem, ...] = ()
    numbers: dict[str, int] = msgspec.field(default_factory=dict)

    def numbered(self) -> Iterator[tuple[str, RulesFile, Rule]]:
        """Yield all rules with their numbers; ``2.5`` is the fifth rule in the second file."""
        for file in self.files:
            for index, rule in enumerate(file.rules, 1):
                yield f"{self.numbers[file.path]}.{index}", file, rule


class RuleStore:
    """Finds, loads and reloads a workspace's rules. Methods block; not thread-safe.

    Attributes:
        snapshot: The rules.
        loaded: All files with their signed checks, as they are before rules exclude some of them.
        locks: The locks; ``None`` if there are none.

    Args:
        paths: The paths of the workspace.
        settings: The settings.
        kind: The kind of session, because rules may exclude files from some kinds.
    """

    def __init__(self, paths: WorkspacePaths, settings: RulesSettings, kind: str = "main") -> None:
        self.paths = paths
        self.settings = settings
        self.kind = kind
        self.snapshot = Snapshot()
        self.loaded: list[RulesFile] = []
        self.locks: Locks | None = None
        # The rules that may keep files out of the prompt, by the origins of these files.
        self._exclusions: dict[str, list[Rule]] | None = None
        # Nested folders, and whether they contain rules.
        self._nested: dict[Path, bool] = {}
        self._in_play: set[str] = set()
        self._touched: dict[str, None] = {}
        # The folders below which all nested folders with rules are known.
        self._searched: set[str] = set()
        self._stamps: dict[Path, Stamp | None] = {}
        self._slow_until = 0.0

    @cached_property
    def loader(self) -> Loader:
        """The file loader, whose module is imported late because most folders have no rules."""
        from hilum_rules.loading import Loader

        return Loader(self.paths, self.settings.file_limit, self.settings.import_from)

    def refresh(self) -> bool:
        """Reload files that changed on disk; return whether the active rules changed."""
        return self._has_changed() and self.load()

    def reload(self) -> bool:
        """Load all files as at the start; return whether the active rules changed."""
        self._exclusions = None
        return self.load()

    def is_surely_unchanged(self) -> bool:
        """Return whether a look at a few files shows that nothing has changed.

        The look takes microseconds, so that it may happen in the event loop. If there are many
        files, if one of them must be read, or if the file system was slow before, the result is
        ``False``, and ``refresh`` must look in a thread.
        """
        if not self._may_look(len(self._stamps)):
            return False
        began = time.monotonic()
        is_unchanged = all(map(self._is_unchanged, self._stamps))
        if self.snapshot.files and self.loader.list_uncertain():
            is_unchanged = False
        ended = time.monotonic()
        if ended - began > MAX_QUICK_SECONDS:
            self._slow_until = ended + SLOW_SECONDS
        return is_unchanged

    def _may_look(self, count: int) -> bool:
        """Return whether a look at a number of files may happen in the event loop."""
        return count <= MAX_QUICK_STAMPS and time.monotonic() >= self._slow_until

    def _has_changed(self) -> bool:
        """Return whether the names in a folder, or a file's contents, have changed."""
        if not all(map(self._is_unchanged, self._stamps)):
            return True
        return bool(self.snapshot.files) and self.loader.has_changed()

    def _is_unchanged(self, path: Path) -> bool:
        """Return whether a watched folder or file shows no change of the rules."""
        before = self._stamps[path]
        now = read_stamp(path)
        if now == before:
            return True
        # Each edit changes its folder, and most folders neither have rules nor get some.
        is_without_rules = self._nested.get(path) is False
        if not is_without_rules or may_have_rules(path):
            return False
        self._stamps[path] = now
        return True

    def load(self) -> bool:
        """Load all files, whether or not they changed; return whether the active rules changed."""
        finder = RulesFinder(self.paths)
        found = [file for file in self._find(finder) if not self._is_skipped(file)]
        # The stamps are taken before the files are read, so that the next check detects changes
        # made in the meantime.
        self._stamps = {path: read_stamp(path) for path in (*finder.watched, *self.paths.locks)}
        problems = finder.problems
        files = self._load_files(found, problems)
        numbers = self.snapshot.numbers
        for file in files:
            problems += file.problems
            if file.rules:
                # Numbers are never reused, because the conversation may still refer to them.
                numbers.setdefault(file.path, len(numbers) + 1)
        snapshot = Snapshot(
            files=tuple(files), problems=tuple(dict.fromkeys(problems)), numbers=numbers
        )
        self._in_play |= self._find_used(snapshot.files, self._touched)
        return self._activate(snapshot)

    def _load_files(self, found: list[FoundFile], problems: list[Problem]) -> list[RulesFile]:
        """Return the files with their signed checks; add the problems in none of the files."""
        self.loaded = []
        self.locks = None
        has_locks = any(map(os.path.lexists, self.paths.locks))
        # Without any rules, the loader and its modules are not imported.
        if not (found or self.settings.text or self.snapshot.files or has_locks):
            return []
        self.loaded = self.loader.load_all(found, self.settings.text)
        self._stamps |= self.loader.stamps
        if has_locks:
            from hilum_rules.signed_rules import Locks, sign_rules

            self.locks = Locks.read(self.paths)
            self.loaded, in_locks = sign_rules(self.loaded, self.locks)
            problems += in_locks
        return self._exclude(self.loaded, problems)

    def _find(self, finder: RulesFinder) -> Iterator[FoundFile]:
        yield from finder.find_user_files(self.settings.homes)
        yield from self._find_listed(finder)
        for folder in folders_between(self.paths.top, self.paths.workspace):
            yield from finder.find_folder_files(folder)
        for folder in sorted(self._nested):
            yield from self._search_nested(finder, folder)

    def _search_nested(self, finder: RulesFinder, folder: Path) -> list[FoundFile]:
        found = list(finder.find_folder_files(folder))
        self._nested[folder] = bool(found)
        return found

    def _find_listed(self, finder: RulesFinder) -> Iterator[FoundFile]:
        """Yield the files that the setting ``rules.files`` lists."""
        workspace = self.paths.workspace
        for pattern in self.settings.files:
            full = os.path.join(workspace, os.path.expanduser(pattern))
            # Use an iterator, so that ``**`` in a large folder stops at the limit.
            matches = glob.iglob(full, recursive=True, include_hidden=True)
            listed = sorted(islice(matches, MAX_LISTED))
            if not listed:
                finder.add_problem(
                    pattern, "the setting rules.files names it, but there is no such file"
                )
            finder.watched.append(Path(full).parent)
            for path in map(Path, listed):
                found = finder.describe(path, guess_dialect(path), "user", workspace)
                yield found._replace(name=path.stem)

    def _is_skipped(self, found: FoundFile) -> bool:
        if not self.settings.skip:
            return False
        shown = re.sub(r"^(?:~/|(?:\.\./)+)", "", found.shown)
        return _make_spec(tuple(self.settings.skip)).match_file(shown)

    def _exclude(self, files: list[RulesFile], problems: list[Problem]) -> list[RulesFile]:
        """Exclude files from the prompts of this kind of session; add problems about them.

        Only the user's own rules can exclude the user's files. Checks in excluded files hold.
        """
        if self._exclusions is None:
            # A file that an agent writes later must not decide what is loaded, nor must the
            # deletion of one.
            self._exclusions = {
                "settings": [],
                # A repository must not be able to switch off the user's rules.
                "user": _list_enforced(file for file in files if file.origin != "project"),
                "project": _list_enforced(files),
            }
        if not self._exclusions["project"]:
            return files
        import hilum_checks

        loaded = []
        for file in files:
            rules = self._exclusions[file.origin]
            reason = hilum_checks.check_context(rules, file.path, self.kind)
            if reason:
                file = _hide_sentences(file)
                message = (
                    "Not shown to the model, but its checks apply" if file.rules else "Not read"
                )
                problems.append(Problem(file.path, 0, f"{message}: {reason}", fatal=True))
            if file.rules or not reason:
                loaded.append(file)
        return loaded

    def enforced_sources(self) -> Iterator[Path]:
        """Yield the resolved files of enforced rules and of signed checks.

        Files that would override them are included.
        """
        for file in self.snapshot.active:
            if not any(rule.is_enforced for rule in file.rules):
                continue
            yield from map(follow_links, file.sources)
            if file.real is not None and file.dialect == "agents":
                # Creating `AGENTS.override.md` would override the rules without changing their
                # file.
                yield file.real.with_name(OVERRIDE)
        yield from map(follow_links, filter(os.path.lexists, self.paths.locks))

    # --- what is in play --------------------------------------------------------------------------

    def touch(self, paths: Iterable[str]) -> bool:
        """Record files that a tool or the user uses; return whether the active rules changed.

        Args:
            paths: Paths relative to the workspace, with forward slashes.
        """
        paths = list(paths)
        new = [path for path in paths if path not in self._touched]
        self._remember(new)
        if self._add_folders(paths):
            return self.load()
        return self._put_into_play(self._find_used(self.snapshot.files, new))

    def touch_known(self, paths: Sequence[str]) -> bool:
        """Record files whose use cannot change the active rules, in the event loop.

        Returns:
            Whether this was possible; otherwise, ``touch`` must be called in a thread.
        """
        if not self._are_known(paths):
            return False
        self._remember(paths)
        return True

    def names_known_folders(self, command: str) -> bool:
        """Return whether a command line certainly uses no folder that was not examined before.

        The look takes microseconds, so that it may happen in the event loop.
        """
        if not _PLAIN_COMMAND.fullmatch(command) or _SEARCHES.search(command):
            return False
        # To use a folder, a command names it, and the examined folders above it perhaps earlier.
        names = set(_NAME.findall(command))
        workspace = self.paths.workspace
        folders = [Path(), *(folder.relative_to(workspace) for folder in self._nested)]
        return self._are_known(os.path.join(folder, name) for folder in folders for name in names)

    def _are_known(self, paths: Iterable[str]) -> bool:
        """Return whether a look at a few paths shows that their use changes no active rules."""
        looked_at = list(islice(paths, MAX_QUICK_STAMPS + 1))
        if not self._may_look(len(looked_at)) or self._list_waiting(self.snapshot.files):
            return False
        return not any(chain.from_iterable(map(self._new_folders, looked_at)))

    def touch_below(self, folder: str) -> None:
        """Record that a command may change any file below a folder, once in a session."""
        if folder in self._searched:
            return
        self._searched.add(folder)
        nested = find_nested_folders(self.paths.workspace / folder)
        self.touch([(PurePosixPath(folder) / inner).as_posix() for inner in nested])

    def _remember(self, paths: Iterable[str]) -> None:
        self._touched |= dict.fromkeys(paths)
        while len(self._touched) > MAX_TOUCHED:
            del self._touched[next(iter(self._touched))]

    def _add_folders(self, paths: Iterable[str]) -> bool:
        """Examine the folders of the given paths; return whether a new folder has rules."""
        has_rules = False
        for path in paths:
            for folder in self._new_folders(path):
                finder = RulesFinder(self.paths)
                if self._search_nested(finder, folder) or finder.problems:
                    has_rules = True
                self._stamps |= {watched: read_stamp(watched) for watched in finder.watched}
        without_rules = [folder for folder, found in self._nested.items() if not found]
        for folder in without_rules[:-MAX_FOLDERS]:
            del self._nested[folder]
            del self._stamps[folder]
        return has_rules

    def _new_folders(self, path: str) -> Iterator[Path]:
        """Yield the folders from the workspace to a path that were not examined before."""
        inner = PurePosixPath(path)
        for folder in (*reversed(inner.parents), inner):
            if not folder.parts or folder.parts[0] == ".git":
                continue
            full = self.paths.workspace / folder
            if full not in self._nested and os.path.isdir(full) and not os.path.islink(full):
                yield full

    def _find_used(self, files: Iterable[RulesFile], paths: Collection[str]) -> set[str]:
        """Return the waiting files that are used or whose globs match."""
        return {
            file.path
            for file in self._list_waiting(files)
            if any(path == file.path or self._matches(file, path) for path in paths)
        }

    def _put_into_play(self, paths: set[str]) -> bool:
        """Activate files; return whether there are any."""
        if not paths:
            return False
        self._in_play |= paths
        return self._activate(self.snapshot)

    def _list_waiting(self, files: Iterable[RulesFile]) -> list[RulesFile]:
        """Return the files that become active when they are used."""
        return list(filterfalse(self._is_active, files))

    def _is_active(self, file: RulesFile) -> bool:
        return file.mode is Mode.ALWAYS or file.path in self._in_play

    def name(self, text: str) -> bool:
        """Activate files that a text names as ``@name``; return whether any were activated."""
        words = re.findall(r"(?<![\w@])@([\w./\-]+)", text[:MAX_TEXT])
        names = {word.rstrip(".,:;!?)") for word in words}
        waiting = self._list_waiting(self.snapshot.files)
        return self._put_into_play({file.path for file in waiting if names & _names(file)})

    def _matches(self, file: RulesFile, path: str) -> bool:
        full = self.paths.workspace / path
        if not file.globs or not full.is_relative_to(file.base):
            return False
        from hilum_rules.front_matter import gitignore_patterns

        spec = _make_spec(tuple(gitignore_patterns(file.globs)))
        return spec.match_file(full.relative_to(file.base).as_posix())

    def _activate(self, snapshot: Snapshot) -> bool:
        """Use a snapshot with its active rules filled in; return whether these have changed."""
        active = tuple(filter(self._is_active, snapshot.files))
        hashes = "\n".join(f"{file.path} {file.source_hash}" for file in active)
        rules = tuple(rule for file in active for rule in file.rules)
        before = self.snapshot.bundle
        bundle = Bundle(rules, digest_text(hashes))
        # The snapshot is replaced in one step, because another thread may use it to judge a call.
        self.snapshot = replace(snapshot, active=active, bundle=bundle)
        return bundle.source_hash != before.source_hash


def _list_enforced(files: Iterable[RulesFile]) -> list[Rule]:
    return [rule for file in files for rule in file.rules if rule.is_enforced]


@lru_cache(1_000)
def _make_spec(patterns: tuple[str, ...]) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(patterns)


def _hide_sentences(file: RulesFile) -> RulesFile:
    """Return a file with its checks only, because a denial would show its sentences."""
    rules = tuple(
        replace(rule, content=rule.check.summary, lead="")
        for rule in file.rules
        if rule.check is not None
    )
    return replace(file, rules=rules, is_excluded=True)


def _names(file: RulesFile) -> set[str]:
    """Return the names by which a user may refer to a file."""
    last_part = file.name.rpartition("/")[2]
    return {file.name, last_part, file.path, PurePosixPath(file.path).name}


def open_store(root: Path, settings: RulesSettings, kind: str) -> RuleStore:
    """Load and return the rules of a workspace. Blocks.

    Args:
        root: The workspace.
        settings: The settings.
        kind: The kind of session.
    """
    store = RuleStore(find_paths(root, config_folder()), settings, kind)
    store.load()
    return store


def read_store(workspace: str, kind: str = "main") -> RuleStore:
    """Load and return the rules of a folder that the user has named. Blocks.

    They include those of nested folders, which a session reads when it uses a file there.

    Args:
        workspace: The folder.
        kind: The kind of session.

    Raises:
        UsageError: There is no such folder.
    """
    folder = follow_links(os.path.expanduser(workspace))
    if not folder.is_dir():
        raise UsageError(f"There is no folder {workspace}.", hint="Choose an existing folder.")
    settings = load([RulesSettings], workspace=folder, known=None).get(RulesSettings)
    store = open_store(folder, settings, kind)
    store.touch_below("")
    return store
