"""A model that is another program, so that the loop runs a guest like any other agent.

An answer of this model is what the guest says and asks until hilum has to do something for it. The
next request contains the results, which the guest then receives. The guest keeps its own
conversation, so nothing is encoded for a provider.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

from hilum import ModelError
from hilum.models import Chunk, EmptyWire, Model, ModelInfo, Request, Wire
from hilum_agents.guest_models import MODEL_PROVIDER

if TYPE_CHECKING:
    from hilum_acp.guests.guests import Guests

# The guest keeps its own context and shortens it itself, so hilum must never do so.
WINDOW = 100_000_000
MAX_OUTPUT = 1_000_000


class GuestModel:
    """A guest as a model. Implements ``hilum.models.Model``.

    Args:
        name: Name of the agent.
        provider: The provider, which knows the sessions.
    """

    def __init__(self, name: str, provider: GuestProvider) -> None:
        self.info = ModelInfo(
            f"{MODEL_PROVIDER}/{name}",
            window=WINDOW,
            max_output=MAX_OUTPUT,
            images=True,
            # The requests that the guest makes pass the budgets, at the price of their model.
            delegates=True,
        )
        self.wire: Wire = EmptyWire()
        self._provider = provider

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Chunk]]:
        """Pass results and new texts to the guest, and yield what it says and asks.

        Raises:
            ModelError: The guest cannot start or cannot continue.
        """
        guests = self._provider.sessions.get(request.session)
        if guests is None:
            raise ModelError("A guest runs only as an agent of a session.", kind="request")
        async with aclosing(guests.answer(request)) as chunks:
            yield chunks


class GuestProvider:
    """The provider of guests. Implements ``hilum.models.Provider``.

    Attributes:
        sessions: The session plugins that run the guests, by session.
    """

    name = MODEL_PROVIDER

    def __init__(self) -> None:
        self.sessions: dict[str, Guests] = {}

    def model(self, name: str) -> Model:
        """Return the guest that works as the agent with a name."""
        return GuestModel(name, self)

    async def suggest(self) -> str | None:
        """Return nothing, because a guest works only where an agent's file names it."""
        return None

    async def names(self) -> list[str]:
        """Return nothing; see ``suggest``."""
        return []
