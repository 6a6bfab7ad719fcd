"""Divides files in other languages into blocks, by blank lines and indentation."""

from __future__ import annotations

import re

from .chunk import MAX_CHUNK_LINES, Chunk

MIN_BLOCK_LINES = 12
"""Blocks with fewer lines are joined to the next one, unless that one defines something."""
_DEFINITION = re.compile(
    r"""
    [ \t]*
    (?:(?:export|default|public|private|protected|internal|static|final|abstract|async|virtual
        |override|inline|extern|unsafe|const|pub(?:\([a-z]+\))?|declare|open|sealed|data)[ \t]+)*
    (?:(?:function\*?|func|fn|fun|def|sub|class|struct|enum|interface|trait|impl|type|module
        |namespace|package|object|protocol|extension|macro_rules!|CREATE[ ]TABLE)
        (?:[ \t]*<[^>]*>)?[ \t]+(?:\([^)]*\)[ \t]*)?
        (?P<named>[A-Za-z_$][\w$]*)
     |(?:const|let|var)[ \t]+(?P<variable>[A-Za-z_$][\w$]*)[ \t]*[:=]
     |(?:[\w<>\[\]*&:,]+[ \t]+)*?(?P<called>[A-Za-z_$~][\w$]*)[ \t]*\([^;{}]*\)[^;{}]*\{[ \t]*$)
    """,
    re.VERBOSE,
)
_NOT_NAMES = frozenset(
    "if for while switch catch return else do try with when unless until".split()
)
_MAX_LINE = 300
"""Characters of a line that are compared with the pattern."""
_CLOSING = ("}", ")", "]", "end", "fi", "done")


def split_blocks(lines: list[str]) -> list[Chunk]:
    """Return the blocks of a file.

    A block begins at an unindented line after a blank line or the end of the block before, and is
    divided at its inner definitions if it is long.
    """
    chunks = list[Chunk]()
    first = 1
    for number in range(2, len(lines) + 1):
        if _begins_block(lines, number, first):
            chunks.append(_make_chunk(lines, first, number - 1, ""))
            first = number
    if first <= len(lines):
        chunks.append(_make_chunk(lines, first, len(lines), ""))
    divided = list[Chunk]()
    for chunk in chunks:
        if chunk.last - chunk.first >= MAX_CHUNK_LINES:
            divided += _split_inner(lines, chunk)
        else:
            divided.append(chunk)
    return divided


def find_name(line: str) -> str:
    """Return the name that a line defines; empty if it defines none."""
    match = _DEFINITION.match(line[:_MAX_LINE])
    if match is None:
        return ""
    name: str = match["named"] or match["variable"] or match["called"] or ""
    return "" if name in _NOT_NAMES else name


def _begins_block(lines: list[str], number: int, first: int) -> bool:
    line = lines[number - 1]
    if not line or line[0] in " \t":
        return False
    if line.startswith(_CLOSING):
        return False
    if not _is_boundary(lines, number):
        return False
    is_long = number - first >= MIN_BLOCK_LINES
    return is_long or bool(_find_definition(lines, number))


def _is_boundary(lines: list[str], number: int) -> bool:
    above = lines[number - 2].strip()
    return not above or above in ("}", "};", "end", "})", "});", "fi", "done")


def _find_definition(lines: list[str], number: int) -> str:
    """Return the name that is defined at a line, or below a comment that begins there."""
    for line in lines[number - 1 : number + 20]:
        stripped = line.strip()
        if stripped.startswith(("//", "/*", "*", "#", "@", "<!--")):
            continue
        return find_name(line)
    return ""


def _make_chunk(lines: list[str], first: int, last: int, outer: str) -> Chunk:
    name = ""
    for number in range(first, min(last, first + 40) + 1):
        name = find_name(lines[number - 1])
        if name:
            break
    symbol = ".".join(filter(None, (outer, name)))
    return Chunk(first, last, "function" if name else "block", symbol)


def _split_inner(lines: list[str], chunk: Chunk) -> list[Chunk]:
    """Divide a long block at its definitions with the least indentation, such as methods."""
    inner = _find_inner_definitions(lines, chunk)
    if not inner:
        return [chunk]
    parts = list[Chunk]()
    first = chunk.first
    for number in inner:
        start = number
        while start > first + 1 and lines[start - 2].strip().startswith(
            ("//", "/*", "*", "#", "@")
        ):
            start -= 1
        if start > first:
            outer = "" if not parts else chunk.symbol
            parts.append(_make_chunk(lines, first, start - 1, outer))
        first = start
    parts.append(_make_chunk(lines, first, chunk.last, chunk.symbol))
    return parts


def _find_inner_definitions(lines: list[str], chunk: Chunk) -> list[int]:
    found = list[tuple[int, int]]()
    for number in range(chunk.first + 1, chunk.last + 1):
        line = lines[number - 1]
        indent = len(line) - len(line.lstrip())
        if 0 < indent <= 8 and find_name(line):
            found.append((indent, number))
    if not found:
        return []
    least = min(indent for indent, _ in found)
    return [number for indent, number in found if indent == least]
