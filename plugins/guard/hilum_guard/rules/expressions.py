"""Match the regular expressions in the rules of other agents against commands."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

MAX_LENGTH = 1_000
"""Maximum length of an expression in characters."""
# Seconds for one comparison: an expression of a project could take hours.
_TIMEOUT = 0.2
_FLAGS = {"i": "IGNORECASE", "m": "MULTILINE", "s": "DOTALL"}


class Expression(NamedTuple):
    """A regular expression about commands.

    Attributes:
        text: The expression.
        flags: Its flags, as in JavaScript.
        is_json: Whether it is compared with the arguments of the call as JSON, as in Gemini CLI.
    """

    text: str
    flags: str = ""
    is_json: bool = False


def explain_invalid(expression: Expression) -> str:
    """Return why an expression cannot be compared with commands; empty if it can."""
    import regex  # type: ignore[import-untyped]  # needed only for rules with an expression

    if len(expression.text) > MAX_LENGTH:
        return f"it has more than {MAX_LENGTH:,} characters"
    try:
        _compile(expression)
    except (regex.error, ValueError, OverflowError, RecursionError) as error:
        return str(error)
    return ""


def fits_any(expression: Expression, commands: Iterable[str]) -> bool:
    """Return whether an expression matches one of several commands.

    A comparison that takes too long counts as a match, because such a rule denies or asks.
    """
    pattern = _compile(expression)
    try:
        for command in commands:
            # Like JSON in JavaScript, without spaces.
            text = json.dumps({"command": command}, ensure_ascii=False, separators=(",", ":"))
            if pattern.search(text if expression.is_json else command, timeout=_TIMEOUT):
                return True
    except TimeoutError:
        return True
    return False


@lru_cache(maxsize=1_000)
def _compile(expression: Expression) -> Any:
    import regex

    flags = 0
    for letter in expression.flags:
        flags |= getattr(regex, _FLAGS[letter]) if letter in _FLAGS else 0
    return regex.compile(expression.text, flags)
