"""Rules for text that varies between sessions, such as times and temporary paths."""

from __future__ import annotations

import re
from collections.abc import Sequence

import attrs


@attrs.frozen
class Rule:
    """A kind of text that varies between sessions.

    Args:
        name: The name of the rule, for readers.
        pattern: Regular expression that matches the text.
        replacement: The replacement for the comparison, which may use the groups of the pattern.
    """

    name: str
    pattern: re.Pattern[str]
    replacement: str


def make_rule(name: str, pattern: str, replacement: str) -> Rule:
    """Create a rule from the text of a regular expression."""
    return Rule(name, re.compile(pattern, re.MULTILINE), replacement)


RULES: tuple[Rule, ...] = (
    make_rule(
        "dates and times",
        r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?\b",
        "<time>",
    ),
    make_rule("clock times", r"\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b", "<time>"),
    make_rule(
        "durations",
        r"\b\d+(?:[.,]\d+)? ?(?:ns|us|µs|ms|s|sec|secs|second|seconds|min|minutes)\b",
        "<duration>",
    ),
    make_rule(
        "temporary paths",
        r"(?:/private)?(?:/tmp|/var/tmp|/var/folders)/[^\s\"'`:,;)\]}]+",
        "<temp>",
    ),
    make_rule("addresses", r"\b0x[0-9a-fA-F]{4,}\b", "<address>"),
    make_rule("process ids", r"\b([Pp][Ii][Dd]s?[ =:]{1,2})\d+\b", r"\1<pid>"),
    make_rule("ports", r"\b(localhost|127\.0\.0\.1|\[::1\]):\d{4,5}\b", r"\1:<port>"),
    make_rule(
        "random ids",
        r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b",
        "<uuid>",
    ),
    # pytest pads its summary lines with a number of `=` characters that depends on the timing.
    make_rule("fill of pytest lines", r"^=+ (.*?) =+$", r"= \1 ="),
)


def apply_rules(text: str, rules: Sequence[Rule]) -> str:
    """Return the text with all matches of the rules replaced."""
    for rule in rules:
        text = rule.pattern.sub(rule.replacement, text)
    return text
