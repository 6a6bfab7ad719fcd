"""Logouts that the servers of a group tell each other, because a login is good at all of them."""

from __future__ import annotations

from collections.abc import Callable

import trio
from hilum import StoreError
from hilum.store import SharedStore

from hilum_serve.peer_group import PeerGroup
from hilum_serve.problems import Problem
from hilum_serve.tokens import COOKIE_SECONDS, Tokens

POLL_SECONDS = 0.5
OVERLAP_SECONDS = 600.0
"""Seconds of which notices are read again, so that a short outage of the database loses none."""


class Logouts:
    """Ends logins here and at the other servers of the group.

    Args:
        group: The group of servers.
        store: The store that all of them use.
        tokens: The tokens and cookies of this server.
        on_ended: Function that is called when logins have ended.
    """

    def __init__(
        self, group: PeerGroup, store: SharedStore, tokens: Tokens, on_ended: Callable[[], None]
    ) -> None:
        self._group = group
        self._store = store
        self._tokens = tokens
        self._on_ended = on_ended
        # Logins that have ended here, of which the other servers do not know yet.
        self._unpublished: set[int] = set()

    async def end(self, cookie: int) -> None:
        """End the login with a cookie at all servers.

        Raises:
            Problem: The database cannot be reached (503). The login has ended here. The others learn
                it when the database is back, unless this server ends before; or with the next call.
        """
        if self._tokens.end_cookie(cookie):
            self._unpublished.add(cookie)
            self._on_ended()
        if cookie not in self._unpublished:
            return
        try:
            await self._publish(cookie)
        except StoreError as error:
            raise Problem(503, error.code, error.message, error.hint) from None

    async def _publish(self, cookie: int) -> None:
        await self._store.publish(self._group.make_logout_notice(cookie), COOKIE_SECONDS)
        self._unpublished.discard(cookie)

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
                for cookie in list(self._unpublished):
                    await self._publish(cookie)
            except StoreError:
                # Once the database is back, the notices of the time without it are read and sent.
                continue

    async def _read(self, seconds: float) -> None:
        has_ended = False
        for notice in await self._store.read_notices(seconds):
            cookie = self._group.read_logout_notice(notice)
            if cookie is not None and self._tokens.end_cookie(cookie):
                has_ended = True
        if has_ended:
            self._on_ended()
