"""Serves sessions over HTTP: operations, event streams and a web page.

Importing this package is cheap, because every kernel loads it; the server is imported when it
starts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from hilum import Interpretation, PromptCommand, hookimpl

from hilum_serve.settings import ServeSettings
from hilum_serve.sharing import SessionSharing, open_sharing

if TYPE_CHECKING:
    from hilum import Session

__all__ = [
    "ServeSettings",
    "SessionSharing",
    "interpret_prompt",
    "list_commands",
    "open_session",
]


@hookimpl
async def open_session(session: Session) -> AsyncIterator[SessionSharing]:
    """Yield the object that serves the session after ``/share``, and stop it at the end."""
    async with open_sharing(session) as sharing:
        yield sharing


@hookimpl
def list_commands() -> list[PromptCommand]:
    """Return the command ``/share``."""
    summary = "Open this conversation in the browser, too"
    return [PromptCommand("share", summary, "[stop]", ("stop",))]


@hookimpl
async def interpret_prompt(session: Session, text: str) -> Interpretation | None:
    """Run ``/share``."""
    words = text.split()
    if words[:1] != ["/share"] or not text.startswith("/share"):
        return None
    sharing = session.plugin(SessionSharing)
    if sharing is None:
        return Interpretation(text, reply="This conversation cannot be shared.")
    return Interpretation(text, reply=await sharing.run(words[1:]))
