"""Decides which sentences sound binding, and which text is no rule at all.

What *sounds binding* is counted and pointed out to the user, so this filter is narrow.
"""

from __future__ import annotations

import re
from functools import cache

from hilum_rules.rule import Rule, RuleType

MAX_SENTENCE = 1_500
"""Maximum length of a sentence that sounds binding. Longer text is a description."""
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


def has_binding_word(text: str) -> bool:
    """Return whether a text contains a word such as ``must`` or ``never``, in a dozen languages."""
    return _binding_words().search(text) is not None


def is_description(rule: Rule) -> bool:
    """Return whether a text is a directory tree, or a row of a table that only describes."""
    is_plain_row = rule.is_row and not rule.hard and not has_binding_word(rule.content)
    return is_plain_row or is_tree(rule)


def is_tree(rule: Rule) -> bool:
    """Return whether a text is a directory tree without a sentence that sounds binding."""
    parts = _TREE.split(rule.content)
    return len(parts) > 1 and not has_binding_word(parts[0])


def sounds_binding(rule: Rule) -> bool:
    """Return whether a sentence sounds as if it had to be followed without exception."""
    if rule.type is RuleType.IDENTITY or len(rule.sentence) > MAX_SENTENCE:
        return False
    if is_description(rule) or not re.search(r"\w", rule.sentence):
        return False
    return rule.hard or has_binding_word(rule.sentence)


def is_conspicuous(rule: Rule) -> bool:
    """Return whether the user is told that a sentence is not enforced."""
    return not rule.is_enforced and not rule.is_decided and sounds_binding(rule)
