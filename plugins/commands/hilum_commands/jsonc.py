"""Reads JSON with comments, trailing commas and a byte order mark."""

from __future__ import annotations

import json
import re

_STRING = r'"(?:\\.|[^"\\\n])*"?'
_COMMENT = re.compile(rf"({_STRING})|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"({_STRING})|,(?=\s*[}}\]])")


class JsonError(ValueError):
    """A text is not JSON.

    Args:
        line: The line of the mistake, counted from 1.
        reason: The mistake, as a clause.
    """

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


def parse_json(text: str) -> object:
    """Return the value of a JSON text.

    Raises:
        JsonError: The text is not JSON even without its comments and trailing commas.
    """

    def blank(match: re.Match[str]) -> str:
        # The newlines of a comment are kept, so that the lines of mistakes are right.
        return match[1] or "\n" * match[0].count("\n")

    plain = _COMMENT.sub(blank, text.lstrip("\ufeff"))
    plain = _TRAILING_COMMA.sub(lambda match: match[1] or "", plain)
    try:
        return json.loads(plain)
    except json.JSONDecodeError as error:
        raise JsonError(error.lineno, error.msg) from None
    except RecursionError:
        raise JsonError(1, "It is nested too deeply") from None
