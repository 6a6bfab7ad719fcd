"""Gateways to models: OpenAI chat completions and responses, Anthropic, Gemini, compatible servers.

Other plugins reach models through the model protocol of hilum. ``create_wire`` encodes requests in
any of the formats.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any

from hilum import hookimpl

from hilum_models.settings import ModelsSettings as ModelsSettings

if TYPE_CHECKING:
    from hilum import Kernel, models

    from hilum_models.api_loading import create_wire as create_wire

__all__ = ["Gateways", "ModelsSettings", "create_wire", "open_kernel", "provide_models"]


class Gateways:
    """The kernel's connections to providers."""

    def __init__(self) -> None:
        from hilum_models.transport import Transport

        self.transport = Transport()


@hookimpl
async def open_kernel(kernel: Kernel) -> AsyncIterator[Gateways]:
    """Keep the connections open until the kernel closes."""
    gateways = Gateways()
    try:
        yield gateways
    finally:
        await gateways.transport.aclose()


@hookimpl
def provide_models(kernel: Kernel) -> Iterable[models.Provider]:
    """Return the known providers and the user's own."""
    gateways = kernel.plugin(Gateways)
    if gateways is None:
        return []
    from hilum_models.providers import create_providers

    settings = kernel.settings(ModelsSettings)
    return create_providers(settings, kernel.environ, gateways.transport)


def __getattr__(name: str) -> Any:
    if name != "create_wire":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hilum_models.api_loading import create_wire

    return create_wire
