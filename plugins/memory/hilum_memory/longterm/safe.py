"""What is not remembered: secrets, what is too long, what is empty.

A text is taken as it is or not at all.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from hilum import ToolError, errors

from hilum_memory.longterm.memory import MOST

if TYPE_CHECKING:
    from hilum_guard import Redactor

# What people write when they tell a secret; the redactor knows how keys look, not how they are
# spoken of.
_SPOKEN = (
    r"(?i)\b(?:password|passwd|passphrase|passcode|pin(?: code)?|secret|token|credentials?"
    r"|(?:api|access|secret|private|ssh)["
    r" _-]?key)s?\b[^.\n]{0,40}?(?:\bis\b|\bare\b|[:=])\s*[\"'`]?(?=\S*\d)[^\s\"'`]{4,}",
    r"(?i)\b(?:password|passphrase|passcode|pin(?: code)?)\b(?: (?:for|of)"
    r" \S+)?\s*(?:\bis\b\s*[:=]?|[:=])"
    r"\s*[\"'`]?[^\s\"'`]{4,}[\"'`]?[.!]?\s*$",
    r"(?:密码|口令|密钥|令牌|验证码|私钥)[^。\n]{0,12}?(?:是|为|[:：=])\s*[\"'“]?[^\s。，]{4,}",
)
_LONG = r"(?<![A-Za-z0-9+_-])(?=[A-Za-z0-9+_-]*[a-z])(?=[A-Za-z0-9+_-]*[A-Z])(?=(?:[A-Za-z+_-]*\d){3})[A-Za-z0-9+_-]{24,}"
_PATIENCE = 20_000


@functools.cache
def _redactor() -> Redactor:
    from hilum_guard import Redactor

    return Redactor()


def checked(text: str) -> str:
    """Return a text on one line, without what cannot be seen, as it can be remembered.

    May take 10 ms the first time.

    Raises:
        ToolError: It is empty, too long, or looks as if it held a secret. The message does not
            repeat it.
    """
    if len(text) > _PATIENCE:
        raise _too_long(len(text))
    line = " ".join("".join(mark if mark.isprintable() else " " for mark in text).split())
    if not any(mark.isalnum() for mark in line):
        raise ToolError(
            "There is nothing to remember.",
            code=errors.E_BAD_ARGS,
            hint="Say it in a short sentence.",
        )
    if len(line) > MOST:
        raise _too_long(len(line))
    if _redactor()(line) != line or any(re.search(shape, line) for shape in (*_SPOKEN, _LONG)):
        hint = (
            "Keep secrets in the environment or a password manager, and remember where they are,"
            " not what they are."
        )
        raise ToolError(
            "It looks as if it held a secret, so it is not remembered.",
            code=errors.E_DENIED,
            hint=hint,
        )
    return line


def _too_long(size: int) -> ToolError:
    text = f"It has {size:,} characters, and a memory has at most {MOST}: it is not remembered."
    return ToolError(
        text,
        code=errors.E_BAD_ARGS,
        hint="Say it in a short sentence, or put it into a file of the project.",
    )
