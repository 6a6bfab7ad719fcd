"""Reads the lines of results from their files, and formats them for the model."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from hilum_search import show

from hilum_semantic_search.query import stem
from hilum_semantic_search.reader.chunking import compute_digest
from hilum_semantic_search.reader.files import FileOpener, UnsuitableFile, decode, split_lines
from hilum_semantic_search.reader.words import split_words
from hilum_semantic_search.store import Found

MAX_LINE_CHARACTERS = 200
WHOLE_LINES = 14
"""Chunks with at most this many lines are shown as a whole."""
_UNSAFE_CATEGORIES = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode's categories of control and format characters, surrogates and line separators."""
HEAD_LINES = 4
WINDOW_LINES = 8


class Hit(NamedTuple):
    """A result, with the lines that its file contains now.

    Attributes:
        path: The file, relative to the workspace.
        first: Number of the first line.
        last: Number of the last line.
        symbol: The name of what the lines define, or the headings above them; may be empty.
        lines: The lines.
        score: The score; comparable only within one search.
    """

    path: str
    first: int
    last: int
    symbol: str
    lines: tuple[str, ...]
    score: float

    @property
    def place(self) -> str:
        """The file and the lines, as a citation."""
        return f"{show(self.path)}:{self.first}-{self.last}"


class ReadHits(NamedTuple):
    """Results that were read from their files.

    Attributes:
        hits: The results, in order.
        outdated: Number of chunks that were left out because their file has changed.
    """

    hits: list[Hit]
    outdated: int


def read_hits(
    root: Path,
    ranked: Iterable[Found],
    limit: int,
    max_size: int,
    is_withheld: Callable[[str], bool] | None,
) -> ReadHits:
    """Read the best chunks from their files. Blocks.

    A chunk that its file no longer contains at these lines is left out, and of the parts of a long
    definition, only the best is returned.

    Args:
        root: The workspace.
        ranked: The chunks, best first.
        limit: Maximum number of results.
        max_size: Maximum size of a file in bytes.
        is_withheld: A function that returns whether a file must not be shown.
    """
    hits = list[Hit]()
    outdated = 0
    seen = set[tuple[bytes, str]]()
    files = dict[bytes, list[str]]()
    opener = FileOpener(str(root), max_size)
    try:
        for found in ranked:
            if len(hits) >= limit:
                break
            path = os.fsdecode(found.path)
            key = (found.path, found.symbol)
            if found.symbol and key in seen:
                continue
            # Such files are not even counted: the number would reveal what they contain.
            if is_withheld is not None and is_withheld(path):
                continue
            if found.path not in files:
                files[found.path] = _read_lines(opener, found.path)
            lines = files[found.path][found.first - 1 : found.last]
            digest = compute_digest(found.symbol, "\n".join(lines))
            if bytes.fromhex(digest) != found.digest:
                outdated += 1
                continue
            seen.add(key)
            hits.append(Hit(path, found.first, found.last, found.symbol, tuple(lines), found.score))
    finally:
        opener.close()
    return ReadHits(hits, outdated)


def _read_lines(opener: FileOpener, path: bytes) -> list[str]:
    try:
        return split_lines(decode(opener.read(path)))
    except (OSError, UnsuitableFile):
        return []


def format_hits(
    hits: Sequence[Hit], words: Collection[str], max_characters: int
) -> tuple[str, list[Hit]]:
    """Return results as text, and those that the text contains.

    Args:
        hits: The results, best first.
        words: The words of the question, which choose the lines that are shown of long chunks.
        max_characters: Maximum number of characters.
    """
    stems = {stem(word) for word in words}
    blocks = list[str]()
    shown = list[Hit]()
    room = max_characters
    for hit in hits:
        block = _format_hit(hit, stems)
        room -= len(block) + 2
        # The first result is always shown; its size has a limit of its own.
        if room < 0 and blocks:
            break
        blocks.append(block)
        shown.append(hit)
    return "\n\n".join(blocks), shown


def _format_hit(hit: Hit, stems: Collection[str]) -> str:
    heading = hit.place
    if hit.symbol:
        heading += f" {show(hit.symbol)}"
    rows = [heading]
    last = -1
    for index in _choose_lines(hit.lines, stems):
        if index > last + 1 and last >= 0:
            rows.append("--")
        rows.append(f"{hit.first + index}:{_shorten(hit.lines[index])}")
        last = index
    return "\n".join(rows)


def _choose_lines(lines: Sequence[str], stems: Collection[str]) -> list[int]:
    """Return the indexes of the lines to show: the beginning, and where most words occur."""
    if len(lines) <= WHOLE_LINES:
        return list(range(len(lines)))
    counts = [len(_find_stems(line) & set(stems)) for line in lines]
    starts = range(HEAD_LINES, len(lines) - WINDOW_LINES + 1)
    best = max(starts, key=lambda start: (sum(counts[start : start + WINDOW_LINES]), -start))
    return [*range(HEAD_LINES), *range(best, best + WINDOW_LINES)]


def _find_stems(line: str) -> set[str]:
    spaced = split_words(line[:MAX_LINE_CHARACTERS])
    return {stem(word.lower()) for word in re.findall(r"[^\W_]+", spaced)}


def _shorten(line: str) -> str:
    line = line.rstrip("\r")
    if len(line) <= MAX_LINE_CHARACTERS:
        return _escape(line)
    return f"{_escape(line[:MAX_LINE_CHARACTERS])} [… {len(line):,} characters in total]"


def _escape(text: str) -> str:
    """Escape characters that control a terminal, or that begin a line which looks like a result."""
    return "".join(map(_escape_character, text))


def _escape_character(character: str) -> str:
    if character == "\t" or unicodedata.category(character) not in _UNSAFE_CATEGORIES:
        return character
    return repr(character)[1:-1]
