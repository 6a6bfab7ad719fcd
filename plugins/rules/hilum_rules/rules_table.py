"""Reads ``.hilum/rules.toml``, which contains checks without prose.

Each ``[[rule]]`` has ``enforce``, one line or a list of lines in the notation of ``enforce:``
lines, and may have ``text``, the sentence that refusals quote.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

from hilum_rules.hidden_characters import reveal
from hilum_rules.parsing import Draft, Problems
from hilum_rules.rule import Enforce

MAX_SHOWN = 60
"""Maximum number of characters of a value to show in a problem."""
_HEADER = re.compile(r"^[ \t]*\[\[[ \t]*rule[ \t]*\]\]", re.MULTILINE)
_QUOTED_CHECK = re.compile(r"""(["'])((?:deny|ask|require)[ \t].*?)(?<!\\)\1""")
_USAGE = 'write [[rule]] with enforce = "deny write migrations/**" and text = "…"'


def parse_rules_table(text: str) -> tuple[list[Draft], Problems]:
    """Parse a table of rules.

    Args:
        text: The contents of the file.

    Returns:
        The drafts in order, and the problems, each as a line number and a sentence. A part that
        cannot be read fails closed: its checks apply as far as they can be found.
    """
    text, hidden = reveal(text)
    problems = [
        (line, f"{count} hidden characters, which are shown as <U+…>.") for line, count in hidden
    ]
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"at line (\d+)", str(error))
        problems.append((int(found[1]) if found else 1, f"It is not valid TOML: {error}."))
        return _salvage(text), problems
    for key in table:
        if key != "rule":
            problems.append((_find_line(text, key), f"{key!r} is not a key; {_USAGE}."))
    rules = table.get("rule", [])
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        problems.append((_find_line(text, "rule"), f"'rule' is not a list of tables; {_USAGE}."))
        return _salvage(text), problems
    drafts: list[Draft] = []
    starts = [found.start() for found in _HEADER.finditer(text)]
    # Rules may also be written as one array, whose entries have no headers of their own.
    if len(starts) != len(rules):
        starts = [0] * len(rules)
    for rule, start, end in zip(rules, starts, [*starts[1:], len(text)], strict=True):
        first_line = text.count("\n", 0, start)
        part = text[start:] if end <= start else text[start:end]
        draft, mistakes = _read_rule(rule, part, first_line)
        problems += mistakes
        if draft is not None:
            drafts.append(draft)
    return drafts, problems


def _read_rule(rule: dict[str, Any], part: str, first_line: int) -> tuple[Draft | None, Problems]:
    """Read a rule.

    Args:
        rule: The table.
        part: The text of the table.
        first_line: The number of lines before the text.
    """
    problems: Problems = []
    for key in rule:
        if key not in ("enforce", "text"):
            line = first_line + _find_line(part, key)
            problems.append((line, f"{key!r} is not a key of a rule; {_USAGE}."))
    written = rule.get("enforce")
    checks = [written] if isinstance(written, str) else written
    if not isinstance(checks, list) or not checks:
        problems.append((first_line + 1, f"The rule has no check; {_USAGE}."))
        return None, problems
    lines = [check for check in checks if isinstance(check, str)]
    if len(lines) < len(checks):
        line = first_line + _find_line(part, "enforce")
        problems.append((line, f"'enforce' must contain only strings; {_USAGE}."))
    text = rule.get("text", "")
    if not isinstance(text, str):
        line = first_line + _find_line(part, "text")
        problems.append((line, f"{str(text)[:MAX_SHOWN]!r} is not a sentence; {_USAGE}."))
        text = ""
    enforce = tuple(Enforce(first_line + _find_value(part, line), line) for line in lines)
    content = text.strip() or "; ".join(f"enforce: {line}" for line in lines)
    return Draft(content, first_line + 1, enforce=enforce) if enforce else None, problems


def _salvage(text: str) -> list[Draft]:
    """Return the checks in a file that is not valid TOML."""
    drafts = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("#"):
            continue
        for found in _QUOTED_CHECK.finditer(line):
            drafts.append(
                Draft(f"enforce: {found[2]}", number, enforce=(Enforce(number, found[2]),))
            )
    return drafts


def _find_line(text: str, key: str) -> int:
    """Return the line of a key, from 1."""
    found = re.search(rf"^[ \t\[]*[\"']?{re.escape(key)}\b", text, re.MULTILINE)
    return text.count("\n", 0, found.start()) + 1 if found else 1


def _find_value(text: str, value: str) -> int:
    """Return the line of a string, from 1."""
    # A string with escapes is written differently from its value.
    at = text.find(value)
    return text.count("\n", 0, at) + 1 if at >= 0 else _find_line(text, "enforce")
