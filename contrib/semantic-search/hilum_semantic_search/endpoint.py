"""Requests embeddings from an OpenAI-compatible API. This is the only module that imports httpx."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx
import msgspec
import trio
from hilum import errors, find_proxy
from hilum_models import SingleUseBody

from hilum_semantic_search.embedder import EmbeddingError

if TYPE_CHECKING:
    from hilum_semantic_search.settings import SemanticSearchSettings

MAX_ANSWER = 50_000_000
CONNECT_TIMEOUT = 5.0
QUERY_TIMEOUT = 3.0
"""Seconds that a search waits for the embedding of its question."""
MAX_DIMENSION = 10_000
MAX_NUMBER = 1e16
"""Numbers in embeddings are around one; the length of a larger vector overflows in 32 bits."""
_OPENAI = "api.openai.com"


class _Item(msgspec.Struct):
    embedding: list[float]
    index: int | None = None


class _Answer(msgspec.Struct):
    data: list[_Item]


class EndpointEmbedder:
    """Requests embeddings from a server.

    Args:
        settings: The URL, the model and the key.
        environ: The variables, which may contain the key.

    Raises:
        EmbeddingError: The URL is not valid.
    """

    batch = 64
    is_remote = True

    def __init__(self, settings: SemanticSearchSettings, environ: Mapping[str, str]) -> None:
        base = settings.embedding_url.rstrip("/")
        host = _find_host(base)
        if not host:
            raise EmbeddingError(
                "semantic_search.embedding_url is not a URL that begins with http:// or https://.",
                code=errors.E_BAD_ARGS,
                hint="Correct the setting.",
            )
        key = settings.embedding_key
        # A key for OpenAI must not reach another server.
        if not key and host == _OPENAI:
            key = environ.get("OPENAI_API_KEY", "")
        self._url = f"{base}/embeddings"
        self._host = host
        self._model = settings.embedding_model
        self._timeout = settings.embedding_timeout
        self.name = f"{self._model} at {host}"
        self._client = httpx.AsyncClient(
            headers={"authorization": f"Bearer {key}"} if key else {},
            proxy=find_proxy(base) or None,
            trust_env=False,  # find_proxy() finds the proxy; credentials in .netrc are not used
            follow_redirects=False,  # a redirect would send the key and the code elsewhere
            # Loading certificates takes 20 ms, and plain HTTP requires none.
            verify=httpx.create_ssl_context() if base.startswith("https://") else False,
            timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT),
        )

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> list[list[float]]:
        """Return one embedding for each text (see ``Embedder``)."""
        seconds = min(QUERY_TIMEOUT, self._timeout) if query else self._timeout
        body = b""
        status = 0
        try:
            with trio.move_on_after(seconds) as scope:
                status, body = await self._request(texts)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise self._make_error(
                f"cannot be reached: {type(error).__name__}", errors.E_UNREACHABLE
            ) from None
        if scope.cancelled_caught:
            raise self._make_error(f"did not answer within {seconds:g} s", errors.E_TIMEOUT)
        if status != httpx.codes.OK:
            raise self._make_error(f"answered with {status}", errors.E_HTTP)
        return self._read_answer(body, len(texts))

    async def _request(self, texts: Sequence[str]) -> tuple[int, bytes]:
        data = {"model": self._model, "input": list(texts), "encoding_format": "float"}
        body = bytearray()
        is_too_large = False
        request = self._client.build_request("POST", self._url, json=data)
        request.stream = SingleUseBody(request.content)
        response = await self._client.send(request, stream=True)
        try:
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MAX_ANSWER:
                    # The next read fails, which closes httpx's nested generators.
                    is_too_large = True
                    await response.aclose()
        except httpx.HTTPError:
            if not is_too_large:
                raise
        finally:
            await response.aclose()
        if is_too_large:
            raise self._make_error(
                f"answered with more than {MAX_ANSWER:,} bytes", errors.E_CONTENT
            )
        return response.status_code, bytes(body)

    def _read_answer(self, body: bytes, count: int) -> list[list[float]]:
        try:
            items = msgspec.json.decode(body, type=_Answer).data
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            raise self._make_error("did not return embeddings", errors.E_CONTENT) from None
        # The order of the items is not guaranteed, but their index is.
        indexes = sorted(item.index for item in items if item.index is not None)
        if indexes:
            if indexes != list(range(len(items))):
                raise self._make_error("returned indexes that do not match", errors.E_CONTENT)
            items = sorted(items, key=_get_index)
        vectors = [item.embedding for item in items]
        dimensions = {len(vector) for vector in vectors}
        is_whole = len(vectors) == count and len(dimensions) == 1
        if not is_whole or not 0 < dimensions.pop() <= MAX_DIMENSION:
            raise self._make_error("returned incomplete embeddings", errors.E_CONTENT)
        if not all(map(_has_direction, vectors)):
            raise self._make_error(
                "returned embeddings that are only zeros or too large", errors.E_CONTENT
            )
        return vectors

    def _make_error(self, what: str, code: str) -> EmbeddingError:
        # The URL is not shown, because it may contain a key.
        return EmbeddingError(
            f"The embedding server {self._host} {what}.",
            code=code,
            hint="Check semantic_search.embedding_url, embedding_model and embedding_key.",
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def _get_index(item: _Item) -> int:
    return item.index or 0


def _has_direction(vector: Sequence[float]) -> bool:
    """Return whether a vector can be compared: its length is neither zero nor infinite."""
    return 0 < max(map(abs, vector)) <= MAX_NUMBER


def _find_host(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return ""
    return parts.hostname if port is None else f"{parts.hostname}:{port}"
