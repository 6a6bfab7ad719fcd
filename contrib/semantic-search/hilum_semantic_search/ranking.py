"""Ranks the chunks that match a question by their words, by embeddings, or by both."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from hilum_semantic_search.query import stem
from hilum_semantic_search.reader.words import split_words
from hilum_semantic_search.store import Found, WordCounts

CANDIDATES = 100
"""Number of chunks that are ranked again."""
RANK_OFFSET = 60
"""The constant of reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009)."""
# These values did best for the docstrings of mypy, hypothesis, schemathesis and four smaller
# packages, which tests/benchmarks/semantic_search.py does not measure.
_SYMBOL_WEIGHT = 1.5
_MODULE_FACTOR = 0.8
_SHORTEST_FACTOR = 0.6
_FACTOR_PER_LINE = 0.05


def rank_again(found: Iterable[Found], counts: WordCounts) -> list[Found]:
    """Return chunks in the order of a score that also considers which words their symbols contain.

    A symbol with rare words of the question counts more. Very short chunks and the lines of a module
    outside of definitions count less.
    """
    weights = _weigh_words(counts)
    total = sum(weights.values()) or 1.0
    scored = list[Found]()
    for each in found:
        share = sum(weights.get(word, 0.0) for word in _find_stems(each.symbol)) / total
        lines = each.last - each.first + 1
        factor = min(1.0, _SHORTEST_FACTOR + _FACTOR_PER_LINE * lines)
        if each.kind == "module":
            factor *= _MODULE_FACTOR
        scored.append(each._replace(score=each.score * (1 + _SYMBOL_WEIGHT * share) * factor))
    return sorted(scored, key=lambda each: -each.score)


def fuse(rankings: Sequence[Sequence[Found]]) -> list[Found]:
    """Return the chunks of several rankings by reciprocal rank fusion, the best first."""
    scores = dict[tuple[bytes, int], float]()
    chunks = dict[tuple[bytes, int], Found]()
    for ranking in rankings:
        for rank, found in enumerate(ranking, 1):
            key = (found.path, found.first)
            scores[key] = scores.get(key, 0.0) + 1 / (RANK_OFFSET + rank)
            chunks.setdefault(key, found)
    best = sorted(scores, key=lambda key: (-scores[key], key))
    return [chunks[key]._replace(score=scores[key]) for key in best]


def _weigh_words(counts: WordCounts) -> dict[str, float]:
    """Return the weight of each stem of the question; words in fewer chunks weigh more."""
    weights = dict[str, float]()
    for word, count in counts.words.items():
        if count:
            weight = math.log(1 + (counts.chunks - count + 0.5) / (count + 0.5))
            root = stem(word)
            weights[root] = max(weights.get(root, 0.0), weight)
    return weights


def _find_stems(symbol: str) -> set[str]:
    return {stem(word.lower()) for word in re.findall(r"[^\W_]+", split_words(symbol))}
