"""Converts a question to an expression for the full-text index."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hilum_semantic_search.glossary import translate
from hilum_semantic_search.reader.words import (
    find_unspaced_runs,
    make_pairs,
    remove_unspaced_runs,
    split_words,
)

MAX_WORDS = 24
"""Maximum number of words of a question that are searched."""
MAX_ROWS = 60_000
"""Number of chunks to rank. Words in many chunks, which say little, are left out beyond it."""
MIN_WORDS = 2
"""Number of words that are always searched, the rarest first."""
_WORD = re.compile(r"[^\W_]+")
_IDENTIFIER = re.compile(r"\b\w*(?:_\w|[a-z][A-Z])\w*\b")
MIN_STEM = 3
_ENDINGS = (
    "ations",
    "ation",
    "ings",
    "ions",
    "ing",
    "ion",
    "ies",
    "ers",
    "ed",
    "er",
    "es",
    "e",
    "s",
    "y",
)
_STOP_WORDS = frozenset(
    """a about after all also an and any are as at be because been before being both but by can could
    did do does doing done each either else ever every for from given had has have having here how
    however i if in into is it its itself just like may me might must my no nor not of off on once
    only or other our out over own please same shall she should so some such than that the their
    them then there these they this those through thus to too under until up upon us use used uses
    using very was we were what when where whether which while who whom whose why will with within
    without would you your code place implemented implementation happens happen happening
    responsible something somewhere thing things way ways""".split()
)


def find_words(question: str) -> list[str]:
    """Return the words of a question that are worth searching, in lower case and without repeats."""
    words = dict[str, None]()
    spaced = split_words(remove_unspaced_runs(question))
    for match in _WORD.finditer(spaced):
        word = match[0].lower()
        if word not in _STOP_WORDS and (len(word) > 1 or not word.isalpha() or not word.isascii()):
            words.setdefault(word)
    # An identifier as one word finds its definition (see `split_symbol`).
    for match in _IDENTIFIER.finditer(question):
        words.setdefault(match[0].replace("_", "").lower())
    for run in find_unspaced_runs(question):
        for word in translate(run):
            words.setdefault(word)
    for run in find_unspaced_runs(question):
        for pair in make_pairs(run):
            words.setdefault(pair)
    if not words:
        # The question consists of stop words; any of them is better than none.
        words = dict.fromkeys(match[0].lower() for match in _WORD.finditer(spaced))
    return list(words)[:MAX_WORDS]


def make_expression(counts: Mapping[str, int]) -> str:
    """Return an expression for FTS5 that any of the words matches; empty if none occurs.

    Args:
        counts: How many chunks contain each word.
    """
    chosen = list[str]()
    rows = 0
    for word, count in sorted(counts.items(), key=lambda item: item[1]):
        if not count:
            continue
        rows += count
        if rows > MAX_ROWS and len(chosen) >= MIN_WORDS:
            break
        chosen.append(word)
    return " OR ".join(map(quote, chosen))


def quote(word: str) -> str:
    """Return a word as a string in an expression for FTS5."""
    doubled = word.replace('"', '""')
    return f'"{doubled}"'


def stem(word: str) -> str:
    """Return a word without its ending, as far as this shows that two words belong together."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= MIN_STEM:
            rest = word.removesuffix(ending)
            break
    else:
        return word
    # "retrying" has the stem of "retries", and "stopped" that of "stop".
    if len(rest) > MIN_STEM and (rest[-1] in "eiy" or rest[-1] == rest[-2]):
        return rest[:-1]
    return rest
