"""Search the disk for the files that a `find` or `git clean` command would reach.

`find` tests that this module does not evaluate (time, size, regular expressions) count as possibly
true. The search has no result if the command has unknown words.
"""

from __future__ import annotations

import fnmatch
import os
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import attrs

from hilum_guard.effects.file_access import UNKNOWN, FindQuery, UntrackedQuery
from hilum_guard.file_names import resolve_links
from hilum_guard.small_files import read_small_file

MAX_NAMES = 20_000
"""Maximum number of names that one search examines."""
MAX_INDEX_BYTES = 50_000_000
MAX_SEARCHED_BYTES = 200_000
"""Maximum size of a file to search for a text; larger files count as possibly containing it."""
FIND_COMMANDS = ("-exec", "-execdir", "-ok", "-okdir")
"""`find` actions that run a command."""

Truth = bool | None
Test = Callable[["Entry", bool], Truth]

_FLAGS = frozenset(
    """-depth -d -xdev -mount -noleaf -daystart -ignore_readdir_race -noignore_readdir_race -warn
    -nowarn -changed -print -print0 -ls -true -quit -executable -readable -writable -nouser
    -nogroup""".split()
)
_VALUED = frozenset(
    """-maxdepth -mindepth -size -mtime -mmin -atime -amin -ctime -cmin -newer -anewer -cnewer
    -perm -user -group -links -inum -uid -gid -samefile -lname -ilname -regex -iregex -regextype
    -printf -fprint -fprint0 -fls -fstype -used""".split()
)
# Words in a `find` expression that are true for every file.
_TRUE = frozenset(
    """-depth -d -xdev -mount -noleaf -daystart -warn -nowarn -print -print0 -ls -true -printf
    -fprint -fprint0 -fls -maxdepth -mindepth -regextype -ignore_readdir_race
    -noignore_readdir_race""".split()
)
_NAME_TESTS = frozenset("-name -iname -path -ipath -wholename -iwholename".split())


@attrs.define
class Entry:
    """A name that a search reaches.

    Attributes:
        printed: The path as the program prints it.
        path: The absolute path. Links in the path of the folder where the search began are
            followed.
        folder: Whether the name is a folder.
        link: Whether the name is a link.
        reached: The positions of the actions that may reach the name, each mapped to whether the
            action certainly reaches it.
        pruned: Whether the folder's files are skipped.
    """

    printed: str
    path: str
    folder: bool = False
    link: bool = False
    reached: dict[int, bool] = attrs.field(factory=dict)
    pruned: bool = False


@attrs.frozen
class Findings:
    """The result of a search.

    Attributes:
        entries: The found names, each with whether it is certainly found.
        cwd: The folder that the program runs in.
    """

    entries: tuple[tuple[Entry, bool], ...]
    cwd: str


def search(query: FindQuery | UntrackedQuery) -> Findings | None:
    """Search for the files that a query describes. Blocks.

    Returns:
        None if the result is unknown: too many names, followed links, words that are known only at
        run time, too many nested parentheses, or no repository.
    """
    try:
        if isinstance(query, UntrackedQuery):
            return _search_untracked(query)
        return _search_find(query)
    except (_Unanswerable, OSError, ValueError, RecursionError):
        return None


def _search_find(query: FindQuery) -> Findings:
    position = max(query.at, 0)
    finder = _Finder(query)
    entries = [entry for entry in finder.entries() if position in entry.reached]
    found = tuple((entry, query.at >= 0 and entry.reached[position]) for entry in entries)
    return Findings(found, finder.cwd)


class _Unanswerable(Exception):
    """An exception for a search whose result cannot be determined."""


# --- find -----------------------------------------------------------------------------------------


def split_find_words(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split the words of a `find` into the folders that it searches and its expression."""
    begin = 1
    while begin < len(words) and words[begin] in ("-H", "-P"):
        begin += 1
    end = begin
    while end < len(words) and not (words[end].startswith("-") or words[end] in ("!", "(")):
        end += 1
    return words[begin:end] or (".",), words[end:]


class _Finder:
    """A recursive-descent parser for `find` expressions."""

    def __init__(self, query: FindQuery) -> None:
        self.starts, tests = split_find_words(query.words)
        if not query.cwd or any(_has_pattern(start) for start in self.starts):
            raise _Unanswerable
        self.cwd = query.cwd
        self.words = query.words
        self._at = len(query.words) - len(tests)
        self.min_depth = self._depth("-mindepth", 0)
        self.max_depth = self._depth("-maxdepth", MAX_NAMES)
        # `-prune` has no effect with `-depth`, which `-delete` implies (find(1)).
        self.prunes = not {"-depth", "-d", "-delete"} & set(tests)
        actions = {"-delete", "-print", "-print0", "-ls", "-quit", *FIND_COMMANDS}
        self.prints = not actions & set(tests)
        self.test = self._any_of() if tests else _is_true
        if self._at < len(self.words):
            raise _Unanswerable

    def _depth(self, option: str, otherwise: int) -> int:
        if option not in self.words[self._at :]:
            return otherwise
        return int((*self.words, "")[self.words.index(option) + 1])

    # --- walking ----------------------------------------------------------------------------------

    def entries(self) -> Iterator[Entry]:
        """Yield all names that the search reaches, with the actions that reach them."""
        waiting = []
        for start in self.starts:
            waiting.append((start, resolve_links(os.path.join(self.cwd, start)), 0))
        seen = 0
        while waiting:
            printed, path, depth = waiting.pop()
            seen += 1
            if seen > MAX_NAMES:
                raise _Unanswerable
            # The folders to search are resolved: only names below them can be links.
            link = depth > 0 and os.path.islink(path)
            entry = Entry(printed, path, not link and os.path.isdir(path), link)
            if depth >= self.min_depth and os.path.lexists(path):
                self._judge(entry)
                yield entry
            if entry.folder and not entry.pruned and depth < self.max_depth:
                base = printed if printed.endswith("/") else f"{printed}/"
                for name in _list_names(path):
                    waiting.append((base + name, os.path.join(path, name), depth + 1))

    def _judge(self, entry: Entry) -> None:
        truth = self.test(entry, True)
        if truth is not False and self.prints:
            entry.reached[0] = truth is True

    # --- the expression ---------------------------------------------------------------------------

    def _next(self) -> str:
        self._at += 1
        if self._at > len(self.words):
            raise _Unanswerable
        return self.words[self._at - 1]

    def _peek(self) -> str:
        return self.words[self._at] if self._at < len(self.words) else ""

    def _any_of(self) -> Test:
        tests = [self._all_of()]
        while self._peek() in ("-o", "-or"):
            self._next()
            tests.append(self._all_of())
        return _combine(tests, stops=True)

    def _all_of(self) -> Test:
        tests = [self._negated()]
        while self._peek() not in ("", ")", "-o", "-or", ","):
            if self._peek() in ("-a", "-and"):
                self._next()
            tests.append(self._negated())
        return _combine(tests, stops=False)

    def _negated(self) -> Test:
        if self._peek() in ("!", "-not"):
            self._next()
            return _negate(self._negated())
        if self._peek() == "(":
            self._next()
            inner = self._any_of()
            if self._next() != ")":
                raise _Unanswerable
            return inner
        return self._primary()

    def _primary(self) -> Test:
        position = self._at
        word = self._next()
        if word in _FIXED_TESTS:
            return _FIXED_TESTS[word]
        if word in _NAME_TESTS:
            return _name_test(word, self._next())
        if word == "-type":
            return _type_test(self._next())
        if word == "-containing":
            return _containing_test(self._next())
        if word == "-prune":
            return self._prune
        if word == "-delete":
            return _make_action(position, True)
        if word in FIND_COMMANDS:
            return _make_action(position, self._command())
        if word in _VALUED:
            self._next()
        elif word not in _FLAGS:
            raise _Unanswerable
        return _is_true if word in _TRUE else _is_unknown

    def _command(self) -> Truth:
        """Skip an action's command; return the action's truth value."""
        before = ""
        word = self._next()
        while word != ";" and not (word == "+" and before == "{}"):
            before = word
            word = self._next()
        # `-exec … +` is always true; with `;`, the command's exit code determines the result.
        return True if word == "+" else None

    def _prune(self, entry: Entry, sure: bool) -> Truth:
        entry.pruned = entry.pruned or (sure and self.prunes)
        return True


def _has_pattern(start: str) -> bool:
    return UNKNOWN in start or bool(set("*?[~") & set(start))


def _list_names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _combine(tests: list[Test], *, stops: bool) -> Test:
    """Return a test that runs the given tests in order until one certainly returns ``stops``."""

    def chained(entry: Entry, sure: bool) -> Truth:
        result: Truth = not stops
        for test in tests:
            truth = test(entry, sure)
            if truth is stops:
                return stops
            if truth is None:
                result = None
                sure = False
        return result

    return chained


def _negate(inner: Test) -> Test:
    def opposite(entry: Entry, sure: bool) -> Truth:
        truth = inner(entry, sure)
        return None if truth is None else not truth

    return opposite


def _make_action(position: int, truth: Truth) -> Test:
    def act(entry: Entry, sure: bool) -> Truth:
        entry.reached[position] = sure
        return truth

    return act


def _is_true(entry: Entry, sure: bool) -> Truth:
    return True


def _is_unknown(entry: Entry, sure: bool) -> Truth:
    return None


def _is_false(entry: Entry, sure: bool) -> Truth:
    return False


def _mark_printed(entry: Entry, sure: bool) -> Truth:
    entry.reached[0] = sure or entry.reached.get(0, False)
    return True


def _is_empty(entry: Entry, sure: bool) -> Truth:
    try:
        if entry.folder:
            return not os.listdir(entry.path)
        return os.lstat(entry.path).st_size == 0 and not entry.link
    except OSError:
        return None


def _containing_test(text: str) -> Test:
    """Return a test for files that contain a text, in any case; `grep -rl` lists no others."""
    wanted = text.casefold()

    def contains(entry: Entry, sure: bool) -> Truth:
        if entry.folder or entry.link:
            return None
        data = read_small_file(entry.path, MAX_SEARCHED_BYTES)
        if data is None or b"\0" in data:
            return None
        return None if wanted in data.decode(errors="replace").casefold() else False

    return contains


_FIXED_TESTS: dict[str, Test] = {
    "-empty": _is_empty,
    "-false": _is_false,
    "-print": _mark_printed,
    "-print0": _mark_printed,
}


def _type_test(value: str) -> Test:
    kinds = value.split(",")
    if not {*kinds} <= {"f", "d", "l"}:
        return _is_unknown

    def has_type(entry: Entry, sure: bool) -> Truth:
        if entry.folder:
            return "d" in kinds
        return ("l" if entry.link else "f") in kinds

    return has_type


def _name_test(word: str, pattern: str) -> Test:
    # Python's `fnmatch` and the C function of that name interpret these pattern parts differently.
    if any(part in pattern for part in (UNKNOWN, "\\", "[^", "[:")):
        return _is_unknown
    folds = word.startswith("-i")
    by_name = word in ("-name", "-iname")
    wanted = pattern.casefold() if folds else pattern

    def has_name(entry: Entry, sure: bool) -> Truth:
        text = entry.printed
        if by_name:
            text = os.path.basename(text.rstrip("/")) or "/"
        return fnmatch.fnmatchcase(text.casefold() if folds else text, wanted)

    return has_name


# --- git clean ------------------------------------------------------------------------------------


def _search_untracked(query: UntrackedQuery) -> Findings | None:
    if query.cwd is None or any(UNKNOWN in path for path in query.paths):
        return None
    folder = Path(resolve_links(query.cwd))
    above = (each for each in (folder, *folder.parents) if (each / ".git").exists())
    top = next(above, None)
    tracked = _read_index(top / ".git/index") if top is not None else None
    if tracked is None:
        return None
    found = []
    for path in _find_files_below(folder, query.paths):
        if os.path.relpath(path, top) not in tracked:
            found.append((Entry(path, path), query.certain))
    return Findings(tuple(found), str(folder))


def _find_files_below(folder: Path, paths: Iterable[str]) -> Iterator[str]:
    """Yield the files at and below the given paths, without following links."""
    waiting = [resolve_links(os.path.join(folder, path)) for path in paths]
    seen = 0
    while waiting:
        path = waiting.pop()
        seen += 1
        if seen > MAX_NAMES:
            raise _Unanswerable
        if os.path.isdir(path) and not os.path.islink(path):
            waiting += [os.path.join(path, name) for name in _list_names(path) if name != ".git"]
        elif os.path.lexists(path):
            yield path


def _read_index(path: Path) -> set[str] | None:
    """Return the names in a Git index (gitformat-index, versions 2 and 3), or None on failure."""
    try:
        if path.stat().st_size > MAX_INDEX_BYTES:
            return None
        data = path.read_bytes()
        signature, version, count = struct.unpack_from(">4sII", data)
        # Version 4 compresses names, which this reader does not support.
        if signature != b"DIRC" or version not in (2, 3):
            return None
        names = set()
        at = 12
        for _ in range(count):
            # The name follows 62 fixed bytes, and two more in an extended entry (version 3).
            begin = at + 62 + 2 * bool(data[at + 60] & 0x40)
            end = data.index(b"\0", begin)
            names.add(os.fsdecode(data[begin:end]))
            at += (end - at + 8) // 8 * 8
        return names
    except FileNotFoundError:
        return set()
    except (OSError, struct.error, ValueError, IndexError):
        return None
