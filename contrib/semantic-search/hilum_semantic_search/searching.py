"""Searches an index by words and, where there are embeddings, by meaning."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from hilum import HilumError

from hilum_semantic_search import lazy
from hilum_semantic_search.excerpts import Hit, ReadHits, read_hits
from hilum_semantic_search.indexer import run_in_thread
from hilum_semantic_search.query import find_words
from hilum_semantic_search.ranking import CANDIDATES, fuse, rank_again
from hilum_semantic_search.store import Found, IndexStore

if TYPE_CHECKING:
    from hilum_semantic_search.embedder import Embedder
    from hilum_semantic_search.settings import SemanticSearchSettings
    from hilum_semantic_search.vectors import VectorCache

MAX_QUESTION_CHARACTERS = 2_000


class SearchResult(NamedTuple):
    """The result of a search.

    Attributes:
        hits: The results, best first.
        words: The words of the question that were searched.
        outdated: Number of chunks that were left out because their file has just changed.
        by_meaning: Whether embeddings were compared as well.
        problem: Why embeddings were not compared although they are on; empty otherwise.
    """

    hits: list[Hit]
    words: list[str]
    outdated: int
    by_meaning: bool
    problem: str


class Searcher:
    """Searches the index of a workspace.

    Args:
        store: The index.
        settings: The limits.
        embedder: What computes the embedding of a question; ``None`` to compare only words.
    """

    def __init__(
        self, store: IndexStore, settings: SemanticSearchSettings, embedder: Embedder | None
    ) -> None:
        self._store = store
        self._settings = settings
        self._embedder = embedder
        self._cache: VectorCache | None = None

    async def search(
        self,
        question: str,
        *,
        limit: int,
        below: str = "",
        is_withheld: Callable[[str], bool] | None = None,
    ) -> SearchResult:
        """Return the chunks that fit a question best.

        Args:
            question: The question, or words.
            limit: Maximum number of results.
            below: A folder or file, relative to the workspace; empty for all.
            is_withheld: A function that returns whether a file must not be shown.

        Raises:
            DamagedIndex: The index must be replaced.
            HilumError: The index cannot be read.
        """
        question = question[:MAX_QUESTION_CHARACTERS]
        words = find_words(question)
        folder = os.fsencode(below)
        problem = ""
        near: Sequence[Found] = ()
        if self._embedder is not None:
            try:
                near = await self._find_near(self._embedder, question, folder)
            except HilumError as error:
                problem = error.message
        read = await run_in_thread(self._rank_and_read, words, near, folder, limit, is_withheld)
        return SearchResult(read.hits, words, read.outdated, bool(near), problem)

    async def _find_near(self, embedder: Embedder, question: str, folder: bytes) -> list[Found]:
        [vector] = await embedder.embed([question], query=True)
        return await run_in_thread(self._find_by_vector, vector, folder)

    def _find_by_vector(self, vector: Sequence[float], folder: bytes) -> list[Found]:
        if self._cache is None:
            self._cache = lazy.vectors.VectorCache(self._store)
        # In a folder, most of the nearest chunks may be outside of it.
        count = CANDIDATES * 20 if folder else CANDIDATES
        nearest = self._cache.find_nearest(vector, count)
        return self._store.find_by_digest(nearest, CANDIDATES, folder)

    def _rank_and_read(
        self,
        words: list[str],
        near: Sequence[Found],
        folder: bytes,
        limit: int,
        is_withheld: Callable[[str], bool] | None,
    ) -> ReadHits:
        found, counts = self._store.match(words, CANDIDATES, folder)
        ranked = rank_again(found, counts)
        if near:
            ranked = fuse((ranked, near))
        root = self._store.folder.root
        return read_hits(root, ranked, limit, self._settings.max_file_size, is_withheld)
