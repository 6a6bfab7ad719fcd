"""The background commands of a session, as users of the server see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from hilum import BackgroundCommands, Session
from hilum.services import BackgroundCommand

if TYPE_CHECKING:
    from hilum_serve.feed import Feed


def list_background_commands(session: Session) -> list[BackgroundCommand]:
    """Return the commands that run in the background, oldest first."""
    commands = session.plugin(BackgroundCommands)
    return list(commands.running()) if commands is not None else []


async def watch_background_commands(session: Session, feed: Feed) -> None:
    """Show readers when a background command has ended, which is no event of the session."""
    while not feed.ended.is_set():
        async with trio.open_nursery() as nursery:

            async def wait_for_end(command: BackgroundCommand, scope: trio.CancelScope) -> None:
                await command.ended.wait()
                feed.note_state()
                scope.cancel()

            for command in list_background_commands(session):
                nursery.start_soon(wait_for_end, command, nursery.cancel_scope)
            # A command that starts is part of a call, which is an event.
            await feed.reached(feed.seq + 1)
            nursery.cancel_scope.cancel()
