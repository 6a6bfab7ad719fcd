"""The forms of final answers that sentences forbid or require, as regular expressions."""

from __future__ import annotations

import re

from hilum_checks.model import Answers

_CODE = r"(?s:```.*?```)|`[^`\n]*`"
# Emoji in Unicode blocks whose other symbols, such as ✓, © and arrows, count as text.
_PICTURES = "\u2705\u274c\u2728\u2b50\u26a1\u2757\u2753"
_EMOJI = f"[\U0001f300-\U0001faff\U0001f1e6-\U0001f1ff\ufe0f{_PICTURES}]"
# Code is skipped, because an answer may have to quote a program that contains an emoji.
WITH_EMOJI = Answers(rf"(?:{_CODE})(*SKIP)(*FAIL)|{_EMOJI}", "with emoji")
ENDS_WITH_QUESTION = Answers(r"[?？][\s*_`\"'”)）]*\Z", "that ends with a question")
_UNITS = {
    # Each Chinese character counts as a word, as in word processors.
    "words": r"[\u4e00-\u9fff]|[^\s\u4e00-\u9fff]+",
    "characters": r"\S",
    "lines": r"(?m)^",
    "paragraphs": r"(?:\A|\n[^\S\n]*\n)\s*(?=\S)",
    "sentences": r"(?s)\w.*?(?:[.!?](?=\s|\Z)|[。！？]|\Z)",
}
_VERBS = {
    "start": ("begin with", "begins with"),
    "end": ("end with", "ends with"),
    "contain": ("contain", "contains"),
}


def limit_length(most: int, unit: str) -> Answers:
    """Return the answers that have more than a number of units, such as ``words``."""
    return Answers(_UNITS[unit], f"of more than {most} {unit}", most=most)


def with_phrase(verb: str, phrase: str, *, wanted: bool = False) -> Answers:
    """Return the answers that contain a phrase; with ``wanted``, those that lack it.

    Args:
        verb: ``start``, ``end`` or ``contain``: where the phrase is.
        phrase: The phrase. Case and whitespace do not matter.
        wanted: Whether answers must have the phrase.
    """
    words = r"\s+".join(re.escape(word) for word in phrase.split())
    # Markdown markers are not displayed, so they do not count.
    if verb == "start":
        expression = rf"\A[*_#>\s]*{words}"
    elif verb == "end":
        bare = re.escape(phrase.rstrip(" .!。！"))
        expression = rf"{bare}[\s.!。！*_`\"'”」]*\Z"
    # Chinese has no spaces between words, so only ASCII text must match whole words.
    elif wanted or not phrase.isascii():
        expression = words
    else:
        begin = r"(?<!\w)" if re.match(r"\w", phrase) else ""
        end = r"(?!\w)" if re.search(r"\w$", phrase) else ""
        expression = f"{begin}{words}{end}"
    base, third_person = _VERBS[verb]
    doing = f"does not {base}" if wanted else third_person
    return Answers(f"(?i){expression}", f"that {doing} {phrase!r}", wanted)
