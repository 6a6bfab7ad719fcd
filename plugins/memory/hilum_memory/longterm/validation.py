"""Validates texts before they are remembered: no secrets, not too long, not empty.

A text is accepted unchanged or not at all.
"""

from __future__ import annotations

import functools
import re

from hilum import Redactor, ToolError, errors, make_redactor

from hilum_memory.longterm.memory import MAX_LENGTH

# Phrases that people use to state a secret; the redactor recognizes key formats but not phrases.
_SPOKEN = (
    r"(?i)\b(?:password|passwd|passphrase|passcode|pin(?: code)?|secret|token|credentials?"
    r"|(?:api|access|secret|private|ssh)["
    r" _-]?key)s?\b[^.\n]{0,40}?(?:\bis\b|\bare\b|[:=])\s*[\"'`]?(?=\S*\d)[^\s\"'`]{4,}",
    r"(?i)\b(?:password|passphrase|passcode|pin(?: code)?)\b(?: (?:for|of)"
    r" \S+)?\s*(?:\bis\b\s*[:=]?|[:=])"
    r"\s*[\"'`]?[^\s\"'`]{4,}[\"'`]?[.!]?\s*$",
    r"(?:密码|口令|密钥|令牌|验证码|私钥)[^。\n]{0,12}?(?:是|为|[:：=])\s*[\"'“]?[^\s。，]{4,}",
)
# A long word of uppercase letters, lowercase letters and digits is rarely an ordinary word.
_LONG = (
    r"(?<![A-Za-z0-9+_-])(?=[A-Za-z0-9+_-]*[a-z])(?=[A-Za-z0-9+_-]*[A-Z])"
    r"(?=(?:[A-Za-z+_-]*\d){3})[A-Za-z0-9+_-]{24,}"
)
MAX_CHECKED = 20_000


@functools.cache
def _redactor() -> Redactor:
    return make_redactor()


def check_text(text: str) -> str:
    """Return a text as one line, without invisible characters.

    The first call compiles patterns, which takes 10 ms.

    Raises:
        ToolError: The text is empty, too long, or seems to contain a secret. The message does not
            repeat the text.
    """
    # Check the length first, because the patterns would take a long time on megabytes of text.
    if len(text) > MAX_CHECKED:
        raise _too_long(len(text))
    # Invisible characters could hide an instruction from the user who lists the memories.
    printable = "".join(mark if mark.isprintable() else " " for mark in text)
    line = " ".join(printable.split())
    if not any(mark.isalnum() for mark in line):
        raise ToolError(
            "There is nothing to remember.",
            code=errors.E_BAD_ARGS,
            hint="Write a short sentence.",
        )
    if len(line) > MAX_LENGTH:
        raise _too_long(len(line))
    if _seems_secret(line):
        raise ToolError(
            "The text seems to contain a secret, so it is not remembered.",
            code=errors.E_DENIED,
            hint=(
                "Keep secrets in the environment or a password manager, and remember where they"
                " are, not what they are."
            ),
        )
    return line


def _seems_secret(line: str) -> bool:
    # The redactor may also know the values of secrets in the environment, which have no typical
    # form.
    if _redactor()(line) != line:
        return True
    return any(re.search(shape, line) for shape in (*_SPOKEN, _LONG))


def _too_long(size: int) -> ToolError:
    return ToolError(
        f"It has {size:,} characters, more than the {MAX_LENGTH} of a memory, so it is not"
        " remembered.",
        code=errors.E_BAD_ARGS,
        hint="Write a short sentence, or put the text into a file of the project.",
    )
