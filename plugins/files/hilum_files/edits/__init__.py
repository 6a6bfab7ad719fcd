"""Replaces part of a file, even if the model did not copy the old text exactly.

All functions are pure: they neither read nor write files. Text that occurs in the file exactly as
given is replaced without further changes. Any other text is matched line by line, first as given
and then without line numbers or escapes, and must match exactly one location. If the intent of an
edit is unclear, the edit is refused, because a wrong edit is much worse than a refusal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from hilum import errors

from hilum_files.edits.align import find_runs
from hilum_files.edits.characters import is_blank, normalize_line
from hilum_files.edits.escapes import without_escapes
from hilum_files.edits.exact import LineReplacement, replace_exactly
from hilum_files.edits.fuzzy import SLIPS, FuzzyMatch, TextLines, find_match
from hilum_files.edits.line_numbers import has_other_number, without_line_numbers
from hilum_files.edits.merge import merge
from hilum_files.edits.readings import Reading
from hilum_files.edits.refusals import EditError, not_found_error, uncertain_error
from hilum_files.edits.source import Source
from hilum_files.edits.typography import UncertainEdit
from hilum_files.text import BOM, count_equal_ends

__all__ = ["Edit", "EditError", "apply_edit", "apply_edits"]

_TRAILING_BLANKS = re.compile(r"[ \t]+$", re.MULTILINE)


class Edit(NamedTuple):
    """The result of an edit.

    Attributes:
        content: The new content.
        match: How the text was found: ``exact``, ``identical`` (there was nothing to do), or a
            comma-separated list of differences: ``line ends``, ``trailing blanks``,
            ``indentation``, ``blank lines``, ``spaces``, ``typography``, ``line numbers``,
            ``escapes``.
        removed: Line numbers, from 1, of the changed or removed lines of the old content; may be
            empty.
        added: Line numbers, from 1, of the changed or added lines of the new content; may be empty.
    """

    content: str
    match: str
    removed: range
    added: range


def apply_edit(content: str, old: str, new: str) -> Edit:
    """Replace one part of a file's text.

    Line endings and a byte order mark are ignored: the file keeps its own.

    Args:
        content: The whole text of the file.
        old: The text to replace, as the model copied it. Must not be empty unless ``content`` is
            empty.
        new: The replacement. If ``old`` is not an exact copy, lines that occur in both texts keep
            the form they have in the file, and the other lines are written as given. If the
            indentation of every line of ``old`` differs from that in the file in the same way, the
            new lines are reindented to match.

    Returns:
        The new content, how the old text was found, and which lines changed.

    Raises:
        EditError: The old text is missing or occurs several times, or the intent is unclear:
            ``E_NOT_FOUND``, ``E_MULTIPLE_MATCHES``, or ``E_BAD_ARGS`` for an empty ``old``.
    """
    # Models cannot see line endings or byte order marks, so neither may affect a match.
    old = old.replace("\r\n", "\n").removeprefix(BOM)
    new = new.replace("\r\n", "\n").removeprefix(BOM)
    source = Source(content)
    if not old and source.text:
        raise EditError(
            "old_string is empty, but the file is not.",
            code=errors.E_BAD_ARGS,
            hint="Pass the text to replace.",
        )
    if old == new:
        return Edit(content, "identical", range(1, 1), range(1, 1))
    if not old:
        return _make_edit(source, LineReplacement(0, 1, new.split("\n"), []), "exact")
    exact = replace_exactly(source, old, new)
    if exact:
        return _make_edit(source, exact, exact.slip or "exact")
    # Text that differs only in whitespace or typography needs no other interpretation.
    edit = _edit_fuzzily(source, old, new) or _edit_as_reread(source, old, new)
    if edit:
        return edit
    raise not_found_error(source, old, _find_line_numbers(source, new))


def apply_edits(content: str, edits: Sequence[tuple[str, str]]) -> list[Edit]:
    """Apply several edits to a file's text in order: all of them or none.

    Args:
        content: The whole text of the file.
        edits: The old and new text of each edit. Each edit applies to the result of the previous
            one.

    Returns:
        One result per edit; the last one contains the final content.

    Raises:
        EditError: An edit cannot be applied; the message contains its number.
    """
    applied: list[Edit] = []
    for number, (old, new) in enumerate(edits, 1):
        try:
            edit = apply_edit(content, old, new)
        except EditError as error:
            if len(edits) > 1:
                error.message = f"Edit {number}: {error.message}"
            raise
        applied.append(edit)
        content = edit.content
    return applied


def _make_edit(source: Source, replacement: LineReplacement, match: str) -> Edit:
    before = source.lines[replacement.first : replacement.stop]
    after = replacement.lines
    head, tail = count_equal_ends(before, after)
    ends_from = replacement.ends_from or [None] * len(after)
    content = source.replace_lines(replacement.first, replacement.stop, after, ends_from)
    line = replacement.first + 1
    return Edit(
        content,
        match,
        range(line + head, line + len(before) - tail),
        range(line + head, line + len(after) - tail),
    )


# --- fuzzy ----------------------------------------------------------------------------------------


def _edit_fuzzily(source: Source, old: str, new: str, kind: str = "") -> Edit | None:
    """Apply an edit whose old text differs from the file's text in whitespace or typography.

    Args:
        source: The file.
        old: The old text.
        new: The new text.
        kind: The kind of text that was already removed from ``old`` and ``new``: ``line numbers``,
            ``escapes`` or nothing.

    Returns:
        The edit, or ``None`` if the text is not in the file.
    """
    old_lines = TextLines(old)
    if not old_lines.filled:
        return None
    # As in an exact match, a final newline that only the new text has adds a blank line, and
    # replacing a line without its newline with nothing leaves a blank line.
    if not old.endswith("\n") and (not new or new.endswith("\n")):
        new += "\n"
    new_lines = TextLines(new)
    match = find_match(source, old_lines)
    if match is None:
        return None
    first = match.filled[0]
    last = match.filled[-1]
    # Check this first, so that a repeated edit does not insert its new lines twice.
    if _is_applied(source, new_lines, first, last):
        raise not_found_error(source, old, [first + 1])
    try:
        merged = merge(source, match, old_lines, new_lines)
    except UncertainEdit as error:
        raise uncertain_error(str(error), first, source, last - first + 1) from None
    if merged.lines == source.lines[merged.first : merged.stop]:
        raise not_found_error(source, old, [first + 1])
    return _make_edit(source, merged, _describe_match(match, kind))


def _describe_match(match: FuzzyMatch, kind: str) -> str:
    """Return the value of ``Edit.match``, which describes how the text was found."""
    slips = [slip for slip in SLIPS if slip in match.slips]
    if kind:
        slips.insert(0, kind)
    return ", ".join(slips) or "line ends"


def _is_applied(source: Source, new: TextLines, first: int, last: int) -> bool:
    """Return whether the file already contains the new text at the location of the old text."""
    lines = [new.lines[index] for index in new.filled]
    if not lines:
        return False
    for start in find_runs(new.keys, source.keys):
        found = source.filled[start : start + len(lines)]
        includes_place = found[0] <= first and last <= found[-1]
        if includes_place and [source.lines[index] for index in found] == lines:
            return True
    return False


# --- other readings -------------------------------------------------------------------------------


def _edit_as_reread(source: Source, old: str, new: str) -> Edit | None:
    """Match both texts without line numbers or escapes; all matching interpretations must agree."""
    edit = _edit_without_numbers(source, old, new)
    if edit:
        return edit
    edits: list[Edit] = []
    for reading in without_escapes(old, new):
        edit = _edit_as_read(source, reading)
        if edit:
            edits.append(edit)
    if not edits:
        return None
    # Trailing blanks do not distinguish two interpretations.
    if len({_TRAILING_BLANKS.sub("", edit.content) for edit in edits}) > 1:
        raise uncertain_error(
            "The escapes in old_string and new_string can be read in two ways.",
            edits[0].removed.start - 1,
            source,
        )
    return edits[0]


def _edit_without_numbers(source: Source, old: str, new: str) -> Edit | None:
    """Match both texts without line numbers, preferring the file's indentation."""
    outcomes: list[Edit | EditError] = []
    for reading in without_line_numbers(old, new):
        try:
            edit = _edit_as_read(source, reading)
        except EditError as error:
            outcomes.append(error)
            continue
        if edit is None:
            continue
        place = _find_place(source, reading.old)
        # "12 | a" may be a line of the file itself, in which 12 is not a line number.
        if place and has_other_number(source.lines[place.start], reading.old):
            continue
        if "indentation" not in edit.match:
            return edit
        outcomes.append(edit)
    if not outcomes:
        return None
    first = outcomes[0]
    if isinstance(first, EditError):
        raise first
    return first


def _edit_as_read(source: Source, reading: Reading) -> Edit | None:
    """Apply one interpretation of an edit; return ``None`` if it does not match."""
    old = reading.old
    if not old or (reading.line and not _begins_at(source, old, reading.line)):
        return None
    if reading.doubt:
        place = _find_place(source, old)
        if place:
            raise uncertain_error(reading.doubt, place.start, source, len(place))
        return None
    exact = replace_exactly(source, old, reading.new)
    if exact:
        return _make_edit(source, exact, reading.kind)
    return _edit_fuzzily(source, old, reading.new, reading.kind)


def _begins_at(source: Source, old: str, line: int) -> bool:
    """Return whether the file contains a text, blank lines included, starting at a given line."""
    if line <= 0:
        return False
    lines = old.removesuffix("\n").split("\n")
    there = source.lines[line - 1 : line - 1 + len(lines)]
    return list(map(normalize_line, there)) == list(map(normalize_line, lines))


def _find_place(source: Source, old: str) -> range | None:
    """Return the indexes of the lines that the text matches, or ``None`` if the file lacks it."""
    exact = replace_exactly(source, old, old)
    if exact:
        # The line after a trailing newline is not part of the text.
        stop = exact.stop - 1 if old.endswith("\n") else exact.stop
        return range(exact.first, max(stop, exact.first + 1))
    if is_blank(old):
        return None
    match = find_match(source, TextLines(old))
    if match:
        return range(match.filled[0], match.filled[-1] + 1)
    return None


def _find_line_numbers(source: Source, text: str) -> list[int]:
    """Return the 1-based line numbers at which the text occurs in the file."""
    # Most source files have lines that consist only of brackets, so finding such lines does not
    # prove that the edit was already made.
    if not any(char.isalnum() for char in text):
        return []
    starts = find_runs(TextLines(text).keys, source.keys)
    return [source.filled[start] + 1 for start in starts]
