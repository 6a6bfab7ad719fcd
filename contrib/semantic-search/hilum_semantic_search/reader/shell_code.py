"""Divides shell scripts into functions and the lines between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .chunk import Chunk

if TYPE_CHECKING:
    from tree_sitter import Node


def split_shell(text: str, line_count: int) -> list[Chunk] | None:
    """Return the chunks of a shell script; ``None`` if the parser is not installed."""
    root = _parse(text)
    if root is None:
        return None
    chunks = list[Chunk]()
    begin = 1
    for node in root.children:
        if node.type != "function_definition":
            continue
        name = node.child_by_field_name("name")
        first = max(node.start_point[0] + 1, begin)
        last = node.end_point[0] + 1
        if first > begin:
            chunks.append(Chunk(begin, first - 1, "block", ""))
        symbol = name.text.decode(errors="replace") if name is not None and name.text else ""
        chunks.append(Chunk(first, last, "function", symbol))
        begin = last + 1
    if begin <= line_count:
        chunks.append(Chunk(begin, line_count, "block", ""))
    return chunks


def _parse(text: str) -> Node | None:
    try:
        import tree_sitter_bash
        from tree_sitter import Language, Parser
    except ImportError:
        return None
    language: Any = tree_sitter_bash.language()
    return Parser(Language(language)).parse(text.encode(errors="replace")).root_node
