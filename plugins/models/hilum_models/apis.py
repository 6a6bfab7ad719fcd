"""The wire formats by name, and what each needs besides its wire: path, key header, reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from hilum.errors import unknown
from hilum.models import Wire

from hilum_models.answer import Reader
from hilum_models.encode import Target
from hilum_models.failures import Who


class Api(msgspec.Struct, frozen=True):
    """A wire format.

    Attributes:
        name: ``chat``, ``responses``, ``anthropic`` or ``gemini``.
        path: Path below the base URL; ``{model}`` stands for the model's name.
        models: Path of the list of models below the base URL.
        wire: Makes the wire for a target.
        read: Makes a reader for a response.
        key_headers: Gives the headers that carry a key.
        headers: Headers of every request.
    """

    name: str
    path: str
    models: str
    wire: Callable[[Target], Wire]
    read: Callable[[str, bytes, Who], Reader]
    key_headers: Callable[[str], Mapping[str, str]]
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)


APIS = ("chat", "responses", "anthropic", "gemini")


def _bearer(key: str) -> Mapping[str, str]:
    return {"authorization": f"Bearer {key}"}


def api(name: str) -> Api:
    """Return the wire format of that name. Its module is loaded at first use.

    Raises:
        UsageError: There is no such format.
    """
    if name == "chat":
        from hilum_models.openai_chat import ChatReader, ChatWire

        return Api(name, "/chat/completions", "/models", ChatWire, ChatReader, _bearer)
    if name == "responses":
        from hilum_models.openai_responses import ResponsesReader, ResponsesWire

        return Api(name, "/responses", "/models", ResponsesWire, ResponsesReader, _bearer)
    if name == "anthropic":
        from hilum_models.anthropic import AnthropicReader, AnthropicWire

        def key_header(key: str) -> Mapping[str, str]:
            return {"x-api-key": key}

        version = {
            "anthropic-version": "2023-06-01",
            "anthropic-beta": "thinking-binding-controls-2026-08-01",
        }
        return Api(
            name, "/v1/messages", "/v1/models", AnthropicWire, AnthropicReader, key_header, version
        )
    if name == "gemini":
        from hilum_models.gemini import GeminiReader, GeminiWire

        def goog_header(key: str) -> Mapping[str, str]:
            return {"x-goog-api-key": key}

        path = "/models/{model}:streamGenerateContent?alt=sse"
        return Api(name, path, "/models", GeminiWire, GeminiReader, goog_header)
    raise unknown("wire format", name, APIS)


def wire_for(
    api_name: str,
    model: str,
    *,
    tool_protocol: str = "native",
    max_output: int = 0,
    images: bool = True,
    effort: str = "",
    options: Mapping[str, Any] | None = None,
) -> Wire:
    """Create the wire that encodes for a model.

    Args:
        api_name: ``chat``, ``responses``, ``anthropic`` or ``gemini``.
        model: ``provider/name``.
        tool_protocol: ``native``, or ``text`` for models without tool calling.
        max_output: Most tokens of an answer, 0 for what the provider does by itself.
        images: Whether images are sent.
        effort: How hard the model thinks, in the vendor's word.
        options: Further fields of the request.

    Raises:
        UsageError: There is no such format.
    """
    wire = api(api_name).wire(Target(model, max_output, images, effort, dict(options or {})))
    if tool_protocol == "text":
        from hilum_models.textual import TextualWire

        return TextualWire(wire)
    return wire
