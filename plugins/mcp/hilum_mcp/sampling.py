"""Handles a server's requests to the model (sampling) after the user has agreed to them.

A server's requests are not part of the agent's conversation.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

import mcp_types
from hilum import AssistantMessage, Image, Message, Text, UserMessage, models

if TYPE_CHECKING:
    from hilum import Agent


def format_request(request: Any) -> str:
    """Return a server's request as text for the user."""
    lines = [f"system: {request.system_prompt}"] if request.system_prompt else []
    for message in request.messages:
        lines += [f"{message.role}: {_text_of(block)}" for block in message.content_as_list]
    return "\n".join(lines)


def _text_of(block: Any) -> str:
    return str(getattr(block, "text", f"[{block.type}]"))


def convert_messages(request: Any, source: str) -> list[Message]:
    """Convert a server's messages to hilum's types; notes replace content that a model cannot read.

    Args:
        request: The SDK's ``CreateMessageRequestParams``.
        source: The origin of the texts.
    """
    messages: list[Message] = []
    for message in request.messages:
        parts = [_convert_block(block, source) for block in message.content_as_list]
        if message.role == "user":
            messages.append(UserMessage(tuple(parts)))
            continue
        # Most model providers reject images in assistant messages.
        texts = []
        for part, block in zip(parts, message.content_as_list, strict=True):
            texts.append(part if isinstance(part, Text) else Text(_text_of(block), source))
        messages.append(AssistantMessage(tuple(texts)))
    return messages


def _convert_block(block: Any, source: str) -> Text | Image:
    if block.type == "image":
        try:
            data = base64.b64decode(block.data, validate=True)
        except (binascii.Error, ValueError):
            return Text(_text_of(block), source)
        return Image(block.mime_type, data, source)
    return Text(_text_of(block), source)


async def ask_model(agent: Agent, request: Any, server: str) -> mcp_types.CreateMessageResult:
    """Send one request to the agent's model. The usage is added to that of the agent's run.

    Args:
        agent: The agent whose call the server is processing.
        request: The SDK's ``CreateMessageRequestParams``.
        server: The server's name.

    Raises:
        HilumError: The model does not exist, or did not respond.
    """
    instructions = (
        f"The MCP server {server} sends this request, and the user agreed to "
        f"it.\n{request.system_prompt or ''}".rstrip()
    )
    messages = convert_messages(request, f"tool:mcp {server}")
    answer = await models.ask_model(
        agent,
        agent.model,
        instructions,
        messages,
        purpose=f"mcp {server}",
    )
    return mcp_types.CreateMessageResult(
        role="assistant",
        content=mcp_types.TextContent(type="text", text=answer.text),
        model=answer.model,
        stop_reason="maxTokens" if answer.stop == "length" else "endTurn",
    )
