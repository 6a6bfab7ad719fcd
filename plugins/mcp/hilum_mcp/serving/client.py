"""A client of the server in the place of a model: what it calls is what the run calls, and the log
says so.

A call from outside is a run of an agent of its own, whose model is ``client/mcp``: it asks for that
one call and, once the call has ended, for nothing more. So every gate, limit and event is that of
any other call.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager

from hilum.errors import unknown
from hilum.messages import AssistantMessage, Layer, Message, Text, ToolCall, ToolSpec
from hilum.models import Chunk, Done, Model, ModelInfo, Request, Wire

PROVIDER = "client"
NAME = "mcp"
MODEL = f"{PROVIDER}/{NAME}"
WINDOW = 100


class Client:
    """Asks for the calls that it was given, by agent.

    Implements ``hilum.models.Model`` and ``Provider``.

    Nothing is sent to it, so messages take no room in its window; the window is too small for
    context to be gathered for it.

    Attributes:
        calls: The call that an agent's next run is to make, by the agent's name.
    """

    name = PROVIDER
    info = ModelInfo(MODEL, window=WINDOW, max_output=0, images=True)

    def __init__(self) -> None:
        self.calls: dict[str, ToolCall] = {}
        self.wire: Wire = _Nothing()

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Chunk]]:
        """Return the call, or the end."""
        async with aclosing(self._answer(request.agent)) as chunks:
            yield chunks

    async def _answer(self, agent: str) -> AsyncGenerator[Chunk, None]:
        call = self.calls.pop(agent, None)
        if call is not None:
            yield Done(AssistantMessage((call,), MODEL, "calls"))
        else:
            yield Done(AssistantMessage((Text("The client has the result.", "model"),), MODEL))

    # --- as a provider ----------------------------------------------------------------------------

    def model(self, name: str) -> Model:
        """Return itself.

        Raises:
            UsageError: Another name is asked for.
        """
        if name != NAME:
            raise unknown("model", f"{PROVIDER}/{name}", [MODEL])
        return self

    async def suggest(self) -> str | None:
        """Suggest nothing: nobody's own agent runs with it."""
        return None

    async def names(self) -> list[str]:
        """Name it."""
        return [NAME]


class _Nothing:
    """Encodes nothing: nothing is sent anywhere."""

    key = "nothing"

    def head(self, layers: Sequence[Layer], tools: Sequence[ToolSpec]) -> bytes:
        return b""

    def message(self, message: Message) -> bytes:
        return b""

    def body(self, head: bytes, pieces: Sequence[bytes]) -> bytes:
        return b""
