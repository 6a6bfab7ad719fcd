"""``/init``: writes an AGENTS.md for the project."""

from __future__ import annotations

from hilum_terminal.chat_protocol import Chat
from hilum_terminal.init_project import init_project


async def init(chat: Chat, arguments: str) -> None:
    """Let the agent write AGENTS.md; without a model, write a draft."""
    await init_project(chat, arguments)
