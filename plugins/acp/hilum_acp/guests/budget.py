"""The budget of a program that works as an agent: what its model calls may still use."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio
from hilum.messages import Usage

if TYPE_CHECKING:
    from hilum import Agent, ModelCallDenied

BYTES_PER_TOKEN = 4
"""Bytes in a token, for calls whose tokens the provider does not report."""


class BudgetExhausted(Exception):
    """No further model call is allowed; the text states which limit is reached."""


class Budget:
    """The limits of an agent's run, applied to each model call before it is sent.

    A call reserves its expected tokens, so that calls at the same time cannot exceed the limit
    together. What a call really uses is known only afterwards, so one call may exceed the limit.

    Args:
        agent: The agent; its profile or the session's settings set the limits.
        on_exhausted: Called when a limit is reached.

    Attributes:
        run: Id of the run, to which the calls count also after its end.
        exhausted: Which limit is reached; empty while calls are allowed.
        denied: Why a plugin, such as the budget of a session or a day, has refused a call.
    """

    def __init__(self, agent: Agent, on_exhausted: Callable[[], None]) -> None:
        self._agent = agent
        self._on_exhausted = on_exhausted
        self._reserved = 0
        self._released = trio.Event()
        self.run = agent.run.id
        self.exhausted = ""
        self.denied: ModelCallDenied | None = None

    @asynccontextmanager
    async def reserve(self, tokens: int) -> AsyncIterator[None]:
        """Reserve the expected tokens of a model call for the duration of the block.

        Near the limit, a call waits until the calls before it have ended and what they used is
        known.

        Args:
            tokens: Number of tokens that the call is expected to use.

        Raises:
            BudgetExhausted: A limit of the run is reached.
        """
        self._check()
        token_limit = self._agent.limit("token_limit")
        while self._reserved and self._is_near(token_limit):
            await self._released.wait()
            self._check()
        self._reserved += tokens
        try:
            yield
        finally:
            self._reserved -= tokens
            self._released.set()
            self._released = trio.Event()

    def deny(self, error: ModelCallDenied) -> None:
        """End the run, because a plugin has refused a call."""
        self.denied = self.denied or error
        self._on_exhausted()

    def _is_near(self, token_limit: int | None) -> bool:
        # The cost of a call is not known before it ends, so a limit on the cost allows one call at
        # a time.
        if self._agent.profile.cost_limit is not None:
            return True
        return token_limit is not None and self._used().total + self._reserved >= token_limit

    @property
    def has_ended(self) -> bool:
        """Whether the run has ended; a program may go on while it is being ended."""
        run = self._agent.conversation.run
        return run is None or run.id != self.run

    def _check(self) -> None:
        run = self._agent.conversation.run
        if run is None or self.has_ended:
            raise BudgetExhausted("The run has ended.")
        if self.denied is not None:
            raise BudgetExhausted(self.denied.message)
        used = run.usage
        token_limit = self._agent.limit("token_limit")
        cost_limit = self._agent.profile.cost_limit
        if token_limit is not None and used.total >= token_limit:
            self.exhausted = f"The run may use {token_limit:,} tokens, which are used up."
        elif cost_limit is not None and (used.cost or 0.0) >= cost_limit:
            self.exhausted = f"The run may cost ${cost_limit:g}, which is used up."
        if self.exhausted:
            self._on_exhausted()
            raise BudgetExhausted(self.exhausted)

    def _used(self) -> Usage:
        run = self._agent.conversation.run
        return run.usage if run is not None else Usage()


def estimate_usage(sent: int, received: int) -> Usage:
    """Return the usage of a call from the bytes that were sent and received."""
    return Usage(input=sent // BYTES_PER_TOKEN + 1, output=received // BYTES_PER_TOKEN + 1)
