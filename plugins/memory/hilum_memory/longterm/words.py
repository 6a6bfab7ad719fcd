"""The words of a text, in any script: what memories are found and compared by.

SQLite's trigram tokenizer finds nothing of fewer than three characters, and most Chinese words have
two. So Chinese, Japanese and Korean runs are split here, into single characters and pairs; what is
indexed is the result, with blanks between.
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
LONGEST = 40
"""Characters of a word; the rest of a longer one tells nothing."""

STOP = frozenset(
    """a an and are as at be been but by can did do does for from had has have he her his how i if in into is it its me my of
    on or our she should so some than that the their them then there these they this to too up us use used user uses using
    was we were what when where which who why will with would you your please s t always also just make need needs want
    wants prefer prefers like likes project workspace repository repo remember
    的 了 是 在 我 你 他 她 它 们 这 那 和 与 或 也 都 就 请 个 把 被 要 会 有 用 使
    使用 我们 你们 这个 那个 项目 总是 记住 以后""".split()
)
_NOT = (
    r"(?i)\b(?:do|does|did|should|must|is|are|can|could|would|will)(?:n['’]?t\b|"
    r" +not\b)|\b(?:not|no|never|without)\b"
    r"|不要|不用|不能|不是|没有|[不别勿没]"
)


def pieces(text: str) -> list[str]:
    """Split a text into runs of letters and digits, each either all or not at all of a script
    without blanks.
    """
    return re.findall(_PIECES, unicodedata.normalize("NFKC", text))


def words(text: str, *, whole: bool = False) -> list[str]:
    """Return the words of a text in order: stems.

    Names also in their parts; characters and pairs of scripts without blanks.

    Args:
        text: The text.
        whole: For what is looked for: without what is there twice, and without the characters of
            pairs, which say little.
    """
    found: list[str] = []
    for piece in dict.fromkeys(pieces(text)) if whole else pieces(text):
        if is_cjk(piece):
            found += piece if not whole or len(piece) == 1 else ""
            found += [piece[at : at + 2] for at in range(len(piece) - 1)]
            continue
        parts = re.findall(_CAMEL, piece[:LONGEST])
        found += [
            stem(part.casefold()) for part in (piece[:LONGEST], *(parts if len(parts) > 1 else ()))
        ]
    return found


def is_cjk(piece: str) -> bool:
    """Return whether a piece is of a script without blanks."""
    return piece >= "\u1100" and re.match(f"[{_CJK}]", piece) is not None


def stem(word: str) -> str:
    """Cut the commonest English endings, so that ``tests`` and ``testing`` compare equal."""
    if len(word) > 4 and word.isascii():
        for end in ("ing", "ed", "es", "s"):
            if word.endswith(end) and len(word) - len(end) >= 3:
                return word.removesuffix(end)
    return word


def telling(text: str) -> list[str]:
    """Return the words that say what a text is about, cut to their stems.

    For a script without blanks, its characters.
    """
    found: list[str] = []
    for piece in pieces(text):
        found += list(piece) if is_cjk(piece) else [stem(piece.casefold()[:LONGEST])]
    return [word for word in dict.fromkeys(found) if word not in STOP]


def subject(text: str) -> str:
    """Return what a memory is about, regardless of numbers and negations: of two with one subject
    the newer one holds.
    """
    plain = re.sub(_NOT, " ", text)
    about = sorted(word for word in telling(plain) if not word.isdigit())
    return " ".join(about) or same(text)


def same(text: str) -> str:
    """Return the form in which two texts that say the same in the same words are equal."""
    return " ".join(piece.casefold() for piece in pieces(text))
