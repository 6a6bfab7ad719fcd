"""What the user has said: what of it asks to be remembered, what may last, what a text may be drawn
from.

Only this is a source of memories, beside commands that ran. Text that was piped in, quoted or
fenced is somebody else's; results of tools and answers of the model are not even looked at, so
nothing in a page or a file can plant a memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from hilum_memory.longterm.memory import Kind
from hilum_memory.longterm.words import telling

SHORT = 800
"""Characters of a prompt up to which every paragraph of it may ask to be remembered."""
_POLITE = r"(?:(?:please|pls|ok(?:ay)?|hi|hey|hello|and|also|now|hilum|so|then)\b[,!:.]?\s+)*"
_ASKS = (
    rf"(?is)^{_POLITE}(?:always )?"
    r"(?:remember|(?:do not|don['’]?t) forget|memori[sz]e|make a note|take a note|note down)"
    r"(?:\s+(?:for (?:the future|later|next time|all (?:my )?projects)|everywhere|globally))?"
    r"(?P<how>\s*[:,]\s*|\s+that\b[:,]?\s*)(?P<text>.+)$",
    r"(?s)^(?:请|麻烦|帮我|你要|好的?|那么?|另外|[,，、"
    r"\s])*(?:记住|牢记|记下来?|(?:记得|别忘了|不要忘记)(?=\s*[:：]))"
    r"(?P<how>\s*[:：,，]?)\s*(?P<text>.+)$",
)
_SENTENCE = r"(?<=[.!?])\s+(?=[^\W\d_a-z])|(?<=[。！？])"
_FENCE = r"(?ms)^[ \t]*(?:```|~~~).*?(?:^[ \t]*(?:```|~~~)[ \t]*$|\Z)"
_STDIN = r"(?s)(?:^|\n)<stdin>\n.*\Z"
_QUOTE = r"(?m)^[ \t]*>.*$"
_PREFERENCE = (
    r"(?i)\b(?:i|we) (?:really |always |never )?(?:prefer|like|want|hate|dislike|don['’]?t"
    r" (?:like|want))\b"
    r"|\b(?:always|never|prefer)\b|喜欢|希望|偏好|总是|永远|不要|习惯|讨厌"
)
_DECISION = (
    r"(?i)\b(?:we|i) (?:have )?(?:decided|chose|agreed|settled)\b|\bdecision\b|决定|选定|商定|约定"
)
_PERSONAL = r"(?i)\b(?:i|me|my|mine)\b|我(?!们)"
_HERE = (
    r"(?i)\b(?:here|th(?:is|e)"
    r" (?:project|repo(?:sitory)?|workspace|codebase|folder))\b|\bwe\b|\bour\b"
    r"|这个?(?:项目|仓库|工程|目录)|本(?:项目|仓库)|我们"
)
_EVERYWHERE = (
    r"(?i)\b(?:everywhere|globally|in (?:all|every|any) (?:my |of my"
    r" )?(?:projects?|repos?|repositor(?:y|ies)|workspaces?)"
    r"|for all (?:my )?projects)\b|所有项目|任何项目|每个项目"
)
_NO = r"(?:don['’]?t|do not)"
_LASTING = (
    r"(?i)\b(?:always|never|from now on|in (?:the )?future|every time|prefer|instead of|rather"
    r" than|convention"
    rf"|(?:we|i) (?:use|{_NO}|only|decided|chose|agreed|want|like|hate)"
    r"|must(?: not|n['’]?t)?|should (?:not|always|never|only|be|use)|shouldn['’]?t"
    rf"|{_NO} (?:use|ever|touch|add|write|run|commit|push)|use [\w.-]+(?:,| and)?"
    r" (?:not|instead|never)"
    r"|make sure|keep in mind|note that|as a rule|no[,.] |wrong|actually|remember|because)\b"
    r"|以后|今后|总是|永远|不要|别用|别再|必须|应该|习惯|约定|规范|决定|喜欢|偏好|我们[用都的]|改用|而不是"
    r"|不对|其实|因为|记住|记得"
)
_FORGETS = r"(?i)\b(?:forget|remove|delete|drop|erase|no longer)\b|忘|删|去掉|不再"
# Carries no meaning by itself when a text is drawn from what the user said.
_FREE = frozenset(
    """user wants preference decision fact decided chose because rather instead via run runs running command file files test
    tests code not no never only must without over""".split()
)
_CODE_MARKS = frozenset("./\\:@=_$|<>~")


def own(text: str) -> str:
    """Return what the user typed, without what was piped in, fenced or quoted."""
    for pattern in (_STDIN, _FENCE, _QUOTE):
        text = re.sub(pattern, "\n", text)
    return text.strip()


def asked(text: str) -> list[str]:
    """Return what a prompt asks, in so many words, to remember: ``remember that …``, ``记住 …``.

    A paragraph or list item counts where the prompt is short; of a long one, which may be pasted,
    only the first. One sentence is meant, or after a colon all of the paragraph.
    """
    return [wish for wish, _ in _parts(text) if wish]


def unasked(text: str) -> str:
    """Return the rest of what the user typed."""
    return "\n\n".join(rest for _, rest in _parts(text) if rest)


def _parts(text: str) -> list[tuple[str, str]]:
    """Split what the user typed into paragraphs and list items: what each asks to remember, and the
    rest of it.
    """
    typed = own(text)
    parts = [part.strip() for part in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+[.)])\s)", typed)]
    return [
        _wish(part) if len(typed) <= SHORT or not index else ("", part)
        for index, part in enumerate(parts)
    ]


def _wish(part: str) -> tuple[str, str]:
    plain = re.sub(r"^(?:[-*]|\d+[.)])\s+", "", part)
    match = next(filter(None, (re.match(pattern, plain) for pattern in _ASKS)), None)
    if match is None:
        return "", part
    wish = match["text"].strip()
    rest = ""
    if ":" not in match["how"] and "：" not in match["how"]:
        wish, *more = re.split(_SENTENCE, wish, maxsplit=1)
        rest = "".join(more)
    if wish.endswith(("?", "？")):
        return ("", part)
    return (wish, rest)


def kind_of(text: str) -> Kind:
    """Guess what a sentence tells."""
    if re.search(_DECISION, text):
        return "decision"
    if re.search(_PREFERENCE, text):
        return "preference"
    return "fact"


def is_everywhere(text: str) -> bool:
    """Guess whether a sentence holds in all workspaces: it says so, or tells of the person and not
    of this project.
    """
    if re.search(_EVERYWHERE, text):
        return True
    return bool(re.search(_PERSONAL, text) and re.search(_PREFERENCE, text)) and not re.search(
        _HERE, text
    )


def may_last(text: str) -> bool:
    """Return whether something in a text may hold beyond the task: what has no such word is not
    worth asking a model about.
    """
    return re.search(_LASTING, own(text)) is not None


def wants_forgotten(text: str) -> bool:
    """Return whether the user speaks of forgetting."""
    return re.search(_FORGETS, own(text)) is not None


def _code_names(text: str) -> Iterator[str]:
    """Yield what is no word of a language: names with a mark inside, what has digits, options.

    Takes linear time.
    """
    for word in text.split():
        letters = [at for at, mark in enumerate(word) if mark.isalnum() or mark == "_"]
        inside = word[letters[0] + 1 : letters[-1]] if letters else ""
        if not _CODE_MARKS.isdisjoint(inside) or re.search(r"\d", word):
            yield word
        else:
            yield from re.findall(r"--?\w[\w-]*", word)


def is_drawn_from(text: str, sources: Iterable[str], *, part: float = 0.6) -> bool:
    """Return whether a text says what the sources say: most of its words are theirs, and all names,
    numbers, paths and options.

    Args:
        text: What is to be remembered.
        sources: What the user said, and commands that ran.
        part: How many of its telling words must be theirs.
    """
    whole = "\n".join(sources)
    theirs = set(telling(whole))
    folded = " ".join(whole.casefold().split())
    if any(
        name.strip(".,;:!?\"'`()[]。，；：！？").casefold() not in folded
        for name in _code_names(text)
    ):
        return False
    mine = [word for word in telling(text) if word not in _FREE]
    return bool(mine) and sum(word in theirs for word in mine) >= part * len(mine)
