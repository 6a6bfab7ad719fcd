"""What a `find` reaches: its folders are looked through, as it would, and its tests judged for each
name.

A test that only the run can tell (the time, the size, a regular expression) may be true. What is
not known gives no answer.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, Literal

import attrs

from hilum_rules.checks import effects
from hilum_rules.checks.touches import Touch

if TYPE_CHECKING:
    from hilum_guard import SimpleCommand

MOST = 20_000
"""Names that are looked at."""
Truth = bool | None
Test = Callable[["Entry", bool], Truth]

_NO_VALUE = frozenset(
    """-depth -d -xdev -mount -noleaf -daystart -ignore_readdir_race -noignore_readdir_race -warn -nowarn -print -print0 -ls
    -true -quit -executable -readable -writable -nouser -nogroup""".split()
)
_ONE_VALUE = frozenset(
    """-maxdepth -mindepth -size -mtime -mmin -atime -amin -ctime -cmin -newer -anewer -cnewer -perm -user -group -links
    -inum -uid -gid -samefile -lname -ilname -regex -iregex -regextype -printf -fprint -fprint0 -fls -fstype -used""".split()
)
_SURE = frozenset(
    """-depth -d -xdev -mount -noleaf -daystart -warn -nowarn -print -print0 -ls -true -printf -fprint -fprint0 -fls
    -maxdepth -mindepth -regextype -ignore_readdir_race -noignore_readdir_race""".split()
)
_COMMANDS = ("-exec", "-execdir", "-ok", "-okdir")


@attrs.define
class Entry:
    """A name that `find` comes to.

    Attributes:
        printed: As it prints it.
        path: Its absolute path, links of the folder it began in followed.
        folder: Whether it is a folder.
        link: Whether it is a link.
        reached: Where in the words actions stand that are done to it, each with whether that is
            certain.
        pruned: Whether what is in it is left out.
    """

    printed: str
    path: str
    folder: bool
    link: bool
    reached: dict[int, bool] = attrs.field(factory=dict)
    pruned: bool = False


@attrs.frozen
class Reach:
    """What one action of a `find` is done to.

    Attributes:
        entries: Each name, with whether that is certain.
        cwd: The folder that `find` runs in.
        beside: The command runs in the folder of what was found.
    """

    entries: tuple[tuple[Entry, bool], ...]
    cwd: str
    beside: bool = False


def touches(command: SimpleCommand, cwd: str | None, reaches: Reaches | None) -> Iterator[Touch]:
    """Yield what a `find` itself touches, and where what it finds cannot be told, what its names
    stand for.

    Commands that it runs stand beside it, and are judged by themselves.
    """
    words = command.words
    for option in ("-fprint", "-fprintf", "-fls", "-fprint0"):
        yield from (
            Touch(words[n + 1], "write", None)
            for n, word in enumerate(words[:-1])
            if word == option
        )
    acts = [n for n, word in enumerate(words) if word == "-delete" or word in _COMMANDS]
    if reaches is not None and all(reaches.of(words, at, cwd) for at in acts):
        return
    starts = list(
        takewhile(lambda word: not word.startswith("-") and word not in ("!", "("), words[1:])
    )
    names = [
        words[n + 1]
        for n, word in enumerate(words[:-1])
        if word in ("-name", "-iname", "-path", "-ipath", "-wholename")
    ]
    for action in _done_to_found(words[1:]):
        for start in starts or ["."]:
            if names:
                yield from (Touch(os.path.join(start, "**", each), action, None) for each in names)
            else:
                yield Touch(start, action, None, whole=True)


def _done_to_found(words: tuple[str, ...]) -> Iterator[Literal["delete", "change"]]:
    """Yield what `find` has done to all that it finds."""
    if "-delete" in words:
        yield "delete"
    for number, word in enumerate(words[:-1]):
        if word not in _COMMANDS:
            continue
        name = os.path.basename(words[number + 1])
        if name in effects.DELETE_ALL or name == "mv":
            yield "delete"
        elif (
            name in effects.WRITE_ALL
            or name in effects.AFTER_FIRST
            or (name in effects.IN_PLACE and effects.in_place(words[number + 1 :]))
        ):
            yield "change"


class Reaches:
    """What the actions of all `find` of a call are done to; each is looked for once."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, ...], int, str | None], Reach | None] = {}

    def of(self, words: tuple[str, ...], at: int, cwd: str | None) -> Reach | None:
        """See ``reach``."""
        key = words, at, cwd
        if key not in self._known:
            self._known[key] = reach(*key)
        return self._known[key]


class _Unknown(Exception):
    """It cannot be told what is found."""


def reach(words: tuple[str, ...], at: int, cwd: str | None) -> Reach | None:
    """Tell what an action of a `find` is done to. Blocks: it looks through the folders.

    Args:
        words: The words of `find`.
        at: Where the action stands; 0 for all that is printed, -1 for some of it.
        cwd: The folder it runs in.

    Returns:
        None where that cannot be told: more names than are looked at, links that are followed,
        words that only the run tells.
    """
    try:
        place = max(at, 0)
        entries = [entry for entry in _Finder(words, cwd).entries() if place in entry.reached]
        found = [(entry, at >= 0 and entry.reached[place]) for entry in entries]
    except (_Unknown, OSError, ValueError):
        return None
    assert cwd is not None
    return Reach(tuple(found), cwd, words[place] in ("-execdir", "-okdir"))


class _Finder:
    def __init__(self, words: tuple[str, ...], cwd: str | None) -> None:
        at = 1
        while at < len(words) and words[at] in ("-H", "-P"):
            at += 1
        begin = at
        while at < len(words) and not (words[at].startswith("-") or words[at] in ("!", "(")):
            at += 1
        self.words = words
        self.at = at
        self.cwd = cwd or ""
        self.starts = words[begin:at] or (".",)
        if not cwd or any("…" in start or set("*?[~") & set(start) for start in self.starts):
            raise _Unknown
        tests = words[at:]
        self.least, self.most = self._level("-mindepth", 0), self._level("-maxdepth", 10_000)
        self.prunes = not {"-depth", "-d", "-delete"} & set(tests)
        self.prints = not {"-delete", "-print", "-print0", "-ls", "-quit", *_COMMANDS} & set(tests)
        self.test = self._either() if tests else _true
        if self.at < len(words):
            raise _Unknown

    def _level(self, option: str, otherwise: int) -> int:
        if option not in self.words[self.at :]:
            return otherwise
        return int((*self.words, "")[self.words.index(option) + 1])

    # --- walking ----------------------------------------------------------------------------------

    def entries(self) -> Iterator[Entry]:
        """Yield all names that are come to, judged."""
        left = MOST
        waiting = [
            (start, os.path.realpath(os.path.join(self.cwd, start)), 0) for start in self.starts
        ]
        while waiting:
            printed, path, level = waiting.pop()
            left -= 1
            if left < 0:
                raise _Unknown
            link = level > 0 and os.path.islink(path)
            entry = Entry(printed, path, not link and os.path.isdir(path), link)
            if level >= self.least and os.path.lexists(path):
                truth = self.test(entry, True)
                if truth is not False and self.prints:
                    entry.reached[0] = truth is True
                yield entry
            if entry.folder and not entry.pruned and level < self.most:
                try:
                    names = os.listdir(path)
                except OSError:
                    continue
                base = printed if printed.endswith("/") else printed + "/"
                waiting += ((base + name, os.path.join(path, name), level + 1) for name in names)

    # --- the expression ---------------------------------------------------------------------------

    def _next(self) -> str:
        self.at += 1
        if self.at > len(self.words):
            raise _Unknown
        return self.words[self.at - 1]

    def _peek(self) -> str:
        if self.at < len(self.words):
            return self.words[self.at]
        return ""

    def _either(self) -> Test:
        tests = [self._both()]
        while self._peek() in ("-o", "-or"):
            self._next()
            tests.append(self._both())

        def either(entry: Entry, sure: bool) -> Truth:
            found: Truth = False
            for test in tests:
                truth = test(entry, sure)
                if truth is True:
                    return True
                if truth is None:
                    found = None
                    sure = False
            return found

        return either

    def _both(self) -> Test:
        tests = [self._not()]
        while self._peek() not in ("", ")", "-o", "-or", ","):
            if self._peek() in ("-a", "-and"):
                self._next()
            tests.append(self._not())

        def both(entry: Entry, sure: bool) -> Truth:
            found: Truth = True
            for test in tests:
                truth = test(entry, sure)
                if truth is False:
                    return False
                if truth is None:
                    found = None
                    sure = False
            return found

        return both

    def _not(self) -> Test:
        if self._peek() in ("!", "-not"):
            self._next()
            inner = self._not()

            def denied(entry: Entry, sure: bool) -> Truth:
                truth = inner(entry, sure)
                return None if truth is None else not truth

            return denied
        if self._peek() == "(":
            self._next()
            inner = self._either()
            if self._next() != ")":
                raise _Unknown
            return inner
        return self._one(self._next())

    def _one(self, word: str) -> Test:
        at = self.at - 1
        if word in ("-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename"):
            return _named(word, self._next())
        if word == "-type":
            kinds = self._next().split(",")
            if not {*kinds} <= {"f", "d", "l"}:
                return _untold
            return lambda entry, sure: (
                ("d" if entry.folder else "l" if entry.link else "f") in kinds
            )
        if word == "-empty":
            return _empty
        if word == "-false":
            return lambda entry, sure: False
        if word == "-prune":
            return self._prune
        if word == "-delete" or word in _COMMANDS:
            if word != "-delete":
                while self._next() not in (";", "+") or (
                    self.words[self.at - 1] == "+" and self.words[self.at - 2] != "{}"
                ):
                    pass
            done: Truth = True if word == "-delete" or self.words[self.at - 1] == "+" else None

            def act(entry: Entry, sure: bool) -> Truth:
                entry.reached[at] = sure
                return done

            return act
        if word in _ONE_VALUE:
            self._next()
        elif word not in _NO_VALUE:
            raise _Unknown
        if word in ("-print", "-print0"):

            def printed(entry: Entry, sure: bool) -> Truth:
                entry.reached[0] = sure or entry.reached.get(0, False)
                return True

            return printed
        return _true if word in _SURE else _untold

    def _prune(self, entry: Entry, sure: bool) -> Truth:
        entry.pruned = entry.pruned or (sure and self.prunes)
        return True


def _true(entry: Entry, sure: bool) -> Truth:
    return True


def _untold(entry: Entry, sure: bool) -> Truth:
    return None


def _named(word: str, pattern: str) -> Test:
    if any(part in pattern for part in ("…", "\\", "[^", "[:")):
        return _untold
    whole = word.lstrip("-i") != "name"
    folds = word.startswith("-i")
    pattern = pattern.casefold() if folds else pattern

    def named(entry: Entry, sure: bool) -> Truth:
        if whole:
            text = entry.printed
        else:
            text = os.path.basename(entry.printed.rstrip("/")) or "/"
        return fnmatch.fnmatchcase(text.casefold() if folds else text, pattern)

    return named


def _empty(entry: Entry, sure: bool) -> Truth:
    try:
        if entry.folder:
            return not os.listdir(entry.path)
        return os.lstat(entry.path).st_size == 0 and not entry.link
    except OSError:
        return None
