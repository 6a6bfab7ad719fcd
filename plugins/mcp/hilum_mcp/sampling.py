"""The model asked for a server, beside the agent's conversation, after the user has agreed."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from hilum import AssistantMessage, Image, Message, Text, UserMessage

if TYPE_CHECKING:
    from hilum import Agent


def shown(wanted: Any) -> str:
    """Return what a server wants to ask, for the user."""
    lines = [f"system: {wanted.system_prompt}"] if wanted.system_prompt else []
    for message in wanted.messages:
        lines += [
            f"{message.role}: {getattr(b, 'text', f'[{b.type}]')}" for b in message.content_as_list
        ]
    return "\n".join(lines)


def messages(wanted: Any, source: str) -> list[Message]:
    """Return what a server wants to ask as messages.

    What a model cannot read is named and left out.
    """
    found: list[Message] = []
    for message in wanted.messages:
        parts: list[Text | Image] = []
        for block in message.content_as_list:
            if block.type == "image" and message.role == "user":
                try:
                    parts.append(
                        Image(block.mime_type, base64.b64decode(block.data, validate=True), source)
                    )
                    continue
                except (binascii.Error, ValueError):
                    pass
            parts.append(Text(getattr(block, "text", f"[{block.type}]"), source))
        if message.role == "user":
            found.append(UserMessage(tuple(parts)))
        else:
            found.append(AssistantMessage(tuple(part for part in parts if isinstance(part, Text))))
    return found


async def answer(agent: Agent, wanted: Any, server: str) -> Any:
    """Ask the agent's model, once. What it uses counts to the agent's run.

    Args:
        agent: For whom.
        wanted: The SDK's ``CreateMessageRequestParams``.
        server: Name of the server.

    Returns:
        The SDK's ``CreateMessageResult``.

    Raises:
        HilumError: There is no such model, or it did not answer.
    """
    import mcp_types
    from hilum_models import ask

    instructions = (
        f"The MCP server {server} asks what follows, and the user lets"
        f" it.\n{wanted.system_prompt or ''}".rstrip()
    )
    said = messages(wanted, f"tool:mcp {server}")
    told = await ask(agent, agent.model, instructions, said, purpose=f"mcp {server}")
    content = mcp_types.TextContent(type="text", text=told.text)
    why = "maxTokens" if told.stop == "length" else "endTurn"
    return mcp_types.CreateMessageResult(
        role="assistant", content=content, model=told.model, stop_reason=why
    )
