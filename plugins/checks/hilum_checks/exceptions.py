"""Recognize texts that make exceptions to the rules before them: "Exceptions: …", "You may …"."""

from __future__ import annotations

import re
from functools import cache

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


_DECORATION = re.compile(r"^(?:[^\w`\"'“]|_)+")
_HEADING = re.compile(r"(?:\w+ )?exceptions?(?: to .*)?|(?:when|what is) allowed", re.IGNORECASE)
_NAME = re.compile(r"`([^`]+)`")
# What is said about the exceptions of a programming language.
_CODE = re.compile(
    r"\b(?:rais(?:e[sd]?|ing)|throw(?:s|n|ing)?|catch(?:es|ing)?|caught|swallow\w*|subclass\w*|inherit\w*"
    r"|extends?|handlers?|handling|stack traces?|logg(?:ed|ing)|errors?)\b",
    re.IGNORECASE,
)


def makes_exception(text: str) -> bool:
    """Return whether a text makes an exception to whatever is before it."""
    return _exception_pattern().match(_plain(text)) is not None and not is_about_code(text)


def is_about_code(text: str) -> bool:
    """Return whether a text is about the exceptions that programs raise."""
    return _CODE.search(_NAME.sub("", text)) is not None


def allows(text: str) -> bool:
    """Return whether a text allows something, which may be what a rule before it forbids."""
    text = _plain(text)
    return _permission_pattern().match(text) is not None and not _NEGATION.search(text)


def is_exception_heading(heading: str) -> bool:
    """Return whether the texts below a heading are exceptions: "Exceptions"."""
    return _HEADING.fullmatch(heading.strip("*_ :")) is not None


def names_same(text: str, rule: str) -> bool:
    """Return whether a text names what a rule names, or a part of it; also if it names nothing."""
    names = set(_NAME.findall(text))
    return not names or _share(names, set(_NAME.findall(rule)))


def has_names(text: str) -> bool:
    """Return whether a text has names in backticks."""
    return _NAME.search(text) is not None


def _plain(text: str) -> str:
    return _DECORATION.sub("", text).replace("\u2019", "'").replace("**", "")


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
