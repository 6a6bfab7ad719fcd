"""Decide whether the text around a rule limits it, or only explains it."""

from __future__ import annotations

import re
from functools import cache

from hilum_checks.limit_words import DOUBTS, EXCEPTIONS, LIMITS
from hilum_checks.usual_wording import replace

_CHINESE_LIMITS = re.compile(
    "除非|除了|除[^，⟦]{1,10}外|例外|但是?|如果|若|时|只有|仅|可以|允许|不"
)


@cache
def hint_pattern() -> re.Pattern[str]:
    """Return a pattern for the beginning of a text that says what to do instead."""
    return re.compile(
        r"^(?:please |then |just |always |properly |instead,? )*(?:use|handle|follow|rely|write"
        r"|go through|stick|let|keep|wrap|rebuild|prefer|work|type|run|call|edit|change|regenerate|generate|create"
        r"|add|see|update|apply|put|set|instead)\b|^(?:请|应|改用|使用|运行|见)"
    )


_REASON = re.compile(r"(?:as|since|because) (?!needed|required|appropriate|long)")
# Another prohibition makes no exception, nor do examples.
_ADDITION = re.compile(
    r"^(?:(?:and |also |in particular,? |likewise,? |similarly,? )*"
    r"(?:(?:never|do not|don't|must not)\b|不准|禁止|严禁|切勿|请勿|绝不)"
    r"|(?:e\.g|i\.e|for example|such as|like|including)\b)"
)
_ENDING = re.compile(r",? etc\.?$")
_ONE_PROGRAM = re.compile(r"(?:⟦\d+⟧|(?:p?npm|yarn|bun|uv|poetry|cargo)) only")
# What to do if a rule cannot be kept, and doubts about which the user is to be asked.
_HELP = re.compile(
    r"(?:if|when|where) (?:[^,;]*\b(?:exceed\w*|fail\w*|violat\w*|missing|not found|unavailable|longer|larger"
    r"|grow\w*)\b[^,;]*, (?!ask|skip|ignore|you (?:may|can))"
    r"|[^,;]*, (?:please |always |stop and |then )*ask\b)(?!.*\b(?:may|can|allowed|unless|except|skip)\b)"
)


def is_harmless(text: str) -> bool:
    """Return whether a text only explains a rule, or says what to do instead."""
    text = replace("remark", text).strip()
    if _REASON.match(text):
        return EXCEPTIONS.search(text) is None
    if _HELP.match(text):
        return True
    addition = _ADDITION.match(text)
    if addition:
        return LIMITS.search(text, addition.end()) is None
    text = _ENDING.sub("", text).strip()
    if _ONE_PROGRAM.fullmatch(text):
        return True
    doubts = LIMITS if hint_pattern().match(text) else DOUBTS
    return doubts.search(text) is None


_OTHERS = re.compile(
    r"\b(?:unless|except(?! handling)\w*|excluding|other than|apart from|aside from|only|but"
    r"|however|if|when\w*|while|until|without|may|might|could|can|allowed|permitted|ok|okay|fine"
    r"|exceptions?|not|never|ask|sometimes|otherwise|in case|for now|temporar\w*|during)\b"
)
_EARLIER = re.compile(
    r"^(?:when|whenever|if|while|during|until|once|after|before|for|in|on|as)\b"
    r"|^only\b|\bonly (?:in|on|for|when|if|after|during)\b"
    r"|\b(?:unless|except(?! handling)\w*|but|however|may|can|allowed|permitted|exceptions?"
    r"|applies|apply|following|these rules|ok|okay|fine|should not|otherwise)\b"
)
# "Use ⟦0⟧ for slow tests. Do not use ⟦1⟧" is about tests.
_AREAS = re.compile(r"\b(?:for|in) (?:[\w-]+ ){0,2}(?:tests?|production)\b")
# A condition without what holds under it belongs to the sentence before it: "If it is broken."
_FRAGMENT = re.compile(
    r"^\W*(?:and |but |only |also )*(?:if|when|whenever|while|unless|until|except|in|on|at|for|during"
    r"|within|inside|under|as long as|in case)\b(?! (?:all|any|every|general|short|addition|doubt)\b)"
    r"[^,:;]*$"
    r"|^\W*(?:如果|若|当|除|在|对于|针对|尽可能|尽量|最好|必要)[^，：⟦]{0,16}$"
)


def is_other_harmless(text: str, *, earlier: bool) -> bool:
    """Return whether another sentence of a rule limits nothing.

    Args:
        text: The sentence.
        earlier: Whether it is before the sentence that is enforced, so that its conditions
            are its own.
    """
    if earlier and _AREAS.search(text):
        return False
    if is_harmless(text):
        return True
    if _CHINESE_LIMITS.search(text):
        return False
    text = re.sub(
        r"\bwith no exceptions?\b|\binstead\b|\ballowed (?:types|scopes|prefixes)\b", "", text
    ).strip()
    return (_EARLIER if earlier else _OTHERS).search(text) is None


def is_fragment(text: str) -> bool:
    """Return whether a sentence is only a condition or a place: "If the build is broken."."""
    return _FRAGMENT.match(text) is not None


def wants_new_files(text: str) -> bool:
    """Return whether a rule calls for new files, so that creating files is not forbidden."""
    pattern = r"\b(?:create|add|write|make|generate)\w* (?:a |an |another )?new\b|新建|新增|新的"
    return re.search(pattern, text) is not None


def is_about_generated(text: str) -> bool:
    """Return whether a rule says that a program generates its files."""
    pattern = r"\b(?:auto-?)?(?:re-?)?generat\w*|生成|produced by|build output|compiled"
    return re.search(pattern, text) is not None
