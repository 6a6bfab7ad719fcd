"""Recognizes headings and labels that limit the sentences below them to a situation."""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache

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
def _limiting_pattern() -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in _LIMITING))


def normalize_heading(heading: str) -> str:
    """Return a heading without decoration: numbers, punctuation, Markdown and emoji."""
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
def is_limiting(heading: str) -> bool:
    """Return whether a heading or label limits its rules to a situation, a place or an agent.

    Examples are ``When working on a fork`` and ``Plan mode``.
    """
    # The heading is also examined with its number, as in "Phase 1".
    whole = " ".join(re.sub(r"[*_`#]", "", heading).casefold().split())
    beginnings = [re.split("[:：]", text)[0] for text in (normalize_heading(heading), whole)]
    return any(_limiting_pattern().search(text.strip()) for text in beginnings)
