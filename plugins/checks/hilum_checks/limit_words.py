"""The words with which a text limits a rule, or makes it a recommendation."""

from __future__ import annotations

import re

# Words that may revoke or limit a sentence, whatever else the text contains.
_HARD = (
    r"unless|except\w*|excluding|other than|apart from|only|but|however|if|when\w*|while|until"
    r"|without|may|might|could|can|allowed|permitted|ok|okay|fine|exceptions?|not|never|ask"
    r"|sometimes"
)
_HARD_CHINESE = "除非|除了|除[^，。；⟦]{1,10}外|例外|但是?|如果|若|时|只有|仅|可以|允许|不"
_SOFT = (
    r"every|each|aside from|otherwise|usually|generally|normally|typically|prefer\w*"
    r"|try|avoid|ideally|consider|possible|necessary|needed|appropriate|unlikely|e\.g"
    r"|for example|such as|including|etc|like|whether|or|either|in case|for now|temporar\w*"
    r"|during|before|after|first|always|must"
)
_SOFT_CHINESE = "除外|当|尽量|尽可能|优先|最好|建议|避免|例如|比如|等|否则|情况|必要|先|前"
# What a preposition may name without limiting anything.
_EVERYWHERE = (
    r"(?:this|the|our|your) (?:repo|repository|project|codebase|monorepo|workspace|system|machine"
    r"|file)s?\b"
)
_PREPOSITION = rf"(?:in|on|at|for|within|inside|under|throughout|among) (?!{_EVERYWHERE})"

_SCOPE_CHINESE = "在[^，。；⟦]{1,12}(?:中|里|下|期间|阶段)|对于|针对|期间"

LIMITS = re.compile(rf"\b(?:{_HARD})\b|{_HARD_CHINESE}")
"""Words that limit a sentence, also one that only says what to do instead."""

DOUBTS = re.compile(rf"\b(?:{_HARD}|{_SOFT})\b|{_HARD_CHINESE}|{_SOFT_CHINESE}")
"""Words that may limit a sentence, and those that only recommend something."""

SITUATIONS = re.compile(
    rf"^\W*{_PREPOSITION}|{DOUBTS.pattern}|\b(?:optional\w*|recommended|suggested|depending)\b"
    rf"|\bplan mode\b|^\W*(?:{_SCOPE_CHINESE})",
    re.IGNORECASE,
)
"""The same, and a beginning such as "in reviews": for text that says what something is."""

SCOPES = re.compile(
    rf"\b{_PREPOSITION}|{SITUATIONS.pattern}|\b(?:existing|new|old)\b|{_SCOPE_CHINESE}",
    re.IGNORECASE,
)
"""The same, and a scope anywhere, such as "for the web package": for text that says what to do."""

CONDITIONS = re.compile(
    r"\b(?:unless|except\w*|excluding|other than|apart from|aside from|but|however|if|when\w*"
    r"|while|until|sometimes|usually|generally|normally|typically|prefer\w*|try|ideally|consider"
    r"|possible|appropriate|in case|for now|temporar\w*|during|optional\w*|otherwise|where"
    r"|depending|either|as needed|if needed|where needed)\b"
    rf"|{_HARD_CHINESE.removesuffix('|不')}|{_SOFT_CHINESE}|[，,、]\s*(?:{_SCOPE_CHINESE})",
    re.IGNORECASE,
)
"""Words that limit or soften, for a text that itself forbids something or asks."""

SCOPED_CONDITIONS = re.compile(
    rf"\b{_PREPOSITION}|{CONDITIONS.pattern}|{_SCOPE_CHINESE}", re.IGNORECASE
)
"""The same, and a scope anywhere."""

EXCEPTIONS = re.compile(
    r"\b(?:unless|except(?! handling)\w*|excluding|however|but|asks?|asked|approv\w*|permission"
    r"|otherwise)\b|除非|除了|除[^，。；⟦]{1,10}外|例外|但是?"
)
"""Words that make an exception even in a reason, whose other conditions are its own."""
