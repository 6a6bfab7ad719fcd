"""Fields as what a caller expects, and lists written as one text."""

from __future__ import annotations

from collections.abc import Iterator

from hilum_frontmatter.document import Document

_TRUE = {"true", "yes", "on", "y", "1"}
_FALSE = {"false", "no", "off", "n", "0"}


def text(document: Document, key: str, default: str = "") -> str:
    """Return a field as text, without white space around it.

    Lists and mappings are written out, so that nothing of them is lost.

    Args:
        document: What was read.
        key: The field.
        default: For a field that is missing or empty.
    """
    value = document.fields.get(key)
    return default if value is None else _written(value).strip()


def flag(document: Document, key: str, default: bool | None = None) -> bool | None:
    """Return a field as a truth value: true, yes, on, 1, or false, no, off, 0, in any case of
    letters.

    Args:
        document: What was read.
        key: The field.
        default: For a field that is missing, empty or none of these.
    """
    word = text(document, key).lower()
    if word in _TRUE:
        return True
    return False if word in _FALSE else default


def number(document: Document, key: str, default: float | None = None) -> float | None:
    """Return a field as a finite number; a whole one is an ``int``.

    Args:
        document: What was read.
        key: The field.
        default: For a field that is missing, empty or no number.
    """
    word = text(document, key)
    if len(word) > 40 or "_" in word:
        return default
    try:
        value = float(word)
        if word.lstrip("+-").isdecimal():
            return int(word)
        return value if abs(value) < float("inf") else default
    except ValueError:
        return default


def names(document: Document, key: str) -> tuple[str, ...] | None:
    """Return a field that names tools: a list, or one text (see `split_tools`).

    Args:
        document: What was read.
        key: The field.

    Returns:
        None where the field is missing or has no value, which commonly means *all*; nothing in it
        for an empty list, *none*.
    """
    value = document.fields.get(key)
    if value is None:
        return None
    if isinstance(value, list):
        return tuple(
            name for item in value if item is not None and (name := _written(item).strip())
        )
    if isinstance(value, dict):
        return tuple(value)
    return split_tools(str(value))


def globs(document: Document, key: str) -> tuple[str, ...]:
    """Return a field that holds patterns of paths: a list, or one text (see `split_globs`).

    Args:
        document: What was read.
        key: The field.
    """
    value = document.fields.get(key)
    if isinstance(value, list):
        return tuple(
            glob for item in value if item is not None for glob in split_globs(_written(item))
        )
    if isinstance(value, dict) and all(inner is None for inner in value.values()):
        return ("{" + ",".join(value) + "}",)  # `{a,b}` is a pattern here, and a mapping in YAML
    return split_globs(text(document, key))


def split_tools(text: str) -> tuple[str, ...]:
    """Split a list of tools at commas and white space that stand outside of parentheses.

    Args:
        text: For example ``Bash(git add:*, git commit:*) Read, Grep``.
    """
    return tuple(
        inner for part in _split(_bare(text), ", \t\n", "(", ")") if (inner := unquoted(part))
    )


def split_globs(text: str) -> tuple[str, ...]:
    """Split patterns of paths at commas that stand outside of braces and brackets.

    Args:
        text: For example ``**/*.{ts,tsx},src/**``; a list in brackets and quotes around patterns
            are taken off.
    """
    parts = (part.strip() for part in _split(_bare(text), ",\n", "{[", "}]"))
    return tuple(inner for part in parts if (inner := unquoted(part)))


def _split(text: str, separators: str, opening: str, closing: str) -> Iterator[str]:
    depth = 0
    start = 0
    # What is opened and never closed protects nothing: the separators after it would be lost with
    # it.
    balanced = sum(map(text.count, opening)) == sum(map(text.count, closing))
    for at, letter in enumerate(text):
        if letter in opening:
            depth += 1
        elif letter in closing:
            depth = max(0, depth - 1)
        elif letter in separators and (depth == 0 or not balanced):
            yield text[start:at]
            start = at + 1
    yield text[start:]


def _bare(text: str) -> str:
    """A list in brackets that was not YAML, such as ``[*.ts, *.js]``, without the brackets."""
    text = text.strip()
    whole = (
        text.startswith("[") and text.endswith("]") and "]" not in text[:-1] and "[" not in text[1:]
    )
    if whole and ("," in text or "*" in text):
        return text[1:-1]
    return text


def unquoted(text: str) -> str:
    """Take off quotes that are a pair: those of ``"a" and "b"`` are two."""
    pair = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" and text[0] not in text[1:-1]
    return text[1:-1] if pair else text


def _written(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_written(inner)}" for key, inner in value.items()) + "}"
    return "" if value is None else str(value)
