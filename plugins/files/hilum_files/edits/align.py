"""Which lines of one text are which of another, in time that stays bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

Opcode = tuple[str, int, int, int, int]
_MOST = 4_000_000


class TooMuch(Exception):
    """The texts are too long and too repetitive to be compared in time."""


def align(
    a: Sequence[Hashable], b: Sequence[Hashable], *, late: bool = False, trim: bool = True
) -> list[Opcode]:
    """Return how ``a`` becomes ``b``, as ``difflib`` does.

    Args:
        a: One sequence.
        b: The other.
        late: Where there is a choice, take the last lines that fit instead of the first.
        trim: Take what is alike at both ends first, and not the longest run.

    Raises:
        TooMuch: It would take too long.
    """
    if late:
        n = len(a)
        m = len(b)
        mirrored = reversed(align(a[::-1], b[::-1], trim=trim))
        return [(kind, n - i2, n - i1, m - j2, m - j1) for kind, i1, i2, j1, j2 in mirrored]
    head = 0
    while trim and head < min(len(a), len(b)) and a[head] == b[head]:
        head += 1
    tail = 0
    while trim and tail < min(len(a), len(b)) - head and a[-1 - tail] == b[-1 - tail]:
        tail += 1
    n = len(a) - tail
    m = len(b) - tail
    codes: list[Opcode] = [("equal", 0, head, 0, head)] if head else []
    if head < n and head < m:
        from difflib import SequenceMatcher  # 2 ms, only where lines were changed

        counts = Counter(b[head:m])
        if sum(counts[item] for item in a[head:n]) > _MOST or (n - head) * (m - head) > 100 * _MOST:
            raise TooMuch
        middle = SequenceMatcher(None, a[head:n], b[head:m], autojunk=False).get_opcodes()
        codes += [
            (kind, i1 + head, i2 + head, j1 + head, j2 + head) for kind, i1, i2, j1, j2 in middle
        ]
    elif head < n or head < m:
        codes.append(("delete" if head < n else "insert", head, n, head, m))
    if tail:
        return [*codes, ("equal", n, len(a), m, len(b))]
    return codes


def runs_of(needle: Sequence[str], hay: Sequence[str]) -> list[int]:
    """Return all indexes at which ``needle`` begins in ``hay``, overlapping ones too, in linear
    time.
    """
    if not needle or len(needle) > len(hay):
        return []
    if len(needle) == 1:
        return [index for index, item in enumerate(hay) if item == needle[0]]
    if not set(needle) <= set(hay):
        return []
    back = [0] * len(needle)
    at = 0
    for index in range(1, len(needle)):
        while at and needle[index] != needle[at]:
            at = back[at - 1]
        at += needle[index] == needle[at]
        back[index] = at
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
