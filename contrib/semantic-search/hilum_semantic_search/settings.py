"""The settings of the plugin."""

from __future__ import annotations

from typing import Literal

from hilum import section, setting


@section("semantic_search")
class SemanticSearchSettings:
    """The index of the workspace, and the embeddings that rank its chunks by meaning."""

    index_at_start: bool = setting(
        default=False,
        project=False,
        help=(
            "Whether a session indexes its workspace when it opens. Without this, the first search"
            " does; an index that exists is always updated in the background."
        ),
    )
    deferred: bool = setting(
        default=True,
        project=False,
        help=(
            "Whether the model finds the tool through find_tools, so that its description costs no"
            " tokens in other sessions."
        ),
    )
    limit: int = setting(
        default=8,
        minimum=1,
        project="lower",
        help="Number of results if a call specifies none.",
    )
    max_characters: int = setting(
        default=10_000,
        minimum=1_000,
        project="lower",
        help="Maximum number of characters of the results together; the best one is always shown.",
    )
    wait: float = setting(
        default=20.0,
        minimum=0,
        project="lower",
        help=(
            "Seconds that a search waits for the index. After that, it searches the files that are"
            " indexed so far, and says so."
        ),
    )
    max_file_size: int = setting(
        default=1_000_000,
        minimum=1_000,
        project="lower",
        help="Size, in bytes, above which files are not indexed.",
    )
    max_files: int = setting(
        default=50_000,
        minimum=1,
        project="lower",
        help="Maximum number of files in an index.",
    )
    embeddings: Literal["off", "endpoint", "onnx"] = setting(
        default="off",
        project=False,
        help=(
            "What computes embeddings: off (only words are compared), endpoint (a server, see"
            " embedding_url) or onnx (a model on this machine)."
        ),
    )
    # The code of the workspace is sent there, so a project must not choose it.
    embedding_url: str = setting(
        default="https://api.openai.com/v1",
        project=False,
        help="Base URL of an OpenAI-compatible API; /embeddings is added to it.",
    )
    embedding_model: str = setting(
        default="text-embedding-3-small",
        project=False,
        help="Name of the embedding model at the endpoint.",
    )
    embedding_key: str = setting(
        default="",
        secret=True,
        help="Key for the endpoint; by default, for OpenAI's own, the variable OPENAI_API_KEY.",
    )
    embedding_timeout: float = setting(
        default=30.0,
        minimum=0.1,
        project=False,
        help="Seconds that the endpoint may take for one request.",
    )
    model_folder: str = setting(
        default="",
        project=False,
        help=(
            "Folder with model.onnx and tokenizer.json for onnx; by default, the model that"
            " hilum-semantic-search[onnx] installs."
        ),
    )
