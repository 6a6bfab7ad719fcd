"""Decides which sentences sound binding or may bind, and which text is no rule at all.

Two filters, because they cost different things. What *may bind* is given to a model: a sentence too
many costs a few tokens, and a sentence too few is never seen, so this filter is generous. What
*sounds binding* is counted and pointed out to the user, so this filter is narrow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

from hilum_rules.rule import Rule, RulesFile, RuleType

MAX_SENTENCE = 1_500
"""Maximum length of a sentence that sounds binding. Longer text is a description."""
MAX_ASKED = 3_000
"""Maximum length of a text about which a model is asked."""
# The lines of a directory tree, drawn or in ASCII.
_TREE = re.compile(r"^[\s│|]*(?:[├└]|\|--|`--|\+--)", re.MULTILINE)


@cache
def _binding_words() -> re.Pattern[str]:
    return re.compile(
        r"\b(?:must(?:n['’]t)?|never|always|only|required?|requires|shall|mandatory|forbidden"
        r"|prohibited|banned|disallowed|(?:not|is|are) (?:allowed|permitted)|don['’]?t|do not"
        r"|cannot|can['’]t|may not|should(?: not|n['’]t)|avoid|refrain|ensure|make sure|before"
        r"|ask|confirm|approval|permission|keep|leave|exclusively|instead of|rather than"
        r"|off[- ]limits|hands[- ]off|read[- ]only|immutable|frozen|generated"
        r"|conventional|commit messages?|commit subjects?|prefix(?:es)?|every|all)\b|^\W*no\b"
        r"|[-–—(,;.!*] ?(?:no|not)\b"
        r"|\bno (?:direct|new|other|changes?|edits?|push(?:es)?|commits?)\b"
        r"|(?:^|[\s，。；,;、])不|必须|必需|允许|禁止|严禁|不要|不得|不能|不可|不许|不准|切勿|请勿|勿|别|只能|只有|仅|务必|一律|始终|总是|永远"
        r"|绝不|须|应当|避免|确保|未经|统一|强制|提交|前缀|格式|应先|运行所有"
        # Japanese, Korean, Russian, German, French, Spanish, Portuguese and Italian.
        r"|必ず|ください|しない|ないこと|前に|のみ|以外|반드시|금지|하지 ?마|하지 않|않습니다|말고|항상|피하|메시지"
        r"|\b(?:не|нельзя|никогда|запрещ\w+|только|всегда|обязан\w*|обязательно|вместо|перед)\b"
        r"|\b(?:nie|niemals|nicht|kein\w*|nur|immer|muss|müssen|verboten|vor|verändere|ohne|statt)\b"
        r"|\b(?:jamais|toujours|interdit\w*|obligatoire|seulement|avant|sans"
        r"|nunca|siempre|prohibid\w*|solo|sólo|antes|sin|debe\w*"
        r"|sempre|proibid\w*|somente|apenas|deve\w*|mai|vietat\w*|prima|senza)\b",
        re.IGNORECASE,
    )


def _has_binding_word(text: str) -> bool:
    return _binding_words().search(text) is not None


# A text that consists of code alone.
_CODE_ONLY = re.compile(r"(```|~~~).*\1", re.DOTALL)


def is_description(rule: Rule) -> bool:
    """Return whether a text is a directory tree, or a row of a table that only describes."""
    is_plain_row = rule.is_row and not rule.hard and not _has_binding_word(rule.content)
    return is_plain_row or _is_tree(rule)


def _is_tree(rule: Rule) -> bool:
    """Return whether a text is a directory tree without a sentence that sounds binding."""
    parts = _TREE.split(rule.content)
    return len(parts) > 1 and not _has_binding_word(parts[0])


def sounds_binding(rule: Rule) -> bool:
    """Return whether a sentence sounds as if it had to be followed without exception."""
    if rule.type is RuleType.IDENTITY or len(rule.sentence) > MAX_SENTENCE:
        return False
    if is_description(rule) or not re.search(r"\w", rule.sentence):
        return False
    return rule.hard or _has_binding_word(rule.sentence)


def may_bind(rule: Rule) -> bool:
    """Return whether a model is asked about a sentence: all but trees and bare code.

    Half of the sentences that people call enforceable contain no binding word ("For Node: use
    `pnpm`", "After changes, run `make`"), in any language, so that no list of words would do.
    """
    if sounds_binding(rule):
        return True
    if rule.type is RuleType.IDENTITY or len(rule.content) > MAX_ASKED or _is_tree(rule):
        return False
    if _CODE_ONLY.fullmatch(rule.content.strip()) and not rule.lead:
        # Commands that are only listed, unless the heading says when they must run.
        return _has_binding_word(rule.section.rpartition(" > ")[2])
    return re.search(r"\w", rule.content) is not None


def needs_decision(rule: Rule) -> bool:
    """Return whether a sentence may bind, is not enforced as a whole and was not decided about."""
    is_enforced = rule.is_enforced and not rule.is_partial
    return not is_enforced and not rule.is_decided and may_bind(rule)


def is_conspicuous(rule: Rule) -> bool:
    """Return whether the user is told that a sentence is not enforced."""
    return not rule.is_enforced and needs_decision(rule) and sounds_binding(rule)


def find_undecided(files: Iterable[RulesFile]) -> Iterator[Rule]:
    """Yield the sentences about which ``hilum rules compile`` asks."""
    for file in files:
        yield from filter(needs_decision, file.rules)
