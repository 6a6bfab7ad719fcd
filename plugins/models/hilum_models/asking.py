"""Asking a model on behalf of an agent, beside its conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import trio
from hilum import AssistantMessage, Layer, Text, UserMessage
from hilum.events import ModelUsed
from hilum.models import Request, read_answer

if TYPE_CHECKING:
    from hilum import Agent, Message


async def ask(
    agent: Agent, name: str, instructions: str, said: str | Sequence[Message], *, purpose: str
) -> AssistantMessage:
    """Ask a model one thing, once. What it uses counts to the agent's run.

    Args:
        agent: For whom.
        name: The model, ``provider/name`` or a role.
        instructions: The system prompt. By its first line a cassette tells what is asked: it says
            who asks what.
        said: What to answer.
        purpose: What for, as the log says it.

    Returns:
        The whole answer.

    Raises:
        HilumError: There is no such model, or it did not answer.
    """
    session = agent.session
    model = session.kernel.router.model(name)
    wire = model.wire
    layers = (Layer(0, purpose, instructions),)
    messages = (UserMessage((Text(said, "kernel"),)),) if isinstance(said, str) else tuple(said)
    body = wire.body(wire.head(layers, ()), [wire.message(message) for message in messages])
    request = Request(body, layers, (), messages, session.id, f"{agent.name}/{purpose}")
    began = trio.current_time()
    options = session.options
    done = await read_answer(
        model, request, silence=options.silence, longest=options.answer_timeout
    )
    usage = done.usage
    price = model.info.price
    answer = done.message
    if usage.cost is None and price is not None:
        usage = msgspec.structs.replace(usage, cost=price.cost(usage))
    if not answer.model:
        answer = msgspec.structs.replace(answer, model=model.info.name)
    # No tools are offered here, so that the name of a call is free text of the model, too.
    logged = await session.redaction.loggable(answer)
    agent.emit(
        ModelUsed(
            model=model.info.name,
            purpose=purpose,
            asked=instructions.partition("\n")[0],
            message=logged,
            usage=usage,
            seconds=trio.current_time() - began,
        )
    )
    return answer
