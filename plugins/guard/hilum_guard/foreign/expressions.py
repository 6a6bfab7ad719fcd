"""Read the regular expressions that stand for a few plain beginnings of a command."""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_LENGTH = 300
MAX_TEXTS = 64
"""Maximum number of beginnings that an expression may stand for."""
# The end of an expression that only says that the beginning is a whole word.
_END = re.compile(r"(?:\.\*|\\b|\$|\\s[+*]?\.\*|\(\\s\|\$\)|\(\?:\\s\|\$\)|\(\?!.*\))*+$")
_PART = re.compile(r"\((?:\?:)?([\w |./=-]+)\)|\\s[+*]?| +|\\([.\-/])|([\w./=:@-]+)")


def expand_beginnings(expression: str) -> list[str]:
    r"""Return the texts with which every text begins that an expression matches.

    Args:
        expression: A regular expression such as ``^git (push|reset)\b``.

    Returns:
        ``["git push", "git reset"]``; empty if the expression is not of this form.
    """
    if len(expression) > MAX_LENGTH:
        return []
    body = expression.removeprefix("^")
    body = body[: _END.search(body).start()]  # type: ignore[union-attr]
    texts = [""]
    for choices in _split(body):
        if not choices:
            return []
        texts = [text + choice for text in texts for choice in choices][:MAX_TEXTS]
    return [" ".join(text.split()) for text in texts if text.strip()]


def _split(body: str) -> Iterator[list[str]]:
    """Yield the alternatives for each part of an expression; an empty list for an unknown part."""
    position = 0
    while position < len(body):
        found = _PART.match(body, position)
        if found is None:
            yield []
            return
        position = found.end()
        group, escaped, literal = found.groups()
        if group is not None:
            yield group.split("|")
        else:
            # A dot matches any character, so it does not stand for one beginning.
            if literal and "." in literal:
                yield []
                return
            yield [escaped or literal or " "]
