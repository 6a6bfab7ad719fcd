"""Determines the types of rules from the headings above them, in English and Chinese."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache

from hilum_checks.limiting import normalize_heading

from hilum_rules.rule import RuleType

MAX_HEADING = 120
"""Maximum length, in characters, of a heading that determines the type of its rules."""
_HARD = RuleType.HARD_CONSTRAINT
_SOFT = RuleType.SOFT_GUIDELINE
_IDENTITY = RuleType.IDENTITY

# This table is documented in docs/rules.md. The first pattern found in a heading decides. Case,
# numbers, punctuation and emoji in headings are ignored.
_TYPES: tuple[tuple[RuleType, str], ...] = (
    (
        _SOFT,
        r"\b(?:type|null|memory|thread|exception|concurrency|async|build|compile|const)"
        r"[- ]safe(?:ty)?\b"
        r"|\b(?:error|loading|suspense|rsc|module|domain|service|package|layer|client|server)\b"
        r".*\bboundar"
        r"|\bhydration safety\b|\bdo'?s? (?:and|&|or|/) don'?t'?s?\b"
        r"|类型安全|线程安全|内存安全|空安全"
        r"|\btriple[- ]text(?:ing)?\b|避免三连击|\breactions?\b|\bemoji\b|表情反应|表情"
        r"|\bmemor(?:y|ies)\b|记忆",
    ),
    (
        _IDENTITY,
        r"\b(?:first (?:run|start)|bootstrap(?:ping)? yourself|identity|persona|personality"
        r"|who you are)\b"
        r"|^(?:you are|your role|(?:the |agent |assistant |ai )?roles?|soul|about you)\b"
        r"(?!.*\b(?:access|right))"
        r"|首次启动|首次运行|身份|人设|人格|你是谁|^(?:你的)?角色(?:定义|设定|定位)?$",
    ),
    (
        _HARD,
        r"\b(?:safety|security|secrets?|guard ?rails?|red lines?|off[- ]limits"
        r"|non[- ]negotiables?)\b"
        r"|\bboundar(?:y|ies)\b|\bexternal (?:actions?|operations?|effects?)\b"
        r"|\b(?:destructive|dangerous|irreversible) (?:\w+ )?(?:actions?|commands?|operations?)\b"
        r"|\b(?:hard|strict|critical|absolute|iron|golden|inviolable|binding) (?:\w+ )?"
        r"(?:rules?|constraints?|limits?)\b"
        r"|\b(?:forbidden|prohibited|prohibitions?|never|must|mustn'?t|shall not|may not"
        r"|not allowed|disallowed)\b"
        r"|\bmandatory\b|\bdo not\b|\bdon'?ts?\b|\bcannot\b|\brestrict(?:ed|ions?)\b"
        r"|^(?:\w+ )?constraints?$"
        r"|\bprotected (?:files|paths|branches)\b|\bask (?:me |the user )?first\b"
        r"|\bwhat not to do\b"
        r"|安全|外部操作|外部动作|红线|禁止|严禁|不得|不准|不可|禁区|禁忌|底线|边界|硬性|硬约束"
        r"|切勿|请勿|先问|先询问|强制|必须|铁律|约束",
    ),
)


@cache
def _type_patterns() -> list[tuple[RuleType, re.Pattern[str]]]:
    return [(kind, re.compile(pattern)) for kind, pattern in _TYPES]


@lru_cache(4096)
def find_type(heading: str) -> RuleType | None:
    """Return the type that a heading determines for the rules below it, or ``None``."""
    if len(heading) > MAX_HEADING:
        return None
    plain = normalize_heading(heading)
    for kind, pattern in _type_patterns():
        if pattern.search(plain):
            return kind
    return None


def choose_type(headings: Sequence[str]) -> RuleType:
    """Return the type of the rules below nested headings.

    The innermost heading that determines a type decides. If no heading determines a type, the rules
    are soft. A title such as "Agent identity" says nothing about sections within its sections.
    """
    near = [kind for kind in map(find_type, headings[-2:]) if kind is not None]
    far = [kind for kind in map(find_type, headings[:-2]) if kind and kind is not _IDENTITY]
    return [_SOFT, *far, *near][-1]
