"""Finds texts that make exceptions to the rules before them: "Exceptions: …" below a list.

An exception that a check does not know would make the check refuse what the author allows, so the
rules before such a text remain advice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hilum_checks import exceptions
from msgspec.structs import replace

from hilum_rules.hidden_characters import escape_name
from hilum_rules.rule import Rule

MAX_SHOWN = 60
MAX_LOOKED_AT = 200
"""Maximum number of rules before an exception that it may be about."""


def withdraw_limited(rules: Sequence[Rule]) -> list[Rule]:
    """Return rules without the checks that a later text may make exceptions to.

    Args:
        rules: The rules of a file with their checks, in order.
    """
    kept = list(rules)
    for at, rule in enumerate(rules):
        for number in _find_limited(rules, at):
            limited = kept[number]
            if not limited.is_enforced or limited.enforce:
                continue
            shown = escape_name(rule.sentence)[:MAX_SHOWN]
            why = f"advice: “{shown}” below it may make an exception"
            kept[number] = replace(limited, check=None, why=why)
    return kept


def _find_limited(rules: Sequence[Rule], at: int) -> Iterator[int]:
    """Yield the positions of the rules to which a text may make an exception."""
    rule = rules[at]
    text = rule.content
    if exceptions.is_exception_heading(rule.section.rpartition(" > ")[2]):
        if not exceptions.is_about_code(text):
            yield from _find_section_before(rules, at)
        return
    if rule.is_enforced or rule.enforce:
        return
    if exceptions.makes_exception(text):
        yield from _find_list_before(rules, at)
    elif exceptions.allows(text):
        before = list(_find_list_before(rules, at))
        # "You may do it" is about the rule just before it.
        before = before if exceptions.has_names(text) else before[:1]
        yield from (
            number for number in before if exceptions.names_same(text, rules[number].sentence)
        )


def _find_list_before(rules: Sequence[Rule], at: int) -> Iterator[int]:
    """Yield the positions of the list, the sentence or the outer item before a text."""
    rule = rules[at]
    for number in _positions_before(at):
        other = rules[number]
        if (other.path, other.section) != (rule.path, rule.section):
            return
        is_paragraph = other.depth < 0
        # A paragraph is about the list before it, or about the paragraph just before it.
        if is_paragraph and number < at - 1:
            return
        if rule.depth >= 0 and other.lead != rule.lead and not is_paragraph:
            return
        yield number
        if is_paragraph or (rule.depth > 0 and other.depth < rule.depth):
            return


def _find_section_before(rules: Sequence[Rule], at: int) -> Iterator[int]:
    """Yield the positions of the rules in the section before a section with exceptions."""
    rule = rules[at]
    before = ""
    for number in _positions_before(at):
        other = rules[number]
        if other.path != rule.path:
            return
        if other.section == rule.section:
            continue
        before = before or other.section
        if other.section != before:
            return
        yield number


def _positions_before(at: int) -> range:
    return range(at - 1, max(at - MAX_LOOKED_AT, -1), -1)
