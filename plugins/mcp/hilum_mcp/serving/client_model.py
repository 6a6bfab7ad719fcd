"""A model that stands in for a client of the server and makes the client's calls.

Each call of a client is a run of a separate agent with the model ``client/mcp``. The model requests
this one call, and then the run ends. The client's call therefore passes the same gates and limits,
and causes the same events, as any other tool call.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

from hilum.errors import unknown_name_error
from hilum.messages import AssistantMessage, Text, ToolCall
from hilum.models import Chunk, Done, EmptyWire, Model, ModelInfo, Request, Wire

PROVIDER = "client"
NAME = "mcp"
MODEL = f"{PROVIDER}/{NAME}"

# Context window in tokens, so small that hilum gathers no context for the model.
WINDOW = 100


class ClientModel:
    """A model that requests given calls, and its provider.

    The class implements ``hilum.models.Model`` and ``Provider``. The model receives no messages, so
    messages use no space in its context window.

    Attributes:
        calls: The call for the next run of each agent, by the agent's name.
    """

    name = PROVIDER
    info = ModelInfo(MODEL, window=WINDOW, max_output=0, images=True)

    def __init__(self) -> None:
        self.calls: dict[str, ToolCall] = {}
        self.wire: Wire = EmptyWire()

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Chunk]]:
        """Yield a stream with the call or, after the call, with the final message."""
        async with aclosing(self._answer(request.agent)) as chunks:
            yield chunks

    async def _answer(self, agent: str) -> AsyncGenerator[Chunk, None]:
        call = self.calls.pop(agent, None)
        if call is not None:
            yield Done(AssistantMessage((call,), MODEL, "calls"))
        else:
            yield Done(
                AssistantMessage((Text(("The client has received the result."), "model"),), MODEL)
            )

    # --- as a provider ----------------------------------------------------------------------------

    def model(self, name: str) -> Model:
        """Return this object, which is also the model.

        Raises:
            UsageError: A different model is requested.
        """
        if name != NAME:
            raise unknown_name_error("model", f"{PROVIDER}/{name}", [MODEL])
        return self

    async def suggest(self) -> str | None:
        """Return no suggestion, because no other agent can use this model."""
        return None

    async def names(self) -> list[str]:
        """Return the names of this provider's models."""
        return [NAME]
