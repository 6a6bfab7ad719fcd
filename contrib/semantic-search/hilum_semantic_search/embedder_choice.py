"""Chooses by the settings what computes embeddings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from hilum import errors

from hilum_semantic_search.embedder import Embedder, EmbeddingError

if TYPE_CHECKING:
    import trio
    from hilum import ContentPolicy
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


def find_redaction(embedder: Embedder, policy: ContentPolicy | None) -> Callable[[str, str], str]:
    """Return the function that removes secrets from a text of a file before it is embedded.

    Raises:
        EmbeddingError: No plugin removes secrets, and texts leave this machine.
    """
    if policy is not None:
        return policy.redact
    if embedder.is_remote:
        raise EmbeddingError(
            "Code is sent to a server only if a plugin can remove secrets from it.",
            hint="pip install hilum-guard",
        )
    return _keep_text


def _keep_text(text: str, path: str) -> str:
    return text
