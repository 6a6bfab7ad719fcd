"""Divides a file into chunks, by its language."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from .blocks import split_blocks
from .chunk import Chunk, divide, trim
from .files import decode, split_lines
from .markdown import split_sections
from .python_code import split_python
from .shell_code import split_shell
from .words import split_symbol, split_words

MAX_CHUNKS = 2_000
"""Maximum number of chunks of a file."""
_PYTHON = frozenset((".py", ".pyi", ".pyw"))
_DOCUMENTS = frozenset((".md", ".markdown", ".mdx", ".rst"))
_SHELL = frozenset((".sh", ".bash"))


class IndexedChunk(NamedTuple):
    """A chunk with what the index stores about it.

    Attributes:
        first: Number of the first line.
        last: Number of the last line.
        kind: See ``Chunk``.
        symbol: See ``Chunk``.
        digest: Hash of the symbol and the lines, in hexadecimal.
        names: The words of the symbol.
        words: The words of the lines.
    """

    first: int
    last: int
    kind: str
    symbol: str
    digest: str
    names: str
    words: str


def split_file(path: str, data: bytes) -> list[IndexedChunk]:
    """Return the chunks of a file.

    Args:
        path: The path, whose suffix determines the language.
        data: The content.

    Raises:
        UnsuitableFile: The file contains no text that can be searched.
    """
    text = decode(data)
    lines = split_lines(text)
    found = list[IndexedChunk]()
    for chunk in _list_chunks(path, text, lines):
        found.append(_index_chunk(chunk, lines))
        if len(found) == MAX_CHUNKS:
            break
    return found


def split_path(path: str) -> str:
    """Return the words of a path."""
    printable = path.encode(errors="replace").decode()
    return split_words(printable)


def compute_digest(symbol: str, text: str) -> str:
    """Return the hash by which a chunk is recognized."""
    raw = f"{symbol}\0{text}".encode(errors="replace")
    return hashlib.blake2b(raw, digest_size=12).hexdigest()


def _list_chunks(path: str, text: str, lines: list[str]) -> Iterator[Chunk]:
    for chunk in _split(path, text, lines):
        trimmed = trim(chunk, lines)
        if trimmed is not None:
            yield from divide(trimmed, lines)


def _split(path: str, text: str, lines: list[str]) -> list[Chunk]:
    name = PurePosixPath(path)
    suffix = name.suffix.lower()
    chunks: list[Chunk] | None = None
    if suffix in _PYTHON:
        # A form feed counts as a line break for `str.splitlines`, but not for `ast` or editors.
        chunks = split_python(text, lines, name.stem)
    elif suffix in _DOCUMENTS:
        chunks = split_sections(lines, markdown=suffix != ".rst")
    elif suffix in _SHELL:
        chunks = split_shell(text, len(lines))
    if chunks is None:
        chunks = split_blocks(lines)
    return chunks


def _index_chunk(chunk: Chunk, lines: list[str]) -> IndexedChunk:
    text = "\n".join(lines[chunk.first - 1 : chunk.last])
    # Surrogates can only come from a path; SQLite cannot store them.
    symbol = chunk.symbol.encode(errors="replace").decode()[:300]
    return IndexedChunk(
        chunk.first,
        chunk.last,
        chunk.kind,
        symbol,
        compute_digest(symbol, text),
        split_symbol(symbol),
        split_words(text),
    )
