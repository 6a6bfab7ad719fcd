"""Express commands that print the paths of files below known folders as a `find`.

`grep -rl TEXT FOLDER`, `rg -l TEXT FOLDER`, `git ls-files 'FOLDER/*.py'` and `git grep -l` print a
part of what `find FOLDER -type f` prints.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hilum_guard.commands.shell_words import UNKNOWN, Word
from hilum_guard.programs.program_names import get_program_name

if TYPE_CHECKING:
    from hilum_guard.commands.shell_commands import ParsedCommand

_MAGIC = re.compile(r"[*?\[\\]")
# Options without a value that change neither the folders nor the form of the paths.
_SEARCH_FLAGS = re.compile(
    r"-[rliwFEPsIaZzxuU0]+|--(?:recursive|files-with-matches|ignore-case|word-regexp|fixed-strings"
    r"|extended-regexp|perl-regexp|null|hidden|no-ignore|no-messages|smart-case|color=never)"
)
_LISTS = re.compile(r"-\w*l\w*|--files-with-matches")
_SEARCHES = frozenset("grep egrep fgrep rg git".split())
_LS_FLAGS = frozenset("-z -c --cached -m --modified -o --others --exclude-standard".split())


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
        return _read_search("git", rest) if verb == "grep" else None
    return _read_search(name, values) if name in _SEARCHES else None


def _read_tracked(values: list[str]) -> tuple[Word, ...] | None:
    """Read the words after `git ls-files`."""
    end = values.index("--") if "--" in values else len(values)
    options = [value for value in values[:end] if value.startswith("-")]
    paths = [value for value in values[:end] if not value.startswith("-")] + values[end + 1 :]
    if not _LS_FLAGS.issuperset(options) or any(path.startswith(":") for path in paths):
        return None
    return _make_find(paths)


def _read_search(name: str, values: list[str]) -> tuple[Word, ...] | None:
    """Read the words after `grep`, `rg` or `git grep`."""
    operands: list[str] = []
    names: list[str] = []
    # `rg --files` searches for no text.
    has_text = name == "rg" and "--files" in values
    lists = has_text
    waiting = list(values)
    while waiting:
        value = waiting.pop(0)
        if value == "--":
            operands += waiting
            break
        included = re.fullmatch(r"(?:--include|--glob)=([^/!]+)", value)
        if included:
            names.append(included[1])
        elif value == "-e" and waiting:
            has_text = True
            waiting.pop(0)
        elif value in ("-g", "--glob") and name == "rg" and waiting:
            names.append(waiting.pop(0))
        elif value in ("-t", "--type") and name == "rg" and waiting:
            waiting.pop(0)
        elif value == "--files" and name == "rg":
            continue
        elif _SEARCH_FLAGS.fullmatch(value):
            lists = lists or _LISTS.fullmatch(value) is not None
        elif value.startswith("-"):
            return None
        else:
            operands.append(value)
    paths = operands if has_text else operands[1:]
    if not lists or any(re.search(r"[/!]", each) for each in names):
        return None
    is_git = name == "git"
    if is_git and any(path.startswith(":") for path in paths):
        return None
    if not is_git and any(map(_MAGIC.search, paths)):
        return None
    return _make_find(paths, names)


def _make_find(paths: list[str], names: Sequence[str] = ()) -> tuple[Word, ...]:
    """Return a `find` for paths and pathspecs of Git, whose wildcards also match slashes."""
    starts = []
    tests: list[str] = [] if len(names) != 1 else ["-name", names[0]]
    for path in paths or ["."]:
        magic = _MAGIC.search(path)
        if magic is None:
            starts.append(path)
            continue
        starts.append(os.path.dirname(path[: magic.start()]) or ".")
        suffix = re.fullmatch(r"\*(\.\w+)", path.rpartition("/")[2])
        if suffix and len(paths) == 1 and not tests:
            tests = ["-name", f"*{suffix[1]}"]
    return tuple(map(Word, ("find", *starts, "-type", "f", *tests)))


_SIMPLE_TESTS = frozenset("-type f -print -print0".split())


def list_below(finder: Sequence[Word]) -> list[str] | None:
    """Return paths, known in part, for the files that a `find` prints; None if there are others."""
    values = [word.value for word in finder[1:]]
    begin = next((at for at, value in enumerate(values) if value[:1] in "-!("), len(values))
    starts, tests = values[:begin], values[begin:]
    suffix = ""
    if "-name" in tests[:-1]:
        at = tests.index("-name")
        found = re.fullmatch(r"\*(\.\w+)", tests[at + 1])
        suffix = found[1] if found else ""
        tests = [*tests[:at], *tests[at + 2 :]]
    is_plain = _SIMPLE_TESTS.issuperset(tests) and all(word.known for word in finder)
    if not is_plain or any(word.glob for word in finder) or not starts:
        return None
    # Below the working folder, any path may be printed.
    folders = [os.path.normpath(start) for start in starts]
    if any(folder == "." or _MAGIC.search(folder) or " " in folder for folder in folders):
        return None
    return [f"{folder}/{UNKNOWN}{suffix}" for folder in folders]
