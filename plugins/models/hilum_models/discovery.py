"""Asking a server which models it has, and what they can do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import trio
from hilum.errors import ModelError

from hilum_models.failures import Who
from hilum_models.transport import Transport

# Not models one talks to.
_OTHER = (
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
MOST_SHOWN = 40


async def list_models(
    transport: Transport, url: str, headers: Mapping[str, str], who: Who, seconds: float
) -> list[str]:
    """Return the names a server lists, in its order, without those that are not for talking.

    Raises:
        ModelError: It did not answer, or not with a list of models.
    """
    document = await transport.fetch(url, headers, who, seconds)
    try:
        value: Any = msgspec.json.decode(document)
    except (msgspec.DecodeError, UnicodeError):
        value = None
    if isinstance(value, dict):
        items = value.get("data") or value.get("models") or []
    else:
        items = value
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ModelError(f"{who.provider} does not list its models at {url}.", kind="request")
    names = [
        str(item.get("id") or item.get("name") or "").removeprefix("models/") for item in items
    ]
    return [name for name in names if name and not any(word in name.lower() for word in _OTHER)]


async def ollama_facts(
    transport: Transport,
    base: str,
    headers: Mapping[str, str],
    who: Who,
    names: Sequence[str],
    seconds: float,
) -> dict[str, dict[str, int | bool]]:
    """Ask ollama what its models can do; what cannot be learnt in time is left out."""
    facts: dict[str, dict[str, int | bool]] = {}

    async def ask(name: str) -> None:
        body = msgspec.json.encode({"model": name})
        try:
            async with transport.send("POST", f"{base}/api/show", headers, who, body) as response:
                if response.status == 200:
                    value = msgspec.json.decode(await response.read(4 << 20))
                else:
                    value = {}
        except (ModelError, msgspec.DecodeError, UnicodeError):
            return
        able = value.get("capabilities") if isinstance(value, dict) else None
        if isinstance(able, list):
            facts[name] = {"tools": "tools" in able, "images": "vision" in able}

    with trio.move_on_after(seconds):
        async with trio.open_nursery() as nursery:
            for name in names[:MOST_SHOWN]:
                nursery.start_soon(ask, name)
    return facts
