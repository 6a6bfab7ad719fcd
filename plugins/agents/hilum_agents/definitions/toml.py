"""Agents' files in TOML, as Codex has them: taken apart into the same document as front matter and
body.
"""

from __future__ import annotations

import re

from hilum_frontmatter import Document, Problem

BODY = ("developer_instructions", "instructions", "prompt")
"""Keys under which the prompt may stand."""


def read_toml(data: bytes) -> Document:
    """Take a file apart: its keys are the fields, and its instructions are the body.

    Args:
        data: The file.

    Returns:
        The document; one that is no TOML has no fields, and says on which line it breaks off.
    """
    import tomllib

    problems: list[Problem] = []
    text = data.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
    if "\ufffd" in text and b"\xef\xbf\xbd" not in data:
        problems.append(
            Problem(1, "The file is not UTF-8; what could not be read stands as U+FFFD.")
        )
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        found = re.search(r"\(at line (\d+), column \d+\)", str(error))
        line = int(found[1]) if found else 1 + text.count("\n")
        why = re.sub(r" \(at .*\)$", "", str(error)) or type(error).__name__
        return Document(
            {},
            "",
            1,
            (*problems, Problem(line, f"This is not TOML ({why}); nothing is read.", True)),
        )
    lines = {
        match[1].strip("\"'"): 1 + text.count("\n", 0, match.start())
        for match in reversed(
            [
                *re.finditer(
                    r"^[ \t]*\[{0,2}([\w-]+|\"[^\"\n]+\")(?=[ \t]*[=.\]])", text, re.MULTILINE
                )
            ]
        )
    }
    key = next((key for key in BODY if isinstance(table.get(key), str) and table[key].strip()), "")
    body = str(table.pop(key, ""))
    fields = {name: _plain(value) for name, value in table.items()}
    return Document(fields, body, lines.get(key, 1), tuple(problems), True, lines)


def _plain(value: object) -> object:
    """A value as front matter gives it: texts, lists and mappings."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
