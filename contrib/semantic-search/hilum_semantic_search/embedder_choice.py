"""Chooses by the settings what computes embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from hilum import errors

from hilum_semantic_search.embedder import Embedder, EmbeddingError

if TYPE_CHECKING:
    import trio
    from hilum.processes import Processes

    from hilum_semantic_search.settings import SemanticSearchSettings


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
