"""The model asked for a server, beside the agent's conversation, after the user has agreed."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from hilum import AssistantMessage, Image, Layer, Message, ModelError, Text, UserMessage
from hilum.events import ModelUsed
from hilum.models import Done, Request

if TYPE_CHECKING:
    from hilum import Agent


def shown(wanted: Any) -> str:
    """Give what a server wants to ask, for the user."""
    lines = [f"system: {wanted.system_prompt}"] if wanted.system_prompt else []
    for message in wanted.messages:
        lines += [f"{message.role}: {getattr(b, 'text', f'[{b.type}]')}" for b in message.content_as_list]
    return "\n".join(lines)


def messages(wanted: Any, source: str) -> list[Message]:
    """Give what a server wants to ask as messages; what a model cannot read is named and left out."""
    found: list[Message] = []
    for message in wanted.messages:
        parts: list[Text | Image] = []
        for block in message.content_as_list:
            if block.type == "image" and message.role == "user":
                try:
                    parts.append(Image(block.mime_type, base64.b64decode(block.data, validate=True), source))
                    continue
                except (binascii.Error, ValueError):
                    pass
            parts.append(Text(getattr(block, "text", f"[{block.type}]"), source))
        if message.role == "user":
            found.append(UserMessage(tuple(parts)))
        else:
            found.append(AssistantMessage(tuple(part for part in parts if isinstance(part, Text))))
    return found


async def answer(agent: Agent, wanted: Any, purpose: str) -> Any:
    """Ask the agent's model, once. What it uses counts to the agent's run.

    Args:
        agent: For whom.
        wanted: The SDK's ``CreateMessageRequestParams``.
        purpose: What for, as the log says it.

    Returns:
        The SDK's ``CreateMessageResult``.

    Raises:
        HilumError: There is no such model, or it did not answer.
    """
    import mcp_types

    session = agent.session
    model = session.kernel.router.model(agent.model)
    layers = (Layer(0, purpose, wanted.system_prompt),) if wanted.system_prompt else ()
    asked = tuple(messages(wanted, f"tool:{purpose}"))
    body = model.wire.body(model.wire.head(layers, ()), [model.wire.message(message) for message in asked])
    request = Request(body, layers, (), asked, session.id, f"{agent.name}/{purpose}")
    began, silence = trio.current_time(), session.options.silence
    with trio.move_on_after(silence) as patience:
        async with model.stream(request) as chunks:
            async for chunk in chunks:
                patience.deadline = trio.current_time() + silence
                if isinstance(chunk, Done):
                    usage, price = chunk.usage, model.info.price
                    if usage.cost is None and price is not None:
                        usage = msgspec.structs.replace(usage, cost=price.cost(usage))
                    seconds = trio.current_time() - began
                    agent.emit(ModelUsed(model=model.info.name, purpose=purpose, usage=usage, seconds=seconds))
                    content = mcp_types.TextContent(type="text", text=chunk.message.text)
                    return mcp_types.CreateMessageResult(
                        role="assistant", content=content, model=model.info.name, stop_reason="endTurn"
                    )
    why = f"sent nothing for {silence:g} seconds" if patience.cancelled_caught else "broke off its answer"
    raise ModelError(f"{model.info.name} {why}.", kind="timeout" if patience.cancelled_caught else "broken")
