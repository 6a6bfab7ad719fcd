"""Reads ``.hilum/rules.toml``, which contains checks without prose.

Each ``[[rule]]`` has ``enforce``, one line or a list of lines in the notation of ``enforce:``
lines, and may have ``text``, the sentence that refusals quote.
"""

from __future__ import annotations

import re
from typing import Any

from hilum_rules.hidden_characters import report_hidden, reveal
from hilum_rules.parsing import Draft
from hilum_rules.rule import Enforce, Problems
from hilum_rules.toml_tables import Table, split_tables

MAX_SHOWN = 60
"""Maximum number of characters of a value to show in a problem."""
_USAGE = 'write [[rule]] with enforce = "deny write migrations/**" and text = "…"'


def parse_rules_toml(text: str) -> tuple[list[Draft], Problems]:
    """Parse a table of rules.

    Args:
        text: The contents of the file.

    Returns:
        The drafts in order, and the problems, each as a line number and a sentence. A part that
        cannot be read fails closed: its checks apply as far as they can be found.
    """
    text, hidden = reveal(text)
    problems = report_hidden(hidden)
    drafts: list[Draft] = []
    for table in split_tables(text.split("\n")):
        try:
            fields = table.parse()
        except ValueError as error:
            at = re.search(r"at line (\d+)", str(error))
            line = table.line + (int(at[1]) - 1 if at else 0)
            problems.append((line, f"It cannot be read: {error}."))
            drafts += _salvage(table)
            continue
        if table.has_header:
            drafts += _read_rule(table, fields, problems)
            continue
        for key in fields:
            what = "a list of tables" if key == "rule" else "a key"
            problems.append((table.find_line(key), f"{key!r} is not {what}; {_USAGE}."))
        drafts += _salvage(table)
    return drafts, problems


def _read_rule(table: Table, fields: dict[str, Any], problems: Problems) -> list[Draft]:
    """Return the draft of a rule, if it has a check, and add its mistakes to the problems."""
    problems += [
        (table.find_line(key), f"{key!r} is not a key of a rule; {_USAGE}.")
        for key in fields
        if key not in ("enforce", "text")
    ]
    written = fields.get("enforce")
    checks = written if isinstance(written, list) else [written]
    lines = [check for check in checks if isinstance(check, str)]
    if not lines:
        problems.append((table.line, f"The rule has no check; {_USAGE}."))
        return []
    at = table.find_line("enforce")
    if len(lines) < len(checks):
        problems.append((at, f"'enforce' must contain only strings; {_USAGE}."))
    text = fields.get("text", "")
    if not isinstance(text, str):
        shown = str(text)[:MAX_SHOWN]
        problems.append((table.find_line("text"), f"{shown!r} is not a sentence; {_USAGE}."))
        text = ""
    return [_make_draft(table.line, text.strip(), [Enforce(at, line) for line in lines])]


def _make_draft(line: int, text: str, checks: list[Enforce]) -> Draft:
    content = text or "; ".join(f"enforce: {check.text}" for check in checks)
    return Draft(content, line, enforce=tuple(checks))


def _salvage(table: Table) -> list[Draft]:
    """Return the checks in a text that cannot be read."""
    checks = [Enforce(table.find_line("enforce"), check) for check in table.find_checks()]
    return [_make_draft(table.line, "", checks)] if checks else []
