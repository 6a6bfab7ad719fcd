"""The rules that hold now: what was found, what of it is in play, and whether any of it changed on
disk.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import msgspec
from hilum import Workspace

from hilum_rules.places import OVERRIDE, Found, Looking, Where, chain, dialect_of, is_folder
from hilum_rules.reading import Stamp, stamp
from hilum_rules.rule import Bundle, Mode, Problem, Rule, RulesFile
from hilum_rules.settings import RulesSettings

if TYPE_CHECKING:
    from hilum_rules.loading import Loader

MOST_LISTED = 200
"""Files that one pattern of the setting ``rules.files`` may give."""
MOST_FOLDERS = 400
"""Nested folders without rules that are watched for some: the last that were used.

Those with rules are kept, all of them.
"""


class Snapshot(msgspec.Struct, frozen=True):
    """All rules at one moment.

    Attributes:
        files: All files, in order of precedence: later ones win.
        active: Those whose rules are in play.
        bundle: The rules in play.
        problems: What was not read as its author may have meant it, of all files.
        numbers: Number of each file, by its path as it is shown; it keeps that for the session.
    """

    files: tuple[RulesFile, ...] = ()
    active: tuple[RulesFile, ...] = ()
    bundle: Bundle = Bundle()
    problems: tuple[Problem, ...] = ()
    numbers: dict[str, int] = msgspec.field(default_factory=dict)

    def numbered(self) -> Iterator[tuple[str, RulesFile, Rule]]:
        """Yield all rules with their numbers: ``2.5`` is the fifth of the second file."""
        for file in self.files:
            for index, rule in enumerate(file.rules, 1):
                yield f"{self.numbers[file.path]}.{index}", file, rule


class Current:
    """Finds, reads and reloads the rules of a workspace. Blocks; used by one thread at a time.

    Args:
        where: The places of the workspace.
        settings: The settings.
        kind: Kind of the session: rules may keep files out of it.
    """

    def __init__(self, where: Where, settings: RulesSettings, kind: str = "main") -> None:
        self.where = where
        self.settings = settings
        self.kind = kind
        self.nested: dict[PurePosixPath, bool] = {}  # whether there are rules in it
        self.playing: set[str] = set()
        self.touched: dict[str, None] = {}
        self.snapshot = Snapshot()
        self._stamps: dict[Path, Stamp | None] = {}
        self._matchers: dict[tuple[str, ...], Any] = {}

    @cached_property
    def loader(self) -> Loader:
        """Reads files. Most folders have no rules, and need none of it."""
        from hilum_rules.loading import Loader

        return Loader(self.where, self.settings.file_limit, self.settings.import_from)

    def refresh(self, *, force: bool = False) -> bool:
        """Read again what changed on disk, if anything did; says whether rules did."""
        if not force and not self._moved() and not (self.snapshot.files and self.loader.changed()):
            return False
        before = self.snapshot.bundle.source_hash
        self._load()
        return self.snapshot.bundle.source_hash != before

    def _moved(self) -> bool:
        """Return whether a folder that may hold rules has other names in it than before."""
        return any(stamp(folder) != before for folder, before in self._stamps.items())

    def _load(self) -> None:
        looking = Looking(self.where)
        found = [one for one in self._found(looking) if not self._skipped(one)]
        # Taken before the files are read: what changes meanwhile is seen at the next look.
        self._stamps = {folder: stamp(folder) for folder in looking.watched}
        files, kept_out = (
            self._read(found) if found or self.settings.text or self.snapshot.files else ([], [])
        )
        numbers = self.snapshot.numbers
        for file in files:
            if file.rules:
                numbers.setdefault(file.path, len(numbers) + 1)
        problems = [
            *looking.problems,
            *kept_out,
            *(problem for file in files for problem in file.problems),
        ]
        # Set once and whole: a call may be judged by it while this thread is at work.
        new = Snapshot(tuple(files), (), Bundle(), tuple(dict.fromkeys(problems)), numbers)
        self._play(new.files, self.touched)
        self.snapshot = self._settled(new)

    def _read(self, found: list[Found]) -> tuple[list[RulesFile], list[Problem]]:
        """Read files, and take out those that rules keep out."""
        self.loader.begin()
        files = self.loader.load(one for one in found if one.origin == "user")
        files += self.loader.texts(self.settings.text)
        files += self.loader.load(one for one in found if one.origin != "user")
        self.loader.end()
        return self._kept_out(files)

    def _found(self, looking: Looking) -> Iterator[Found]:
        yield from looking.user(self.settings.homes)
        yield from self._listed(looking)
        yield from looking.folders(chain(self.where.top, self.where.workspace))
        for folder in sorted(self.nested, key=lambda folder: folder.parts):
            here = list(looking.folder(self.where.workspace / folder))
            self.nested[folder] = bool(here)
            yield from here

    def _listed(self, looking: Looking) -> Iterator[Found]:
        """The files that the user's settings name."""
        for pattern in self.settings.files:
            full = os.path.join(self.where.workspace, os.path.expanduser(pattern))
            paths = sorted(
                islice(glob.iglob(full, recursive=True, include_hidden=True), MOST_LISTED)
            )
            if not paths:
                why = "Not read: the setting rules.files names it, and there is no such file."
                looking.problems.append(Problem(pattern, 0, why, fatal=True))
            looking.watched.append(Path(full).parent)
            for path in map(Path, paths):
                dialect = dialect_of(path)
                yield Found(
                    path,
                    self.where.shown(path),
                    dialect,
                    Workspace("/"),
                    "user",
                    name=path.stem,
                    base=self.where.workspace,
                )

    def _skipped(self, found: Found) -> bool:
        if not self.settings.skip:
            return False
        return bool(
            self._matcher(tuple(self.settings.skip)).match_file(
                re.sub(r"^(?:~/|(?:\.\./)+)", "", found.shown)
            )
        )

    def _kept_out(self, files: list[RulesFile]) -> tuple[list[RulesFile], list[Problem]]:
        """Take out the files that rules keep out of this kind of session: those of the user only by
        the user's own rules.
        """
        rules = [
            (file.origin, rule) for file in files for rule in file.rules if rule.check is not None
        ]
        if not rules:
            return files, []
        from hilum_rules import checks

        every = [rule for _, rule in rules]
        own = [rule for origin, rule in rules if origin != "project"]
        against = {"settings": [], "user": own, "project": every}
        kept = []
        problems = list[Problem]()
        for file in files:
            why = checks.may_load(against[file.origin], file.path, self.kind)
            if why:
                problems.append(Problem(file.path, 0, f"Not read: {why}", fatal=True))
            else:
                kept.append(file)
        return kept, problems

    def sources(self) -> Iterator[Path]:
        """Yield the files that rules which are enforced now stand in, links followed, and what
        would take a file's place.
        """
        for file in self.snapshot.active:
            if any(rule.check is not None for rule in file.rules):
                yield from (Path(os.path.realpath(path)) for path in file.sources)
                if file.real is not None and file.dialect == "agents":
                    yield file.real.with_name(OVERRIDE)

    # --- what is in play --------------------------------------------------------------------------

    def touch(self, paths: Iterable[str]) -> bool:
        """Note files that a tool or the user has in hand; says whether rules came into play by it.

        Args:
            paths: Relative to the workspace, with forward slashes.
        """
        given = list(paths)
        new = [path for path in given if path not in self.touched]
        for path in new:
            self.touched[path] = None
        while len(self.touched) > 10 * MOST_FOLDERS:
            del self.touched[next(iter(self.touched))]
        folders = [folder for path in given for folder in self._folders(path)]
        before = self.snapshot.bundle.source_hash
        if self._opened(folders):
            self._load()
        elif self._play(self.snapshot.files, new):
            self.snapshot = self._settled(self.snapshot)
        return self.snapshot.bundle.source_hash != before

    def _opened(self, folders: Iterable[PurePosixPath]) -> bool:
        """Take folders in that were not looked into before; says whether there are rules in one."""
        found = False
        for folder in dict.fromkeys(folders):
            looking = Looking(self.where)
            here = bool([*looking.folder(self.where.workspace / folder)] or looking.problems)
            self.nested[folder], found = here, found or here
            self._stamps |= {path: stamp(path) for path in looking.watched}
        plain = [folder for folder, has_rules in self.nested.items() if not has_rules]
        for folder in plain[: max(len(plain) - MOST_FOLDERS, 0)]:
            del self.nested[folder], self._stamps[self.where.workspace / folder]
        return found

    def _folders(self, path: str) -> Iterator[PurePosixPath]:
        """The nested folders that a path lies in, itself if it is one, that are new and may hold
        files of a project.
        """
        inner = PurePosixPath(path)
        for folder in (*reversed(inner.parents), inner):
            if not folder.parts or folder.parts[0] == ".git" or folder in self.nested:
                continue
            if is_folder(self.where.workspace / folder):
                yield folder

    def _play(self, files: Iterable[RulesFile], paths: Iterable[str]) -> bool:
        """Put files into play whose globs match, or that are in hand themselves.

        Says whether any came into play.
        """
        waiting = [
            file for file in files if file.mode is not Mode.ALWAYS and file.path not in self.playing
        ]
        before = len(self.playing)
        for path in paths if waiting else ():
            self.playing |= {
                file.path for file in waiting if path == file.path or self._matches(file, path)
            }
        return len(self.playing) > before

    def name(self, text: str) -> bool:
        """Put files into play that a text names, ``@name``; says whether any came into play."""
        words = {
            word.rstrip(".,:;!?)") for word in re.findall(r"(?<![\w@])@([\w./\-]+)", text[:50_000])
        }
        named = {
            file.path
            for file in self.snapshot.files
            if file.mode is not Mode.ALWAYS and words & _names(file)
        }
        named -= self.playing
        self.playing |= named
        if named:
            self.snapshot = self._settled(self.snapshot)
        return bool(named)

    def _matches(self, file: RulesFile, path: str) -> bool:
        if not file.globs or file.mode is not Mode.AUTO or file.base is None:
            return False
        full = self.where.workspace / path
        if not full.is_relative_to(file.base):
            return False
        from hilum_rules.fields import patterns_of

        return bool(
            self._matcher(tuple(patterns_of(file.globs))).match_file(
                full.relative_to(file.base).as_posix()
            )
        )

    def _matcher(self, patterns: tuple[str, ...]) -> Any:
        if patterns not in self._matchers:
            from pathspec import GitIgnoreSpec

            self._matchers[patterns] = GitIgnoreSpec.from_lines(patterns)
        return self._matchers[patterns]

    def _settled(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot with the bundle of what is in play."""
        active = tuple(
            file for file in snapshot.files if file.mode is Mode.ALWAYS or file.path in self.playing
        )
        digest = hashlib.sha256(
            "\n".join(f"{file.path} {file.source_hash}" for file in active).encode()
        ).hexdigest()
        rules = tuple(rule for file in active for rule in file.rules)
        return msgspec.structs.replace(
            snapshot, active=active, bundle=Bundle(rules, digest, snapshot.problems)
        )


def _names(file: RulesFile) -> set[str]:
    """What a user may call a file."""
    return {file.name, file.name.rsplit("/", 1)[-1], file.path, PurePosixPath(file.path).name}
