"""Front matter of Markdown files: fields between two lines ``---`` at the top, as people and
programs really write them.

Nothing is refused and nothing is dropped in silence: what is not YAML is repaired, at last read
line by line, and each step away from the letter is a `Problem` with its line. Texts stay as they
are written: ``no``, ``1.10`` and ``2026-01-01`` are texts until a caller asks for something else
(`flag`, `number`).
"""

from __future__ import annotations

from collections.abc import Collection

from hilum_frontmatter.document import Document, Problem
from hilum_frontmatter.values import flag, globs, names, number, split_globs, split_tools, text

__all__ = [
    "Document",
    "Problem",
    "flag",
    "globs",
    "names",
    "number",
    "read",
    "split_globs",
    "split_tools",
    "text",
]


def read(data: bytes | str, *, raw: Collection[str] = ()) -> Document:
    """Read a file with front matter, or without.

    Args:
        data: The whole file. Bytes are read as UTF-8; what is not becomes U+FFFD, and that is a
            problem that is told.
        raw: Keys whose values some program writes without quotes although YAML wants them
            (``globs: **/*.ts``): where such a value is not YAML it is taken as it is written, and
            that is no problem.

    Returns:
        The fields, the text below them, and everything that was not as it should be. This never
        raises for bad input.
    """
    from hilum_frontmatter.reading import read_text  # loads the YAML library at first use

    return read_text(data, frozenset(raw))
