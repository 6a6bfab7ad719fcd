"""What a section's title says about the rules below it: English and Chinese."""

# Expressions are read whole.
# ruff: noqa: E501

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache

from hilum_rules.rule import RuleType

_HARD = RuleType.HARD_CONSTRAINT
_SOFT = RuleType.SOFT_GUIDELINE
_IDENTITY = RuleType.IDENTITY

# The table of docs/rules.md. The first pattern that is found in a title decides; titles are
# compared without case, numbers, marks and emoji.
TITLES: tuple[tuple[RuleType, str], ...] = (
    (
        _SOFT,
        r"\b(?:type|null|memory|thread|exception|concurrency|async|build|compile|const)[- ]safe(?:ty)?\b",
    ),
    (
        _SOFT,
        r"\b(?:error|loading|suspense|rsc|module|domain|service|package|layer|client|server)\b.*\bboundar",
    ),
    (
        _SOFT,
        r"\bhydration safety\b|\bdo'?s? (?:and|&|or|/) don'?t'?s?\b|类型安全|线程安全|内存安全|空安全",
    ),
    (
        _SOFT,
        r"\btriple[- ]text(?:ing)?\b|避免三连击|\breactions?\b|\bemoji\b|表情反应|表情|\bmemor(?:y|ies)\b|记忆",
    ),
    (
        _IDENTITY,
        r"\b(?:first (?:run|start)|bootstrap(?:ping)? yourself|identity|persona|personality|who you are)\b",
    ),
    (
        _IDENTITY,
        r"^(?:you are|your role|(?:the |agent |assistant |ai )?roles?|soul|about you)\b(?!.*\b(?:access|right))",
    ),
    (_IDENTITY, r"首次启动|首次运行|身份|人设|人格|你是谁|^(?:你的)?角色(?:定义|设定|定位)?$"),
    (
        _HARD,
        r"\b(?:safety|security|secrets?|guard ?rails?|red lines?|off[- ]limits|non[- ]negotiables?)\b",
    ),
    (_HARD, r"\bboundar(?:y|ies)\b|\bexternal (?:actions?|operations?|effects?)\b"),
    (
        _HARD,
        r"\b(?:destructive|dangerous|irreversible) (?:\w+ )?(?:actions?|commands?|operations?)\b",
    ),
    (
        _HARD,
        r"\b(?:hard|strict|critical|absolute|iron|golden|inviolable|binding) (?:\w+ )?(?:rules?|constraints?|limits?)\b",
    ),
    (
        _HARD,
        r"\b(?:forbidden|prohibited|prohibitions?|never|must|mustn'?t|shall not|may not|not allowed|disallowed)\b",
    ),
    (
        _HARD,
        r"\bmandatory\b|\bdo not\b|\bdon'?ts?\b|\bcannot\b|\brestrict(?:ed|ions?)\b|^(?:\w+ )?constraints?$",
    ),
    (
        _HARD,
        r"\bprotected (?:files|paths|branches)\b|\bask (?:me |the user )?first\b|\bwhat not to do\b",
    ),
    (
        _HARD,
        r"安全|外部操作|外部动作|红线|禁止|严禁|不得|不准|不可|禁区|禁忌|底线|边界|硬性|硬约束|切勿|请勿|先问|先询问|强制|必须|铁律|约束",
    ),
)
_NUMBER = re.compile(
    r"^(?:(?:rule|section|part|step|phase)?\s*\d+(?:\.\d+)*[.):、．]?\s+|[一二三四五六七八九十]+[、.．]\s*|第[一二三四五六七八九十\d]+[章节条部分]+\s*)"
)
# Titles that say when, where or for whom what stands below them holds: nobody may take it to hold
# always.
_BOUNDING = (
    r"^(?:when|whenever|if|while|unless|until|once|during|before|after|prior to|in case|as (?:a|an|the)|on (?:windows|macos|linux))\b",
    r"^in (?:the )?(?:production|prod|staging|development|dev|test|tests|testing|ci|review|plan|planning|debug|design)\b",
    r"^for (?!(?:all|any|every|everyone|both|each|ai|coding|agents?|assistants?|llms?|models?|claude|codex|gemini|copilot|cursor|you)\b)",
    r"^(?:the )?(?:production|prod|staging|windows|macos|linux)(?: (?:environments?|servers?|databases?|systems?|rules|safety|only))*$",
    r"\b(?:modes?|phases?|stages?|scenarios?|(?<!read.)only)$|^(?:phase|step|stage|scenario|option|case)\s+(?:\d|[a-z]\b)",
    r"\b(?:reviewer|planner|tester|implementer|coder|orchestrator|coordinator|sub-?agent)s?(?: agents?| roles?)?$",
    r"^(?!.*\b(?:ai|coding|all|any|every|the|for|of|your|llm|human|autonomous|other)\b)(?:[\w/-]+ ){1,2}agents?$",
    r"\b(?:examples?|samples?|templates?|demos?|anti-?patterns?|wrong|incorrect)\b|^bad\b",
    r"^(?:当(?!前)|如果|若|假如)|^在.*(?:时|中|下|期间)$|(?:时候?|期间|阶段|模式|场景|情况下|环境|环境下)$|示例|例子|样例|范例|模板|反例",
    r"^生产(?:环境)?|(?:评审|审查|测试|规划|编排|执行)(?:者|员|代理|智能体|角色)$",
)
MOST_LETTERS = 120
"""Titles longer than this are sentences, and say nothing of what stands below them."""


@cache
def _patterns() -> tuple[tuple[RuleType, re.Pattern[str]], ...]:
    return tuple((kind, re.compile(pattern)) for kind, pattern in TITLES)


def _plain(title: str) -> str:
    """A title without what is only there to look at."""
    text = unicodedata.normalize("NFKC", title).casefold().replace("\u2019", "'")
    text = re.sub(r"[*_`#~\[\]<>]|\([^()]*\)$", " ", text)
    text = "".join(
        letter if unicodedata.category(letter) not in ("So", "Sk", "Cn", "Co") else " "
        for letter in text
    )
    text = " ".join(text.replace("\ufe0f", " ").split()).strip(" :-–—!.,")
    return _NUMBER.sub("", text, count=1)


@lru_cache(4096)
def meaning(title: str) -> RuleType | None:
    """Return what a title says of the rules below it, ``None`` if it is not known."""
    if len(title) > MOST_LETTERS:
        return None
    plain = _plain(title)
    return next((kind for kind, pattern in _patterns() if pattern.search(plain)), None)


@cache
def _bounding() -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in _BOUNDING))


@lru_cache(4096)
def bounds(title: str) -> bool:
    """Return whether a title says when, where or for whom what stands below it holds:
    ``When working on a fork``, ``Plan mode``.
    """
    plain = _plain(title)
    whole = " ".join(re.sub(r"[*_`#]", "", title).casefold().split())  # with its number: "Phase 1"
    return any(
        _bounding().search(text.partition(":")[0].partition("：")[0].strip())
        for text in (plain, whole)
    )


def type_of(titles: Sequence[str]) -> RuleType:
    """Return the type of the rules below nested titles: the innermost that is known decides.

    None is soft.
    """
    return next(
        (kind for title in reversed(titles) if (kind := meaning(title))), RuleType.SOFT_GUIDELINE
    )
