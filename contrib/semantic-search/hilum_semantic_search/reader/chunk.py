"""The data type of a chunk, and the division of long chunks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

MAX_CHUNK_LINES = 80
"""Number of lines above which a chunk is divided."""


class Chunk(NamedTuple):
    """A part of a file that belongs together, such as a function or a section.

    Attributes:
        first: Number of the first line, from 1.
        last: Number of the last line.
        kind: What the chunk is: ``function``, ``class``, ``module``, ``section`` or ``block``.
        symbol: The name of what the chunk defines, with the names that enclose it, or the headings
            above it; may be empty.
    """

    first: int
    last: int
    kind: str
    symbol: str


def divide(chunk: Chunk, lines: list[str]) -> Iterator[Chunk]:
    """Yield a chunk in parts that are not too long, divided at blank lines where possible."""
    first = chunk.first
    while chunk.last - first >= MAX_CHUNK_LINES:
        last = _find_end(first, lines)
        yield chunk._replace(first=first, last=last)
        first = last + 1
    if first <= chunk.last:
        yield chunk._replace(first=first)


def _find_end(first: int, lines: list[str]) -> int:
    """Return the last line of the part that begins at ``first``."""
    latest = first + MAX_CHUNK_LINES - 1
    for number in range(latest, first + MAX_CHUNK_LINES // 2, -1):
        if not lines[number - 1].strip():
            return number
    return latest


def trim(chunk: Chunk, lines: list[str]) -> Chunk | None:
    """Return a chunk without blank lines at both ends; ``None`` if nothing is left."""
    first, last, kind, symbol = chunk
    while first <= last and not lines[first - 1].strip():
        first += 1
    while last >= first and not lines[last - 1].strip():
        last -= 1
    return Chunk(first, last, kind, symbol) if first <= last else None
