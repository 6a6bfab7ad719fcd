"""``/setup``: the guided setup of a model."""

from __future__ import annotations

from hilum_terminal.chat_protocol import Chat
from hilum_terminal.setup import set_up


async def set_up_model(chat: Chat, arguments: str) -> None:
    """Choose a model, and use it in this session from now on."""
    model = await set_up(chat)
    if model:
        chat.session.set(model=model)
