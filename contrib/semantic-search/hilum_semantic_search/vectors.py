"""Stores embeddings in a few bytes, and finds those nearest to a question. Needs numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hilum_semantic_search.store import IndexStore

_ROWS = 16_384
"""Number of vectors that are compared at once, which limits the memory for it."""


def pack(vector: Sequence[float]) -> bytes | None:
    """Return a vector of length 1 as one byte a number; ``None`` if its direction is undefined.

    The scale is left out: it does not change the order of the cosines noticeably, because the
    vectors are normalized again when they are read.
    """
    array = np.asarray(vector, dtype=np.float32)
    largest = float(np.abs(array).max()) if array.size else 0.0
    if not np.isfinite(array).all() or largest == 0:
        return None
    return np.round(array / largest * 127).astype(np.int8).tobytes()


class VectorCache:
    """The vectors of an index in memory, read again when they have changed.

    Args:
        store: The index.
    """

    def __init__(self, store: IndexStore) -> None:
        self._store = store
        self._name = ""
        self._digests: list[bytes] = []
        self._matrix: npt.NDArray[np.int8] = np.empty((0, 0), np.int8)
        self._norms: npt.NDArray[np.float32] = np.empty(0, np.float32)

    def find_nearest(self, question: Sequence[float], limit: int) -> dict[bytes, float]:
        """Return the hashes of the chunks nearest to a question with their cosines. Blocks."""
        self._refresh()
        wanted = np.asarray(question, dtype=np.float32)
        length = float(np.linalg.norm(wanted))
        if not self._digests or wanted.size != self._matrix.shape[1] or not 0 < length < np.inf:
            return {}
        parts = [
            self._matrix[start : start + _ROWS].astype(np.float32) @ wanted
            for start in range(0, len(self._digests), _ROWS)
        ]
        cosines = np.concatenate(parts) / (self._norms * length)
        count = min(limit, len(cosines))
        best = np.argpartition(-cosines, count - 1)[:count]
        return {self._digests[index]: float(cosines[index]) for index in best}

    def _refresh(self) -> None:
        read = self._store.read_vectors(self._name)
        if read is None:
            return
        self._name, rows = read
        sizes = {len(vector) for _, vector in rows}
        if len(sizes) != 1:
            # Vectors of several dimensions can only come from damage; none of them is used.
            rows = []
        self._digests = [digest for digest, _ in rows]
        raw = b"".join(vector for _, vector in rows)
        shape = (len(rows), sizes.pop() if rows else 0)
        self._matrix = np.frombuffer(raw, dtype=np.int8).reshape(shape)
        squares = np.einsum("ij,ij->i", self._matrix, self._matrix, dtype=np.float32)
        self._norms = np.maximum(np.sqrt(squares), 1.0).astype(np.float32)
