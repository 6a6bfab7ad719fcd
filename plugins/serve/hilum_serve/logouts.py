"""Logouts that the servers of a group tell each other, because a login is good at all of them."""

from __future__ import annotations

import trio
from hilum import StoreError
from hilum.store import SharedStore

from hilum_serve.peer_group import PeerGroup
from hilum_serve.problems import Problem
from hilum_serve.tokens import COOKIE_SECONDS, Tokens

POLL_SECONDS = 1.0
OVERLAP_SECONDS = 600.0
"""Seconds of which notices are read again, so that a short outage of the database loses none."""


class Logouts:
    """Publishes the logouts of this server, and obeys those of the others.

    Args:
        group: The group of servers.
        store: The store that all of them use.
        tokens: The tokens and cookies of this server.
    """

    def __init__(self, group: PeerGroup, store: SharedStore, tokens: Tokens) -> None:
        self._group = group
        self._store = store
        self._tokens = tokens

    async def publish(self, cookie: int) -> None:
        """Tell the other servers that the login with a cookie has ended.

        Raises:
            Problem: The database cannot be reached; the login has only ended here (503).
        """
        try:
            await self._store.publish(self._group.make_logout_notice(cookie), COOKIE_SECONDS)
        except StoreError as error:
            raise Problem(503, error.code, error.message, error.hint) from None

    async def follow(self, *, task_status: trio.TaskStatus[None]) -> None:
        """End the logins that have ended elsewhere, until cancelled.

        Raises:
            StoreError: The database cannot be reached at the beginning.
        """
        await self._read(COOKIE_SECONDS)
        task_status.started()
        read_at = trio.current_time()
        while True:
            await trio.sleep(POLL_SECONDS)
            began = trio.current_time()
            try:
                await self._read(began - read_at + OVERLAP_SECONDS)
                read_at = began
            except StoreError:
                # Once the database is back, the notices of the time without it are read.
                continue

    async def _read(self, seconds: float) -> None:
        for notice in await self._store.read_notices(seconds):
            cookie = self._group.read_logout_notice(notice)
            if cookie is not None:
                self._tokens.end_cookie_number(cookie)
