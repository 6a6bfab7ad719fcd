"""Other agents that work as agents of a session, in hilum's sandbox and under its rules."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING

from hilum import hookimpl
from hilum_agents.guest_models import MODEL_PROVIDER

if TYPE_CHECKING:
    from hilum import Kernel, Session
    from hilum.models import Provider

    from hilum_acp.guests.guests import Guests

__all__ = ["MODEL_PROVIDER", "gates", "open_session", "provide_models"]

gates = ("on_tool_call",)


@hookimpl
def provide_models(kernel: Kernel) -> Iterable[Provider]:
    """Return the provider whose models are programs."""
    from hilum_acp.guests.guest_model import GuestProvider

    return [GuestProvider()]


@hookimpl
async def open_session(session: Session) -> AsyncIterator[Guests]:
    """Yield the session plugin that runs the programs."""
    from hilum_acp.guests.guests import open_guests

    async with open_guests(session) as guests:
        yield guests
