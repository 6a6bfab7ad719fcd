"""Expand the braces in the patterns of agents whose patterns for paths have them."""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_EXPANDED = 64
"""Maximum number of patterns that the alternatives in one pattern may stand for."""
_TOKEN = re.compile(r"\\.|[{},]|[^\\{},]+|\\", re.DOTALL)
_RANGE = re.compile(r"(\d{1,4})\.\.(\d{1,4})")


def has_braces(pattern: str) -> bool:
    """Return whether a pattern contains alternatives such as ``{a,b}`` or ``{1..3}``."""
    plain = re.sub(r"\\.", "", pattern)
    return re.search(r"\{[^{}]*(?:,|\.\.)", plain) is not None


def expand_braces(pattern: str) -> list[str]:
    """Return the patterns that a pattern with alternatives stands for.

    Args:
        pattern: A pattern such as ``*.{csv,tsv}``; braces may contain other braces.

    Raises:
        ValueError: The braces stand for too many patterns.
    """
    tokens = _TOKEN.findall(pattern)
    depth = 0
    for token in tokens:
        depth += {"{": 1, "}": -1}.get(token, 0)
        if depth < 0:
            break
    # Braces without a counterpart are ordinary characters.
    if depth != 0:
        return [pattern]
    return _expand(iter(tokens))


def _expand(tokens: Iterator[str], *, is_inner: bool = False) -> list[str]:
    """Return the texts that tokens stand for, up to the brace that ends them."""
    alternatives: list[str] = []
    texts = [""]
    has_comma = False
    for token in tokens:
        choices = [token]
        if token == "{":
            choices = _expand(tokens, is_inner=True)
        elif token == "," and is_inner:
            alternatives += texts
            texts = [""]
            has_comma = True
            continue
        elif token == "}" and is_inner:
            alternatives += texts
            return alternatives if has_comma else _read_group(alternatives)
        if len(texts) * len(choices) + len(alternatives) > MAX_EXPANDED:
            raise ValueError(f"its braces stand for more than {MAX_EXPANDED} patterns")
        texts = [text + choice for text in texts for choice in choices]
    return texts


def _read_group(texts: list[str]) -> list[str]:
    """Return what braces without a comma stand for: a range of numbers, or themselves."""
    found = _RANGE.fullmatch(texts[0]) if len(texts) == 1 else None
    if found is None:
        return [f"{{{text}}}" for text in texts]
    first, last = sorted((int(found[1]), int(found[2])))
    if last - first >= MAX_EXPANDED:
        raise ValueError(f"its braces stand for more than {MAX_EXPANDED} patterns")
    return [str(number) for number in range(first, last + 1)]
