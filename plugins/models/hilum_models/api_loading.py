"""Loads the wire formats by name, each on first use."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from hilum.errors import unknown_name_error
from hilum.models import Wire

from hilum_models.apis import Api
from hilum_models.encode import Target
from hilum_models.text_tools import TextToolsWire

# A session uses one format, so the others are never loaded.
_MODULES = {
    "chat": "openai_chat",
    "responses": "openai_responses",
    "anthropic": "anthropic",
    "gemini": "gemini",
}


def load_api(name: str) -> Api:
    """Return the wire format with the given name.

    Raises:
        UsageError: There is no such format.
    """
    if name not in _MODULES:
        raise unknown_name_error("wire format", name, tuple(_MODULES))
    module = import_module(f"hilum_models.{_MODULES[name]}")
    api: Api = module.API
    return api


def create_wire(
    api: str,
    model: str,
    *,
    tool_protocol: str = "native",
    max_output: int = 0,
    images: bool = True,
    effort: str = "",
    options: Mapping[str, Any] | None = None,
    host: str = "",
) -> Wire:
    """Create the wire that encodes requests for a model.

    Args:
        api: ``chat``, ``responses``, ``anthropic`` or ``gemini``.
        model: ``provider/name``.
        tool_protocol: ``native``, or ``text`` for models without tool calling.
        max_output: Maximum number of tokens in an answer; 0 for the provider's default.
        images: Whether images are sent.
        effort: Reasoning effort, in the vendor's terms.
        options: Additional fields for the request.
        host: Host of the server, which decides on names of fields; by default, that of the vendor.

    Raises:
        UsageError: There is no such format.
    """
    target = Target(model, max_output, images, effort, dict(options or {}), host)
    wire = load_api(api).create_wire(target)
    if tool_protocol == "text":
        return TextToolsWire(wire)
    return wire
