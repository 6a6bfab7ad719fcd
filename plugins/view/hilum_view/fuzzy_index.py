"""Fuzzy search in many texts, such as the paths of a project, fast enough for each keystroke."""

from __future__ import annotations

import heapq
import re
from collections.abc import Sequence

MAX_RANKED = 100
"""Number of results whose order is exact; nobody reads further than the first rows."""


class FuzzyIndex:
    """An index of texts for fuzzy search, prepared so that each keystroke is fast.

    With 20,000 paths, a query takes 5 to 20 ms, and each additional letter takes less. Several
    threads can share one index.

    Args:
        texts: The texts; earlier ones rank higher if they match a query equally well.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts
        self._lower = [_lower(text) for text in texts]
        # The slash at the end of a folder's path is ignored when its name is located.
        self._names = [text.rfind("/", 0, len(text) - 1) + 1 for text in texts]
        self._lengths = [len(text) for text in texts]
        # The last query with its results, which a longer query narrows. The query and its results
        # are one value, because another thread may replace them at any time: a query must not get
        # the results of another query.
        self._last: tuple[str, Sequence[int]] = ("", range(len(texts)))

    def rank(self, query: str, max_rows: int = MAX_RANKED) -> list[int]:
        """Return the indexes of the texts that contain the letters of a query, best first.

        The words of the query may be in any order. Case matters only if the query contains
        uppercase letters.

        Args:
            query: The query; an empty one matches every text.
            max_rows: Maximum number of results.
        """
        words = query.split()
        if not words:
            return list(range(min(len(self.texts), max_rows)))
        found = self._matching(query, words)
        exact = query != query.lower()
        texts = self.texts if exact else self._lower
        scored = []
        for index in self._best_roughly(found, words, texts, max(max_rows, MAX_RANKED)):
            score = sum(self._score(word, index, texts[index]) for word in words)
            scored.append((-score, len(texts[index]), index))
        scored.sort()
        return [index for _, _, index in scored[:max_rows]]

    def _matching(self, query: str, words: Sequence[str]) -> Sequence[int]:
        """Return the indexes of the texts that contain the letters of every word in order."""
        exact = query != query.lower()
        texts = self.texts if exact else self._lower
        # Adding a letter to a query only removes results.
        earlier, narrowed = self._last
        found: Sequence[int] = range(len(self.texts))
        if earlier and query.startswith(earlier):
            found = narrowed
        for word in words:
            if len(word) == 1:
                found = [index for index in found if word in texts[index]]
                continue
            pattern = "".join(f"[^{re.escape(char)}]*{re.escape(char)}" for char in word)
            matches = re.compile(pattern, re.DOTALL).match
            found = [index for index in found if matches(texts[index])]
        self._last = (query, found)
        return found

    def _best_roughly(
        self, found: Sequence[int], words: Sequence[str], texts: Sequence[str], max_rows: int
    ) -> list[int]:
        """Return the best matches, ranked by a measure that is cheap enough for all matches."""
        length = self._lengths.__getitem__
        word = max(words, key=len)
        names = self._names
        # Best first: the name begins with the query; a word in the name does; the name contains the
        # query; a folder contains the query.
        tiers: tuple[list[int], ...] = ([], [], [], [])
        scattered = []
        for index in found:
            text = texts[index]
            name = names[index]
            at = text.find(word, name)
            if at == name:
                tiers[0].append(index)
            elif at > 0:
                tiers[2 if text[at - 1].isalnum() else 1].append(index)
            elif word in text:
                tiers[3].append(index)
            else:
                scattered.append(index)
        best: list[int] = []
        for tier in tiers:
            if len(best) < max_rows:
                best += heapq.nsmallest(max_rows - len(best), tier, key=length)
        if len(best) < max_rows:
            # Matches with scattered letters come last, ranked by how close together their letters
            # are.
            spreads = [(_spread(word, texts[index]), index) for index in scattered]
            best += [index for _, index in heapq.nsmallest(max_rows - len(best), spreads)]
        return best

    def _score(self, word: str, index: int, text: str) -> int:
        """Return a score for how well a word matches a text that contains its letters."""
        name = self._names[index]
        at = text.find(word, name)
        if at < 0:
            at = text.find(word)
        positions: Sequence[int] = range(at, at + len(word))
        if at < 0:
            positions = _positions(word, text, name)
        score = 0
        previous = -2
        original = self.texts[index]
        for position in positions:
            if position == previous + 1:
                score += 6
            if _starts_word(original, position):
                score += 8
            if position >= name:
                score += 4
            if position == name:
                score += 8
            previous = position
        if len(text) - name == len(word) and positions[0] == name:
            score += 20
        # Shorter texts rank higher, because the letters of the word cover more of them.
        return score * 100 - len(text)


def rank(query: str, texts: Sequence[str], max_rows: int = MAX_RANKED) -> list[int]:
    """Return the indexes of the texts that match a query, best first.

    For many queries on the same texts, reuse a ``FuzzyIndex``.
    """
    return FuzzyIndex(texts).rank(query, max_rows)


def _lower(text: str) -> str:
    """Return a text in lowercase with the same length."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    # The lowercase form of "İ" has two characters.
    return "".join(char.lower() if len(char.lower()) == 1 else char for char in text)


def _spread(word: str, text: str) -> int:
    """Return the number of other characters between a word's letters, matched from the end."""
    at = len(text)
    last = 0
    for char in reversed(word):
        at = text.rfind(char, 0, at)
        last = last or at
    return last - at + 1 - len(word)


def _positions(word: str, text: str, name: int) -> list[int]:
    """Return the positions of a word's letters, at the starts of words in the name if possible."""
    for start in (name, 0):
        positions = _greedy(word, text, start)
        if positions:
            return positions
    return []


def _greedy(word: str, text: str, start: int) -> list[int]:
    positions = []
    at = start
    for number, char in enumerate(word):
        found = text.find(char, at)
        if found < 0:
            return []
        if found != at or number == 0:
            # A later occurrence at the start of a word is better, if the remaining letters still
            # follow.
            better = _next_word_start(char, text, found)
            if better >= 0 and _contains(word[number + 1 :], text, better + 1):
                found = better
        positions.append(found)
        at = found + 1
    return positions


def _next_word_start(char: str, text: str, start: int) -> int:
    at = start
    while at >= 0:
        if _starts_word(text, at):
            return at
        at = text.find(char, at + 1)
    return -1


def _contains(word: str, text: str, start: int) -> bool:
    at = start
    for char in word:
        at = text.find(char, at) + 1
        if at == 0:
            return False
    return True


def _starts_word(text: str, position: int) -> bool:
    if position == 0:
        return True
    before = text[position - 1]
    if not before.isalnum():
        return True
    return text[position].isupper() and before.islower()
