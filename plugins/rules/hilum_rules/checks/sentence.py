"""A sentence made ready for the grammars: markers taken off, what it names in quotes put aside, its
reason parted from it.
"""

# Expressions are read whole.
# ruff: noqa: E501

from __future__ import annotations

import re
from functools import cache

import attrs

OPEN = "⟦"
CLOSE = "⟧"
MAX_SENTENCE = 600
"""Characters; a longer sentence says more than a check could."""


@attrs.frozen
class Phrase:
    """What is read.

    Attributes:
        head: The sentence itself in lower case, with ``⟦0⟧`` for the first thing it names.
        anchors: What it names.
        tail: What follows as a reason or a hint, in lower case.
        strong: It is worded so that it must hold, wherever it stands.
        label: A word for what it is about that stands before a colon, such as ``memory.md``; empty
            for none.
    """

    head: str
    anchors: tuple[str, ...]
    tail: str
    strong: bool


def read(sentence: str) -> Phrase | str:
    """Create a sentence ready; or say why it is not read."""
    text = _MARKERS().sub("", sentence.strip())
    if len(text) > MAX_SENTENCE:
        return "it is too long for one constraint"
    if OPEN in text or "\x00" in text:
        return "it has characters that no rule needs"
    strong = bool(_STRONG().search(text))
    anchors: list[str] = []

    def put(found: re.Match[str]) -> str:
        anchors.append(next(group for group in found.groups() if group is not None).strip())
        return f"{OPEN}{len(anchors) - 1}{CLOSE}"

    text = re.sub(r"\[([^\]]*)\]\(mdc:([^)]*)\)", r"`\2`", text)
    text = _QUOTED().sub(put, text)
    if "`" in text:
        return "its quotes do not pair"
    if _EMPHASIS.search(text):
        text = re.sub(r"(\*\*|__|(?<!\w)[*_](?=\S)|(?<=\S)[*_](?!\w))", "", text)
    else:
        text = text
    text = _BARE().sub(put, text)
    text = " ".join(text.replace("’", "'").lower().split())
    text = _LABELS().sub("", text)
    text = re.sub(r"^(?:always )?ask (?:me |the user )?first\s*:\s*", "ask before ", text)
    text = re.sub(
        r"^((?:(?:you|agents?|the agent|it) )?(?:(?:must|should|may|shall) )?(?:never|not)|do not|don't|forbidden|prohibited"
        r"|(?:never|do not|don't|must not|must never) (?:run|use|execute|edit|modify|change|touch|delete|read|write to|contact|access))\s*:\s*",
        r"\1 ",
        text,
    )
    text = re.sub(
        r"^(禁止|严禁|不要|不得|绝不)((?:修改|编辑|运行|执行|使用|删除|读取|访问)?)\s*[:：]\s*",
        r"\1\2",
        text,
    )
    head, tail = _parted(text)
    return Phrase(head.strip(" .!。！,，;；:："), tuple(anchors), tail, strong)


_EMPHASIS = re.compile(r"[*_]")


@cache
def _MARKERS() -> re.Pattern[str]:
    return re.compile(r"^(?:(?:[-*+•>]|\d+[.)]|\[[ xX]\]|[^\w\s`\"'“「*_.⟦/~(\[]+|#{1,6})\s+)+")


@cache
def _STRONG() -> re.Pattern[str]:
    words = (
        r"\b(NEVER|MUST NOT|DO NOT|DON'T|DON’T|FORBIDDEN|PROHIBITED|ONLY)\b|(?i:\b(must never|must not|never ever|under no"
        r" circumstances|(?:strictly|absolutely) (?:forbidden|prohibited)|(?:is|are) (?:forbidden|prohibited)|you may not"
        r"|must always|must ask|must be asked)\b)"
    )
    return re.compile(words + r"|禁止|严禁|绝不|绝对不|切勿|不得|必须先|嚴禁|絕不|絕對不|必須先")


@cache
def _QUOTED() -> re.Pattern[str]:
    return re.compile(
        r"``\s?(.+?)\s?``|`([^`]+)`|(?<!\w)\"([^\"]{1,120})\"|“([^”]{1,120})”|「([^」]{1,120})」|‘([^’]{2,120})’(?!\w)"
    )


@cache
def _BARE() -> re.Pattern[str]:
    """Paths, hosts and options that nobody takes for words."""
    extension = "json5?|jsonc|ya?ml|toml|lockb?|sql|env|md|mdc|txt|pem|key|sh|cfg|ini|xml|csv|proto|tf|tfvars|tfstate|snap|plist"
    return re.compile(
        r"(?<![\w`⟦/@.:-])("
        r"\.(?:env|git|github|vscode|idea|ssh|aws|husky|circleci|gitignore|gitlab-ci|npmrc|venv|cursor|claude)\b(?:[./][\w./*-]*[\w*/])?"
        r"|(?:[\w.*-]+/)+(?:[\w*-]+\.(?:"
        + extension
        + r"|py|pyi|tsx?|jsx?|go|rs|java|rb|php|css|html|vue)\b|(?=[\s,.;:，。；、]|$|[\u4e00-\u9fff]))"
        r"|\*\.[a-z0-9]{1,10}\b|[A-Za-z_][\w-]*(?:\.[\w-]+)*\.(?:" + extension + r")\b(?![/(])"
        r"|~/[\w./-]*[\w/]|/(?:etc|usr|var|home|root|boot|opt)(?:/[\w./-]*[\w/])?"
        r"|--[a-z][a-z-]+[a-z])"
    )


@cache
def _LABELS() -> re.Pattern[str]:
    return re.compile(
        r"^(?:(?:very |extremely |super )?(?:important|critical|warning|caution|note|danger|attention|security|safety|rule|must"
        r"|hard rule|hard constraint|constraint|absolute|mandatory|strict|注意|重要|警告|安全|规则|强制|红线)\s*[:：!！-]\s*)+"
    )


_TAIL = re.compile(
    r"\s+[-–—]{1,2}\s+|—+|[.!?]\s+|[。！？；;]\s*|:\s+(?!⟦)"
    r"|,\s*(?=(?:because|since|as (?:it|they|this|these)|it(?:'s| is)|they(?:'re| are)|these|this|use|run|instead|which (?:is|are)|so)\b)"
    r"|\s+(?=because\b|since (?:it|they|this|these)\b|as (?:it|they|these) (?:is|are)\b)"
    r"|[，,]\s*(?=因为|它|这|由于|请?(?:改用|使用)|应(?:使用|改用)|而是)"
)


def _parted(text: str) -> tuple[str, str]:
    """Part a sentence from what follows it."""
    aside: list[str] = []

    def take(found: re.Match[str]) -> str:
        if re.fullmatch(r"\s*⟦\d+⟧(?:\s*(?:,|and|or|, and|, or)\s*⟦\d+⟧)*\s*", found[1]):
            return f" in {found[1].strip()}"  # "generated files (`src/gen/`)" names them
        aside.append(found[1])
        return " " if found.start() else ""

    text = re.sub(r"\s*[(（]([^()（）]*)[)）]", take, text).strip()
    found = _TAIL.search(text)
    head, tail = (text[: found.start()], text[found.end() :]) if found else (text, "")
    return head, " ; ".join([*aside, tail]) if aside else tail


@cache
def _DOUBTFUL() -> re.Pattern[str]:
    """Words that may take back or bound what was said."""
    return re.compile(
        r"\b(unless|except\w*|excluding|other than|apart from|aside from|only|but|however|if|when\w*|while|until|without|otherwise"
        r"|sometimes|usually|generally|normally|typically|prefer\w*|try|avoid|ideally|consider|may|might|could|can|possible|necessary"
        r"|needed|appropriate|allowed|permitted|ok|okay|fine|exceptions?|ask|unlikely|e\.g|for example|such as|including|etc|like"
        r"|not|never|whether|or|either|in case|for now|temporar\w*|during|before|after|first|always|must)\b"
        r"|除非|除了|除外|例外|但是?|如果|若|当|时|只有|仅|可以|允许|尽量|最好|建议|避免|例如|比如|等|否则|情况|必要|不|先|前"
    )


_HINT = re.compile(
    r"^(?:please |then |just |always )?(?:use|run|call|edit|change|regenerate|generate|create|add|see|update|apply|put|set|instead)\b|^(?:请|应|改用|使用|运行|见)"
)
_BOUNDS = re.compile(
    r"\b(?:unless|except\w*|excluding|other than|apart from|only|but|however|if|when\w*|while|until|without|may|might|could|can"
    r"|allowed|permitted|ok|okay|fine|exceptions?|not|never|ask|sometimes)\b|除非|除了|例外|但是?|如果|若|时|只有|仅|可以|允许|不"
)


def harmless_tail(phrase: Phrase) -> bool:
    """Return whether what follows a sentence only explains it, or says what to do instead."""
    tail = re.sub(r"\b(?:rather than|instead|ever|at all)\b", "", phrase.tail)
    tail = re.sub(
        r"\b(?:is|are) (?:not |never )?(?:meant|intended|supposed) to be edited", "", tail
    )
    for part in re.split(r"\s+;\s+|[.!?]\s+|[。！？；]", tail):
        if (_BOUNDS if _HINT.match(part.strip()) else _DOUBTFUL()).search(part):
            return False
    return True


def wants_new(phrase: Phrase) -> bool:
    """Return whether a sentence goes on to say that something new is to be made instead: then
    making files is not forbidden.
    """
    return bool(
        re.search(
            r"\b(?:create|add|write|make|generate)\w* (?:a |an |another )?new\b|新建|新增|新的",
            phrase.tail,
        )
    )


def generated(phrase: Phrase) -> bool:
    """Return whether a sentence says that its files are made by a program."""
    return bool(
        re.search(
            r"\b(?:auto-?)?(?:re-?)?generat\w*|生成|produced by|build output|compiled",
            phrase.head + " " + phrase.tail,
        )
    )
