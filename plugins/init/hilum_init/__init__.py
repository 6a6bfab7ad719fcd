"""Drafts AGENTS.md: the command ``hilum init`` and, in a session, ``/init``.

Modules are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hilum import Interpretation, PromptCommand, hookimpl

if TYPE_CHECKING:
    from hilum import Session

__all__ = ["interpret_prompt", "list_commands"]


@hookimpl
def list_commands() -> list[PromptCommand]:
    """Return the command ``/init``."""
    return [PromptCommand("init", "Let the agent write AGENTS.md", "[FOCUS]")]


@hookimpl
async def interpret_prompt(session: Session, text: str) -> Interpretation | None:
    """Interpret ``/init``, which asks the agent to write AGENTS.md."""
    words = text.split(None, 1)
    # A space before the command makes it plain text.
    if not text.startswith("/") or words[0] != "/init":
        return None
    from hilum_init.init_command import interpret_init

    return Interpretation(await interpret_init(session.workspace.root, text))
