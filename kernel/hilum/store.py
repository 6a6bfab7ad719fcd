"""The store protocol, and a store in memory.

A store keeps the event logs of sessions. Only one process at a time can have a log open for writing
(a lease); any process can read it. Appending never waits. A log on a local disk writes at once; a log
in a database writes in the background, in order, and tells how far its events are durable, which
means that they survive the death of the process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable
from urllib.parse import quote_from_bytes, unquote_to_bytes

import trio
from msgspec.structs import replace

from hilum.discovery import STANDARD, entry_points
from hilum.errors import E_BUSY, E_UNKNOWN, StoreError
from hilum.events import (
    AnyEvent,
    PluginEvent,
    PromptQueued,
    RunStarted,
    StateChanged,
    decode_header,
    is_known_type,
)
from hilum.messages import Count, Data, UnixTime
from hilum.unread_outputs import ATTACHED

LAST = "last"
"""Names the session of a folder that was used last, where an id is expected."""
MAX_OPENING = 50
"""A session with more events than this is not one that was only opened."""

UPDATE_HINT = (
    "A newer hilum, or a plugin that is not installed, wrote them: update hilum to see them."
)
"""What to do about events whose type this version does not know."""


def spell_folder(folder: str | os.PathLike[str]) -> str:
    """Return the path of a folder as text that JSON files and databases can contain.

    A path whose bytes are not UTF-8 becomes a ``file:`` URL, which cannot be confused with an
    absolute path; other paths stay unchanged.
    """
    path = os.fspath(folder)
    try:
        path.encode()
    except UnicodeEncodeError:
        return "file://" + quote_from_bytes(os.fsencode(path))
    return path


def unspell_folder(text: str) -> str:
    """Return the path whose text ``spell_folder`` returned."""
    if text.startswith("file:///"):
        return os.fsdecode(unquote_to_bytes(text.removeprefix("file://")))
    return text


class SessionInfo(Data, frozen=True):
    """The description of a session in a list.

    Times are Unix times in seconds. The initial ``title`` is the first prompt. ``workspace`` has
    the form that ``spell_folder`` returns.
    """

    id: str
    workspace: str
    kind: str = "main"
    title: str = ""
    created: UnixTime = 0.0
    updated: UnixTime = 0.0
    events: Count = 0
    state: str = "idle"
    forked: str = ""


class UnreadableLog(StoreError):
    """A part of one session's log cannot be read; other sessions are not affected.

    Args:
        message: A sentence about the problem.
        hint: A sentence about the next step.
        is_damaged: Whether the log is damaged. Otherwise, a newer hilum wrote it.
    """

    def __init__(self, message: str, *, hint: str = "", is_damaged: bool = True) -> None:
        super().__init__(message, hint=hint)
        self.is_damaged = is_damaged


def unreadable_event_error(
    session: str, seq: int, why: str, data: bytes | str = b"", *, where: str = ""
) -> UnreadableLog:
    """Return the error for an event that cannot be decoded, or that is not there.

    Args:
        session: The complete id of the session.
        seq: Number of the event.
        why: What is wrong with it.
        data: The event as it is stored.
        where: The store, for the message; empty if there is only one.
    """
    place = f" in {where}" if where else ""
    header = decode_header(data)
    if header is not None and header.seq == seq and not is_known_type(header.type):
        return UnreadableLog(
            f"This version does not know events of the type {header.type!r}, such as event {seq} of"
            f" session {session}{place}.",
            hint=UPDATE_HINT,
            is_damaged=False,
        )
    return UnreadableLog(
        f"Event {seq} of session {session}{place} is damaged: {why}.",
        hint=suggest_rescue(session, seq),
    )


def suggest_rescue(session: str, seq: int) -> str:
    """Return what to do about a log that is damaged from an event on."""
    hint = f"Other sessions are not affected. `hilum trace {session}` shows what can be read"
    if seq > 1:
        hint += f"; `hilum sessions fork {session} --upto {seq - 1}` continues before the damage"
    return f"{hint}."


class Log(Protocol):
    """The event log of one session, open for writing by this process.

    All methods are called in the event loop, and none holds it: a log whose events are written
    somewhere else queues them, and keeps a local copy of what ``read`` returns.
    """

    @property
    def last(self) -> int:
        """Sequence number of the last event, written or queued; 0 for an empty log."""

    @property
    def durable(self) -> int:
        """Sequence number of the last event that survives the end of this process."""

    @property
    def delay(self) -> StoreError | None:
        """Why queued events cannot be written at the moment; ``None`` while nothing is wrong."""

    def append(self, events: Sequence[AnyEvent]) -> None:
        """Write events in one transaction, or queue them to be written in one, in order.

        The ``seq`` values of the events must follow ``last`` without a gap.

        Raises:
            StoreError: Nothing was written or queued, because the disk or the queue is full, the
                file is damaged, or the lease was lost.
        """

    def read(self, after: int = 0, limit: int = 1000) -> list[AnyEvent]:
        """Read at most ``limit`` events with a ``seq`` greater than ``after``, in order.

        Events that are queued are included.
        """

    async def flush(self, seq: int | None = None) -> None:
        """Wait until an event is durable; by default, the last one.

        Raises:
            StoreError: The event will never be durable, because the log is broken.
        """

    def subscribe(self, callback: Callable[[StoreError | None], None]) -> None:
        """Call a function when ``durable`` grew later than ``append``, or ``delay`` changed.

        The function is called in the event loop, with ``None``; or, for the last time, with the
        error that keeps this log from ever writing its queued events.
        """

    async def close(self) -> None:
        """Release the lease. The session can still be read.

        Queued events are written first, unless that takes too long.
        """


class ImmediateLog:
    """The part of ``Log`` that is the same for all logs whose ``append`` writes at once."""

    delay: StoreError | None = None

    @property
    def last(self) -> int:
        """Sequence number of the last event."""
        raise NotImplementedError

    @property
    def durable(self) -> int:
        """Sequence number of the last event, which is durable."""
        return self.last

    async def flush(self, seq: int | None = None) -> None:
        """Return at once."""

    def subscribe(self, callback: Callable[[StoreError | None], None]) -> None:
        """Do nothing, because nothing happens later than ``append``."""


@runtime_checkable
class Store(Protocol):
    """A store of sessions. A session is named by its id or an unambiguous beginning of the id."""

    async def create(self, info: SessionInfo) -> Log:
        """Create a session with an empty log and acquire its lease."""

    async def open(self, session: str) -> Log:
        """Acquire the lease of a session.

        Raises:
            StoreError: ``"E_UNKNOWN"``, there is no such session; ``"E_BUSY"``, another process has
                it open (the message states which).
        """

    async def info(self, session: str) -> SessionInfo:
        """Return the description of a session, without a lease.

        Raises:
            StoreError: ``"E_UNKNOWN"``, there is no such session.
        """

    async def is_open(self, session: str) -> bool:
        """Return whether a process has a session open, without acquiring the lease even briefly.

        A process that may return counts: one whose connection was lost a moment ago, for example.
        If no process has the session open, runs that the log shows as running were interrupted.

        Raises:
            StoreError: ``"E_UNKNOWN"``, there is no such session.
        """

    async def list(self, workspace: str = "") -> Sequence[SessionInfo]:
        """List all sessions or those of one workspace, most recently used first."""

    async def read(self, session: str, after: int = 0, limit: int = 1000) -> Sequence[AnyEvent]:
        """Read events of a session, without a lease."""

    async def rename(self, session: str, title: str) -> None:
        """Set the title of a session."""

    async def delete(self, session: str) -> None:
        """Delete a session and its log.

        Raises:
            StoreError: ``"E_BUSY"``, the session is open.
        """

    async def close(self) -> None:
        """Close the store and all logs that this process has open."""


@runtime_checkable
class RawReader(Protocol):
    """A store that also returns events that it cannot decode.

    Such events are damaged, or a newer hilum wrote them. A store need not have this method.
    """

    async def read_raw(
        self, session: str, after: int = 0, limit: int = 1000
    ) -> Sequence[tuple[int, bytes]]:
        """Read the numbers and lines of events, without a lease. A damaged line may be empty."""


class LeaseHolder(Data, frozen=True):
    """The process that opened a session last.

    Attributes:
        host: Name of its machine.
        pid: Id of the process there.
        address: The text that it announced; empty for none.
        holds: Whether it has the session open. If it does not, it died without closing it.
    """

    host: str = ""
    pid: int = 0
    address: str = ""
    holds: bool = True


class SessionBusy(StoreError):
    """A session is open in another process (``E_BUSY``).

    Args:
        message: A sentence about the problem.
        hint: A sentence about the next step.
        holder: The process, as far as the store knows it.
    """

    code = E_BUSY

    def __init__(self, message: str, *, hint: str = "", holder: LeaseHolder | None = None) -> None:
        super().__init__(message, hint=hint)
        self.holder = holder


@runtime_checkable
class SharedStore(Protocol):
    """A store of several machines, in which processes can find out who has a session open.

    A store need not have these methods. Its ``open`` raises ``SessionBusy`` with the holder.
    """

    def announce(self, address: str) -> None:
        """Publish a text with each lease that this store acquires from now on.

        Nobody but the announcing program knows what the text means. Whoever reads it must check
        it, because everyone who can write to the store can change it.
        """

    async def find_holders(self, sessions: Sequence[str]) -> Mapping[str, LeaseHolder]:
        """Return who opened sessions last, by id of the session; the ids are complete.

        A session that was closed in order, or that does not exist, is missing. So is one of whose
        holder nothing is known.
        """

    async def publish(self, notice: str, seconds: float) -> None:
        """Let other processes read a text for a number of seconds. Twice the same text is one."""

    async def read_notices(self, seconds: float) -> Sequence[str]:
        """Return the texts that were published at most a number of seconds ago, and are valid.

        As with ``announce``, whoever reads them must check them.
        """


def storage_plugins() -> list[str] | None:
    """Return the plugins that a command needs if it only reads and writes the store.

    Importing all plugins would take a quarter of the time of `hilum sessions list`. Only two of
    hilum's own plugins provide a store. A plugin from another distribution may also provide a
    store, and may need other plugins in order to load.

    Returns:
        The names for ``open_kernel``; ``None``, which means all plugins, if other distributions
        provide plugins.
    """
    points = entry_points("hilum").values()
    if any(point.distribution.lower() not in STANDARD for point in points):
        return None
    own = ("hilum-store", "hilum-postgres")
    return [point.name for point in points if point.distribution.lower() in own]


async def is_used(store: Store, info: SessionInfo) -> bool:
    """Return whether a session has a prompt, or an output of the user's commands.

    Opening a session writes a few events: its agent, and warnings of the kernel and of plugins.
    """
    if info.title or info.state != "idle" or info.events > MAX_OPENING:
        return True
    try:
        events = await store.read(info.id, 0, MAX_OPENING)
    except StoreError:
        return True  # who names the session learns what is wrong with it
    return any(
        isinstance(event, PromptQueued)
        or (isinstance(event, PluginEvent) and event.name == ATTACHED)
        for event in events
    )


async def find_session(store: Store, wanted: str, workspace: str | os.PathLike[str]) -> str:
    """Return the id of a named session, or of a folder's last session.

    A session that was only opened does not count as the last session.

    Args:
        store: The store.
        wanted: An id, an unambiguous beginning of one, or ``last``.
        workspace: The folder whose last session is looked for.

    Raises:
        StoreError: The session does not exist (``"E_UNKNOWN"``).
    """
    if wanted != LAST:
        return (await store.info(wanted)).id
    folder = await trio.to_thread.run_sync(lambda: os.path.realpath(os.path.expanduser(workspace)))
    for info in await store.list(folder):
        if await is_used(store, info):
            return info.id
    hint = "`hilum sessions list --all` lists the sessions of all folders. Name one by its id."
    raise StoreError(f"There is no session in {folder}.", code=E_UNKNOWN, hint=hint)


def describe(info: SessionInfo, events: Sequence[AnyEvent]) -> SessionInfo:
    """Return the description of a session after the given events were appended."""
    title = info.title
    state = info.state
    count = info.events + len(events)
    for event in events:
        if isinstance(event, RunStarted):
            title = title or " ".join(event.text.split())[:80]
        elif isinstance(event, StateChanged) and event.agent == "main":
            state = event.state
    return replace(info, title=title, state=state, updated=time.time(), events=count)


class MemoryStore:
    """An in-memory ``Store``; its contents are lost when the process exits."""

    def __init__(self) -> None:
        self._logs: dict[str, MemoryLog] = {}

    def _find(self, session: str, *, free: bool = False) -> MemoryLog:
        if session in self._logs:
            found = [session]
        else:
            found = [known for known in self._logs if known.startswith(session)]
        if len(found) != 1:
            what = "More than one session begins with" if found else "There is no session"
            hint = "`hilum sessions list --all` shows all sessions."
            raise StoreError(f"{what} {session!r}.", code="E_UNKNOWN", hint=hint)
        log = self._logs[found[0]]
        if free and log.leased:
            raise SessionBusy(
                f"Session {log.info.id} is in use.",
                hint="Close the session in the other process first.",
            )
        return log

    async def create(self, info: SessionInfo) -> Log:
        """Create a session with an empty log."""
        self._logs[info.id] = MemoryLog(info)
        return await self.open(info.id)

    async def open(self, session: str) -> Log:
        """Acquire the lease of a session."""
        log = self._find(session, free=True)
        log.leased = True
        return log

    async def info(self, session: str) -> SessionInfo:
        """Return the description of a session."""
        return self._find(session).info

    async def is_open(self, session: str) -> bool:
        """Return whether a session is open."""
        return self._find(session).leased

    async def list(self, workspace: str = "") -> Sequence[SessionInfo]:
        """List sessions, most recently used first."""
        wanted = spell_folder(workspace)
        infos = [log.info for log in self._logs.values() if wanted in ("", log.info.workspace)]
        return sorted(infos, key=lambda info: -info.updated)

    async def read(self, session: str, after: int = 0, limit: int = 1000) -> Sequence[AnyEvent]:
        """Read events."""
        return self._find(session).read(after, limit)

    async def rename(self, session: str, title: str) -> None:
        """Set the title of a session."""
        log = self._find(session)
        log.info = replace(log.info, title=title)

    async def delete(self, session: str) -> None:
        """Delete a session."""
        del self._logs[self._find(session, free=True).info.id]

    async def close(self) -> None:
        """Close all logs."""
        for log in self._logs.values():
            log.leased = False


class MemoryLog(ImmediateLog):
    """A log in memory, which stays readable when it is closed. Implements ``Log``."""

    def __init__(self, info: SessionInfo) -> None:
        self.info: SessionInfo = info
        self.leased: bool = False
        self._events: list[AnyEvent] = []

    @property
    def last(self) -> int:
        """Sequence number of the last event."""
        return len(self._events)

    def append(self, events: Sequence[AnyEvent]) -> None:
        """Add events."""
        self._events.extend(events)
        self.info = describe(self.info, events)

    def read(self, after: int = 0, limit: int = 1000) -> list[AnyEvent]:
        """Read events."""
        return self._events[after : after + limit]

    async def close(self) -> None:
        """Release the lease."""
        self.leased = False
