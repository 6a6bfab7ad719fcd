"""The interface of what computes embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hilum import HilumError, errors


class EmbeddingError(HilumError):
    """Embeddings could not be computed; the search continues with words alone."""

    code = errors.E_FAILED


class Embedder(Protocol):
    """Computes embeddings of texts."""

    @property
    def name(self) -> str:
        """The name of the model and of where it runs."""
        ...

    @property
    def batch(self) -> int:
        """Number of texts in one request."""
        ...

    @property
    def is_remote(self) -> bool:
        """Whether texts leave this machine, so that secrets must be removed from them."""
        ...

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> list[list[float]]:
        """Return one embedding for each text, all of the same dimension.

        Args:
            texts: The texts.
            query: Whether a search waits for the result.

        Raises:
            EmbeddingError: The embeddings could not be computed.
        """
        ...

    async def aclose(self) -> None:
        """Release what computes embeddings."""
        ...
