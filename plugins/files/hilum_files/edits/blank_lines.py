"""Adjusts the blank lines in both texts of an edit to those of the file.

Blank lines that the edit itself adds or removes are left as they are.
"""

from __future__ import annotations

from typing import NamedTuple

from hilum_files.edits.align import Opcode, align
from hilum_files.edits.characters import is_blank
from hilum_files.edits.exact import is_one_to_one
from hilum_files.edits.fuzzy import FuzzyMatch, TextLines, gaps_between
from hilum_files.edits.likeness import ALIKE, likeness
from hilum_files.edits.source import Source
from hilum_files.edits.typography import UncertainEdit

MIN_PART = 5
"""Minimum length of a prefix shared by two lines for one to count as part of the other."""
_UNCERTAIN = -1


class AlignedTexts(NamedTuple):
    """Both texts of an edit, with the file's blank lines.

    Attributes:
        first: Index of the first replaced line in the file.
        old: The lines of the old text, which correspond one to one to the lines of the file.
        new: The lines of the new text.
    """

    first: int
    old: list[str]
    new: list[str]


class _Gaps(NamedTuple):
    """The number of blank lines between each non-blank line and the next."""

    old: list[int]
    new: list[int]
    file: list[int]


def align_blank_lines(
    source: Source, match: FuzzyMatch, old: TextLines, new: TextLines
) -> AlignedTexts:
    """Return both texts with as many blank lines as the file has.

    Raises:
        UncertainEdit: The intent is unclear.
        TooMuch: The texts are too long.
    """
    above, below = _count_around(source, match)
    keeps_lines = bool(new.filled)
    top, new_top = _blank_lines_at_end(old.blank_before, new.blank_before, above, keeps_lines)
    bottom, new_bottom = _blank_lines_at_end(old.blank_after, new.blank_after, below, keeps_lines)
    if new.lines:
        _check_ends(old, new, above, below)
    file_gaps = gaps_between(match.filled)
    if new.filled:
        new_gaps = _place_gaps(old, new, file_gaps)
        # If both ways of aligning similar lines agree, the choice does not matter.
        if new_gaps != _place_gaps(old, new, file_gaps, late=True):
            raise UncertainEdit(
                "The blank lines differ from those in the file, and it is unclear which of several"
                " similar lines they belong to."
            )
    else:
        new_gaps = []
        new_top = len(new.lines)
        new_bottom = 0
    return AlignedTexts(
        match.filled[0] - top,
        _spread(old, file_gaps, top, bottom),
        _spread(new, new_gaps, new_top, new_bottom),
    )


# --- at the ends ----------------------------------------------------------------------------------


def _count_around(source: Source, match: FuzzyMatch) -> tuple[int, int]:
    """Count the file's blank lines directly above and below the matched lines."""
    above = 0
    for line in reversed(source.lines[: match.filled[0]]):
        if not is_blank(line):
            break
        above += 1
    below = 0
    # The text after the last newline is not a line.
    stop = len(source.lines) - (source.lines[-1] == "")
    for line in source.lines[match.filled[-1] + 1 : stop]:
        if not is_blank(line):
            break
        below += 1
    return above, below


def _blank_lines_at_end(old: int, new: int, file: int, keeps_lines: bool) -> tuple[int, int]:
    """Return how many blank lines at one end of the match are replaced, and with how many."""
    if old <= file:
        return old, new
    if keeps_lines and new != old and (new or file):
        raise UncertainEdit(
            "The leading or trailing blank lines of old_string and new_string differ from those in"
            " the file."
        )
    return file, file


def _check_ends(old: TextLines, new: TextLines, above: int, below: int) -> None:
    """Check that the edit keeps the lines next to blank lines that only the old text has."""
    keys = new.keys or [""]
    # The first (or last) line is removed if the new text begins (or ends) with another old line.
    is_first_removed = not new.filled or old.keys[0] != keys[0] in old.keys
    is_last_removed = not new.filled or old.keys[-1] != keys[-1] in old.keys
    lacks_above = old.blank_before > above and is_first_removed
    lacks_below = old.blank_after > below and is_last_removed
    if lacks_above or lacks_below:
        raise UncertainEdit(
            "old_string has leading or trailing blank lines that are not in the file, next to a"
            " line that new_string removes."
        )


# --- between the lines ----------------------------------------------------------------------------


def _spread(text: TextLines, gaps: list[int], top: int, bottom: int) -> list[str]:
    """Return the lines of a text with the given numbers of blank lines between them.

    Blank lines whose number does not change are kept as they are.
    """
    lines = [""] * top
    stops = [*text.filled[1:], None]
    for at, stop, count in zip(text.filled, stops, [*gaps, bottom], strict=False):
        blank = text.lines[at + 1 : stop]
        # Blank lines that contain whitespace are kept as they are if their number does not change.
        if len(blank) != count:
            blank = [""] * count
        lines.append(text.lines[at])
        lines += blank
    return lines


def _place_gaps(
    old: TextLines, new: TextLines, file_gaps: list[int], *, late: bool = False
) -> list[int]:
    """Return the number of blank lines in each gap of the new text."""
    gaps = _Gaps(old.gaps(), new.gaps(), file_gaps)
    placed = list(gaps.new)
    if gaps.old == gaps.file:
        return placed
    codes: dict[int, Opcode] = {}
    for code in align(old.keys, new.keys, late=late):
        codes.update(dict.fromkeys(range(code.start, code.stop), code))
    for at, (ours, theirs) in enumerate(zip(gaps.old, gaps.file, strict=True)):
        if ours == theirs:
            continue
        to = _find_new_gap(at, codes[at], codes[at + 1], gaps)
        if to is None:
            continue
        is_certain = to >= 0 and placed[to] in (ours, theirs)
        for line in (0, 1):
            # A line that became a very different one may just as well have been removed, and the
            # new one added on the other side of the gap.
            is_certain = is_certain and _is_kept(
                codes[at + line], old.keys[at + line], new.keys, to + line
            )
        if not is_certain:
            raise UncertainEdit(
                "Where the edit changes lines, the blank lines differ from those in the file."
            )
        placed[to] = theirs
    return placed


def _is_kept(code: Opcode, old: str, new: list[str], at: int) -> bool:
    """Return whether a line is kept or certainly changed into a given one.

    Args:
        code: The opcode of the old line.
        old: The old line.
        new: The new lines.
        at: Index of the new line.
    """
    if code.kind != "replace":
        return True
    if not _is_alike(old, new[at]):
        return False
    is_split = old.startswith(new[at].rstrip())
    if is_split or not _is_uneven(code):
        return True
    # If several new lines are similar to the old one, any of them may be the one that was added.
    others = (line for line in range(code.new_start, code.new_stop) if line != at)
    return not any(likeness(old, new[line]) >= ALIKE for line in others)


def _is_alike(old: str, new: str) -> bool:
    """Return whether one line was changed into another.

    Either most of the line is the same, or one line is a prefix of the other, as when a statement
    is split across several lines.
    """
    short = min(old, new, key=len).rstrip()
    is_part = len(short) >= MIN_PART and old.startswith(short) and new.startswith(short)
    return is_part or likeness(old, new) >= ALIKE


def _find_new_gap(at: int, here: Opcode, after: Opcode, gaps: _Gaps) -> int | None:
    """Find the gap of the new text that corresponds to a gap of the old text.

    Args:
        at: Index of the gap in the old text.
        here: The opcode of the line before the gap.
        after: The opcode of the line after the gap.
        gaps: The gaps.

    Returns:
        The index of the gap in the new text; ``None`` if the gap is removed with the lines around
        it; ``_UNCERTAIN`` if there are several candidates.
    """
    if here == after:
        return _find_gap_inside(at, here, gaps)
    kinds = (here.kind, after.kind)
    if _is_uneven(here) or _is_uneven(after):
        # Next to a line that is kept, the gap is before or after the replaced lines. The caller
        # checks whether the new lines begin or end like the line that they replace.
        is_beside_kept = "equal" in kinds and after.new_start == here.new_stop
        return here.new_stop - 1 if is_beside_kept else _UNCERTAIN
    if "delete" in kinds:
        return _find_gap_beside_removed(at, here, after, gaps)
    if after.new_start != here.new_stop:
        return _find_gap_beside_added(at, here, after, gaps)
    return here.new_stop - 1


def _is_uneven(code: Opcode) -> bool:
    return code.kind == "replace" and not is_one_to_one(code)


def _find_gap_inside(at: int, code: Opcode, gaps: _Gaps) -> int | None:
    """Find a gap between two lines that belong to the same opcode."""
    kind, i1, i2, j1, _ = code
    if kind == "equal" or is_one_to_one(code):
        return j1 + at - i1
    if kind != "delete":
        return _UNCERTAIN
    # Lines on both sides of the gap are removed. If the kept lines around them have no gap of their
    # own, this gap may be meant to separate the kept lines.
    is_in_middle = i1 > 0 and i2 <= len(gaps.file)
    if is_in_middle and gaps.file[i1 - 1] == gaps.file[i2 - 1] == 0:
        return _UNCERTAIN
    return None


def _find_gap_beside_removed(at: int, here: Opcode, after: Opcode, gaps: _Gaps) -> int:
    """Find a gap next to removed lines.

    The result is uncertain if there is also a gap on the other side of the removed lines.
    """
    if here.kind == "delete":
        other = here.start - 1
        to = here.new_start - 1
    else:
        other = after.stop - 1
        to = here.new_stop - 1
    is_only_gap = 0 <= other < len(gaps.old) and gaps.old[other] == gaps.file[other] == 0
    if is_only_gap and 0 <= to < len(gaps.new) and gaps.new[to] == gaps.old[at] > 0:
        return to
    return _UNCERTAIN


def _find_gap_beside_added(at: int, here: Opcode, after: Opcode, gaps: _Gaps) -> int:
    """Find a gap to which lines are added; one of the gaps around these lines must be empty."""
    to_above = here.new_stop - 1
    to_below = after.new_start - 1
    above = gaps.new[to_above]
    below = gaps.new[to_below]
    if gaps.old[at] == 0 or sorted((above, below)) != [0, gaps.old[at]]:
        return _UNCERTAIN
    return to_above if above else to_below
