"""What the parts of the setup share: how they ask, and how they describe a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from hilum_terminal.chat_protocol import Choice
from hilum_terminal.styles import Style
from hilum_terminal.text_width import one_line

if TYPE_CHECKING:
    from hilum import HilumError, ProviderStatus, Session
    from hilum.models import ModelInfo


class Asker(Protocol):
    """The part of ``Chat`` that the setup uses."""

    @property
    def session(self) -> Session:
        """The open session."""
        ...

    def say(self, text: str, *, style: Style = "plain") -> None:
        """Write text above the input."""

    def show_error(self, error: HilumError) -> None:
        """Show an error with its code and hint."""

    async def choose(
        self, title: str, choices: Sequence[Choice], *, selected: int = 0, empty: str = ""
    ) -> Choice | None:
        """Return the user's choice, or ``None`` if the user pressed Esc."""

    async def ask(self, question: str, *, default: str = "", secret: bool = False) -> str | None:
        """Ask for a line of text; return ``None`` if the user pressed Esc."""


def describe_model(status: ProviderStatus, info: ModelInfo) -> str:
    """Return a model's window, its price if it is known, and its server or the place of its key."""
    parts = [f"{_format_window(info.window)} window"]
    if info.price is not None:
        parts.append(f"${info.price.input:g} / ${info.price.output:g} per million tokens")
    elif status.local:
        parts.append("free")
    parts.append(f"key in {status.key}" if status.key else status.address)
    return one_line(" · ".join(parts))


def _format_window(tokens: int) -> str:
    if tokens >= 1_000_000:
        return f"{tokens / 1e6:.3g}M"
    return f"{tokens // 1000}k"
