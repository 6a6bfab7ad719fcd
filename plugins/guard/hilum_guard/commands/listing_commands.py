"""Express commands that print the paths of files below known folders as a `find`.

`grep -rl TEXT FOLDER`, `rg -l TEXT FOLDER`, `git ls-files 'FOLDER/*.py'` and `git grep -l` print a
part of what `find FOLDER -type f` prints. Two tests that only this module writes describe the part:
`-containing TEXT`, and `-changed` for the files that Git lists as changed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hilum_guard.commands.shell_words import CHANGED, UNKNOWN, Word
from hilum_guard.programs.program_names import get_program_name

if TYPE_CHECKING:
    from hilum_guard.commands.shell_commands import ParsedCommand

_MAGIC = re.compile(r"[*?\[\\]")
# Options without a value that change neither the folders nor the form of the paths.
_SEARCH_FLAGS = re.compile(
    r"-[rliwFEPsIaZzxuU0nHo]+|--(?:recursive|line-number|with-filename|line-regexp|files-with-matches|ignore-case|word-regexp|fixed-strings"
    r"|extended-regexp|perl-regexp|null|hidden|no-ignore|no-messages|smart-case|color=never)"
)
# Options with a value that only leave files out, or only print more.
_LEAVES_OUT = re.compile(
    r"--exclude(?:-dir)?=.*|--(?:max-depth|max-count|sort|sortr|max-filesize)=[\w.]+|-m\d+"
)
_FILE_TYPE = re.compile(r"-[tT][a-z]\w*|--type(?:-not)?=\w+")
# Options of `fd` without a value that change neither the folders nor the form of the paths, and those with one.
_FD_FLAGS = re.compile(
    r"-[HIusig0F]+|--(?:hidden|no-ignore|no-ignore-vcs|unrestricted|case-sensitive|ignore-case|glob|regex|print0|fixed-strings|color=never)"
)
_FD_VALUED = frozenset("-E --exclude -d --max-depth --min-depth --exact-depth".split())
_LISTS = re.compile(r"-\w*l\w*|--files-with-matches")
_FD_NAMES = frozenset(("fd", "fdfind"))
_SEARCHES = frozenset("grep egrep fgrep rg git".split())
_LS_FLAGS = frozenset("-z -c --cached -m --modified -o --others --exclude-standard".split())
# Options of `git diff` that change neither the form of the paths nor list other files.
_DIFF_FLAGS = re.compile(
    r"--name-only|--cached|--staged|--no-renames|--no-ext-diff|--relative|--merge-base|-z|-M|-w"
    r"|--diff-filter=\w+|--no-color|--ignore-submodules(?:=\w+)?"
)
_STATUS_FLAGS = re.compile(
    r"-s|--short|--porcelain(?:=v1)?|-u(?:no|all|normal)?|--untracked-files=\w+"
)
_SHORT_STATUS = re.compile(r"-s|--short|--porcelain(?:=v1)?")
# `HEAD~2`, `main`, `main...HEAD`; the hash of a tree may make every file a changed one.
_NAMED_REVISION = re.compile(
    r"(?![0-9a-f]{7,64}(?:\.|$))[A-Za-z@][\w/-]*[~^\d]*(?:\.{2,3}(?![0-9a-f]{7,64}$)[A-Za-z@]?[\w/-]*[~^\d]*)?"
)
_ENDING = re.compile(r"\*(\.\w+)")
_ENDING_PATTERN = re.compile(r"\\\.\(?(\w+(?:\|\w+)*)\)?\$")
_CHANGED_TEST = "-changed"
_CONTAINING_TEST = "-containing"
# A text that means itself in regular expressions.
_PLAIN_TEXT = re.compile(r"[\w ,:;@#%=~/<>!&'\"-]+")
# The same in basic regular expressions, in which these characters mean themselves (POSIX, 9.3).
_PLAIN_BASIC = re.compile(r"[\w ,:;@#%=~/<>!&'\"(){}|+?-]+")
_EXTENDED = re.compile(r"-\w*[EP]\w*|--(?:extended|perl)-regexp")
# Programs that print a part of each line of `git status --short`: the path.
_CUTTERS = frozenset("awk gawk mawk cut sed".split())


def find_equivalent(command: ParsedCommand) -> tuple[Word, ...] | None:
    """Return the words of a `find` that prints at least the paths that a command prints.

    Returns:
        None if the command does not print paths, or if its folders are not known.
    """
    words = command.words
    if any(not word.known or word.glob for word in words):
        return None
    name = get_program_name(words[0])
    values = [word.value for word in words[1:]]
    if name == "git":
        verb, *rest = values or [""]
        if verb == "ls-files":
            return _read_tracked(rest)
        if verb in ("diff", "status"):
            return _read_changed(verb, rest)
        return _read_search("git", rest) if verb == "grep" else None
    if name in _FD_NAMES:
        return _read_fd(values)
    return _read_search(name, values) if name in _SEARCHES else None


def lists_changed(finder: Sequence[Word]) -> bool:
    """Return whether a `find` stands for a list of the files that Git lists as changed."""
    return finder[-1].value == _CHANGED_TEST


def keeps_paths(name: str, before: Sequence[Word]) -> bool:
    """Return whether a program in a pipeline prints the paths of a list of changed files."""
    return name in _CUTTERS and lists_changed(before)


def _read_changed(verb: str, values: list[str]) -> tuple[Word, ...] | None:
    """Read the words after `git diff` or `git status`."""
    end = values.index("--") if "--" in values else len(values)
    options = [value for value in values[:end] if value.startswith("-")]
    revisions = [value for value in values[:end] if not value.startswith("-")]
    if verb == "diff":
        is_list = "--name-only" in options and all(map(_DIFF_FLAGS.fullmatch, options))
        is_list = is_list and all(map(_NAMED_REVISION.fullmatch, revisions))
    else:
        shows_paths = any(map(_SHORT_STATUS.fullmatch, options)) and not revisions
        is_list = shows_paths and all(map(_STATUS_FLAGS.fullmatch, options))
    return _make_changed(values[end + 1 :]) if is_list else None


def _make_changed(paths: list[str]) -> tuple[Word, ...]:
    """Return a `find` for the changed files, or for the files at the paths that a command names."""
    finder = _make_find(paths)
    starts = [word.value for word in finder[1 : 1 + max(1, len(paths))]]
    if any(os.path.normpath(start) != "." for start in starts):
        return finder
    return tuple(map(Word, ("find", ".", "-type", "f", _CHANGED_TEST)))


def leave_out(finder: tuple[Word, ...], text: str) -> tuple[Word, ...]:
    """Return a `find` without the paths that contain a text: `… | grep -v TEXT`.

    Args:
        finder: The words of the `find`.
        text: The text; `^` in front of it means the beginning of the path.
    """
    tests: list[str] = []
    for part in re.split(r"\\?\|", text):
        # A path need not begin with `./`, so that `/gen` does not mean the one at the top.
        if lists_changed(finder) or not re.fullmatch(r"\w(?:[\w/-]|\\\.)*", part):
            return finder
        tests += ["!", "-path", f"*{part.replace(chr(92), '')}*"]
    return (*finder, *map(Word, tests))


def _read_tracked(values: list[str]) -> tuple[Word, ...] | None:
    """Read the words after `git ls-files`."""
    end = values.index("--") if "--" in values else len(values)
    options = [value for value in values[:end] if value.startswith("-")]
    paths = [value for value in values[:end] if not value.startswith("-")] + values[end + 1 :]
    if not _LS_FLAGS.issuperset(options) or any(path.startswith(":") for path in paths):
        return None
    if not {"-m", "--modified"}.isdisjoint(options) and {"-o", "--others"}.isdisjoint(options):
        return _make_changed(paths)
    return _make_find(paths)


def _read_search(name: str, values: list[str]) -> tuple[Word, ...] | None:
    """Read the words after `grep`, `rg` or `git grep`."""
    operands: list[str] = []
    names: list[str] = []
    texts: list[str] = []
    # `rg --files` searches for no text.
    has_text = name == "rg" and "--files" in values
    lists = has_text
    waiting = list(values)
    while waiting:
        value = waiting.pop(0)
        if value == "--":
            operands += waiting
            break
        included = re.fullmatch(r"(?:--include|--glob|-g)=?([^/!]+)", value)
        if included:
            names.append(included[1])
        elif _LEAVES_OUT.fullmatch(value):
            continue
        elif value in ("--exclude", "--exclude-dir") and waiting:
            waiting.pop(0)
        elif value == "--include" and waiting:
            names.append(waiting.pop(0))
        elif value == "-e" and waiting:
            has_text = True
            texts.append(waiting.pop(0))
        elif value in ("-g", "--glob") and name == "rg" and waiting:
            names.append(waiting.pop(0))
        elif value in ("-t", "--type") and name == "rg" and waiting:
            waiting.pop(0)
        elif name == "rg" and (value == "--files" or _FILE_TYPE.fullmatch(value)):
            continue
        elif _SEARCH_FLAGS.fullmatch(value):
            lists = lists or _LISTS.fullmatch(value) is not None
        elif value.startswith("-"):
            return None
        else:
            operands.append(value)
    paths = operands if has_text else operands[1:]
    if not has_text:
        texts += operands[:1]
    if not lists or any(re.search(r"[/!]", each) for each in names):
        return None
    is_git = name == "git"
    if is_git and any(path.startswith(":") for path in paths):
        return None
    if not is_git and any(map(_MAGIC.search, paths)):
        return None
    finder = _make_find(paths, names)
    is_basic = name == "grep" and not any(map(_EXTENDED.fullmatch, values))
    plain = _PLAIN_BASIC if is_basic else _PLAIN_TEXT
    if len(texts) == 1 and plain.fullmatch(texts[0]):
        finder = (*finder, Word(_CONTAINING_TEST), Word(texts[0]))
    return finder


def _read_fd(values: list[str]) -> tuple[Word, ...] | None:
    """Read the words after `fd`, whose first operand is a pattern for names."""
    operands: list[str] = []
    endings: list[str] = []
    kinds: list[str] = []
    waiting = list(values)
    while waiting:
        value, is_joined, joined = waiting.pop(0).partition("=")
        if value == "--":
            operands += waiting
            break
        if value in ("-e", "--extension", "-t", "--type", *_FD_VALUED):
            if not is_joined and not waiting:
                return None
            argument = joined if is_joined else waiting.pop(0)
            if value in ("-e", "--extension"):
                endings.append(f".{argument.removeprefix('.')}")
            elif value in ("-t", "--type"):
                kinds.append(argument)
        elif value.startswith("-"):
            if is_joined or not _FD_FLAGS.fullmatch(value):
                return None
        else:
            operands.append(f"{value}{is_joined}{joined}")
    paths = operands[1:] or ["."]
    is_plain = all(re.fullmatch(r"\.[A-Za-z0-9]+", each) for each in endings)
    if not is_plain or any(map(_MAGIC.search, paths)):
        return None
    tests = ["-type", "f"] if kinds in (["f"], ["file"]) else []
    if endings:
        # `fd` ignores the case of an ending.
        cases = [name for each in endings for name in (each.lower(), each.upper())]
        tests += _make_name_tests(cases)
    # A test that is not evaluated: it is uncertain which of the files the pattern finds.
    if operands[:1] not in ([], [""], ["."], [".*"]):
        tests += ["-regex", operands[0]]
    return tuple(map(Word, ("find", *dict.fromkeys(paths), *tests)))


def _make_find(paths: list[str], names: Sequence[str] = ()) -> tuple[Word, ...]:
    """Return a `find` for paths and pathspecs of Git, whose wildcards also match slashes."""
    starts = []
    endings: list[str] = []
    for path in paths or ["."]:
        magic = _MAGIC.search(path)
        if magic is None:
            starts.append(path)
            continue
        starts.append(os.path.dirname(path[: magic.start()]) or ".")
        ending = _ENDING.fullmatch(path.rpartition("/")[2])
        endings += [ending[1]] if ending else []
    tests: list[str] = [] if len(names) != 1 else ["-name", names[0]]
    # If one of the paths has no ending, nothing is known about the names.
    if len(endings) == len(starts) and not tests:
        tests = _make_name_tests(endings)
    return tuple(map(Word, ("find", *dict.fromkeys(starts), "-type", "f", *tests)))


def _make_name_tests(endings: Sequence[str]) -> list[str]:
    """Return the tests of a `find` for the files with one of some endings."""
    tests: list[str] = []
    for ending in dict.fromkeys(endings):
        tests += ["-o", "-name", f"*{ending}"]
    return tests[1:] if len(tests) == 3 else ["(", *tests[1:], ")"]


def keep_endings(finder: tuple[Word, ...], pattern: str) -> tuple[Word, ...]:
    """Return a `find` for the paths with an ending: `… | grep '\\.py$'`.

    Args:
        finder: The words of the `find`.
        pattern: The regular expression.
    """
    found = _ENDING_PATTERN.fullmatch(pattern)
    values = [word.value for word in finder]
    # A test at the end would belong to the last alternative only.
    is_choice = not {"-o", "-or", ","}.isdisjoint(values)
    if found is None or is_choice or lists_changed(finder):
        return finder
    endings = [f".{name}" for name in found[1].split("|")]
    return (*finder, *map(Word, _make_name_tests(endings)))


_SIMPLE_TESTS = frozenset("-type f -print -print0".split())


def list_below(finder: Sequence[Word]) -> list[str] | None:
    """Return paths, known in part, for the files that a `find` prints; None if there are others."""
    if lists_changed(finder):
        return [CHANGED]
    values = [word.value for word in finder[1:]]
    begin = next((at for at, value in enumerate(values) if value[:1] in "-!("), len(values))
    starts = values[:begin]
    endings, tests = _take_endings(_drop_narrowing(values[begin:]))
    is_plain = _SIMPLE_TESTS.issuperset(tests) and all(word.known for word in finder)
    if not is_plain or any(word.glob for word in finder) or not starts:
        return None
    folders = [os.path.normpath(start) for start in starts]
    if any(_MAGIC.search(folder) or " " in folder for folder in folders):
        return None
    # Below the working folder, any path with such an ending may be printed.
    if "." in folders:
        return [f"{UNKNOWN}{ending}" for ending in endings] if all(endings) else None
    return [f"{folder}/{UNKNOWN}{ending}" for folder in folders for ending in endings]


def _take_endings(tests: list[str]) -> tuple[list[str], list[str]]:
    """Return the endings that the names of files have, and the other tests.

    The only ending is empty if the names may have any.
    """
    if "-name" not in tests:
        return [""], tests
    first = tests.index("-name")
    last = len(tests) - 1 - tests[::-1].index("-name")
    names = tests[first + 1 : last + 2 : 3]
    found = [_ENDING.fullmatch(name) for name in names]
    is_choice = first > 0 and tests[first - 1] == "(" and tests[last + 2 : last + 3] == [")"]
    if is_choice:
        expected = _make_name_tests([each[1] for each in found if each])
        is_choice = tests[first - 1 : last + 3] == expected
    if is_choice:
        rest = [*tests[: first - 1], *tests[last + 3 :]]
    elif first == last:
        rest = [*tests[:first], *tests[first + 2 :]]
    else:
        return [""], tests
    return [each[1] if each else "" for each in found], rest


def _drop_narrowing(tests: list[str]) -> list[str]:
    """Return tests without those that only leave something out: `! -path P`, `-containing TEXT`."""
    kept = []
    at = 0
    while at < len(tests):
        if tests[at : at + 2] == ["!", "-path"]:
            at += 3
        elif tests[at] == _CONTAINING_TEST:
            at += 2
        else:
            kept.append(tests[at])
            at += 1
    return kept
