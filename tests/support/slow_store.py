"""A store whose logs write in the background, as slowly and as badly as a test wants."""

from collections.abc import Callable, Sequence

import trio
from hilum.errors import StoreError
from hilum.events import AnyEvent
from hilum.store import MemoryLog, MemoryStore, SessionInfo


class SlowStore(MemoryStore):
    """A store in memory whose open logs keep events in a queue until ``write`` is called."""

    def __init__(self) -> None:
        super().__init__()
        self.logs: list[SlowLog] = []

    async def create(self, info: SessionInfo) -> "SlowLog":
        """Create a log whose events wait."""
        log = SlowLog(info)
        log.leased = True
        self._logs[info.id] = log
        self.logs.append(log)
        return log


class SlowLog(MemoryLog):
    """A log that has written its events up to ``written``."""

    def __init__(self, info: SessionInfo) -> None:
        super().__init__(info)
        self.written = 0
        self.batches: list[int] = []  # last event of each append that is not written
        self.error: StoreError | None = None
        self.closed_with: int | None = None
        self._callback: Callable[[StoreError | None], None] = lambda error: None
        self._news = trio.Event()

    @property
    def durable(self) -> int:
        """Sequence number of the last event that was written."""
        return self.written

    def append(self, events: Sequence[AnyEvent]) -> None:
        """Queue events."""
        if self.error is not None:
            raise self.error
        super().append(events)
        if events:
            self.batches.append(self.last)

    async def flush(self, seq: int | None = None) -> None:
        """Wait until an event is written."""
        wanted = self.last if seq is None else seq
        while self.written < wanted:
            if self.error is not None:
                raise self.error
            await self._news.wait()

    def subscribe(self, callback: Callable[[StoreError | None], None]) -> None:
        """Call a function after each step."""
        self._callback = callback

    def write(self, count: int = 1) -> None:
        """Write some of the waiting transactions, whole and in order."""
        written = self.batches[:count]
        del self.batches[:count]
        if self.error is None:
            self.written = written[-1] if written else self.written
            self._tell(None)

    def fail(self, message: str = "Another process has the session.") -> None:
        """Write nothing any more: the lease is lost, or the database is gone for good."""
        self.error = StoreError(message, code="E_BUSY", hint="Open the session again.")
        self._tell(self.error)

    def _tell(self, error: StoreError | None) -> None:
        self._news.set()
        self._news = trio.Event()
        self._callback(error)

    async def close(self) -> None:
        """Give the lease back, and remember how far the log was written then."""
        self.closed_with = self.written
        await super().close()
