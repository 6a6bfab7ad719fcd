"""A store that can be killed, that can fail, and that shows every event to the checker when it is
written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hilum.errors import StoreError
from hilum.events import AnyEvent
from hilum.store import Log, MemoryLog, MemoryStore, SessionInfo

from simulator.invariants import Checker


class SimulatedStore(MemoryStore):
    """Keeps the session over all lives of the process. Implements ``Store``.

    Args:
        checker: Who sees every event.

    Attributes:
        kill_at: Number of the event after which ``killed`` is called and nothing is kept any more.
        fails_at: Number of the first event that cannot be written.
    """

    def __init__(self, checker: Checker) -> None:
        super().__init__()
        self.checker = checker
        self.kill_at: int | None = None
        self.fails_at: int | None = None
        self.killed: Callable[[], None] = lambda: None
        self.dead = False

    async def create(self, info: SessionInfo) -> Log:
        """Make a session with an empty log."""
        self._logs[info.id] = SimulatedLog(info, self)
        return await self.open(info.id)

    async def delete(self, session: str) -> None:
        """Delete a session, which then was never there; a dead process deletes nothing."""
        if not self.dead:
            await super().delete(session)
            self.checker.session_deleted()

    def revive(self) -> None:
        """Drop what a killed process wrote after its death, and give all leases back."""
        self.dead = False
        for log in self._logs.values():
            assert isinstance(log, SimulatedLog)
            log.cut()
            log.leased = False

    @property
    def session(self) -> str:
        """Id of the session, empty if there is none."""
        return next(iter(self._logs), "")

    def events(self) -> list[AnyEvent]:
        """All events that were kept."""
        return [event for log in self._logs.values() for event in log.read(0, 1_000_000)]


class SimulatedLog(MemoryLog):
    """A log that ends where the process dies: what a dead process writes is read by that process
    alone.
    """

    def __init__(self, info: SessionInfo, store: SimulatedStore) -> None:
        super().__init__(info)
        self._store = store
        self._kept: int | None = None

    def append(self, events: Sequence[AnyEvent]) -> None:
        """Add events, unless the disk is full."""
        store = self._store
        if (
            not store.dead
            and store.fails_at is not None
            and self.last + len(events) >= store.fails_at
        ):
            raise StoreError("The disk is full.", hint="Make room.")
        super().append(events)
        if store.dead:
            return
        for event in events:
            store.checker.event(event)
        if store.kill_at is not None and self.last >= store.kill_at:
            self._kept = self.last
            store.dead = True
            store.killed()

    def cut(self) -> None:
        """Forget what was written after the death of the process."""
        if self._kept is not None:
            del self._events[self._kept :]
            self._kept = None
