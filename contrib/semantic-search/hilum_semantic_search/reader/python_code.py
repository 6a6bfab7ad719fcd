"""Divides Python files into functions, classes and the rest of the module."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator

from .chunk import Chunk

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def split_python(text: str, lines: list[str], module: str) -> list[Chunk] | None:
    """Return the chunks of a Python file; ``None`` if it cannot be parsed.

    Args:
        text: The content of the file.
        lines: Its lines.
        module: The name of the module, which is the symbol of the lines outside of definitions.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes such as "\d" in the file
            tree = ast.parse(text)
    # Code that is nested too deeply makes the parser run out of stack or memory.
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return list(_split_body(tree.body, lines, 1, len(lines), "module", module, ()))


def _split_body(
    body: list[ast.stmt],
    lines: list[str],
    first: int,
    last: int,
    kind: str,
    symbol: str,
    outer: tuple[str, ...],
) -> Iterator[Chunk]:
    """Yield the definitions in a body, and the lines between them."""
    begin = first
    for node in body:
        if not isinstance(node, _Definition):
            continue
        start = max(_find_start(node, lines), begin)
        end = node.end_lineno or node.lineno
        if start > begin:
            yield Chunk(begin, start - 1, kind, symbol)
        names = (*outer, node.name)
        if isinstance(node, ast.ClassDef):
            yield from _split_body(node.body, lines, start, end, "class", ".".join(names), names)
        else:
            yield Chunk(start, end, "function", ".".join(names))
        begin = end + 1
    if begin <= last:
        yield Chunk(begin, last, kind, symbol)


def _find_start(node: _Definition, lines: list[str]) -> int:
    """Return the first line of a definition, with its decorators and the comment above it."""
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    while first > 1 and lines[first - 2].lstrip().startswith("#"):
        first -= 1
    return first
