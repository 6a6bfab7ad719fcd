"""What computes embeddings: the interface, and the choice by the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

from hilum import HilumError, errors

if TYPE_CHECKING:
    import trio
    from hilum.processes import Processes

    from hilum_semantic_search.settings import SemanticSearchSettings


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


def make_embedder(
    settings: SemanticSearchSettings,
    processes: Processes,
    environ: Mapping[str, str],
    nursery: trio.Nursery,
) -> Embedder | None:
    """Create what the settings choose; ``None`` if embeddings are off.

    Raises:
        EmbeddingError: A package or a model is not installed, or the URL is not valid.
    """
    if settings.embeddings == "off":
        return None
    if find_spec("numpy") is None:
        raise EmbeddingError(
            "Embeddings need numpy.",
            code=errors.E_NOT_INSTALLED,
            hint="pip install 'hilum-semantic-search[embeddings]', or set"
            " semantic_search.embeddings to off.",
        )
    # Each of the two imports a library that the other does not need.
    if settings.embeddings == "endpoint":
        from hilum_semantic_search.endpoint import EndpointEmbedder

        return EndpointEmbedder(settings, environ)
    from hilum_semantic_search.local_model import LocalEmbedder

    return LocalEmbedder(settings, processes, nursery)
