"""Shares the changes made by all sessions on this machine.

A session finds the changes of a command by comparing two snapshots of the tree. Another session may
have changed files between these snapshots, so all sessions record their changes in a common list,
in the order in which they happened.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from hilum_files.journal.content_store import (
    DAY_SECONDS,
    MAX_PARAMETERS,
    ContentStore,
    placeholders,
)
from hilum_files.journal.records import Change, spell_path, unspell_path
from hilum_files.journal.tree_entries import Node

# The number of the change of an undo: one that is undone by another session is marked with it. It is
# greater than 1, because the undone change has a smaller one.
_NUMBER_OF_UNDO = (
    "coalesce((SELECT max(id) FROM changes WHERE session = ? AND record = ? AND path = ?), 1)"
)


Key = tuple[str, str]
"""The id of a session, and the id of one of its records."""


class SharedChange(NamedTuple):
    """A change that another session recorded.

    Attributes:
        session: Id of the session.
        began: When the call that made the change began, as Unix time in seconds.
        at: When the change was recorded, as Unix time in seconds.
        change: The change.
    """

    session: str
    began: float
    at: float
    change: Change


class RecordedChange(NamedTuple):
    """A change of a session's record at a path.

    A record has several changes at a path if changes of other sessions were subtracted.

    Attributes:
        session: Id of the session.
        record: Id of the record.
        began: When the call began, as Unix time in seconds.
        at: When the change was recorded, as Unix time in seconds.
        before: The state when the call began.
        after: The state when the change was recorded.
        undone: Whether the change is undone, by its own session or another one. The change of an
            undo itself is always undone.
        taken: Whether another session undid the change together with its own.
    """

    session: str
    record: str
    began: float
    at: float
    before: Node | None
    after: Node | None
    undone: bool
    taken: bool

    @property
    def key(self) -> Key:
        """The session and the record."""
        return self.session, self.record


class OtherChanges(NamedTuple):
    """The changes that other sessions made at a path.

    Attributes:
        changes: The changes in effect, oldest first.
        doubtful: Changes made by this session that another session may have recorded, or vice
            versa.
    """

    changes: list[SharedChange]
    doubtful: list[SharedChange]


class SharedChanges:
    """The shared changes of all sessions, as read and written by one of them.

    All methods block and raise ``StoreError``.

    Args:
        store: The store of contents, whose database is used.
        session: Id of the session.
        root: The session's workspace, to which the paths of changes are relative.

    Attributes:
        session: Id of the session.
    """

    def __init__(self, store: ContentStore, session: str, root: Path) -> None:
        self._store = store
        self.session = session
        self._root = root

    def add(
        self, record: str, changes: Sequence[Change], began: float, *, undo: bool = False
    ) -> None:
        """Record changes that this session made.

        Args:
            record: Id of their record.
            changes: The changes.
            began: When the call began, as Unix time in seconds.
            undo: Whether the record is an undo. An undo is stored as undone from the beginning, so
                that no other session treats it as a change to keep.
        """
        if not changes:
            return
        now = time.time()
        rows: list[tuple[object, ...]] = []
        for change in changes:
            key = self._key(change.path)
            nodes = (_encode(change.before), _encode(change.after))
            rows.append((self.session, record, key, began, now, *nodes, undo))
        with self._store.connection() as database, database:
            database.executemany(
                "INSERT INTO changes (session, record, path, began, at, before, after, undone)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                rows,
            )

    def set_undone(self, pairs: Iterable[tuple[str, str, bool]]) -> None:
        """Store whether this session's records are undone, each at a given path."""
        rows: list[tuple[object, ...]] = []
        for record, path, undone in pairs:
            rows.append((undone, self.session, record, self._key(path), undone))
        with self._store.connection() as database, database:
            # A change that another session undid is marked with a higher number, which stays.
            database.executemany(
                "UPDATE changes SET undone = ?"
                " WHERE session = ? AND record = ? AND path = ? AND (? OR undone <= 1)",
                rows,
            )

    def mark_undone(self, undo: str, path: str, keys: Iterable[Key]) -> None:
        """Store that an undo of this session also undid changes of other sessions at a path.

        Args:
            undo: Id of the undo's record.
            path: The path.
            keys: The sessions and records of the changes.
        """
        key = self._key(path)
        rows = [(self.session, undo, key, *each, key) for each in keys]
        with self._store.connection() as database, database:
            database.executemany(
                f"UPDATE changes SET undone = {_NUMBER_OF_UNDO}"
                " WHERE session = ? AND record = ? AND path = ? AND undone = 0",
                rows,
            )

    def unmark_undone(self, undo: str, paths: Iterable[str]) -> None:
        """Store that an undo of this session, which undid others' changes, was itself undone."""
        rows = [(self.session, undo, key, key) for key in map(self._key, paths)]
        with self._store.connection() as database, database:
            database.executemany(
                f"UPDATE changes SET undone = 0 WHERE undone > 1 AND undone = {_NUMBER_OF_UNDO}"
                " AND path = ?",
                rows,
            )

    def last_number(self) -> int:
        """Return the number of the last change made by any session."""
        with self._store.connection() as database:
            row = database.execute("SELECT coalesce(max(id), 0) FROM changes").fetchone()
        return int(row[0])

    def since(self, number: int, path: str) -> list[SharedChange]:
        """Return other sessions' changes at a path after a given change number, oldest first."""
        statement = (
            "SELECT session, began, at, before, after FROM changes"
            " WHERE path = ? AND id > ? AND session != ? ORDER BY id"
        )
        return self._read(statement, path, number, self.session)

    def during(self, path: str, records: Sequence[str]) -> OtherChanges:
        """Return the changes that other sessions made at a path since the first record began.

        The result omits undone changes.

        Args:
            path: The path.
            records: Ids of this session's records.
        """
        own = self._times(path, records)
        if not own:  # the records are from an older version of hilum, which shared no changes
            return OtherChanges([], [])
        statement = (
            "SELECT session, began, at, before, after FROM changes"
            " WHERE path = ? AND at >= ? AND session != ? AND NOT undone ORDER BY id"
        )
        earliest = min(began for began, _ in own)
        found = self._read(statement, path, earliest, self.session)
        doubtful = [change for change in found if _is_doubtful(change, own)]
        return OtherChanges(found, doubtful)

    def read_history(self, path: str) -> list[RecordedChange]:
        """Return the changes of all sessions at a path, including undone ones, oldest first."""
        statement = (
            "SELECT session, record, began, at, before, after, undone FROM changes"
            " WHERE path = ? ORDER BY id"
        )
        with self._store.connection() as database:
            rows = database.execute(statement, (self._key(path),)).fetchall()
        changes: list[RecordedChange] = []
        for session, record, began, at, before, after, undone in rows:
            nodes = (_decode(before), _decode(after))
            changes.append(
                RecordedChange(session, record, began, at, *nodes, bool(undone), undone > 1)
            )
        return changes

    def _times(self, path: str, records: Sequence[str]) -> list[tuple[float, float]]:
        """Return when the calls of this session's records began and were recorded, in Unix time."""
        times: list[tuple[float, float]] = []
        with self._store.connection() as database:
            for start in range(0, len(records), MAX_PARAMETERS):
                batch = records[start : start + MAX_PARAMETERS]
                times += database.execute(
                    "SELECT began, at FROM changes WHERE path = ? AND session = ?"
                    f" AND record IN ({placeholders(batch)})",
                    (self._key(path), self.session, *batch),
                )
        return times

    def sweep(self, days: float) -> None:
        """Delete changes older than the given number of days."""
        with self._store.connection() as database, database:
            oldest = time.time() - days * DAY_SECONDS
            database.execute("DELETE FROM changes WHERE at < ?", (oldest,))

    def _read(self, statement: str, path: str, *values: object) -> list[SharedChange]:
        with self._store.connection() as database:
            rows = database.execute(statement, (self._key(path), *values)).fetchall()
        changes: list[SharedChange] = []
        for session, began, at, before, after in rows:
            change = Change(path, _decode(before), _decode(after))
            changes.append(SharedChange(session, began, at, change))
        return changes

    def _key(self, path: str) -> str:
        """Return the absolute path, because one session's folder may contain another's."""
        return spell_path(os.path.join(self._root, unspell_path(path)))


def subtract_others(found: Change, others: Sequence[SharedChange]) -> list[Change]:
    """Return the difference between two snapshots without the changes made by other sessions.

    Args:
        found: The difference at a path.
        others: The changes of other sessions at the path, oldest first. The earliest changes may
            precede the first snapshot.
    """
    for index, other in enumerate(others):
        # The first snapshot includes everything up to this change.
        if other.change.after == found.before:
            others = others[index + 1 :]
            break
    parts: list[Change] = []
    before = found.before
    for other in others:
        if other.change.before != before:
            parts.append(Change(found.path, before, other.change.before))
        before = other.change.after
    if before != found.after:
        parts.append(Change(found.path, before, found.after))
    return parts


def _is_doubtful(other: SharedChange, own: Iterable[tuple[float, float]]) -> bool:
    """Return whether one of two calls may have made a change that the other recorded.

    A call can claim the other's change only if each call ran for a while without the other. A call
    that ran entirely within another recorded its changes before the other call's snapshot, so the
    other call did not claim them.
    """
    for began, at in own:
        is_later = began < other.began <= at < other.at
        is_earlier = other.began < began <= other.at < at
        if is_later or is_earlier:
            return True
    return False


def _encode(node: Node | None) -> bytes:
    return msgspec.json.encode(node)


def _decode(data: bytes) -> Node | None:
    return msgspec.json.decode(data, type=Node | None)
