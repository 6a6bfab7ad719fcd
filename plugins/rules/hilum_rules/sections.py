"""Determines the types of rules from the headings above them, in English and Chinese."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache

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
_NUMBER = re.compile(
    r"^(?:(?:rule|section|part|step|phase)?\s*\d+(?:\.\d+)*[.):、．]?\s+"
    r"|[一二三四五六七八九十]+[、.．]\s*|第[一二三四五六七八九十\d]+[章节条部分]+\s*)"
)
# Headings that limit the rules below them to a situation, a part of the project or an agent.
_LIMITING = (
    r"^(?:when|whenever|if|while|unless|until|once|during|before|after|prior to|in case"
    r"|as (?:a|an|the)|on (?:windows|macos|linux))\b",
    r"^in (?:the )?(?:production|prod|staging|development|dev|test|tests|testing|ci|review|plan"
    r"|planning|debug|design)\b",
    r"^for (?!(?:all|any|every|everyone|both|each|ai|coding|agents?|assistants?|llms?|models?"
    r"|claude|codex|gemini|copilot|cursor|you)\b)",
    r"^(?:the )?(?:production|prod|staging|windows|macos|linux)"
    r"(?: (?:environments?|servers?|databases?|systems?|rules|safety|only))*$",
    r"\b(?:modes?|phases?|stages?|scenarios?|(?<!read.)only)$"
    r"|^(?:phase|step|stage|scenario|option|case)\s+(?:\d|[a-z]\b)",
    r"\b(?:reviewer|planner|tester|implementer|coder|orchestrator|coordinator|sub-?agent)s?"
    r"(?: agents?| roles?)?$",
    r"^(?!.*\b(?:ai|coding|all|any|every|the|for|of|your|llm|human|autonomous|other)\b)"
    r"(?:[\w/-]+ ){1,2}agents?$",
    r"\b(?:examples?|samples?|templates?|demos?|anti-?patterns?|wrong|incorrect)\b|^bad\b",
    r"^(?:当(?!前)|如果|若|假如)|^在.*(?:时|中|下|期间)$"
    r"|(?:时候?|期间|阶段|模式|场景|情况下|环境|环境下)$|示例|例子|样例|范例|模板|反例",
    r"^生产(?:环境)?|(?:评审|审查|测试|规划|编排|执行)(?:者|员|代理|智能体|角色)$",
)


@cache
def _type_patterns() -> list[tuple[RuleType, re.Pattern[str]]]:
    return [(kind, re.compile(pattern)) for kind, pattern in _TYPES]


@cache
def _limiting_pattern() -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in _LIMITING))


def _normalize(heading: str) -> str:
    """Return a heading without decoration."""
    text = unicodedata.normalize("NFKC", heading).casefold().replace("\u2019", "'")
    text = re.sub(r"[*_`#~\[\]<>]|\([^()]*\)$", " ", text)
    # Symbols and unassigned characters, which are mostly emoji.
    symbols = {
        letter for letter in text if unicodedata.category(letter) in ("So", "Sk", "Cn", "Co")
    }
    for symbol in (*symbols, "\ufe0f"):
        text = text.replace(symbol, " ")
    return _NUMBER.sub("", " ".join(text.split()).strip(" :-–—!.,"), count=1)


@lru_cache(4096)
def find_type(heading: str) -> RuleType | None:
    """Return the type that a heading determines for the rules below it, or ``None``."""
    if len(heading) > MAX_HEADING:
        return None
    plain = _normalize(heading)
    for kind, pattern in _type_patterns():
        if pattern.search(plain):
            return kind
    return None


@lru_cache(4096)
def is_limiting(heading: str) -> bool:
    """Return whether a heading limits its rules to a situation, a part of the project or an agent.

    Examples are ``When working on a fork`` and ``Plan mode``.
    """
    # The heading is also examined with its number, as in "Phase 1".
    whole = " ".join(re.sub(r"[*_`#]", "", heading).casefold().split())
    beginnings = [re.split("[:：]", text)[0] for text in (_normalize(heading), whole)]
    return any(_limiting_pattern().search(text.strip()) for text in beginnings)


def choose_type(headings: Sequence[str]) -> RuleType:
    """Return the type of the rules below nested headings.

    The innermost heading that determines a type decides. If no heading determines a type, the rules
    are soft. A title such as "Agent identity" says nothing about sections within its sections.
    """
    near = [kind for kind in map(find_type, headings[-2:]) if kind is not None]
    far = [kind for kind in map(find_type, headings[:-2]) if kind and kind is not _IDENTITY]
    return [_SOFT, *far, *near][-1]
