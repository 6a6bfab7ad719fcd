"""Prepares a sentence for the grammars: removes markup, and separates the names and the reason."""

from __future__ import annotations

import re
from functools import cache

import attrs

OPEN = "⟦"
CLOSE = "⟧"
MAX_SENTENCE = 600
"""Maximum number of characters in a sentence; a longer one says more than a check can express."""


@attrs.frozen
class Phrase:
    """A sentence that the grammars can read.

    Attributes:
        head: The sentence in lower case, with ``⟦0⟧`` for the first name.
        anchors: The names, in order.
        tail: The reason or hint that follows the sentence, in lower case.
        strong: Whether the sentence's own wording makes it a hard constraint under any heading.
    """

    head: str
    anchors: tuple[str, ...]
    tail: str
    strong: bool


def parse_phrase(sentence: str) -> Phrase | str:
    """Parse a sentence, or return why it cannot be enforced."""
    text = _marker_pattern().sub("", sentence.strip())
    if len(text) > MAX_SENTENCE:
        return "it is too long for one constraint"
    # The author of a file could otherwise forge the anchors that mark quoted names.
    if OPEN in text or "\x00" in text:
        return "it contains characters that no rule needs"
    # The wording is checked before the conversion to lower case, because "NEVER" in capitals makes
    # a rule strong.
    strong = _strong_pattern().search(text) is not None
    anchors: list[str] = []

    def set_apart(found: re.Match[str]) -> str:
        anchors.append(next(group for group in found.groups() if group is not None).strip())
        return f"{OPEN}{len(anchors) - 1}{CLOSE}"

    # Cursor writes file references as links such as `[name](mdc:path)`.
    text = re.sub(r"\[([^\]]*)\]\(mdc:([^)]*)\)", r"`\2`", text)
    text = _quote_pattern().sub(set_apart, text)
    if "`" in text:
        return "its quotes are not balanced"
    # Emphasis is removed after quoted names are set apart, because names may contain ``*`` and
    # ``_``.
    text = re.sub(r"(\*\*|__|(?<!\w)[*_](?=\S)|(?<=\S)[*_](?!\w))", "", text)
    # Bare paths are read after emphasis is removed, because a path may be in bold.
    text = _bare_name_pattern().sub(set_apart, text)
    text = " ".join(text.replace("’", "'").lower().split())
    text = _label_pattern().sub("", text)
    for pattern, replacement in _colon_patterns():
        text = pattern.sub(replacement, text)
    head, tail = _split_tail(text)
    return Phrase(head.strip(" .!。！,，;；:："), tuple(anchors), tail, strong)


_JOINS = re.compile(
    r"\s*(?:,\s*(?:or|and|nor)\s+|,\s*|\s(?:or|and|nor|and/or|&)\s|(?<=\w)/(?=\w)"
    r"|、|，|或者?|和|与|及|以及)\s*"
)


def split_list(text: str) -> list[str]:
    """Split a list at its commas and at the words that join it."""
    parts = [part.strip() for part in _JOINS.split(text)]
    return [part for part in parts if part]


@cache
def _marker_pattern() -> re.Pattern[str]:
    return re.compile(r"^(?:(?:[-*+•>]|\d+[.)]|\[[ xX]\]|[^\w\s`\"'“「*_.⟦/~(\[]+|#{1,6})\s+)+")


@cache
def _strong_pattern() -> re.Pattern[str]:
    return re.compile(
        r"\b(NEVER|MUST NOT|DO NOT|DON'T|DON’T|FORBIDDEN|PROHIBITED|ONLY)\b"
        r"|(?i:\b(must never|must not|never ever|under no circumstances"
        r"|(?:strictly|absolutely) (?:forbidden|prohibited)|(?:is|are) (?:forbidden|prohibited)"
        r"|you may not|must always|must ask|must be asked)\b)"
        r"|禁止|严禁|绝不|绝对不|切勿|不得|必须先|嚴禁|絕不|絕對不|必須先"
    )


@cache
def _quote_pattern() -> re.Pattern[str]:
    return re.compile(
        r"``\s?(.+?)\s?``|`([^`]+)`|(?<!\w)\"([^\"]{1,120})\"|“([^”]{1,120})”|「([^」]{1,120})」"
        r"|‘([^’]{2,120})’(?!\w)"
    )


@cache
def _bare_name_pattern() -> re.Pattern[str]:
    """Return a pattern for paths and options that cannot be mistaken for words."""
    extension = (
        "json5?|jsonc|ya?ml|toml|lockb?|sql|env|md|mdc|txt|pem|key|sh|cfg|ini|xml|csv|proto|tf"
        "|tfvars|tfstate|snap|plist"
    )
    dotted = (
        r"\.(?:env|git|github|vscode|idea|ssh|aws|husky|circleci|gitignore|gitlab-ci|npmrc|venv"
        r"|cursor|claude)\b(?:[./][\w./*-]*[\w*/])?"
    )
    in_folders = (
        rf"(?:[\w.*-]+/)+(?:[\w*-]+\.(?:{extension}|py|pyi|tsx?|jsx?|go|rs|java|rb|php|css|html"
        r"|vue)\b|(?=[\s,.;:，。；、]|$|[\u4e00-\u9fff]))"
    )
    file = rf"[A-Za-z_][\w-]*(?:\.[\w-]+)*\.(?:{extension})\b(?![/(])"
    absolute = r"~/[\w./-]*[\w/]|/(?:etc|usr|var|home|root|boot|opt)(?:/[\w./-]*[\w/])?"
    return re.compile(
        rf"(?<![\w`⟦/@.:-])({dotted}|{in_folders}|\*\.[a-z0-9]{{1,10}}\b|{file}|{absolute}"
        r"|--[a-z][a-z-]+[a-z])"
    )


@cache
def _label_pattern() -> re.Pattern[str]:
    return re.compile(
        r"^(?:(?:very |extremely |super )?"
        r"(?:important|critical|warning|caution|note|danger|attention|security|safety|rule|must"
        r"|hard rule|hard constraint|constraint|absolute|mandatory|strict"
        r"|注意|重要|警告|安全|规则|强制|红线)\s*[:：!！-]\s*)+"
    )


@cache
def _colon_patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Return replacements for headings joined to an item by a colon, as in ``Never: push``."""
    verb = "run|use|execute|edit|modify|change|touch|delete|read|write to|contact|access"
    return (
        (re.compile(r"^(?:always )?ask (?:me |the user )?first\s*:\s*"), "ask before "),
        (
            re.compile(
                r"^((?:(?:you|agents?|the agent|it) )?(?:(?:must|should|may|shall) )?(?:never|not)"
                r"|do not|don't|forbidden|prohibited"
                rf"|(?:never|do not|don't|must not|must never) (?:{verb}))\s*:\s*"
            ),
            r"\1 ",
        ),
        (
            re.compile(
                r"^(禁止|严禁|不要|不得|绝不)"
                r"((?:修改|编辑|运行|执行|使用|删除|读取|访问)?)\s*[:：]\s*"
            ),
            r"\1\2",
        ),
    )


_TAIL = re.compile(
    r"\s+[-–—]{1,2}\s+|—+|[.!?]\s+|[。！？；;]\s*|:\s+(?!⟦)"
    r"|,\s*(?=(?:because|since|as (?:it|they|this|these)|it(?:'s| is)|they(?:'re| are)|these|this"
    r"|use|run|instead|which (?:is|are)|so)\b)"
    r"|\s+(?=because\b|since (?:it|they|this|these)\b|as (?:it|they|these) (?:is|are)\b)"
    r"|[，,]\s*(?=因为|它|这|由于|请?(?:改用|使用)|应(?:使用|改用)|而是)"
)


def _split_tail(text: str) -> tuple[str, str]:
    """Split a sentence from the reason that follows it."""
    asides: list[str] = []

    def take_aside(found: re.Match[str]) -> str:
        if re.fullmatch(r"\s*⟦\d+⟧(?:\s*(?:,|and|or|, and|, or)\s*⟦\d+⟧)*\s*", found[1]):
            return f" in {found[1].strip()}"  # "generated files (`src/gen/`)" names the files
        asides.append(found[1])
        return " " if found.start() else ""

    text = re.sub(r"\s*[(（]([^()（）]*)[)）]", take_aside, text).strip()
    found = _TAIL.search(text)
    if found is None:
        return text, " ; ".join([*asides, ""]) if asides else ""
    head = text[: found.start()]
    return head, " ; ".join([*asides, text[found.end() :]])


# Words that may revoke or limit the sentence, whatever else the tail contains.
_LIMITING = (
    r"unless|except\w*|excluding|other than|apart from|only|but|however|if|when\w*|while|until"
    r"|without|may|might|could|can|allowed|permitted|ok|okay|fine|exceptions?|not|never|ask"
    r"|sometimes"
)
_LIMITING_CHINESE = "除非|除了|例外|但是?|如果|若|时|只有|仅|可以|允许|不"


@cache
def _limit_pattern() -> re.Pattern[str]:
    return re.compile(rf"\b(?:{_LIMITING})\b|{_LIMITING_CHINESE}")


@cache
def _doubt_pattern() -> re.Pattern[str]:
    """Return a pattern for words that may limit the sentence, for a tail that is not a hint."""
    return re.compile(
        rf"\b(?:{_LIMITING}|aside from|otherwise|usually|generally|normally|typically|prefer\w*"
        r"|try|avoid|ideally|consider|possible|necessary|needed|appropriate|unlikely|e\.g"
        r"|for example|such as|including|etc|like|whether|or|either|in case|for now|temporar\w*"
        r"|during|before|after|first|always|must)\b"
        rf"|{_LIMITING_CHINESE}|除外|当|尽量|最好|建议|避免|例如|比如|等|否则|情况|必要|先|前"
    )


@cache
def _hint_pattern() -> re.Pattern[str]:
    return re.compile(
        r"^(?:please |then |just |always )?(?:use|run|call|edit|change|regenerate|generate|create"
        r"|add|see|update|apply|put|set|instead)\b|^(?:请|应|改用|使用|运行|见)"
    )


def is_harmless_tail(phrase: Phrase) -> bool:
    """Return whether the tail only explains a sentence, or says what to do instead."""
    tail = re.sub(r"\b(?:rather than|instead|ever|at all)\b", "", phrase.tail)
    tail = re.sub(
        r"\b(?:is|are) (?:not |never )?(?:meant|intended|supposed) to be edited", "", tail
    )
    for part in re.split(r"\s+;\s+|[.!?]\s+|[。！？；]", tail):
        is_hint = _hint_pattern().match(part.strip())
        pattern = _limit_pattern() if is_hint else _doubt_pattern()
        if pattern.search(part):
            return False
    return True


def wants_new_files(phrase: Phrase) -> bool:
    """Return whether the tail calls for new files, so that creating files is not forbidden."""
    pattern = r"\b(?:create|add|write|make|generate)\w* (?:a |an |another )?new\b|新建|新增|新的"
    return re.search(pattern, phrase.tail) is not None


def is_about_generated(phrase: Phrase) -> bool:
    """Return whether a sentence says that a program generates its files."""
    pattern = r"\b(?:auto-?)?(?:re-?)?generat\w*|生成|produced by|build output|compiled"
    return re.search(pattern, f"{phrase.head} {phrase.tail}") is not None
