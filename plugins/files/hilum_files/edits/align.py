"""Aligns two sequences of lines and finds one within another, both in bounded time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from hilum_files.text import count_equal_ends

MAX_EQUAL_PAIRS = 4_000_000
MAX_PAIRS = 100 * MAX_EQUAL_PAIRS


class Opcode(NamedTuple):
    """One opcode of an alignment, as in ``difflib``.

    Attributes:
        kind: ``equal``, ``replace``, ``delete`` or ``insert``.
        start: Index of the first item in ``a``.
        stop: Index one past the last item in ``a``.
        new_start: Index of the first item in ``b``.
        new_stop: Index one past the last item in ``b``.
    """

    kind: str
    start: int
    stop: int
    new_start: int
    new_stop: int

    def shift(self, offset: int, new_offset: int) -> Opcode:
        """Return the opcode with offsets added to the indexes in ``a`` and ``b``."""
        kind, start, stop, new_start, new_stop = self
        new_start += new_offset
        new_stop += new_offset
        return Opcode(kind, start + offset, stop + offset, new_start, new_stop)


class TooMuch(Exception):
    """Raised if the texts are too long and repetitive to be compared in a reasonable time."""


def align(
    a: Sequence[Hashable], b: Sequence[Hashable], *, late: bool = False, trim: bool = True
) -> list[Opcode]:
    """Return the opcodes that turn ``a`` into ``b``, as in ``difflib``.

    Args:
        a: One sequence.
        b: The other.
        late: If several alignments are possible, match the last lines instead of the first.
        trim: Match equal leading and trailing lines before the longest common sequence.

    Raises:
        TooMuch: The alignment would take too long.
    """
    # difflib prefers early matches; reversing the sequences yields the late ones.
    if late:
        return _mirror(align(a[::-1], b[::-1], trim=trim), len(a), len(b))
    # Most edits change few lines, so removing equal ends keeps the quadratic part small.
    head, tail = count_equal_ends(a, b) if trim else (0, 0)
    a_stop = len(a) - tail
    b_stop = len(b) - tail
    codes: list[Opcode] = []
    if head:
        codes.append(Opcode("equal", 0, head, 0, head))
    if head < a_stop and head < b_stop:
        middle = _align_middle(a[head:a_stop], b[head:b_stop])
        codes += [code.shift(head, head) for code in middle]
    elif head < a_stop:
        codes.append(Opcode("delete", head, a_stop, head, b_stop))
    elif head < b_stop:
        codes.append(Opcode("insert", head, a_stop, head, b_stop))
    if tail:
        codes.append(Opcode("equal", a_stop, len(a), b_stop, len(b)))
    return codes


def _mirror(codes: list[Opcode], a_size: int, b_size: int) -> list[Opcode]:
    """Convert the alignment of two reversed sequences to one of the original sequences."""
    mirrored: list[Opcode] = []
    for kind, i1, i2, j1, j2 in reversed(codes):
        mirrored.append(Opcode(kind, a_size - i2, a_size - i1, b_size - j2, b_size - j1))
    return mirrored


def _align_middle(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[Opcode]:
    # The import takes 2 ms and is needed only for changed lines.
    from difflib import SequenceMatcher

    # difflib takes quadratic time, especially for lines that occur often.
    counts = Counter(b)
    equal_pairs = sum(counts[item] for item in a)
    if equal_pairs > MAX_EQUAL_PAIRS or len(a) * len(b) > MAX_PAIRS:
        raise TooMuch
    # By default, difflib ignores items that occur often in a long sequence, such as brackets.
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    return [Opcode(*code) for code in matcher.get_opcodes()]


def find_runs(needle: Sequence[str], hay: Sequence[str]) -> list[int]:
    """Return all indexes at which ``needle`` begins in ``hay``, including overlapping ones.

    Takes linear time (Knuth, Morris and Pratt).
    """
    if not needle or len(needle) > len(hay):
        return []
    if len(needle) == 1:
        return [index for index, item in enumerate(hay) if item == needle[0]]
    # This cheap check rules out most texts that are not in the file.
    if not set(needle) <= set(hay):
        return []
    back = _failure_table(needle)
    found = []
    at = 0
    for index, item in enumerate(hay):
        while at and (at == len(needle) or item != needle[at]):
            at = back[at - 1]
        if item == needle[at]:
            at += 1
        if at == len(needle):
            found.append(index - at + 1)
    return found


def _failure_table(needle: Sequence[str]) -> list[int]:
    """Return the length of the longest proper prefix that ends at each index of ``needle``."""
    back = [0] * len(needle)
    at = 0
    for index in range(1, len(needle)):
        while at and needle[index] != needle[at]:
            at = back[at - 1]
        if needle[index] == needle[at]:
            at += 1
        back[index] = at
    return back
