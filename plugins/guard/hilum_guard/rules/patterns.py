"""Match the patterns in rules against command words, paths, hosts and arguments."""

from __future__ import annotations

import re
import shlex
import warnings
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hilum_guard.file_names import folded

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

UNKNOWN = "…"
"""Placeholder for a part of a word that is known only at run time."""
NAMED = re.compile(r"[A-Za-z_]\w*=")
"""Matches the prefix of a pattern for named arguments."""
# Control characters, and what is a line break for some programs.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_WILDCARDS = re.compile(r"[*?\[\\]")
# A short option, whose case matters: `git branch -d` deletes only what is merged, `-D` also the rest.
_SHORT_OPTION = re.compile(r"-[A-Za-z]")
# Programs that are installed under names with and without their version.
_VERSIONED = re.compile(r"(python|pypy|pip)[\d.]*")
# The text that wildcards match in an argument. `*` and `?` do not match the characters that
# separate the parts of a URL, so that no host can be mistaken for another.
_GLOBS = {"**": ".*", "*": r"[^/?#@\\]*", "?": r"[^/?#@\\]"}


# --- words of a command ---------------------------------------------------------------------------


# A call is compared with all rules in turn, so a cache that is smaller than the files of rules may be
# would never be hit.
@lru_cache(maxsize=20_000)
def pattern_words(pattern: str) -> tuple[str, ...]:
    """Split a command pattern into words.

    Each word may contain ``*``, and a lone ``*`` matches any number of words.
    """
    try:
        return tuple(shlex.split(pattern))
    except ValueError:
        return tuple(pattern.split())


def fit_words(
    pattern: Sequence[str], words: Sequence[str], *, strict: bool
) -> Literal["", "maybe", "yes"]:
    """Return whether words match a pattern.

    Args:
        pattern: Words of the pattern.
        words: Program and arguments; words that are known only at run time contain ``…``.
        strict: Whether the words must match exactly. If false, there may be options between the
            words and more words at the end, the program may be given by its path, and an unknown
            word matches any word.
    """
    if _match_words(pattern, words, strict, doubtful=False):
        return "yes"
    # If no word is unknown, a second comparison would have the same result.
    if strict or not any(UNKNOWN in word for word in words):
        return ""
    if _match_words(pattern, words, strict, doubtful=True):
        return "maybe"
    return ""


Position = tuple[int, bool]
"""The number of words in the pattern matched so far, and whether the last word was an option."""


def _match_words(
    pattern: Sequence[str], words: Sequence[str], strict: bool, doubtful: bool
) -> bool:
    """Return whether words match a pattern, by tracking all possible positions at once."""
    # Backtracking would take exponential time for patterns with many stars.
    positions = {(0, False)}
    for number, word in enumerate(words):
        after: set[Position] = set()
        for position in _skip_stars(positions, pattern):
            after |= _advance(position, pattern, word, strict, doubtful, is_program=number == 0)
        positions = after
        # Most patterns are for another program, so the first word usually ends the search.
        if not positions:
            return False
    return any(at == len(pattern) for at, _ in _skip_stars(positions, pattern))


def _advance(
    position: Position,
    pattern: Sequence[str],
    word: str,
    strict: bool,
    doubtful: bool,
    is_program: bool,
) -> set[Position]:
    """Return the possible positions after one more word."""
    at, after_option = position
    is_option = word.startswith("-")
    found: set[Position] = set()
    if at == len(pattern):
        if not strict:
            found.add((at, False))
    elif UNKNOWN in word and doubtful:
        found.update((later, False) for later in range(at, len(pattern) + 1))
    elif pattern[at] == "*":
        found.add((at, False))
    elif fits_word(pattern[at], word, strict, is_program):
        found.add((at + 1, False))
    if not strict and at and (after_option or is_option):
        found.add((at, is_option))
    return found


def _skip_stars(positions: set[Position], pattern: Sequence[str]) -> set[Position]:
    """Return the given positions and those after stars, because a star may match no words."""
    found = set(positions)
    for at, option in positions:
        while at < len(pattern) and pattern[at] == "*":
            at += 1
            found.add((at, option))
    return found


def fits_word(pattern: str, word: str, strict: bool, is_program: bool) -> bool:
    """Return whether a command's word matches a pattern's word.

    Args:
        pattern: The pattern's word.
        word: The command's word.
        strict: Whether the word must match exactly.
        is_program: Whether the word is the program, which may be given by its path.
    """
    if UNKNOWN in word:
        return False
    if strict:
        return fnmatchcase(word, pattern)
    if _SHORT_OPTION.fullmatch(pattern) and _SHORT_OPTION.fullmatch(word):
        return word == pattern
    # `./manage.py` is `manage.py`.
    word = folded(word).removeprefix("./")
    pattern = folded(pattern).removeprefix("./")
    if fnmatchcase(word, pattern):
        return True
    if not is_program or "/" in pattern:
        return False
    # `/usr/bin/git` and `C:\Git\git` mean `git`.
    name = word.replace("\\", "/").rpartition("/")[2].removesuffix(".exe")
    if fnmatchcase(name, pattern):
        return True
    versioned = _VERSIONED.fullmatch(name)
    wanted = _VERSIONED.fullmatch(pattern)
    return versioned is not None and wanted is not None and versioned[1] == wanted[1]


# --- paths ----------------------------------------------------------------------------------------


def find_control_character(text: str) -> str:
    """Return the first control character or line separator in a text, escaped; empty if none."""
    found = _CONTROL.search(text)
    return found[0].encode("unicode_escape").decode() if found else ""


def fit_path(pattern: str, path: str, *, strict: bool, later: Sequence[str] = ()) -> bool:
    """Return whether a path matches a pattern, as in ``.gitignore``: ``docs/**``, ``*.lock``.

    Args:
        pattern: The pattern; it matches absolute paths if it begins with two slashes or ``~/``.
        path: The path, relative to the workspace, or absolute if outside it.
        strict: Whether the match is case-sensitive, and brackets are wildcards only. Otherwise they
            may also be part of a name: ``src/[id]/x`` matches ``src/i/x`` and ``src/[id]/x``.
        later: Further lines after the pattern, as in a ``.gitignore`` file: the last line that
            matches decides, and ``!`` means no match. Such lines concern the workspace only.
    """
    if pattern.startswith("~/"):
        pattern = f"/{escape_path(str(Path.home()))}{pattern[1:]}"
    is_absolute = pattern.startswith("//")
    is_anchored = "/" in pattern.strip("/")
    # A rule that denies `*.lock` also denies matching files outside the workspace.
    if path.startswith("/") != is_absolute and (strict or is_anchored or later):
        return False
    if is_absolute:
        pattern = "/" + pattern.lstrip("/")
    lines = (pattern, *later)
    if not strict:
        lines = tuple(map(folded, lines))
        path = folded(path)
    return _compile_path(lines, strict).match_file(_on_one_line(path.lstrip("/")))


def _on_one_line(text: str) -> str:
    """Return a pattern or a path without line breaks, which regular expressions treat specially.

    No path contains the character that replaces them.
    """
    return text.replace("\n", "\0")


@cache
def _compile_path(lines: tuple[str, ...], strict: bool) -> GitIgnoreSpec:
    """Return the compiled lines; each is one pattern, whatever characters it contains."""
    from pathspec import GitIgnoreSpec  # imported with the first rule about a path

    readings = []
    for line in map(_on_one_line, lines):
        readings.append(line)
        literal = escape_brackets(line)
        if literal != line and not strict and not line.startswith("!"):
            readings.append(literal)
    with warnings.catch_warnings():
        # Python warns that the meaning of `[[` in an expression may change in a future version.
        warnings.simplefilter("ignore", FutureWarning)
        try:
            return GitIgnoreSpec.from_lines(readings)
        except re.error:  # a range such as `[z-a]`, which matches nothing
            return GitIgnoreSpec.from_lines([] if strict else map(escape_brackets, lines))


def escape_brackets(pattern: str) -> str:
    """Return a pattern whose brackets are part of a name."""
    return re.sub(r"\\.|[\[\]]", _escape_bracket, pattern, flags=re.DOTALL)


def _escape_bracket(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith("\\") else f"\\{found[0]}"


def escape_path(path: str) -> str:
    """Return a pattern that matches a path without its wildcards, from its second character on."""
    # In the syntax of `.gitignore`, these characters are wildcards.
    text = re.sub(r"([\\*?\[\]])", r"\\\1", path)
    # A trailing space counts only after a backslash.
    return f"{text[:-1]}\\ " if text.endswith(" ") else text


def exact_path(path: str) -> str:
    """Return the pattern that matches only the given path."""
    # At the beginning of a pattern, `!` and `#` are a negation and a comment.
    text = re.sub(r"([!#])", r"\\\1", escape_path(path))
    return f"/{text}"


def literal_folder(pattern: str) -> str | None:
    """Return the folder that contains all paths that match a pattern.

    Returns:
        ``docs`` for ``docs/**``, ``src`` for ``/src/*.py``; None for ``*.lock``, which matches
        paths anywhere.
    """
    if pattern.startswith("~/"):
        pattern = f"/{Path.home()}{pattern[1:]}"
    if "/" not in pattern.rstrip("/"):
        return None
    parts: list[str] = []
    for part in pattern.strip("/").split("/"):
        if _WILDCARDS.search(part):
            break
        parts.append(part)
    if not parts:
        return None
    root = "/" if pattern.startswith("//") else ""
    return root + "/".join(parts)


def is_within(path: str, folder: str) -> bool:
    """Return whether a path is a folder or inside it, ignoring differences in spelling.

    ``.`` means the workspace.
    """
    path = folded(path)
    folder = folded(folder)
    if folder == ".":
        return not path.startswith("/")
    return path == folder or path.startswith(folder.rstrip("/") + "/")


# --- hosts and arguments --------------------------------------------------------------------------


def fit_host(pattern: str, host: str, *, strict: bool) -> bool:
    """Return whether a host matches a pattern, comparing whole labels.

    Args:
        pattern: ``example.com``, or ``*.example.com`` for its subdomains.
        host: The host; empty if there is none.
        strict: Whether the host must match exactly. A rule that denies a host also denies its
            subdomains.
    """
    pattern = pattern.strip().lower().rstrip(".")
    host = host.rstrip(".")
    if not host:
        return False
    if pattern.startswith("*."):
        # The dot is also compared, so that `*.example.com` does not match `evil-example.com`.
        return host.endswith(pattern[1:])
    return host == pattern or (not strict and host.endswith(f".{pattern}"))


def fit_arguments(pattern: str, arguments: Mapping[str, object], strict: bool) -> bool:
    """Return whether a call has all the arguments in a pattern, with matching values.

    Args:
        pattern: ``url=https://docs.python.org/**, method=GET``.
        arguments: The arguments of the call.
        strict: Whether the match is case-sensitive.
    """
    return all(_fit_argument(part, arguments, strict) for part in split_arguments(pattern))


def split_arguments(pattern: str) -> list[str]:
    """Split a pattern for named arguments into parts of the form ``name=pattern``."""
    return re.split(r",\s*(?=[A-Za-z_]\w*=)", pattern)


def _fit_argument(part: str, arguments: Mapping[str, object], strict: bool) -> bool:
    name, _, pattern = part.partition("=")
    value = arguments.get(name)
    if value is None:
        return False
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if not strict:
        text = folded(text)
        pattern = folded(pattern)
    return re.fullmatch(_translate_glob(pattern), text, re.DOTALL) is not None


@cache
def _translate_glob(pattern: str) -> str:
    """Return the regular expression for an argument's pattern."""
    parts = re.split(r"(\*\*|\*|\?)", pattern)
    return "".join(_GLOBS.get(part, re.escape(part)) for part in parts)
