"""Splits texts in any script into words, which are used to find and compare memories.

SQLite's trigram tokenizer finds nothing shorter than three characters, but most Chinese words have
two. This module therefore splits Chinese, Japanese and Korean text into single characters and
pairs; the index contains the result, separated by spaces.
"""

from __future__ import annotations

import re
import unicodedata

_CJK = (
    "\u1100-\u11ff\u2e80-\u2fdf\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
)
_PIECES = rf"[{_CJK}]+|(?:(?![{_CJK}])[^\W_])+"
_CAMEL = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+"
# Maximum length of a word in characters; the rest of a longer word is ignored.
MAX_WORD = 40

STOP = frozenset(
    """a an and are as at be been but by can did do does for from had has have he her his how i if
    in into is it its me my of on or our she should so some than that the their them then there
    these they this to too up us use used user uses using was we were what when where which who why
    will with would you your please s t always also just make need needs want wants prefer prefers
    like likes project workspace repository repo remember
    的 了 是 在 我 你 他 她 它 们 这 那 和 与 或 也 都 就 请 个 把 被 要 会 有 用 使
    使用 我们 你们 这个 那个 项目 总是 记住 以后""".split()
)
_NOT = (
    r"(?i)\b(?:do|does|did|should|must|is|are|can|could|would|will)(?:n['’]?t\b|"
    r" +not\b)|\b(?:not|no|never|without)\b"
    r"|不要|不用|不能|不是|没有|[不别勿没]"
)


def split_runs(text: str) -> list[str]:
    """Split a text into sequences of letters and digits.

    Each sequence is either entirely in a script without spaces, or contains no characters of such a
    script.
    """
    # Full-width letters and composed characters must equal their plain forms.
    return re.findall(_PIECES, unicodedata.normalize("NFKC", text))


def tokenize(text: str, *, whole: bool = False) -> list[str]:
    """Return the stems of the words in a text, in order.

    Names are also split into their parts, and text without spaces into characters and pairs of
    characters.

    Args:
        text: The text.
        whole: Whether the text is a query. Its stems are returned without duplicates and without
            single characters that are part of a pair.
    """
    found: list[str] = []
    runs = split_runs(text)
    for run in dict.fromkeys(runs) if whole else runs:
        if is_cjk(run):
            found += _split_cjk(run, whole)
        else:
            found += _split_name(run[:MAX_WORD])
    return found


def _split_cjk(run: str, whole: bool) -> list[str]:
    pairs = [run[at : at + 2] for at in range(len(run) - 1)]
    # The index also contains single characters, so that a single-character query finds something.
    return pairs if whole and pairs else [*run, *pairs]


def _split_name(name: str) -> list[str]:
    parts = re.findall(_CAMEL, name)
    # ``loadConfig`` is found by the whole name and by "config".
    words = [name, *parts] if len(parts) > 1 else [name]
    return [stem(word.casefold()) for word in words]


def is_cjk(piece: str) -> bool:
    """Return whether a piece of text is in a script without spaces."""
    # The comparison avoids a regular expression search for Latin, Greek and Cyrillic text.
    return piece >= "\u1100" and re.match(f"[{_CJK}]", piece) is not None


def stem(word: str) -> str:
    """Remove the most common English suffixes, so that ``tests`` and ``testing`` are equal."""
    if len(word) > 4 and word.isascii():
        for end in ("ing", "ed", "es", "s"):
            if word.endswith(end) and len(word) - len(end) >= 3:
                return word.removesuffix(end)
    return word


def find_significant_words(text: str) -> list[str]:
    """Return the stems of a text's significant words.

    In a script without spaces, each character counts as a word.
    """
    found: list[str] = []
    for piece in split_runs(text):
        if is_cjk(piece):
            found += list(piece)
        else:
            found.append(stem(piece.casefold()[:MAX_WORD]))
    return [word for word in dict.fromkeys(found) if word not in STOP]


def subject_key(text: str) -> str:
    """Return the subject of a memory, without numbers and negations.

    If two memories have the same subject, the newer one replaces the older one.
    """
    # "Use tabs" and "do not use tabs" have the same subject, and often only a number has changed.
    plain = re.sub(_NOT, " ", text)
    # The words are sorted, so that their order makes no difference.
    about = sorted(word for word in find_significant_words(plain) if not word.isdigit())
    return " ".join(about) or comparison_key(text)


def comparison_key(text: str) -> str:
    """Return a text normalized so that case, punctuation and whitespace are ignored."""
    return " ".join(piece.casefold() for piece in split_runs(text))
