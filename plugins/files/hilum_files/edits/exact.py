"""Replacing a text that is in the file just so."""

from __future__ import annotations

import re
from typing import NamedTuple

from hilum_files.edits.align import TooMuch, align, runs_of
from hilum_files.edits.characters import BLANKS, is_blank, parts_of
from hilum_files.edits.refusals import several, unsafe
from hilum_files.edits.source import Source

_OPERATORS = frozenset(
    "== != <= >= => -> <- && || ++ -- ** // << >> += -= *= /= %= |= &= ^= := :: .. =~ !~ ?? ?.".split()
)
_MANY = 5_000_000
# Versions, and not decimal numbers: three parts, a `v` in front, or a mark of a pre-release behind.
_VERSION = re.compile(
    r"v\d+(?:\.\w+)+|\d+(?:\.\w+){2,}|\d+(?:\.\d+)+\.?(?:a|b|c|rc|alpha|beta|dev|post|pre)\.?\d*",
    re.IGNORECASE,
)
_NAME_BEHIND = re.compile(r"[\w.]*")
_NAME_BEFORE = re.compile(r"[\w.]*\Z")


class Span(NamedTuple):
    """New lines for lines of the file.

    ``kept`` says for each whose line end it keeps; ``slip`` what was not exact.
    """

    first: int
    stop: int
    lines: list[str]
    kept: list[int | None]
    slip: str = ""


def replace_exactly(source: Source, old: str, new: str) -> Span | None:
    """Replace a text that is in the file once, line ends and byte order mark apart.

    Returns:
        What is to be replaced, or ``None`` where the text is not in the file, or is to be looked at
        as whole lines.

    Raises:
        EditError: It is there several times, or what is meant is not sure.
    """
    at = source.text.find(old)
    if at == -1:
        return None
    if source.text.find(old, at + 1) != -1:
        raise several(_all_lines(source, old))
    (first, column), (last, end) = source.line_at(at), source.line_at(at + len(old))
    before = source.lines[first][:column]
    after = source.lines[last][end:]
    cut = _cut(before, old, after)
    if cut:
        raise unsafe(f"old_string is in the file only as a part of {cut}.", first, source)
    slip = ""
    if is_blank(before):
        if before and not is_blank(old.partition("\n")[0]) and new:
            indented = _indented(source, before, old, new, first)
            if indented is None:
                return None
            slip, new = ("", new) if indented == new else ("indentation", indented)
        if after and is_blank(after) and old.count("\n") != new.count("\n"):
            return None  # the spaces at the end belong to a line that is not the last one any more
    ended = _ended(source, before, old, after, new, last)
    text = before + ended + after
    return _span(
        source, first, last + 1, text.split("\n"), slip or ("line ends" if ended != new else "")
    )


def _span(source: Source, first: int, stop: int, lines: list[str], slip: str) -> Span:
    kept: list[int | None] = [None] * len(lines)
    if source.mixed:
        try:
            for kind, i1, i2, j1, j2 in align(source.lines[first:stop], lines):
                if kind == "equal" or (kind == "replace" and i2 - i1 == j2 - j1):
                    kept[j1:j2] = range(first + i1, first + i2)
        except TooMuch:
            raise unsafe(
                "The file has mixed line ends, and the change is too big for it.", first, source
            ) from None
        kept[-1] = stop - 1  # its end is behind the old text
    return Span(first, stop, lines, kept, slip)


def _cut(before: str, old: str, after: str) -> str:
    """Return what a text cuts at its ends: a number, an operator, or, if it is more than one word,
    a word.

    A word that goes on behind a hyphen and the parts of a version are words of their own.
    """
    phrase = bool(re.search(r"\s", old.strip()))
    for left, right in ((before, old), (old, after)):
        joint = left[-1:] + right[:1]
        if len(joint) < 2:
            continue
        if joint.isdigit():
            return "a longer number"
        if _in_version(left, right):
            continue
        if (re.match(r"\.\d", right) and left[-1].isdigit()) or (
            re.search(r"\d\.\Z", left) and right[0].isdigit()
        ):
            return "a longer number"
        if phrase and re.fullmatch(r"\w\w", joint):
            return "a longer word"
        if phrase and joint in _OPERATORS:
            return "a longer operator"
    return ""


def _in_version(left: str, right: str) -> bool:
    """Return whether the place between two texts lies in a version number."""
    head = _NAME_BEFORE.search(left[-100:])
    tail = _NAME_BEHIND.match(right[:100])
    name = (head[0] if head else "") + (tail[0] if tail else "")
    return bool(_VERSION.fullmatch(name.strip(".")))


def _ended(source: Source, before: str, old: str, after: str, new: str, last: int) -> str:
    """Return the new text with the line end that the old one ends with, where it replaces whole
    lines.

    A model often leaves it out; taken at its word, lines would be glued together. Elsewhere that is
    refused.
    """
    if before and old.endswith("\n") and is_blank(new) and not new.endswith("\n"):
        raise unsafe(
            "old_string is a part of a line with its line end; without it the next line is glued to"
            " the rest.",
            max(last - 1, 0),
            source,
        )
    if is_blank(new) or is_blank(old):
        return new
    if old.startswith("\n") and not new.startswith("\n") and before and new != old[1:]:
        raise unsafe(
            "old_string begins with a line end and new_string does not.",
            last - old.count("\n"),
            source,
        )
    if not is_blank(before):
        return new
    if old.endswith("\n") and not new.endswith("\n") and new != old[:-1]:
        joined = new[-1] in BLANKS and old[-2] not in BLANKS
        at_end = last == len(source.lines) - 1 and not after
        if joined or at_end or old.endswith("\n\n"):
            raise unsafe(
                "old_string ends with a line end and new_string does not.", max(last - 1, 0), source
            )
        return new + "\n"
    return new


def _indented(source: Source, before: str, old: str, new: str, first: int) -> str | None:
    """Return the new text as it must be put behind the indentation ``before``, which the old text
    did not include.

    Returns:
        The text, or ``None`` if the lines should be looked at as lines that are indented too
        little.
    """
    indent = before + parts_of(old).indent.partition("\n")[0]
    ours, theirs = (parts_of(text.partition("\n")[0]).indent for text in (old, new))
    several = "\n" in old.rstrip("\n")
    if ours and not several:
        return None
    lines = new.split("\n")
    alone = all(is_blank(line) for line in lines[1:])
    if theirs == ours and (alone or (several and placed_behind_bare(indent, old, lines))):
        return new
    typed = "\t" in before or not any(line.startswith("\t") for line in lines)
    if not several and theirs == ours and old.rstrip("\n") in lines[1:] and lines[0] and typed:
        return "\n".join(
            [lines[0], *(before + line if line.strip() else line for line in lines[1:])]
        )
    raise unsafe(
        "old_string lacks the indentation of its first line; what new_string's should be is not"
        " sure.",
        first,
        source,
    )


def placed_behind_bare(indent: str, old: str, new: list[str]) -> bool:
    """Return whether new lines are surely indented as the file is, although the first line of the
    old text is bare.

    Args:
        indent: The indentation that the first line has in the file.
        old: The old text; all lines but the first are indented as in the file.
        new: The lines of the new text, from its first one that is not blank.
    """
    rest = [line for line in old.split("\n")[1:] if not is_blank(line)]
    theirs = [parts_of(line).indent for line in new[1:] if not is_blank(line)]
    if theirs == [parts_of(line).indent for line in rest]:
        return True
    upto = next((index for index, line in enumerate(new) if index and line in rest), len(new))
    depths = [len(parts_of(line).indent) for line in rest]
    least = min([len(indent), *(depths if any(depths) else ())])
    return all(
        is_blank(line) or len(parts_of(line).indent) >= max(least, 1) for line in new[1:upto]
    )


def _all_lines(source: Source, old: str) -> list[int]:
    """Return the number of the line of each place, overlapping ones too, in linear time."""
    if "\n" not in old:
        found = []
        line = 1
        at = source.text.find(old)
        last = 0
        cost = 0
        while at != -1:
            line += source.text.count("\n", last, at)
            found.append(line)
            last = at
            cost = cost + len(old)
            at = source.text.find(old, at + (1 if cost < _MANY else len(old)))
        return found
    head, *middle, tail = old.split("\n")
    count = len(middle) + 1
    lines = source.lines
    starts = [s - 1 for s in runs_of(middle, lines) if s] if middle else range(len(lines) - 1)
    return [
        s + 1
        for s in starts
        if lines[s].endswith(head) and s + count < len(lines) and lines[s + count].startswith(tail)
    ]
