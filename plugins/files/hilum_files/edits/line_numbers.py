"""Removes line numbers that a model copied from a tool's output."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from hilum_files.edits.characters import is_blank
from hilum_files.edits.readings import Reading

# `12 | text` from read_file, `12→text`, `12: text`, and a number and a tab from `cat -n`.
_NUMBERED = re.compile(
    r"[ \t]*(?P<number>\d+)(?P<mark> ?\||→|:|\t|$)(?P<space> ?)(?P<text>.*)", re.DOTALL
)
_Numbered = dict[int, re.Match[str]]
"""The lines that begin with a number, keyed by index."""


def without_line_numbers(old: str, new: str) -> Iterator[Reading]:
    """Yield the interpretations of both texts without line numbers.

    If the space after each number may or may not belong to the number, there are two
    interpretations. If only some lines of the old text are numbered, the numbers must match the
    file's line numbers (``Reading.line``), and the numbered lines of the new text must also be in
    the old text.
    """
    old_lines = _filled_lines(old)
    new_lines = _filled_lines(new)
    numbered = _find_numbered(old_lines)
    if not _are_in_order(numbered):
        return
    mark = next(match["mark"] for match in numbered.values() if match["mark"])
    first_index, first_match = next(iter(numbered.items()))
    first = int(first_match["number"]) - first_index
    new_numbered, doubt = _find_new_numbered(new_lines, numbered, mark)
    # Copied line numbers are close to those in the old text; other numbers are part of the new
    # text.
    max_lines = len(old_lines) + len(new_lines)
    numbers = _numbers_of(new_numbered.values())
    if any(not first <= number <= first + max_lines for number in numbers):
        doubt = "The lines of new_string begin with numbers other than those of old_string."
    # A single line such as "80: web" is just as likely to come from a configuration file.
    is_certain = len(numbered) == len(old_lines) and (len(numbered) > 1 or mark != ":")
    line = 0 if is_certain else first
    for has_space in _spacings([*numbered.values(), *new_numbered.values()]):
        yield Reading(
            "line numbers",
            _strip_numbers(old, numbered, has_space),
            _strip_numbers(new, new_numbered, has_space),
            doubt,
            line,
        )


def has_other_number(line: str, old: str) -> bool:
    """Return whether a line of the file itself begins with a number that ``old`` lacks.

    The number is then part of the text and not a line number.
    """
    return bool(_NUMBERED.match(line)) and not _NUMBERED.match(old)


def _filled_lines(text: str) -> dict[int, str]:
    """Return the non-blank lines, keyed by index."""
    return {index: line for index, line in enumerate(text.split("\n")) if not is_blank(line)}


def _find_numbered(lines: dict[int, str]) -> _Numbered:
    numbered: _Numbered = {}
    for index, line in lines.items():
        match = _NUMBERED.match(line)
        if match:
            numbered[index] = match
    return numbered


def _numbers_of(matches: Iterable[re.Match[str]]) -> set[int]:
    return {int(match["number"]) for match in matches}


def _are_in_order(numbered: _Numbered) -> bool:
    """Return whether the numbers increase by one per line and are followed by the same mark."""
    # A blank line may have lost its mark together with its trailing whitespace.
    marks = {match["mark"] for match in numbered.values() if match["mark"]}
    offsets = {int(match["number"]) - index for index, match in numbered.items()}
    return len(marks) == 1 and len(offsets) == 1


def _find_new_numbered(
    lines: dict[int, str], old_numbered: _Numbered, mark: str
) -> tuple[_Numbered, str]:
    """Return the new text's numbered lines, and the reason if removing the numbers is unsafe."""
    candidates = _find_numbered(lines)
    numbered = {index: match for index, match in candidates.items() if match["mark"] == mark}
    if numbered and not all(match["mark"] for match in old_numbered.values()):
        numbers = _numbers_of(candidates.values())
        numbered.update(_find_bare_numbers(candidates, {number + 1 for number in numbers}))
    bare = _find_bare_numbers(candidates, _numbers_of(old_numbered.values()))
    doubtful = numbered | bare
    if not doubtful or len(numbered) == len(lines):
        return numbered, ""
    known = {match[0].rstrip() for match in old_numbered.values()}
    if all(match.string.rstrip() in known for match in doubtful.values()):
        return doubtful, ""
    return doubtful, (
        "Only some lines of new_string begin with a line number, unlike those of old_string."
    )


def _find_bare_numbers(candidates: _Numbered, numbers: set[int]) -> _Numbered:
    """Return the lines that consist only of one of the given numbers, without a mark or text."""
    found: _Numbered = {}
    for index, match in candidates.items():
        if not match["mark"] and int(match["number"]) in numbers:
            found[index] = match
    return found


def _spacings(matches: list[re.Match[str]]) -> tuple[bool, ...]:
    """Return whether to remove the space after each number; both values if that is unclear."""
    if all(match["space"] or not match["text"] for match in matches):
        return (True, False)
    return (False,)


def _strip_numbers(text: str, numbered: Mapping[int, re.Match[str]], has_space: bool) -> str:
    """Return the text without line numbers.

    Args:
        text: The text.
        numbered: The lines that begin with a line number.
        has_space: Whether the space after each number is removed with it.
    """
    lines = text.split("\n")
    for index, match in numbered.items():
        if has_space or not match["text"]:
            lines[index] = match["text"]
        else:
            lines[index] = match["space"] + match["text"]
    return "\n".join(lines)
