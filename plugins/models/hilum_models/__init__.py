"""Gateways to models: OpenAI chat completions and responses, Anthropic, Gemini, and servers
compatible with them.

``ask`` asks a model beside an agent's conversation, ``wire_for`` encodes requests in any of these
formats, ``proxy_for`` names the proxy for an address; everything else is reached through the model
protocol of hilum.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any

from hilum import hookimpl

from hilum_models.settings import ModelsSettings as ModelsSettings

if TYPE_CHECKING:
    from hilum import Kernel, models

    from hilum_models.apis import wire_for as wire_for
    from hilum_models.asking import ask as ask
    from hilum_models.transport import proxy_for as proxy_for

__all__ = [
    "Gateways",
    "ModelsSettings",
    "ask",
    "open_kernel",
    "provide_models",
    "proxy_for",
    "wire_for",
]


class Gateways:
    """The kernel's connections to providers."""

    def __init__(self) -> None:
        from hilum_models.transport import Transport

        self.transport = Transport()


@hookimpl
async def open_kernel(kernel: Kernel) -> AsyncIterator[Gateways]:
    """Keep the connections as long as the kernel."""
    gateways = Gateways()
    try:
        yield gateways
    finally:
        await gateways.transport.aclose()


@hookimpl
def provide_models(kernel: Kernel) -> Iterable[models.Provider]:
    """Return the known providers and the user's own."""
    gateways = kernel.half(Gateways)
    if gateways is None:
        return []
    from hilum_models.providers import providers

    return providers(kernel.settings(ModelsSettings), kernel.environ, gateways.transport)


def __getattr__(name: str) -> Any:
    home = {"ask": "asking", "proxy_for": "transport", "wire_for": "apis"}.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"hilum_models.{home}"), name)
