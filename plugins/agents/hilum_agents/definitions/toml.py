"""Parses agent files in TOML, as used by Codex, into the same document type as Markdown files."""

from __future__ import annotations

import re
import tomllib

from hilum.frontmatter import Document, Problem

# Keys that may contain the prompt.
PROMPT_KEYS = ("developer_instructions", "instructions", "prompt")
_KEY_LINE = re.compile(r"^[ \t]*\[{0,2}([\w-]+|\"[^\"\n]+\")(?=[ \t]*[=.\]])", re.MULTILINE)


def read_toml(data: bytes) -> Document:
    """Parse a file: its keys become fields, and its instructions become the body.

    Args:
        data: The content of the file.

    Returns:
        The document. If the file is not valid TOML, the document has no fields and contains a
        problem with the line of the error.
    """
    problems: list[Problem] = []
    text = data.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
    # A file that contains U+FFFD itself is valid.
    if "\ufffd" in text and b"\xef\xbf\xbd" not in data:
        problems.append(
            Problem(1, "The file is not UTF-8; unreadable characters were replaced by U+FFFD.")
        )
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        problems.append(_syntax_problem(text, error))
        return Document({}, "", 1, tuple(problems))
    lines = _key_lines(text)
    prompts = [key for key in PROMPT_KEYS if _is_text(table.get(key))]
    key = prompts[0] if prompts else ""
    body = str(table.pop(key, ""))
    fields = {name: _as_texts(value) for name, value in table.items()}
    return Document(fields, body, lines.get(key, 1), tuple(problems), True, lines)


def _syntax_problem(text: str, error: Exception) -> Problem:
    found = re.search(r"\(at line (\d+), column \d+\)", str(error))
    line = int(found[1]) if found else 1 + text.count("\n")
    reason = re.sub(r" \(at .*\)$", "", str(error)) or type(error).__name__
    return Problem(line, f"This is not valid TOML ({reason}); the file is ignored.", True)


def _key_lines(text: str) -> dict[str, int]:
    """Return the line number of each key and table, which ``tomllib`` does not report."""
    lines: dict[str, int] = {}
    for match in _KEY_LINE.finditer(text):
        key = match[1].strip("\"'")
        lines.setdefault(key, 1 + text.count("\n", 0, match.start()))
    return lines


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _as_texts(value: object) -> object:
    """Convert a value to the types used in front matter: strings, lists and mappings."""
    if isinstance(value, dict):
        return {key: _as_texts(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_as_texts(inner) for inner in value]
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
