"""Front matter of Markdown files: fields between two lines ``---`` at the top.

The reader accepts front matter as people and programs really write it.

Nothing is rejected, and nothing is dropped silently. Text that is not YAML is repaired or, as a
last resort, read line by line, and each change is reported as a `Problem` with its line. Values
stay as written: ``no``, ``1.10`` and ``2026-01-01`` remain text unless a caller converts them
(`flag`, `number`).
"""

from __future__ import annotations

from collections.abc import Collection

from hilum.frontmatter.document import Document, Problem
from hilum.frontmatter.values import flag, globs, names, number, split_globs, split_tools, text

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
    """Read a file with or without front matter.

    Args:
        data: The whole file. Bytes are decoded as UTF-8; invalid bytes become U+FFFD, which is
            reported.
        raw: Keys whose values some programs write without the quotes that YAML requires (``globs:
            **/*.ts``): such a value is read as written and not reported if it is not YAML.

    Returns:
        The fields, the text below the front matter, and all problems that were found. Bad input
        never raises an exception.
    """
    from hilum.frontmatter.reader import read_text  # loads the YAML library

    return read_text(data, frozenset(raw))
