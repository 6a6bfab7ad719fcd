"""Replaces text that the file contains exactly as the model wrote it."""

from __future__ import annotations

import re
from typing import NamedTuple

from hilum_files.edits.align import Opcode, TooMuch, align, find_runs
from hilum_files.edits.characters import BLANKS, is_blank, split_line
from hilum_files.edits.refusals import EditError, multiple_matches_error, uncertain_error
from hilum_files.edits.source import Source

_OPERATORS = frozenset(
    "== != <= >= => -> <- && || ++ -- ** // << >>"
    " += -= *= /= %= |= &= ^= := :: .. =~ !~ ?? ?.".split()
)
MAX_OVERLAP_COST = 5_000_000
"""Maximum number of characters compared to find overlapping matches."""
# Version numbers, not decimal numbers: three parts, a leading `v`, or a pre-release suffix.
_VERSION = re.compile(
    r"v\d+(?:\.\w+)+|\d+(?:\.\w+){2,}|\d+(?:\.\d+)+\.?(?:a|b|c|rc|alpha|beta|dev|post|pre)\.?\d*",
    re.IGNORECASE,
)
# Limits the search for a version number in a very long line, in characters.
_MAX_VERSION_CHARACTERS = 100
_NAME_AFTER = re.compile(r"[\w.]*")
_NAME_BEFORE = re.compile(r"[\w.]*\Z")
_FRACTION = re.compile(r"\.\d")
_NUMBER_WITH_POINT = re.compile(r"\d\.\Z")
_BARE_FIRST_LINE = (
    "old_string lacks the indentation of its first line; it is unclear how to indent new_string."
)


class LineReplacement(NamedTuple):
    """The lines that replace a range of lines in the file.

    Attributes:
        first: Index of the first replaced line.
        stop: Index one past the last replaced line.
        lines: The new lines.
        ends_from: For each new line, the index of the line in the file whose line ending it reuses.
        slip: How the matched text differs from the file's text; empty for an exact match.
    """

    first: int
    stop: int
    lines: list[str]
    ends_from: list[int | None]
    slip: str = ""


class _Occurrence(NamedTuple):
    """The location of the old text in the file.

    Attributes:
        first: Index of the line in which the old text begins.
        last: Index of the line in which the old text ends.
        before: The part of the first line before the old text.
        after: The part of the last line after the old text.
    """

    first: int
    last: int
    before: str
    after: str


def replace_exactly(source: Source, old: str, new: str) -> LineReplacement | None:
    """Replace text that the file contains once, ignoring line endings and a byte order mark.

    Returns:
        The replacement, or ``None`` if the file lacks the text, or the text must be matched as
        whole lines.

    Raises:
        EditError: The text occurs several times, or the intent is unclear.
    """
    at = source.text.find(old)
    if at == -1:
        return None
    # Searching from the next character on also finds an overlapping occurrence.
    if source.text.find(old, at + 1) != -1:
        raise multiple_matches_error(_find_all_lines(source, old))
    place = _occurrence(source, at, at + len(old))
    # A match that begins or ends inside a number or word is probably unintended.
    cut = _describe_cut(place.before, old, place.after)
    if cut:
        raise uncertain_error(
            f"The file contains old_string only as part of {cut}.", place.first, source
        )
    slip = ""
    first_line = old.partition("\n")[0]
    is_indented = bool(place.before) and is_blank(place.before)
    if is_indented and new and not is_blank(first_line):
        indented = _indent_new(source, place, old, new)
        if indented is None:
            return None
        if indented != new:
            slip = "indentation"
            new = indented
    if _strands_blanks(place, old, new):
        return None
    ended = _end_like_old(source, place, old, new)
    if ended != new and not slip:
        slip = "line ends"
    lines = (place.before + ended + place.after).split("\n")
    ends_from = _line_ends(source, place.first, place.last + 1, lines)
    return LineReplacement(place.first, place.last + 1, lines, ends_from, slip)


def _strands_blanks(place: _Occurrence, old: str, new: str) -> bool:
    """Return whether the edit would move trailing blanks to another line."""
    if not is_blank(place.before) or not place.after or not is_blank(place.after):
        return False
    return old.count("\n") != new.count("\n")


def _occurrence(source: Source, start: int, stop: int) -> _Occurrence:
    first, column = source.locate(start)
    last, end = source.locate(stop)
    return _Occurrence(first, last, source.lines[first][:column], source.lines[last][end:])


def _line_ends(source: Source, first: int, stop: int, lines: list[str]) -> list[int | None]:
    """Return, for each new line, the index of the line in the file whose line ending it reuses."""
    ends_from: list[int | None] = [None] * len(lines)
    if not source.mixed:
        return ends_from
    try:
        codes = align(source.lines[first:stop], lines)
    except TooMuch:
        raise uncertain_error(
            "The file has mixed line endings, and the change is too large to preserve them.",
            first,
            source,
        ) from None
    for code in codes:
        if code.kind == "equal" or is_one_to_one(code):
            kept = range(first + code.start, first + code.stop)
            ends_from[code.new_start : code.new_stop] = kept
    ends_from[-1] = stop - 1  # the last line ends after the old text, so it keeps its line ending
    return ends_from


def is_one_to_one(code: Opcode) -> bool:
    """Return whether an opcode replaces lines with an equal number of lines."""
    is_same_size = code.stop - code.start == code.new_stop - code.new_start
    return code.kind == "replace" and is_same_size


# --- the ends of the old text ---------------------------------------------------------------------


def _describe_cut(before: str, old: str, after: str) -> str:
    """Return what a match splits, such as ``a longer number``, or an empty string.

    A split operator or word counts only if the text has more than one word. The parts of a
    hyphenated word or a version number count as words.
    """
    is_phrase = bool(re.search(r"\s", old.strip()))
    for left, right in ((before, old), (old, after)):
        if left and right:
            cut = _describe_joint(left, right, is_phrase)
            if cut:
                return cut
    return ""


def _describe_joint(left: str, right: str, is_phrase: bool) -> str:
    joint = left[-1] + right[0]
    if joint.isdigit():
        return "a longer number"
    if _is_in_version(left, right):
        return ""
    if _is_at_decimal_point(left, right):
        return "a longer number"
    if is_phrase and re.fullmatch(r"\w\w", joint):
        return "a longer word"
    if is_phrase and joint in _OPERATORS:
        return "a longer operator"
    return ""


def _is_at_decimal_point(left: str, right: str) -> bool:
    """Return whether the boundary between two texts is next to the point of a decimal number."""
    if left[-1].isdigit():
        return bool(_FRACTION.match(right))
    return right[0].isdigit() and bool(_NUMBER_WITH_POINT.search(left))


def _is_in_version(left: str, right: str) -> bool:
    """Return whether the boundary between two texts is inside a version number."""
    head = _NAME_BEFORE.search(left[-_MAX_VERSION_CHARACTERS:])
    tail = _NAME_AFTER.match(right[:_MAX_VERSION_CHARACTERS])
    # The characters around the boundary that can belong to one version number.
    name = (head[0] if head else "") + (tail[0] if tail else "")
    return bool(_VERSION.fullmatch(name.strip(".")))


def _end_like_old(source: Source, place: _Occurrence, old: str, new: str) -> str:
    """Return the new text with the old text's final newline added if it replaces whole lines.

    Models often omit the newline, which would join two lines. If the edit replaces parts of lines,
    it is refused.
    """
    drops_end = old.endswith("\n") and not new.endswith("\n")
    # A deletion, or an insertion of blank lines, is unambiguous.
    if is_blank(new) or is_blank(old):
        if drops_end and place.before and is_blank(new):
            raise _joined_lines_error(source, place)
        return new
    drops_start = old.startswith("\n") and not new.startswith("\n")
    if drops_start and place.before and new != old[1:]:
        raise uncertain_error(
            "old_string begins with a newline, but new_string does not.",
            place.last - old.count("\n"),
            source,
        )
    if not is_blank(place.before) or not drops_end or new == old[:-1]:
        return new
    if _may_drop_end(source, place, old, new):
        raise uncertain_error(
            "old_string ends with a newline, but new_string does not.",
            max(place.last - 1, 0),
            source,
        )
    return new + "\n"


def _may_drop_end(source: Source, place: _Occurrence, old: str, new: str) -> bool:
    """Return whether the new text may lack a final newline on purpose."""
    # Replacing the newline with a blank, or removing it at the end of the file, may be deliberate.
    joins_words = new[-1] in BLANKS and old[-2] not in BLANKS
    is_at_end = place.last == len(source.lines) - 1 and not place.after
    return joins_words or is_at_end or old.endswith("\n\n")


def _joined_lines_error(source: Source, place: _Occurrence) -> EditError:
    return uncertain_error(
        "old_string is part of a line, with its newline; without it, the next line would be joined"
        " to the rest.",
        max(place.last - 1, 0),
        source,
    )


# --- indentation ----------------------------------------------------------------------------------


def _indent_new(source: Source, place: _Occurrence, old: str, new: str) -> str | None:
    """Return the new text, adjusted to the indentation that the old text omits.

    Returns:
        The adjusted text, or ``None`` if the old text must be matched line by line.
    """
    old_indent = split_line(old.partition("\n")[0]).indent
    new_indent = split_line(new.partition("\n")[0]).indent
    has_several_lines = "\n" in old.rstrip("\n")
    # A single line with part of its indentation is handled like whole lines.
    if old_indent and not has_several_lines:
        return None
    lines = new.split("\n")
    if new_indent == old_indent:
        # A single line keeps whatever indentation precedes it.
        if all(is_blank(line) for line in lines[1:]):
            return new
        if has_several_lines:
            if fits_bare_first_line(place.before + old_indent, old, lines):
                return new
        elif _wraps_line(place.before, old, lines):
            return _indent_rest(lines, place.before)
    raise uncertain_error(_BARE_FIRST_LINE, place.first, source)


def _wraps_line(indent: str, old: str, lines: list[str]) -> bool:
    """Return whether the new lines include a line that was copied without its indentation."""
    if not lines[0] or old.rstrip("\n") not in lines[1:]:
        return False
    # Tabs in the new text do not match an indentation of spaces.
    return "\t" in indent or not any(line.startswith("\t") for line in lines)


def _indent_rest(lines: list[str], indent: str) -> str:
    indented = [lines[0]]
    for line in lines[1:]:
        added = indent if line.strip() else ""
        indented.append(added + line)
    return "\n".join(indented)


def fits_bare_first_line(indent: str, old: str, new: list[str]) -> bool:
    """Return whether new lines are indented as in the file, although the first old line is not.

    Args:
        indent: The indentation of the first line in the file.
        old: The old text, in which all lines but the first are indented as in the file.
        new: The lines of the new text, starting with the first non-blank line.
    """
    rest = [line for line in old.split("\n")[1:] if not is_blank(line)]
    old_indents = [split_line(line).indent for line in rest]
    new_indents = [split_line(line).indent for line in new[1:] if not is_blank(line)]
    if new_indents == old_indents:
        return True
    depths = [len(indent)]
    if any(old_indents):
        depths += map(len, old_indents)
    least = max(min(depths), 1)
    for line in new[1:]:
        if line in rest:  # the remaining new lines repeat the old text
            return True
        if not is_blank(line) and len(split_line(line).indent) < least:
            return False
    return True


# --- several matches ------------------------------------------------------------------------------


def _find_all_lines(source: Source, old: str) -> list[int]:
    """Return the line number of each occurrence, including overlapping ones, in linear time."""
    if "\n" not in old:
        return _find_in_lines(source.text, old)
    head, *middle, tail = old.split("\n")
    count = len(middle) + 1
    lines = source.lines
    if middle:
        starts = [start - 1 for start in find_runs(middle, lines) if start]
    else:
        starts = list(range(len(lines) - 1))
    found: list[int] = []
    for start in starts:
        stop = start + count
        if stop < len(lines) and lines[start].endswith(head) and lines[stop].startswith(tail):
            found.append(start + 1)
    return found


def _find_in_lines(text: str, old: str) -> list[int]:
    found: list[int] = []
    line = 1
    previous = 0
    cost = 0
    at = text.find(old)
    while at != -1:
        line += text.count("\n", previous, at)
        found.append(line)
        previous = at
        cost += len(old)
        # Without this limit, a file of one repeated character would take quadratic time.
        step = 1 if cost < MAX_OVERLAP_COST else len(old)
        at = text.find(old, at + step)
    return found
