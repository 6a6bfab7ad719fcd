"""Divides Markdown and reStructuredText files into sections."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .chunk import Chunk

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
# Both languages mark a heading by a line of one repeated character below it.
_UNDERLINE = re.compile(r"([=\-~^\"'`#*+:.])\1{2,}\s*$")


def split_sections(lines: list[str], *, markdown: bool) -> list[Chunk]:
    """Return the sections of a document, each with its headings as the symbol.

    Args:
        lines: The lines.
        markdown: Whether the document is in Markdown, and not in reStructuredText.
    """
    chunks = list[Chunk]()
    first = 1
    path = dict[int, str]()
    for number, level, title in _find_headings(lines, markdown):
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


def _find_headings(lines: list[str], markdown: bool) -> Iterator[tuple[int, int, str]]:
    """Yield the line number, level and title of each heading outside of code blocks."""
    fence = ""
    # Markdown has two characters with fixed levels; in reStructuredText, the order determines them.
    underlines = {"=": 1, "-": 2} if markdown else {}
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
        heading = _HEADING.match(line) if markdown else None
        if heading:
            yield number, len(heading[1]), (heading[2] or "").strip()
        elif number > 1 and _is_underline(line, lines[number - 2]):
            if markdown and line[0] not in underlines:
                continue
            level = underlines.setdefault(line[0], len(underlines) + 1)
            yield number - 1, level, lines[number - 2].strip()


def _is_underline(line: str, above: str) -> bool:
    title = above.strip()
    if not _UNDERLINE.match(line) or not title or title[:1] in "|-*>#":
        return False
    return above[:1] not in (" ", "\t") and len(line.rstrip()) >= len(title) - 1
