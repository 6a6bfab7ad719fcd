"""Ends streams when the token or the login with which they were opened ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import attrs
import trio

from hilum_serve.tokens import Tokens
from hilum_serve.users import User

TOKEN_SECONDS = 0.5
"""Seconds between two checks whether the tokens of streams are still accepted."""


@attrs.frozen(eq=False)
class _Watched:
    """A stream.

    Attributes:
        user: Who reads it.
        end: Function that ends it.
    """

    user: User
    end: Callable[[], None]


class TokenWatch:
    """Ends the streams of a server whose token or login is not accepted any more.

    Args:
        tokens: The accepted tokens.
    """

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._watched: set[_Watched] = set()

    @contextmanager
    def watching(self, user: User, end: Callable[[], None]) -> Iterator[None]:
        """Watch a stream in the block.

        Args:
            user: Who reads it.
            end: Function that ends it. It may be called more than once.
        """
        watched = _Watched(user, end)
        self._watched.add(watched)
        try:
            yield
        finally:
            self._watched.discard(watched)

    async def run(self) -> None:
        """Check the streams again and again, until cancelled."""
        while True:
            await trio.sleep(TOKEN_SECONDS)
            await trio.to_thread.run_sync(self._tokens.reload)
            self.check()

    def check(self) -> None:
        """End the streams whose token or login has ended."""
        for watched in list(self._watched):
            if not self._tokens.is_valid(watched.user):
                watched.end()
