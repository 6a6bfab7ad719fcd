"""What all sessions on this machine changed, so that a session is not charged with the work of
another one.

A session finds what a command changed by two looks at the tree. Another session may have changed
files between the two; it notes them here, in the order in which they happened.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from hilum_files.journal.objects import DAY, Objects
from hilum_files.journal.records import Change, spell, unspell
from hilum_files.journal.tree import Node

_BATCH = 500


class Noted(NamedTuple):
    """A change that another session noted.

    Attributes:
        session: Its id.
        began: When the call began that made it, Unix time in seconds.
        at: When it was noted, Unix time in seconds.
        change: What it changed.
    """

    session: str
    began: float
    at: float
    change: Change


class SharedChanges:
    """The changes of all sessions, as one of them reads and writes them.

    All methods block and raise ``StoreError``.

    Args:
        objects: The database is the one that keeps the contents.
        session: Id of the session.
        root: Its workspace; the paths of changes are relative to it.
    """

    def __init__(self, objects: Objects, session: str, root: Path) -> None:
        self._objects = objects
        self._session = session
        self._root = root

    def note(self, record: str, changes: Sequence[Change], began: float) -> None:
        """Note changes of a record of this session.

        Args:
            record: Its id.
            changes: What it changed.
            began: When its call began, Unix time in seconds.
        """
        if not changes:
            return
        now = time.time()
        rows = [
            (
                self._session,
                record,
                self._key(change.path),
                began,
                now,
                _encode(change.before),
                _encode(change.after),
            )
            for change in changes
        ]
        with self._objects.using() as database, database:
            database.executemany(
                "INSERT INTO changes (session, record, path, began, at, before, after) VALUES (?,"
                " ?, ?, ?, ?, ?, ?)",
                rows,
            )

    def mark(self, pairs: Iterable[tuple[str, str, bool]]) -> None:
        """Note for records of this session, each with a path, whether they are undone there."""
        rows = [(undone, self._session, record, self._key(path)) for record, path, undone in pairs]
        with self._objects.using() as database, database:
            database.executemany(
                "UPDATE changes SET undone = ? WHERE session = ? AND record = ? AND path = ?", rows
            )

    def last(self) -> int:
        """Return the number of the last change that any session noted."""
        with self._objects.using() as database:
            row = database.execute("SELECT coalesce(max(id), 0) FROM changes").fetchone()
        return int(row[0])

    def since(self, number: int, path: str) -> list[Noted]:
        """Return what other sessions changed at a path after the change of that number, oldest
        first.
        """
        statement = (
            "SELECT session, began, at, before, after FROM changes"
            " WHERE path = ? AND id > ? AND session != ? ORDER BY id"
        )
        return self._read(statement, path, number, self._session)

    def of_others(self, path: str, records: Sequence[str]) -> list[Noted]:
        """Return what holds of what other sessions changed at a path while records of this one were
        made, or later.
        """
        began = []
        with self._objects.using() as database:
            for start in range(0, len(records), _BATCH):
                batch = records[start : start + _BATCH]
                marks = ",".join("?" * len(batch))
                statement = (
                    "SELECT min(began) FROM changes WHERE path = ? AND session = ? AND record IN"
                    f" ({marks})"
                )
                row = database.execute(
                    statement, (self._key(path), self._session, *batch)
                ).fetchone()
                if row[0] is not None:
                    began.append(row[0])
        if not began:  # it was made by a version that noted nothing
            return []
        statement = (
            "SELECT session, began, at, before, after FROM changes"
            " WHERE path = ? AND at >= ? AND session != ? AND NOT undone ORDER BY id"
        )
        return self._read(statement, path, min(began), self._session)

    def sweep(self, days: float) -> None:
        """Forget what is older than that."""
        with self._objects.using() as database, database:
            database.execute("DELETE FROM changes WHERE at < ?", (time.time() - days * DAY,))

    def _read(self, statement: str, path: str, *values: object) -> list[Noted]:
        with self._objects.using() as database:
            rows = database.execute(statement, (self._key(path), *values)).fetchall()
        return [
            Noted(session, began, at, Change(path, _decode(before), _decode(after)))
            for session, began, at, before, after in rows
        ]

    def _key(self, path: str) -> str:
        """Return the whole path: sessions may work in a folder and in one below it."""
        return spell(os.path.join(self._root, unspell(path)))


def own_part(found: Change, others: Sequence[Noted]) -> list[Change]:
    """Return what is left of a difference between two looks without what other sessions did between
    them.

    Args:
        found: What was at a path before, and what is there now.
        others: What other sessions changed there, oldest first. It may begin with changes that the
            first look saw already.
    """
    for index, noted in enumerate(others):
        if noted.change.after == found.before:
            others = others[index + 1 :]
            break
    parts = []
    before = found.before
    for noted in others:
        if noted.change.before != before:
            parts.append(Change(found.path, before, noted.change.before))
        before = noted.change.after
    if before != found.after:
        parts.append(Change(found.path, before, found.after))
    return parts


def _encode(node: Node | None) -> bytes:
    return msgspec.json.encode(node)


def _decode(data: bytes) -> Node | None:
    return msgspec.json.decode(data, type=Node | None)
