"""Computes the missing embeddings of an index in the background."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs

from hilum_semantic_search.embedder import Embedder, EmbeddingError
from hilum_semantic_search.indexer import run_in_thread
from hilum_semantic_search.reader.chunking import compute_digest
from hilum_semantic_search.reader.files import FileOpener, UnsuitableFile, decode, split_lines
from hilum_semantic_search.store import Found, IndexStore
from hilum_semantic_search.vectors import pack

if TYPE_CHECKING:
    from hilum_semantic_search.settings import SemanticSearchSettings

MAX_TEXT = 1_500
"""Maximum number of characters of a text; models of this kind read little more."""
MAX_RESETS = 2
"""Number of changes of the dimension after which an embedder counts as broken."""


@attrs.define
class _Text:
    digest: bytes
    text: str


class EmbeddingUpdater:
    """Adds the missing vectors to an index.

    Args:
        store: The index.
        embedder: What computes them.
        settings: The limits.
        redact: A function that removes the secrets from a text of a file.
    """

    def __init__(
        self,
        store: IndexStore,
        embedder: Embedder,
        settings: SemanticSearchSettings,
        redact: Callable[[str, str], str],
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._settings = settings
        self._redact = redact
        self._resets = 0
        self._was_checked = False
        # Chunks whose file has changed since, or whose vector is undefined.
        self._left_out = set[bytes]()

    async def update(self) -> int:
        """Compute the missing vectors, and return their number.

        Raises:
            EmbeddingError: The embedder failed; what was computed before is stored.
            HilumError: The index cannot be written.
            DamagedIndex: The index must be replaced.
        """
        await run_in_thread(self._store.prune_vectors)
        self._left_out.clear()
        if not self._was_checked:
            # Vectors of another model, or of this one with another dimension, are removed even if no
            # chunk lacks a vector.
            [vector] = await self._embedder.embed(["dimension"])
            await self._use(len(vector))
            self._was_checked = True
        count = 0
        while True:
            limit = self._embedder.batch + len(self._left_out)
            missing = await run_in_thread(self._store.list_without_vector, limit)
            wanted = [found for found in missing if found.digest not in self._left_out]
            if not wanted:
                return count
            texts = await run_in_thread(self._read_texts, wanted)
            known = {text.digest for text in texts}
            self._left_out |= {found.digest for found in wanted} - known
            if texts:
                count += await self._add(texts)

    async def _add(self, texts: Sequence[_Text]) -> int:
        vectors = await self._embedder.embed([text.text for text in texts])
        name = await self._use(len(vectors[0]))
        packed = dict[bytes, bytes]()
        for text, vector in zip(texts, vectors, strict=True):
            data = pack(vector)
            if data is None:
                self._left_out.add(text.digest)
            else:
                packed[text.digest] = data
        await run_in_thread(self._store.add_vectors, name, packed)
        return len(packed)

    async def _use(self, dimensions: int) -> str:
        """Remove vectors of another model or dimension, and return the name of the model."""
        name = f"{self._embedder.name}, {dimensions} dimensions"
        if await run_in_thread(self._store.use_embedding, name):
            self._resets += 1
            if self._resets > MAX_RESETS:
                raise EmbeddingError(
                    f"{self._embedder.name} returns embeddings of changing dimensions.",
                    hint="Use another embedding model, or set semantic_search.embeddings to off.",
                )
        return name

    def _read_texts(self, chunks: Sequence[Found]) -> list[_Text]:
        texts = list[_Text]()
        opener = FileOpener(str(self._store.folder.root), self._settings.max_file_size)
        try:
            for found in chunks:
                text = self._read_text(opener, found)
                if text:
                    texts.append(_Text(found.digest, text))
        finally:
            opener.close()
        return texts

    def _read_text(self, opener: FileOpener, found: Found) -> str:
        """Return the text of a chunk; empty if its file has changed."""
        try:
            lines = split_lines(decode(opener.read(found.path)))
        except (OSError, UnsuitableFile):
            return ""
        text = "\n".join(lines[found.first - 1 : found.last])
        if bytes.fromhex(compute_digest(found.symbol, text)) != found.digest:
            return ""
        if self._embedder.is_remote:
            text = self._redact(text, os.fsdecode(found.path))
        return f"{found.symbol}\n{text[:MAX_TEXT]}"
