"""The sessions in a database file. All methods may block, and are called in threads."""

from __future__ import annotations

import builtins
import os
import socket
from collections.abc import Sequence
from pathlib import Path

from hilum import StoreError, errors
from hilum.events import AnyEvent
from hilum.store import SessionInfo, spell_folder
from msgspec.structs import astuple

from hilum_store.checkpoint import Checkpointer
from hilum_store.database import (
    FIELDS,
    SEQ_BITS,
    SEQ_MASK,
    Database,
    Durability,
    check_end,
    read_events,
    read_raw_events,
    session_info,
)
from hilum_store.lease import Lease, remove_stale_leases
from hilum_store.log import SqliteLog, session_busy_error

# Rules depend on the folder and the kind of a session, so these must not be guessed.
_ESSENTIAL = ("id", "workspace", "kind")
MAX_CANDIDATES = 8  # maximum number of sessions listed in the error for an ambiguous name


class SessionTable:
    """The sessions of one open file.

    Args:
        path: The file, see ``Database``.
        durability: See ``Database``.
    """

    def __init__(self, path: Path, durability: Durability = "process") -> None:
        self._database = Database(path, durability)
        self._checkpointer = Checkpointer(self._database)
        self._logs: set[SqliteLog] = set()

    def find(self, session: str, *, damaged: bool = False) -> tuple[int, SessionInfo]:
        """Return the number and the description of a session.

        Args:
            session: The session's id or an unambiguous prefix of the id.
            damaged: Whether to return a session even if it is unknown in which folder and as which
                kind of session it must be opened.

        Raises:
            StoreError: No session matches, or several do (``E_UNKNOWN``), or the description is
                damaged.
        """
        query = f"SELECT number, {FIELDS} FROM sessions WHERE"
        with self._database.side() as side:
            rows = side.execute(f"{query} id = ?", (session,)).fetchall()
            if not rows:
                # A range condition on ``id`` uses the index. Unlike LIKE, substr has no wildcards
                # and respects case.
                rows = side.execute(
                    f"{query} id >= ? AND substr(id, 1, ?) = ? ORDER BY id LIMIT ?",
                    (session, len(session), session, MAX_CANDIDATES + 1),
                ).fetchall()
        if len(rows) == 1:
            info, fields = session_info(rows[0][1:])
            unknown = [field for field in fields if field in _ESSENTIAL]
            if unknown and not damaged:
                raise StoreError(
                    f"Session {info.id} in {self._database.path} is damaged: its"
                    f" {' and '.join(unknown)} cannot be read.",
                    hint="Other sessions are not affected; delete this session.",
                )
            return rows[0][0], info
        if not rows:
            raise StoreError(
                f"There is no session {session!r}.",
                code=errors.E_UNKNOWN,
                hint="`hilum sessions list --all` shows all sessions.",
            )
        names = ", ".join(str(row[1]) for row in rows[:MAX_CANDIDATES])
        if len(rows) > MAX_CANDIDATES:
            names += ", …"
        raise StoreError(
            f"More than one session begins with {session!r}.",
            code=errors.E_UNKNOWN,
            hint=f"Use a longer part of the id: {names}.",
        )

    def is_open(self, session: str) -> bool:
        """Return whether a process has a session open."""
        number, _ = self.find(session, damaged=True)
        return self._database.is_leased(str(number))

    def list(self, workspace: str) -> Sequence[SessionInfo]:
        """Return all sessions or those of a workspace, most recently used first."""
        query = (
            f"SELECT {FIELDS} FROM sessions WHERE ? IN ('', workspace)"
            " ORDER BY updated DESC, number DESC"
        )
        with self._database.side() as side:
            rows = side.execute(query, (spell_folder(workspace),)).fetchall()
        return [session_info(row)[0] for row in rows]

    def read(self, session: str, after: int, limit: int) -> builtins.list[AnyEvent]:
        """Return events in a session, whichever process is writing to it."""
        number, info = self.find(session)
        with self._database.side() as side:
            return read_events(side, self._database.path, info.id, number, after, limit)

    def read_raw(self, session: str, after: int, limit: int) -> builtins.list[tuple[int, bytes]]:
        """Return events in a session as they are in the file."""
        number, _ = self.find(session, damaged=True)
        with self._database.side() as side:
            return read_raw_events(side, number, after, limit)

    def create(self, info: SessionInfo) -> SqliteLog:
        """Create a session and acquire its lease."""
        # The values have the order of FIELDS, followed by the holder.
        values = astuple(info)
        marks = ", ".join("?" * (len(values) + 1))
        insert = f"INSERT OR IGNORE INTO sessions ({FIELDS}, holder) VALUES ({marks})"
        holder = _signature()
        lease = None
        try:
            with self._database.writing() as side:
                added = side.execute(insert, (*values, holder))
                if added.rowcount != 1:
                    raise StoreError(
                        f"There is already a session {info.id}.",
                        hint="Use another id for the new session.",
                    )
                number = added.lastrowid or 0
                # The lease is acquired before the commit, so that the session is never visible
                # without it.
                lease = self._take(number, info.id)
            return self._log(lease, number, holder, info, 0)
        except BaseException:
            if lease:
                lease.release()
            raise

    def open(self, session: str) -> SqliteLog:
        """Acquire the lease of a session."""
        number, info = self.find(session)
        lease = self._take(number, info.id)
        holder = _signature()
        try:
            with self._database.writing() as side:
                side.execute("UPDATE sessions SET holder = ? WHERE number = ?", (holder, number))
            # The description is read again, because it could have changed before the lease was
            # acquired.
            _, info = self.find(info.id)
            # New events must not take the numbers of lost ones.
            with self._database.side() as side:
                check_end(side, self._database.path, info.id, number)
            return self._log(lease, number, holder, info, self._database.last(number))
        except BaseException:
            lease.release()
            raise

    def rename(self, session: str, title: str) -> None:
        """Set the title of a session."""
        number, _ = self.find(session, damaged=True)
        with self._database.writing() as side:
            side.execute("UPDATE sessions SET title = ? WHERE number = ?", (title, number))

    def delete(self, session: str) -> None:
        """Delete a session and its log, including all traces that can be removed cheaply."""
        number, info = self.find(session, damaged=True)
        # The lease shows that no process has the session open, and keeps others from opening it.
        lease = self._take(number, info.id)
        try:
            with self._database.writing() as side:
                first = number << SEQ_BITS
                side.execute(
                    "DELETE FROM events WHERE key BETWEEN ? AND ?", (first, first | SEQ_MASK)
                )
                side.execute("DELETE FROM sessions WHERE number = ?", (number,))
        finally:
            lease.release()
        # Until a checkpoint, deleted events can still be read from SQLite's log next to the file.
        self._checkpointer.request()

    def release(self) -> None:
        """Release all leases, so that nothing more is written. Does not block.

        Call this method in the thread that appends.
        """
        for log in self._logs:
            log.release()
        self._database.writer.close()

    def close(self) -> None:
        """Close the file; call ``release`` before this method."""
        self._checkpointer.close()
        self._database.close()
        remove_stale_leases(self._database.leases)

    def _take(self, number: int, session: str) -> Lease:
        lease = self._database.lease(str(number))
        if lease is None:
            raise session_busy_error(session, self._database.holder(number))
        return lease

    def _log(
        self,
        lease: Lease,
        number: int,
        holder: str,
        info: SessionInfo,
        last: int,
    ) -> SqliteLog:
        with self._database.explained():  # the store may have been closed in the meantime
            log = SqliteLog(
                self._database,
                lease,
                self._checkpointer.request,
                number,
                holder,
                info,
                last,
            )
        self._logs = {known for known in self._logs if known.open} | {log}
        return log


def _signature() -> str:
    """Return a unique name for this process's opening of the session.

    The name is stored in the session, so that a former holder can no longer write.
    """
    return f"{os.getpid()}@{socket.gethostname()}/{os.urandom(6).hex()}"
