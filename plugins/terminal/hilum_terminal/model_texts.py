"""Texts about models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hilum_terminal.text_width import one_line

if TYPE_CHECKING:
    from hilum import ProviderStatus
    from hilum.models import ModelInfo


def describe_model(status: ProviderStatus, info: ModelInfo) -> str:
    """Return a model's window, its price if it is known, and its server or the place of its key."""
    assumed = " assumed" if info.window_assumed else ""
    parts = [f"{_format_window(info.window)} window{assumed}"]
    if info.price is not None:
        parts.append(f"${info.price.input:g} / ${info.price.output:g} per million tokens")
    elif status.local and not status.key:
        # A server on this machine that requires a key may pass requests on to a paid service.
        parts.append("free")
    parts.append(f"key in {status.key}" if status.key else status.address)
    return one_line(" · ".join(parts))


def _format_window(tokens: int) -> str:
    if tokens >= 1_000_000:
        return f"{tokens / 1e6:.3g}M"
    return f"{tokens // 1000}k"
