"""Converts code and text to the words that the index contains.

SQLite's tokenizer then separates the words, folds their case and removes their endings. It knows
neither ``camelCase`` nor languages that are written without spaces; this module handles both.
"""

from __future__ import annotations

import re

# "parseHTTPResponse2" consists of "parse", "HTTP", "Response" and "2". The tokenizer itself
# separates words at "_" and all punctuation.
_INNER_BOUNDARY = re.compile("([a-z])([A-Z0-9])|([0-9])([A-Za-z])|([A-Z])([A-Z][a-z]|[0-9])")
_SPACED = r"\1\3\5 \2\4\6"
# Chinese characters, kana and hangul.
_UNSPACED_RUN = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+")


def split_words(text: str) -> str:
    """Return a text in which the parts of identifiers are separated by spaces.

    Runs of characters in languages without spaces become overlapping pairs of characters.
    """
    spaced = _INNER_BOUNDARY.sub(_SPACED, text)
    if spaced.isascii():
        return spaced
    return _UNSPACED_RUN.sub(lambda run: f" {' '.join(make_pairs(run[0]))} ", spaced)


def make_pairs(run: str) -> list[str]:
    """Return the overlapping pairs of characters in a run; the run itself if it is short."""
    if len(run) <= 2:
        return [run]
    return [run[start : start + 2] for start in range(len(run) - 1)]


def find_unspaced_runs(text: str) -> list[str]:
    """Return the runs of characters in languages that are written without spaces."""
    return _UNSPACED_RUN.findall(text)


def remove_unspaced_runs(text: str) -> str:
    """Return a text with a space in place of each such run."""
    return _UNSPACED_RUN.sub(" ", text)


def split_symbol(symbol: str) -> str:
    """Return the words of a symbol, and the symbol's own name as one word.

    With the name as one word, a query with the exact identifier finds its definition first.
    """
    name = re.sub(r"\W|_", "", symbol.rpartition(".")[2])
    return f"{split_words(symbol)} {name}"
