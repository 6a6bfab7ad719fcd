"""Interprets the user's words: requests to remember, lasting statements, and support for memories.

Memories are derived only from the user's words and from commands that ran. Piped, quoted or fenced
text may come from somebody else and is ignored. Tool results and model answers are not read, so a
web page or a file cannot plant a memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from hilum_memory.longterm.memory import Kind
from hilum_memory.longterm.tokenizer import find_significant_words

# Maximum length of a short prompt in characters; in a longer one, only the first paragraph can be a
# request to remember.
MAX_TYPED = 800
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
# Words that a supported memory may add to the user's own words.
_FREE = frozenset(
    """user wants preference decision fact decided chose because rather instead via run runs running
    command file files test tests code not no never only must without over""".split()
)
_PUNCTUATION = ".,;:!?\"'`()[]。，；：！？"
_CODE_MARKS = frozenset("./\\:@=_$|<>~")


def remove_foreign_text(text: str) -> str:
    """Return the text that the user typed, without piped, fenced or quoted text."""
    for pattern in (_STDIN, _FENCE, _QUOTE):
        text = re.sub(pattern, "\n", text)
    return text.strip()


def find_requests(text: str) -> list[str]:
    """Return the texts that a prompt asks to remember: ``remember that …``, ``记住 …``.

    In a short prompt every paragraph and list item counts; in a long one, which may be pasted, only
    the first. A request covers one sentence or, after a colon, the whole paragraph.
    """
    return [request for request, _ in _split_parts(text) if request]


def remove_requests(text: str) -> str:
    """Return the text that the user typed, without requests to remember."""
    return "\n\n".join(rest for _, rest in _split_parts(text) if rest)


def _split_parts(text: str) -> list[tuple[str, str]]:
    """Return, for each paragraph or list item, the request to remember and the rest."""
    typed = remove_foreign_text(text)
    found: list[tuple[str, str]] = []
    for part in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+[.)])\s)", typed):
        # Later paragraphs of a long prompt may have been pasted.
        if found and len(typed) > MAX_TYPED:
            found.append(("", part.strip()))
        else:
            found.append(_split_request(part.strip()))
    return found


def _split_request(part: str) -> tuple[str, str]:
    plain = re.sub(r"^(?:[-*]|\d+[.)])\s+", "", part)
    matches = [re.match(pattern, plain) for pattern in _ASKS]
    match = next(filter(None, matches), None)
    if match is None:
        return "", part
    request = match["text"].strip()
    rest = ""
    if ":" not in match["how"] and "：" not in match["how"]:
        request, *more = re.split(_SENTENCE, request, maxsplit=1)
        rest = "".join(more)
    if request.endswith(("?", "？")):  # "Remember that bug?"
        return "", part
    return request, rest


def guess_kind(text: str) -> Kind:
    """Return the kind of a sentence, guessed from its words."""
    # Check for decisions first, because "we decided that we always …" contains words of both kinds.
    if re.search(_DECISION, text):
        return "decision"
    if re.search(_PREFERENCE, text):
        return "preference"
    return "fact"


def applies_everywhere(text: str) -> bool:
    """Return whether a sentence applies to all workspaces.

    A sentence applies to all workspaces if it mentions all projects, or is about the user and not
    about this project.
    """
    if re.search(_EVERYWHERE, text):
        return True
    if re.search(_HERE, text):
        return False
    return bool(re.search(_PERSONAL, text) and re.search(_PREFERENCE, text))


def may_last(text: str) -> bool:
    """Return whether a text may contain information that is useful beyond the task.

    A text without any of the indicator words does not justify a request to a model.
    """
    return re.search(_LASTING, remove_foreign_text(text)) is not None


def asks_to_forget(text: str) -> bool:
    """Return whether the user asks to forget something."""
    return re.search(_FORGETS, remove_foreign_text(text)) is not None


def _find_code_names(text: str) -> Iterator[str]:
    """Yield names that contain punctuation, words with digits, and options."""
    for word in text.split():
        # A regular expression for such names would take quadratic time on a long word.
        letters = [at for at, mark in enumerate(word) if mark.isalnum() or mark == "_"]
        inside = word[letters[0] + 1 : letters[-1]] if letters else ""
        if not _CODE_MARKS.isdisjoint(inside) or re.search(r"\d", word):
            yield word
        else:
            yield from re.findall(r"--?\w[\w-]*", word)


def is_drawn_from(text: str, sources: Iterable[str], *, part: float = 0.6) -> bool:
    """Return whether the sources support a text.

    The sources must contain most of the text's words, and all of its names, numbers, paths and
    options.

    Args:
        text: The text to remember.
        sources: The user's words, and the commands that ran.
        part: The minimum share of the text's significant words that the sources must contain.
    """
    whole = "\n".join(sources)
    theirs = set(find_significant_words(whole))
    folded = " ".join(whole.casefold().split())
    # One wrong character in a name or number makes a memory wrong, however many words agree.
    for name in _find_code_names(text):
        if name.strip(_PUNCTUATION).casefold() not in folded:
            return False
    words = [word for word in find_significant_words(text) if word not in _FREE]
    known = sum(word in theirs for word in words)
    return bool(words) and known >= part * len(words)
