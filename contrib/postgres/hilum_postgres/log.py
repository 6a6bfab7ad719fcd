"""The log of one session, open for writing by this process.

``append`` queues events; the writer's thread sends them in order. An event is durable when the
database has committed it. Nothing is sent twice before the database has said what it has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import trio
from hilum import StoreError, errors
from hilum.events import AnyEvent, encode
from hilum.store import SessionInfo, describe
from msgspec import Struct
from msgspec.structs import replace

from hilum_postgres import schema
from hilum_postgres.database import session_busy_error

if TYPE_CHECKING:
    from hilum_postgres.database import Connection
    from hilum_postgres.local_copy import LocalCopy
    from hilum_postgres.writer import Writer

# What may wait for a database that is unreachable, or that is slower than the session.
MAX_QUEUED_EVENTS = 50_000
MAX_QUEUED_BYTES = 64 << 20
# What is sent in one statement, unless a single transaction is larger.
MAX_SENT_EVENTS = 2_000
MAX_SENT_BYTES = 4 << 20
# Seconds that a log which closes waits for its queue, and then for the release of its lease. A server
# that accepts connections but never answers cannot be told from a slow one.
CLOSE_TIMEOUT = 10.0
RELEASE_TIMEOUT = 2.0


class Batch(Struct, frozen=True):
    """Events of one append, with the description of the session after them."""

    first: int
    lines: tuple[bytes, ...]
    info: SessionInfo
    size: int

    @property
    def last(self) -> int:
        """Sequence number of the last event."""
        return self.first + len(self.lines) - 1


class PostgresLog:
    """The log of a session and its lease. Implements ``Log``. The store creates it.

    Args:
        writer: The thread that writes.
        token: Stands for the event loop that uses the log.
        number: The number of the session in the database.
        epoch: The number of this opening of the session.
        info: The description of the session.
        copy: The events of the log.

    Attributes:
        is_locked: Whether the writer's connection holds the lock of the session. Used in its thread.
        is_released: Whether the writer is to forget the log.
    """

    def __init__(
        self,
        writer: Writer,
        token: trio.lowlevel.TrioToken,
        number: int,
        epoch: int,
        info: SessionInfo,
        copy: LocalCopy,
    ) -> None:
        self.number = number
        self.epoch = epoch
        self.is_locked = True
        self.is_released = False
        self.id: str = info.id
        self._writer = writer
        self._token = token
        # Another process may rename the session, so the title is always that of the database.
        self._info = replace(info, title="")
        self._copy = copy
        self._last = info.events
        self._durable = info.events
        self._queue = deque[Batch]()
        # What the thread reports; the event loop takes it over in ``_take_news``. There is no lock,
        # because an interrupt could leave it locked: the queue is the only thing that both change.
        self._stored = info.events
        self._problem: StoreError | None = None
        self._ending: StoreError | None = None
        self._error: StoreError | None = None
        self._is_closed = False
        self._news = trio.Event()
        self._callback: Callable[[StoreError | None], None] = _ignore
        self.delay: StoreError | None = None

    # --- in the event loop ------------------------------------------------------------------------

    @property
    def last(self) -> int:
        """Sequence number of the last event, which may be queued."""
        return self._last

    @property
    def is_closed(self) -> bool:
        """Whether the log was closed, and its lease given back."""
        return self._is_closed

    @property
    def durable(self) -> int:
        """Sequence number of the last event that the database has."""
        return self._durable

    def append(self, events: Sequence[AnyEvent]) -> None:
        """Queue events, whose ``seq`` must continue ``last`` without a gap.

        Raises:
            StoreError: The lease was lost, the log is closed, or too much is queued. Nothing was
                queued.
        """
        if not events:
            return
        self._check(events)
        lines = tuple(map(encode, events))
        info = describe(replace(self._info, events=self._last), events)
        batch = Batch(events[0].seq, lines, info, sum(map(len, lines)))
        try:
            self._copy.add(lines, self._last)
            self._queue.append(batch)
            self._count(batch)
        except BaseException:
            # An interrupt may occur just before or just after the batch is queued.
            if self._stored >= batch.last or any(each is batch for each in self._queue.copy()):
                self._count(batch)
            raise
        finally:
            self._writer.wake()

    def _count(self, batch: Batch) -> None:
        self._last = batch.last
        self._info = replace(batch.info, title="")

    def read(self, after: int = 0, limit: int = 1000) -> list[AnyEvent]:
        """Return at most ``limit`` events with a ``seq`` greater than ``after``, in order.

        Raises:
            StoreError: The log is closed.
        """
        if self._is_closed:
            raise self._closed_error()
        return self._copy.read(after, limit, self._last)

    async def flush(self, seq: int | None = None) -> None:
        """Wait until the database has an event; by default, the last one.

        Raises:
            StoreError: The database will not get it from this process.
        """
        wanted = self._last if seq is None else seq
        self._writer.wake()  # an interrupted ``append`` may have queued events without doing so
        while self._durable < wanted:
            if self._error is not None:
                raise self._error
            await self._news.wait()

    def subscribe(self, callback: Callable[[StoreError | None], None]) -> None:
        """Have a function called when ``durable``, ``delay`` or the state of the lease changed."""
        self._callback = callback

    async def close(self) -> None:
        """Write what is queued, and release the lease. Events can still be read through the store.

        Raises:
            StoreError: Events that were never shown could not be written.
        """
        if self._is_closed:
            return
        with trio.move_on_after(CLOSE_TIMEOUT), suppress(StoreError):
            await self.flush()
        lost = self._last - self._durable
        self._is_closed = True
        with trio.move_on_after(RELEASE_TIMEOUT, shield=True):
            await trio.to_thread.run_sync(self._writer.release, self, abandon_on_cancel=True)
        self._copy.close()
        if lost and self._error is None:
            raise StoreError(
                f"{lost} events of session {self.id} could not be written: the database is unreachable.",
                hint="Everything that was shown is stored; the session can be resumed.",
            )

    def discard(self) -> None:
        """Release the lease of a log that nobody has used. Does not block."""
        self._is_closed = True
        self._writer.release_soon(self)
        self._copy.close()

    def _check(self, events: Sequence[AnyEvent]) -> None:
        if self._is_closed or not self._writer.is_own:
            raise self._closed_error()
        if self._error is not None:
            raise self._error
        for expected, event in enumerate(events, self._last + 1):
            if event.seq != expected:
                raise StoreError(
                    f"The log of session {self.id} received event {event.seq} instead of"
                    f" {expected}.",
                    code=errors.E_INTERNAL,
                    hint="Nothing was written. This is a bug in the program that appends events.",
                )
        count = self._last - self._durable
        if self._queue and (
            count > MAX_QUEUED_EVENTS or self._copy.measure(self._durable) > MAX_QUEUED_BYTES
        ):
            raise StoreError(
                f"Too many events of session {self.id} wait for the database.",
                hint="Resume the session when the database is back.",
            )

    def _closed_error(self) -> StoreError:
        return StoreError(
            f"The log of session {self.id} is closed.",
            code=errors.E_BUSY,
            hint="Open the session again.",
        )

    def _take_news(self) -> None:
        """Take over what the thread reported, and tell who waits."""
        self._durable = self._stored
        self.delay = self._problem
        self._error = self._ending
        self._news.set()
        self._news = trio.Event()
        self._callback(self._error)

    # --- in the writer's thread -------------------------------------------------------------------

    @property
    def is_waiting(self) -> bool:
        """Whether events wait to be sent."""
        return bool(self._queue) and self._ending is None

    @property
    def is_broken(self) -> bool:
        """Whether nothing more is sent."""
        return self._ending is not None

    def write(self, connection: Connection) -> None:
        """Send what is queued, in transactions of whole appends.

        Raises:
            psycopg.Error: It is unknown whether the database has what was sent last.
        """
        while self.is_waiting:
            batches = self._choose()
            if self._send(connection, batches):
                self._accept(batches[-1].last)
            elif not self.reconcile(connection):
                return

    def _choose(self) -> list[Batch]:
        waiting = self._queue.copy()
        chosen = [waiting.popleft()]
        size, count = chosen[0].size, len(chosen[0].lines)
        for batch in waiting:
            size += batch.size
            count += len(batch.lines)
            if size > MAX_SENT_BYTES or count > MAX_SENT_EVENTS:
                break
            chosen.append(batch)
        return chosen

    def _send(self, connection: Connection, batches: Sequence[Batch]) -> bool:
        title = next((batch.info.title for batch in batches if batch.info.title), "")
        info = batches[-1].info
        lines = [line for batch in batches for line in batch.lines]
        first = batches[0].first
        values: tuple[Any, ...] = (
            title.replace("\0", "\ufffd"),
            info.state,
            info.updated,
            batches[-1].last,
            self.number,
            self.epoch,
            first - 1,
            list(range(first, first + len(lines))),
            lines,
        )
        return connection.execute(schema.APPEND, values, prepare=True).rowcount == len(lines)

    def reconcile(self, connection: Connection) -> bool:
        """Compare the log with the database, and return whether this process may go on writing.

        Raises:
            psycopg.Error: The database cannot be asked.
        """
        row = connection.execute(
            "SELECT epoch, events FROM sessions WHERE number = %s", (self.number,)
        ).fetchone()
        if row is None:
            self.end(self._lost_error("it was deleted"))
            return False
        if row[0] != self.epoch:
            holder = connection.execute(schema.FIND_HOLDER, (self.number,)).fetchone()
            busy = session_busy_error(self.id, holder)
            self.end(self._lost_error(busy.message.rstrip(".")))
            return False
        boundaries = {self._stored, *(batch.last for batch in self._queue.copy())}
        if row[1] not in boundaries:
            self.end(
                self._lost_error(f"the database has {row[1]} events instead of {self._stored}")
            )
            return False
        if row[1] > self._stored:
            self._accept(row[1])
        return True

    def _accept(self, last: int) -> None:
        # ``append`` looks for an interrupted batch in both places, so it must be in one of them.
        self._stored = last
        while self._queue and self._queue[0].last <= last:
            self._queue.popleft()
        self._report()

    def note_delay(self, problem: StoreError | None) -> None:
        """Report that the database is unreachable, or back."""
        if (self._problem is None) != (problem is None):
            self._problem = problem
            self._report()

    def end(self, error: StoreError) -> None:
        """Report that nothing more is written."""
        self._ending = self._ending or error
        self._report()

    def _report(self) -> None:
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._take_news, idempotent=True)

    def _lost_error(self, what: str) -> StoreError:
        return StoreError(
            f"Session {self.id} can no longer be written by this process: {what}.",
            code=errors.E_BUSY,
            hint="Nothing more was written; open the session again.",
        )


def _ignore(error: StoreError | None) -> None:
    pass
