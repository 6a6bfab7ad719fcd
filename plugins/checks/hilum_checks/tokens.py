"""Split a sentence into words and names with their roles."""

from __future__ import annotations

import re
from collections.abc import Sequence

import attrs

from hilum_checks import lexicon
from hilum_checks import vocabulary as v

UNREADABLE = "unknown"


@attrs.frozen
class Token:
    """A word, a name or a mark of punctuation.

    Attributes:
        role: The role of the word in ``lexicon``, or ``name``, ``length``, ``asking`` or
            ``unknown``.
        word: The word that stands for its synonyms, or the name.
        text: The text as written, in lower case.
    """

    role: str
    word: str
    text: str = ""


Chunk = tuple[Token, ...]
"""The words of a sentence, or of a part of it."""

_SCAN = re.compile(
    r"⟦(?P<name>\d+)⟧|(?P<number>\d[\d,]*)\s*(?P<unit>[a-z]+|[\u4e00-\u9fff]+)?"
    r"|(?P<word>[a-zß-öø-ÿ]+(?:['-][a-zß-öø-ÿ]+)*)|(?P<han>[\u3040-\u9fff]+)|(?P<join>[,，、&/])"
    r"|(?P<other>[^\s.\"“”'*_])"
)


def tokenize(text: str, names: list[str]) -> list[Token]:
    """Return the words and names of a sentence, with their roles."""
    tokens: list[Token] = []
    words: list[str] = []
    end = len(text)
    position = 0
    while position < end:
        found = _SCAN.search(text, position)
        if found is None:
            break
        position = found.end()
        kind = found.lastgroup or ""
        if found["word"]:
            words.append(found["word"])
            continue
        tokens += _look_up(words)
        words = []
        if found["name"]:
            tokens.append(Token("name", names[int(found["name"])]))
        elif found["number"]:
            unit, position = _find_unit(found)
            limit = found["number"].replace(",", "")
            if _BELOW.search(text, 0, found.start()):
                limit = str(max(int(limit) - 1, 0))
            tokens.append(Token("length" if unit else UNREADABLE, unit, limit))
        elif found["han"]:
            tokens += _segment(found["han"])
        else:
            role = UNREADABLE if kind == "other" else kind
            tokens.append(Token(role, found[0].strip(), found[0].strip()))
    return tokens + _look_up(words)


# Words before a number that is itself too many: "under 72 characters".
_BELOW = re.compile(r"(?:\b(?:under|below|(?:less|fewer|shorter) than)|少于|低于|小于|短于)\s*\Z")


def _find_unit(found: re.Match[str]) -> tuple[str, int]:
    """Return the unit after a number, and where the unit ends."""
    written = found["unit"] or ""
    for length in range(len(written), 0, -1):
        unit = lexicon.units().get(written[:length])
        if unit and (length == len(written) or not written.isascii()):
            return unit, found.start("unit") + length
    return "", found.end("number")


def _look_up(words: list[str]) -> list[Token]:
    """Return the roles of English words; the longest phrase wins.

    Words that do not change the meaning are left out, except those that belong to a phrase:
    "every" in "every time".
    """
    tokens = []
    start = 0
    while start < len(words):
        phrase, end = _find_phrase(words, start)
        if phrase not in lexicon.FILLERS:
            tokens.append(_token(phrase, lexicon.lexicon().get(phrase)))
        start = end
    return tokens


def _find_phrase(words: list[str], start: int) -> tuple[str, int]:
    """Return the longest phrase that begins at a word, and where it ends."""
    for end in range(min(len(words), start + lexicon.max_phrase()), start + 1, -1):
        phrase = " ".join(words[start:end])
        if phrase in lexicon.lexicon():
            return phrase, end
    if words[start] in lexicon.FILLERS:
        return words[start], start + 1
    # "Do not ever edit": words between those of a phrase may be left out.
    kept = [at for at in range(start, len(words)) if words[at] not in lexicon.FILLERS]
    for length in range(min(lexicon.max_phrase(), len(kept)), 0, -1):
        phrase = " ".join(words[at] for at in kept[:length])
        if length == 1 or phrase in lexicon.lexicon():
            break
    return phrase, kept[length - 1] + 1


def _segment(text: str) -> list[Token]:
    """Return the roles of the words in a Chinese text; the longest word wins."""
    tokens = []
    start = 0
    while start < len(text):
        for length in range(min(lexicon.max_characters(), len(text) - start), 0, -1):
            word = text[start : start + length]
            entry = lexicon.lexicon().get(word)
            if entry or word in lexicon.FILLERS or word in lexicon.ASKING or length == 1:
                break
        if word not in lexicon.FILLERS:
            tokens.append(_token(word, entry))
        start += length
    return tokens


def _token(text: str, entry: lexicon.Entry | None) -> Token:
    if entry is None:
        if text in v.UNQUOTED_PROGRAMS:
            return Token("name", text, text)
        return Token("asking" if text in lexicon.ASKING else UNREADABLE, text, text)
    return Token(entry.role, entry.word, text)


def has_marker(tokens: Sequence[Token]) -> bool:
    """Return whether words contain one that gives a sentence its form."""
    return any(
        token.role in lexicon.MARKERS and token.role not in ("MUST", "AVOID") for token in tokens
    )


def write_tokens(tokens: Sequence[Token]) -> str:
    """Return words and names as text: "use `find`"."""
    text = " ".join(token.text or f"`{token.word}`" for token in tokens)
    # Chinese has no spaces between words.
    return re.sub(r"(?<=[\u3040-\u9fff]) (?=[\u3040-\u9fff])", "", text)
