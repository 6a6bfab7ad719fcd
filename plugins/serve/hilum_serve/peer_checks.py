"""What a server of a group checks about addresses, and tells whoever runs it."""

from __future__ import annotations

from collections.abc import Callable

import trio
from hilum import StoreError
from hilum.store import SharedStore

from hilum_serve.peer_connection import PeerLost, connect
from hilum_serve.peer_group import PeerGroup

ATTEMPTS = 5
"""Attempts to reach the own address: a proxy in front of it may start at the same time."""
PAUSE_SECONDS = 1.0
PRESENCE_SECONDS = 10.0
"""Seconds between two notices that this server runs."""
VALID_SECONDS = 30.0
"""Seconds for which others read such a notice."""
MAX_TOLD = 100
_URL_HINT = (
    "Requests for sessions that it has open may not arrive. Correct serve.peer_url (--peer-url)."
)


async def check_own_address(group: PeerGroup, note: Callable[[str], None]) -> None:
    """Check that the address that this server announces leads to it, and not to another one.

    Args:
        group: The group of servers.
        note: Function that shows a sentence to whoever runs the server.
    """
    why = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            await trio.sleep(PAUSE_SECONDS)
        try:
            async with connect(group, group.own, group.own_nonce):
                why = f"another server answers at {group.own.url}"
                break
        except PeerLost as lost:
            why = str(lost)
    if not group.is_reached:
        note(f"This server does not reach itself at its own address: {why}. {_URL_HINT}")


async def watch_other_keys(
    group: PeerGroup, store: SharedStore, note: Callable[[str], None]
) -> None:
    """Tell about servers on the same database that have another key, until cancelled.

    Args:
        group: The group of servers.
        store: The store that they use.
        note: Function that shows a sentence to whoever runs the server.
    """
    told: set[str] = set()
    while True:
        try:
            await store.publish(group.make_presence_notice(), VALID_SECONDS)
            notices = await store.read_notices(VALID_SECONDS)
        except StoreError:
            notices = []
        for notice in notices:
            address = group.read_foreign_notice(notice)
            if not address or address in told or len(told) >= MAX_TOLD:
                continue
            told.add(address)
            note(
                f"The server at {address} uses the same database, but its address is not signed with"
                " serve.peer_key, or it is not encrypted and serve.peer_plain_http is not set. No"
                " requests are passed on to it: give all servers the same key."
            )
        await trio.sleep(PRESENCE_SECONDS)
