"""Requests the list of a server's models, and their capabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import trio
from hilum.errors import ModelError

from hilum_models.failures import Endpoint
from hilum_models.json_values import decode_document, get_text
from hilum_models.transport import Transport

# Parts of names that identify models that cannot hold a conversation.
_OTHER_PURPOSES = (
    "embed",
    "whisper",
    "tts",
    "dall-e",
    "moderation",
    "rerank",
    "transcribe",
    "imagen",
    "veo",
    "-image",
)
# Maximum number of models whose capabilities are requested, each in a separate request.
MAX_DESCRIBED = 40
MAX_DESCRIPTION = 4 << 20  # bytes


async def list_models(
    transport: Transport, url: str, headers: Mapping[str, str], endpoint: Endpoint, timeout: float
) -> list[str]:
    """Return the names of a server's chat models, in the order in which the server lists them.

    Raises:
        ModelError: The server did not respond within ``timeout`` seconds, or did not respond with a
            list of models.
    """
    names = read_model_names(await transport.fetch(url, headers, endpoint, timeout))
    if names is None:
        raise ModelError(f"{endpoint.provider} does not list its models at {url}.", kind="request")
    return names


def read_model_names(document: bytes) -> list[str] | None:
    """Return the names of the chat models in a server's list; None if it is not such a list."""
    value = decode_document(document)
    if isinstance(value, dict):
        if not value.keys() & {"data", "models"}:
            return None
        # OpenAI's list is in `data`, Gemini's in `models`.
        value = value.get("data") or value.get("models") or []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        return None
    names = []
    for item in value:
        name = get_text(item, "id") or get_text(item, "name")
        names.append(name.removeprefix("models/"))  # Gemini lists paths
    return [name for name in names if name and not _has_other_purpose(name)]


def _has_other_purpose(name: str) -> bool:
    lowered = name.lower()
    return any(part in lowered for part in _OTHER_PURPOSES)


async def fetch_ollama_facts(
    transport: Transport,
    base: str,
    headers: Mapping[str, str],
    endpoint: Endpoint,
    names: Sequence[str],
    timeout: float,
) -> dict[str, dict[str, int | bool]]:
    """Return the capabilities of Ollama's models, except for those that do not arrive in time."""
    facts: dict[str, dict[str, int | bool]] = {}

    async def fetch(name: str) -> None:
        body = msgspec.json.encode({"model": name})
        try:
            # Ollama's OpenAI-compatible list of models contains no capabilities.
            async with transport.send("POST", f"{base}/api/show", headers, endpoint, body) as reply:
                document = await reply.read(MAX_DESCRIPTION) if reply.status == 200 else b""
        except ModelError:
            # Without a response, the catalog determines the capabilities.
            return
        value = decode_document(document)
        capabilities = value.get("capabilities") if isinstance(value, dict) else None
        if isinstance(capabilities, list):
            facts[name] = {"tools": "tools" in capabilities, "images": "vision" in capabilities}

    with trio.move_on_after(timeout):
        async with trio.open_nursery() as nursery:
            for name in names[:MAX_DESCRIBED]:
                nursery.start_soon(fetch, name)
    return facts
