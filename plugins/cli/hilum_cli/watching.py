"""Adds a face to ``hilum agents``.

The face shows agents while they run, asks the user for approvals, and stops the agents on Ctrl-C.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio
from hilum import Session
from hilum.events import Delta
from hilum_agents import command

from hilum_cli.agents import again
from hilum_cli.approvals import Approver, can_ask
from hilum_cli.starting import make_face
from hilum_cli.stopping import Stopping

if TYPE_CHECKING:
    from hilum.events import AnyEvent

    from hilum_cli.faces import Face


def main(argv: Sequence[str]) -> int:
    """List, run, watch, create and check agents that are defined in files.

    Returns:
        The exit code.
    """
    return command.main(argv, watch=watch, asks=can_ask())


@asynccontextmanager
async def watch(
    session: Session, agents: Sequence[str], after: int
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Show a session inside this context.

    The context yields a function that ends the display, so that results can be written below it.

    Args:
        session: The session.
        agents: The started agents, by their names in the session. A single agent is shown in
            detail.
        after: Number of the event after which events are shown.
    """
    face = make_face("text", quiet=False)
    approver = Approver(session, face) if session.attended else None
    watcher = _Watcher(session, after, face, approver)
    try:
        await face.opened(session)
        if len(agents) == 1:
            face.lead(session, agents[0])
        async with trio.open_nursery() as nursery:
            await nursery.start(Stopping(session.stop).listen)
            nursery.start_soon(face.tick)
            if approver:
                nursery.start_soon(approver.run)
            nursery.start_soon(watcher.follow)
            try:
                yield watcher.end
            finally:
                nursery.cancel_scope.cancel()
        await face.advise(again(face.view.agents.ended()))
    finally:
        face.close()


class _Watcher:
    """The reader of a session's events, which shows each of them once, in order."""

    def __init__(self, session: Session, after: int, face: Face, approver: Approver | None) -> None:
        self._session = session
        self._seq = after
        self._face = face
        self._approver = approver

    async def follow(self) -> None:
        """Show events until cancelled."""
        async for item in self._session.events(self._seq, deltas=self._face.deltas):
            await self._show(item)

    async def _show(self, item: AnyEvent | Delta) -> None:
        if not isinstance(item, Delta):
            # Recorded before it is shown, so that ``end`` does not show the event again if showing
            # is cancelled.
            self._seq = item.seq
            if self._approver:
                self._approver.note(item)
        await self._face.show(item)

    async def end(self) -> None:
        """Show the remaining events and restore the terminal."""
        # The task that shows events may not have run since the last events were written.
        for event in self._session.journal.durable_since(self._seq):
            await self._show(event)
        await self._face.finish()
