"""Recognize headings and labels that limit the sentences below them to a situation."""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache

_NUMBER = re.compile(
    r"^(?:(?:rule|section|part|step|phase)?\s*\d+(?:\.\d+)*[.):、．]?\s+"
    r"|[一二三四五六七八九十]+[、.．]\s*|第[一二三四五六七八九十\d]+[章节条部分]+\s*)"
)
# Areas of a project, and places where it runs.
_AREAS = (
    r"(?:(?:front-?end|back-?end|client(?:-side)?|server(?:-side)?|web|mobile|desktop|ios|android|ci"
    r"|ci/cd|windows|macos|mac|linux|docker|containers?|production|prod|staging|development|dev|local"
    r"|localhost)"
    r"(?:[ -](?:specific|side|code|app|apps|application|folder|directory|package|part|rules?|environments?"
    r"|servers?|databases?|systems?|safety|machines?|only|builds?|conventions?|development))*)"
)
_UNIVERSAL = (
    r"(?:all|any|every|each|general|short|addition|this|these|no|both|our|your|my|mind|order|top"
    r"|(?:the )?(?:commits?|git|github|pull|prs?|code|repo|repository|project|codebase)\b)\b"
)
# Headings that limit the rules below them to a situation, a part of the project or an agent.
_LIMITING = (
    # "In the frontend", "On Fridays", "Never in production".
    rf"^(?:in|on|at|within|inside|under|throughout) (?!{_UNIVERSAL})",
    rf"^(?:the |our )?{_AREAS}$|\b(?:in|on|during|for) (?:the )?{_AREAS}$",
    r"\b(?:unless|except|excluding)\b|^only (?:during|when|while|if|for|in|on|at|after|before)\b",
    # What does not bind, or not yet.
    r"^(?:prefer\w*|usually|generally|normally|typically|where(?:ver)? (?:possible|practical))\b",
    r"^(?:optional\w*|drafts?|temporar\w*|wip|work in progress|propos(?:als?|ed)|to-?dos?|ideas?"
    r"|experimental|deprecated|legacy|planned|future|nice[- ]to[- ]haves?|recommended"
    r"|recommendations?|suggest(?:ions?|ed)|preferred|preferences|ideally)\b",
    r"^(?:the )?(?:release|releasing|deploy(?:ment|ing)?|publish(?:ing)?|hotfix(?:es)?|review(?:ing)?"
    r"|code review(?:ing)?|rollback|incident|emergency|onboarding)"
    r" (?:process(?:es)?|procedures?|steps?|checklist|workflow|flow|runbook)$"
    r"|^code reviews?$|^reviewing\b",
    r"^(?:when|whenever|if|while|unless|until|once|during|before|after|prior to|in case"
    r"|as (?:a|an|the)|on (?:windows|macos|linux))\b",
    r"^for (?!(?:the )?(?:all|any|every|everyone|both|each|ai|coding|agents?|assistants?|llms?|models?"
    r"|claude|codex|gemini|copilot|cursor|you)\b)",
    r"\b(?:modes?|phases?|stages?|scenarios?|(?<!read.)only)$"
    r"|^(?:phase|step|stage|scenario|option|case)\s+(?:\d|[a-z]\b)",
    r"\b(?:reviewer|planner|tester|implementer|coder|orchestrator|coordinator|sub-?agent)s?"
    r"(?: agents?| roles?)?$",
    r"^(?!.*\b(?:ai|coding|all|any|every|the|for|of|your|llm|human|autonomous|other)\b)"
    r"(?:[\w/-]+ ){1,2}agents?$",
    r"\b(?:examples?|samples?|templates?|demos?|wrong|incorrect)\b|^bad\b",
    r"^(?:当(?!前)|如果|若|假如|对于|针对|尽可能|尽量|最好)|^除.*外$|^在.*(?:时|中|下|期间)$"
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
    if _GENERAL.fullmatch(normalize_heading(heading)):
        return False
    # The heading is also examined with its number, as in "Phase 1".
    whole = " ".join(re.sub(r"[*_`#]", "", heading).casefold().split())
    # "Never (in production)", "Don't (unless asked)".
    asides = re.findall(r"[(（]([^()（）]*)[)）]", whole)
    if any(_ASIDE.search(aside) or _limiting_pattern().search(aside.strip()) for aside in asides):
        return True
    beginnings = [re.split("[:：]", text)[0] for text in (normalize_heading(heading), whole)]
    return any(_limiting_pattern().search(text.strip()) for text in beginnings)


_PLATFORM = (
    r"(?:front-?end|back-?end|client|server|web|mobile|desktop|ios|android|windows|macos|mac|linux)"
)
_PLATFORMS = rf"{_PLATFORM}(?:(?:,| and|,? &|/) ?{_PLATFORM})*"
# "The backend", "Android app", "Walklog for Android".
_PRODUCT = re.compile(
    rf"(?:the|our) {_PLATFORMS}|(?:the |our )?{_PLATFORMS} (?:apps?|application|client|project|repo|repository|monorepo"
    rf"|service|site)|(?P<name>.+) (?:for|on) (?:the )?{_PLATFORMS}"
)
# "Rules for Android" and "code for Android" are a part of the project.
_ABOUT_RULES = re.compile(
    r"\b(?:rules?|guid\w+|conventions?|instructions?|standards?|polic\w+|styles?|notes?|workflows?|agents?|only"
    r"|specific|tests?|testing|code|coding|build\w*|work\w*|development|developing|everything|all|changes"
    r"|commands?|setup|tips|practices)\b"
)


@lru_cache(256)
def names_product(title: str) -> bool:
    """Return whether the title of a file only says what the project is: "Walklog for Android".

    Such a title limits no rule to a part of the project, as a heading further below would.
    """
    text = normalize_heading(title)
    if _ABOUT_RULES.search(text):
        return False
    aside = re.search(r"\(([^()]*)\)\s*$", title.casefold())
    if aside is not None:
        return re.fullmatch(_PLATFORMS, aside[1].strip()) is not None and not is_limiting(text)
    product = _PRODUCT.fullmatch(text)
    return product is not None and not (product["name"] and is_limiting(product["name"]))


# What applies at all times of the development.
_GENERAL = re.compile(
    r"(?:the |our )?(?:local )?development (?:conventions?|rules?|guidelines?)"
    r"|before (?:you|we) (?:start|begin)(?: (?:coding|working|work))?|before starting(?: work)?"
    r"|stable (?:toolchain|rust|channel|compiler) only"
)
_ASIDE = re.compile(
    r"\b(?:but|if|when\w*|until|during|while|by default|mostly|usually|generally|only|without)\b"
    r"(?! exceptions?)"
)


@cache
def _area_pattern() -> re.Pattern[str]:
    return re.compile(rf"(?:(?:in|on|for|under) )?(?:the )?{_AREAS}")


def limits_as_remark(aside: str) -> bool:
    """Return whether a remark limits a rule to a part or a situation: "(Windows)", "- in reviews"."""
    text = aside.casefold().strip()
    if _area_pattern().fullmatch(text):
        return True
    return _PLACE.match(text) is not None and is_limiting(text)


# A place or a situation, and no purpose such as "for speed".
_PLACE = re.compile(
    r"^(?:only )?(?:(?:in|on|at|during|within|inside|under|while|throughout)\b"
    r"|for (?:the|all|any|our|each|every|new)\b)"
    r"|^(?:在|对于|针对|除|尽可能|尽量|最好)"
)
