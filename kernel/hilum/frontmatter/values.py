"""Conversion of fields, and of lists in one text, to the types that a caller expects."""

from __future__ import annotations

from collections.abc import Iterator

from hilum.frontmatter.document import Document

_TRUE = {"true", "yes", "on", "y", "1"}
_FALSE = {"false", "no", "off", "n", "0"}


def text(document: Document, key: str, default: str = "") -> str:
    """Return a field as text, without surrounding whitespace.

    Lists and mappings are written out, so that no part of them is lost.

    Args:
        document: The document.
        key: The field.
        default: The value for a field that is missing or empty.
    """
    value = document.fields.get(key)
    return default if value is None else _written(value).strip()


def flag(document: Document, key: str, default: bool | None = None) -> bool | None:
    """Return a field as a Boolean.

    Accepted texts are true, yes, on and 1, and false, no, off and 0, in upper or lower case.

    Args:
        document: The document.
        key: The field.
        default: The value for a field that is missing, empty or none of these.
    """
    word = text(document, key).lower()
    if word in _TRUE:
        return True
    return False if word in _FALSE else default


def number(document: Document, key: str, default: float | None = None) -> float | None:
    """Return a field as a finite number; an integer is an ``int``.

    Args:
        document: The document.
        key: The field.
        default: The value for a field that is missing, empty or not a number.
    """
    word = text(document, key)
    # Python reads 1_000 as a number, and int() of very many digits takes quadratic time.
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
    """Return a field with tool names: a list, or one text (see `split_tools`).

    Args:
        document: The document.
        key: The field.

    Returns:
        The names; None, which usually means *all*, if the field is missing or has no value; an
        empty tuple, which means *none*, for an empty list.
    """
    value = document.fields.get(key)
    if value is None:
        return None
    if isinstance(value, list):
        written = [_written(item).strip() for item in value]
        return tuple(name for name in written if name)
    if isinstance(value, dict):
        return tuple(value)
    return split_tools(str(value))


def globs(document: Document, key: str) -> tuple[str, ...]:
    """Return a field with path patterns: a list, or one text (see `split_globs`).

    Args:
        document: The document.
        key: The field.
    """
    value = document.fields.get(key)
    if isinstance(value, list):
        found: list[str] = []
        for item in value:
            found += split_globs(_written(item))
        return tuple(found)
    if isinstance(value, dict) and all(inner is None for inner in value.values()):
        return ("{" + ",".join(value) + "}",)  # `{a,b}` is a pattern here, but a mapping in YAML
    return split_globs(text(document, key))


def split_tools(text: str) -> tuple[str, ...]:
    """Split a list of tools at commas and whitespace outside parentheses.

    Args:
        text: For example ``Bash(git add:*, git commit:*) Read, Grep``.
    """
    parts = [unquoted(part) for part in _split(_bare(text), ", \t\n", "(", ")")]
    return tuple(part for part in parts if part)


def split_globs(text: str) -> tuple[str, ...]:
    """Split path patterns at commas outside braces and brackets.

    Args:
        text: For example ``**/*.{ts,tsx},src/**``. Brackets around the list and quotes around
            patterns are removed.
    """
    parts = [unquoted(part.strip()) for part in _split(_bare(text), ",\n", "{[", "}]")]
    return tuple(part for part in parts if part)


def _split(text: str, separators: str, opening: str, closing: str) -> Iterator[str]:
    # A bracket that is never closed is ignored, because otherwise the separators after it would
    # have no effect.
    opened = sum(text.count(letter) for letter in opening)
    closed = sum(text.count(letter) for letter in closing)
    depth = 0
    start = 0
    for at, letter in enumerate(text):
        if letter in opening:
            depth += 1
        elif letter in closing:
            depth = max(0, depth - 1)
        elif letter in separators and (depth == 0 or opened != closed):
            yield text[start:at]
            start = at + 1
    yield text[start:]


def _bare(text: str) -> str:
    """Return a list such as ``[*.ts, *.js]``, which is not YAML, without its brackets."""
    text = text.strip()
    inner = text[1:-1]
    if not (text.startswith("[") and text.endswith("]")) or "[" in inner or "]" in inner:
        return text
    return inner if "," in text or "*" in text else text


def unquoted(text: str) -> str:
    """Remove a pair of quotes around a text.

    The quotes in ``"a" and "b"`` are kept, because they are two pairs.
    """
    inner = text[1:-1]
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" and text[0] not in inner:
        return inner
    return text


def _written(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, dict):
        pairs = [f"{key}: {_written(inner)}" for key, inner in value.items()]
        return f"{{{', '.join(pairs)}}}"
    return str(value)
