"""Divides Markdown and reStructuredText files into sections."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .chunk import Chunk

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
# reStructuredText marks a heading by a line of one repeated character below it, as does Markdown.
_UNDERLINE = re.compile(r"([=\-~^\"'`#*+:.])\1{2,}\s*$")


def split_sections(lines: list[str]) -> list[Chunk]:
    """Return the sections of a document, each with its headings as the symbol."""
    chunks = list[Chunk]()
    first = 1
    path = dict[int, str]()
    for number, level, title in _find_headings(lines):
        if number > first:
            chunks.append(Chunk(first, number - 1, "section", _join(path)))
        path = {above: name for above, name in path.items() if above < level}
        path[level] = title
        first = number
    if first <= len(lines):
        chunks.append(Chunk(first, len(lines), "section", _join(path)))
    return chunks


def _join(path: dict[int, str]) -> str:
    return " > ".join(path[level] for level in sorted(path))


def _find_headings(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """Yield the line number, level and title of each heading outside of code blocks."""
    fence = ""
    underlines = dict[str, int]()
    for number, line in enumerate(lines, 1):
        mark = _FENCE.match(line)
        if mark:
            # A block ends with a fence of the same character that is at least as long.
            if not fence:
                fence = mark[1]
            elif mark[1].startswith(fence):
                fence = ""
            continue
        if fence:
            continue
        heading = _HEADING.match(line)
        if heading:
            yield number, len(heading[1]), (heading[2] or "").strip()
        elif number > 1 and _is_underline(line, lines[number - 2]):
            level = underlines.setdefault(line[0], len(underlines) + 1)
            yield number - 1, level, lines[number - 2].strip()


def _is_underline(line: str, above: str) -> bool:
    title = above.strip()
    if not _UNDERLINE.match(line) or not title or title[:1] in "|-*>#":
        return False
    return above[:1] not in (" ", "\t") and len(line.rstrip()) >= len(title) - 1
