"""Finds texts that make exceptions to the rules before them: "Exceptions: …" below a list.

An exception that a check does not know would make the check refuse what the author allows, so the
rules before such a text remain advice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

import msgspec

from hilum_rules.hidden_characters import escape_name
from hilum_rules.rule import Rule

MAX_SHOWN = 60
MAX_LOOKED_AT = 200
"""Maximum number of rules before an exception that it may be about."""
_VERBS = (
    r"(?:edit|modify|change|touch|write|create|add|delete|remove|rename|read|commit|push|merge|tag|release"
    r"|publish|install|run|use|call|execute|skip|amend|rebase|open|deploy)\w*"
)


@cache
def _exception_pattern() -> re.Pattern[str]:
    return re.compile(
        r"(?:(?:unless|except(?:ing)?(?! handling)|excluding|other than|apart from|aside from)\b"
        r"(?!.*,\s*(?:please |you must |then )?(?:never|do not|don't|always|must|only|ask|use|run)\b)"
        r"|(?:the |these |those |known |allowed |only |sole |some )*exceptions?"
        r"(?:\s*[:：(–—-]|\s*$|\s+(?:is|to (?:this|these|that|the above|the rules?)|for|on|apply|applies)\b"
        r"|\s+are\s+(?:the|only|files|made|listed|allowed|`))"
        r"|(?:this|these|that|it|they|the above|(?:this|the|these|above) (?:rules?|list|above)"
        r"|none of (?:this|these|it))\b[^.]{0,40}"
        r"\b(?:(?:does not|do not|doesn't|don't) (?:apply|include|cover|hold)|(?:apply|applies) only"
        r"|only (?:apply|applies))\b"
        r"|例外|除外|除非|但是?(?:可以|允许))",
        re.IGNORECASE,
    )


@cache
def _permission_pattern() -> re.Pattern[str]:
    """Return a pattern for a text that allows something."""
    return re.compile(
        rf"(?:but |however,? |still,? )?(?:(?:you|agents?|the agent|we|it|they)\b (?:may|can|are allowed to)"
        rf"(?: (?:still|also|always|only|freely|safely))* {_VERBS}\b"
        r"|(?:it is|it's|this is|that is) (?:ok|okay|fine|allowed|acceptable|permitted)\b"
        r"|feel free\b|allowed\b|permitted\b"
        rf"|{_VERBS}[^.]{{0,60}}\b(?:is|are) (?:ok|okay|fine|allowed|permitted|acceptable)\b"
        r"|[^.,;]{1,60}\b(?:is|are) exempt\b|[^.,;]{1,60} may be (?:edited|changed|modified|used|run)\b)",
        re.IGNORECASE,
    )


_DECORATION = re.compile(r"^(?:[^\w`\"'“(]|[*_(])+")
_HEADING = re.compile(
    r"(?:\w+ )?exceptions?(?: to .*)?|except\b.*|unless\b.*|(?:when|what is) allowed", re.I
)
_NAME = re.compile(r"`([^`]+)`")


def withdraw_limited(rules: Sequence[Rule]) -> list[Rule]:
    """Return rules without the checks that a later text may make exceptions to.

    Args:
        rules: The rules of a file with their checks, in order.
    """
    kept = list(rules)
    for at, rule in enumerate(rules):
        for number in _find_limited(rules, at):
            limited = kept[number]
            if limited.check is None or limited.enforce:
                continue
            shown = escape_name(rule.sentence)[:MAX_SHOWN]
            why = f"advice: “{shown}” below it may make an exception"
            kept[number] = msgspec.structs.replace(limited, check=None, why=why)
    return kept


def _find_limited(rules: Sequence[Rule], at: int) -> Iterator[int]:
    """Yield the positions of the rules to which a text may make an exception."""
    rule = rules[at]
    if _is_exception_section(rule):
        yield from _find_section_before(rules, at)
        return
    if rule.check is not None or rule.enforce:
        return
    text = _DECORATION.sub("", rule.content).replace("\u2019", "'").replace("**", "")
    if _exception_pattern().match(text):
        yield from _find_list_before(rules, at)
    elif _permission_pattern().match(text) and not _NEGATION.search(text):
        names = set(_NAME.findall(text))
        before = list(_find_list_before(rules, at)) or [at - 1] if at else []
        for number in before:
            if not names or _share(names, set(_NAME.findall(rules[number].sentence))):
                yield number
                if not names:
                    return


_NEGATION = re.compile(r"\b(?:not|never|n't|cannot)\b", re.IGNORECASE)


def _share(names: set[str], others: set[str]) -> bool:
    """Return whether two sets of names have a name, or a folder and a file in it, in common."""
    plain = {name.strip("/*") for name in names}
    for other in others:
        stripped = other.strip("/*")
        if any(f"{each}/".startswith(f"{stripped}/") for each in plain):
            return True
        if any(f"{stripped} ".startswith(f"{each} ") for each in plain):
            return True
    return False


def _find_list_before(rules: Sequence[Rule], at: int) -> Iterator[int]:
    """Yield the positions of the list, the sentence or the outer item before a text."""
    rule = rules[at]
    for number in range(at - 1, max(at - MAX_LOOKED_AT, -1), -1):
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


def _is_exception_section(rule: Rule) -> bool:
    inner = rule.section.rpartition(" > ")[2]
    return _HEADING.fullmatch(inner.strip("*_ :")) is not None


def _find_section_before(rules: Sequence[Rule], at: int) -> Iterator[int]:
    """Yield the positions of the rules in the section before a section with exceptions."""
    rule = rules[at]
    before = ""
    for number in range(at - 1, max(at - MAX_LOOKED_AT, -1), -1):
        other = rules[number]
        if other.path != rule.path:
            return
        if other.section == rule.section:
            continue
        before = before or other.section
        if other.section != before:
            return
        yield number
