"""The memories in a database file. All methods block, so call them in a thread."""

from __future__ import annotations

import json
import math
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec
from hilum import UsageError, errors

from hilum_memory.longterm.database import drop_index, get_mark, is_indexed, open_database, set_mark
from hilum_memory.longterm.memory import Memory, WriteResult
from hilum_memory.longterm.tokenizer import STOP, comparison_key, subject_key, tokenize

DAY = 86_400.0
# Number of days for which replaced memories are kept.
HISTORY_DAYS = 90.0
# Maximum number of replaced memories to keep for each memory.
MAX_HISTORY = 5
# Maximum number of words in a query.
MAX_QUERY_WORDS = 60
# Maximum number of memories to rank. Memories with the rarest words are ranked first.
MAX_RANKED = 1_500
_FIELDS = Memory.__struct_fields__
_COLUMNS = ", ".join(f"m.{name}" for name in _FIELDS)


class Memories:
    """The memories in one file.

    Args:
        path: The file, see ``database``.
        most: Maximum number of memories in each scope.
        keep_days: Days after which an unused memory that was learned after a run is deleted.
        clock: Function that returns the current time.
    """

    def __init__(
        self,
        path: Path,
        *,
        most: int = 2_000,
        keep_days: float = 180.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = path
        self._most = most
        self._keep_days = keep_days
        self._clock = clock

    # --- reading ----------------------------------------------------------------------------------

    def all(self, scopes: Sequence[str], *, replaced: bool = False) -> list[Memory]:
        """Return the memories in the given scopes, most recently written first.

        Args:
            scopes: The scopes.
            replaced: Whether replaced memories are included.
        """
        with open_database(self.path) as file:
            if file is None:
                return []
            only = "" if replaced else "AND m.replaced = 0"
            return _select(file, scopes, only, "ORDER BY m.updated DESC, m.id DESC")

    def get(self, id: int) -> Memory:
        """Return one memory.

        Raises:
            UsageError: There is no memory with this number.
        """
        with open_database(self.path) as file:
            return _get(file, id)

    def history(self, id: int) -> list[Memory]:
        """Return the memories that a memory replaced, newest first."""
        with open_database(self.path) as file:
            return [] if file is None else _history(file, [id])

    def search(
        self,
        text: str,
        scopes: Sequence[str],
        limit: int = 40,
    ) -> list[tuple[Memory, float]]:
        """Return the memories that share words with a text.

        Args:
            text: The text.
            scopes: The scopes to search.
            limit: Maximum number of memories.

        Returns:
            The memories with their scores (BM25, higher is better), best first.
        """
        tokens = dict.fromkeys(tokenize(text, whole=True))
        words = [word for word in tokens if word not in STOP][:MAX_QUERY_WORDS]
        with open_database(self.path) as file:
            if file is None or not words:
                return []
            search = _search_index if is_indexed(file) else _search_texts
            return search(file, words, scopes, limit)

    def preferences(self, scopes: Sequence[str], limit: int) -> list[Memory]:
        """Return the newest preferences."""
        with open_database(self.path) as file:
            if file is None:
                return []
            only = "AND m.replaced = 0 AND m.kind = 'preference'"
            return _select(file, scopes, only, f"ORDER BY m.updated DESC LIMIT {int(limit)}")

    def is_off(self, scope: str) -> bool:
        """Return whether the user has switched memory off, in these scopes or everywhere."""
        with open_database(self.path) as file:
            if file is None:
                return False
            return bool(get_mark(file, "off") or get_mark(file, f"off:{scope}"))

    # --- writing ----------------------------------------------------------------------------------

    def add(self, memory: Memory, replaces: Iterable[int] = ()) -> WriteResult:
        """Write a memory, replacing one with the same subject, or confirm one that is known.

        Args:
            memory: The memory, without its number and times, which this method sets.
            replaces: Numbers of the memories that the new memory replaces. Unknown numbers and
                memories of other scopes are ignored.
        """
        now = self._clock()
        about = subject_key(memory.text)
        given = sorted(set(replaces))
        with open_database(self.path, write=True) as file:
            assert file is not None
            only = f"AND m.replaced = 0 AND (m.subject = ? OR m.id IN ({_marks(given)}))"
            alike = _select(file, [memory.scope], only, "ORDER BY m.id DESC", (about, *given))
            key = comparison_key(memory.text)
            for known in alike:
                # A text that differs only in case confirms the memory; it is not stored again.
                if comparison_key(known.text) == key:
                    file.execute("UPDATE memories SET updated = ? WHERE id = ?", (now, known.id))
                    return WriteResult(msgspec.structs.replace(known, updated=now), "same")
            new = msgspec.structs.replace(memory, created=now, updated=now, used=0.0, replaced=0)
            new = msgspec.structs.replace(new, id=_insert(file, new, about))
            for one in alike:
                file.execute("UPDATE memories SET replaced = ? WHERE id = ?", (new.id, one.id))
            # Old memories are deleted on each write, because there is no background job for
            # memories.
            self._delete_surplus(file, new, now)
            return WriteResult(new, "replaces" if alike else "new", tuple(alike))

    def edit(self, id: int, text: str) -> Memory:
        """Change a memory's text, deleting the old text, and return the memory."""
        with open_database(self.path, write=True) as file:
            old = _get(file, id)
            assert file is not None
            # FTS5 needs the old words to remove them, so update the index before the row.
            _unindex(file, [id])
            new = msgspec.structs.replace(old, text=text, origin="user", updated=self._clock())
            row = (text, "user", new.updated, subject_key(text), _words(text), id)
            file.execute(
                "UPDATE memories SET text = ?, origin = ?, updated = ?, subject = ?, words = ?"
                " WHERE id = ?",
                row,
            )
            _index(file, id, _words(text))
            _purge(file)
            return new

    def used(self, ids: Sequence[int]) -> None:
        """Record that memories were recalled, so that they are kept longer."""
        with open_database(self.path, write=True) as file:
            assert file is not None
            rows = [(self._clock(), id) for id in ids]
            file.executemany("UPDATE memories SET used = ? WHERE id = ?", rows)

    def forget(self, ids: Sequence[int]) -> list[Memory]:
        """Delete memories and those that they replaced, leaving no trace in the file.

        Raises:
            UsageError: One of the memories does not exist. If so, no memory is deleted.
        """
        with open_database(self.path, write=True) as file:
            found = [_get(file, id) for id in dict.fromkeys(ids)]
            assert file is not None
            # Replaced memories often contain nearly the same text, so they are deleted as well.
            wanted = [memory.id for memory in found]
            replaced = [memory.id for memory in _history(file, wanted)]
            _delete(file, [*wanted, *replaced])
            _purge(file)
            return found

    def forget_all(self, scopes: Sequence[str]) -> int:
        """Delete all memories in the given scopes, and return how many of them were current."""
        with open_database(self.path, write=True) as file:
            assert file is not None
            found = _select(file, scopes, "", "")
            _delete(file, [memory.id for memory in found])
            _purge(file)
            return sum(not memory.replaced for memory in found)

    def switch(self, scope: str | None, *, off: bool) -> None:
        """Switch memory off or on in a workspace, or everywhere if the scope is ``None``."""
        with open_database(self.path, write=True) as file:
            assert file is not None
            name = "off" if scope is None else f"off:{scope}"
            set_mark(file, name, "1" if off else "")

    def _delete_surplus(self, file: sqlite3.Connection, new: Memory, now: float) -> None:
        """Delete memories that are too old or unused, or exceed the maximum number."""
        # Only memories that a model chose expire; those that the user requested do not.
        unused = """SELECT id FROM memories
            WHERE origin = 'run' AND replaced = 0 AND max(updated, used) < ?"""
        gone = _find_ids(file, unused, now - self._keep_days * DAY)
        past = """SELECT m.id FROM memories m LEFT JOIN memories n ON n.id = m.replaced
            WHERE m.replaced AND n.created < ?"""
        gone |= _find_ids(file, past, now - HISTORY_DAYS * DAY)
        gone |= {memory.id for memory in _history(file, [new.id])[MAX_HISTORY:]}
        # Memories chosen by a model are deleted first; those requested by the user are deleted
        # last. The new memory is always kept.
        surplus = """SELECT id FROM memories WHERE scope = ? AND replaced = 0 AND id <> ?
            ORDER BY origin <> 'run' DESC, max(updated, used) DESC LIMIT -1 OFFSET ?"""
        gone |= _find_ids(file, surplus, new.scope, new.id, self._most - 1)
        if gone:
            # Memories that were replaced by a deleted one are also deleted; otherwise, they would
            # count as current.
            replaced = [memory.id for memory in _history(file, gone)]
            _delete(file, [*gone, *replaced])


# --- rows -----------------------------------------------------------------------------------------


def _find_ids(file: sqlite3.Connection, query: str, *values: object) -> set[int]:
    return {row["id"] for row in file.execute(query, values)}


def _memory(row: sqlite3.Row) -> Memory:
    data = {name: row[name] for name in _FIELDS}
    return msgspec.convert(data | {"paths": json.loads(row["paths"])}, Memory)


def _select(
    file: sqlite3.Connection,
    scopes: Sequence[str],
    only: str,
    order: str,
    values: Sequence[object] = (),
) -> list[Memory]:
    # Only constants and placeholders are inserted into the SQL; values are always bound.
    query = f"SELECT {_COLUMNS} FROM memories m WHERE m.scope IN ({_marks(scopes)}) {only} {order}"
    return [_memory(row) for row in file.execute(query, (*scopes, *values))]


def _get(file: sqlite3.Connection | None, id: int) -> Memory:
    if file:
        row = file.execute(f"SELECT {_COLUMNS} FROM memories m WHERE id = ?", (id,)).fetchone()
    else:
        row = None
    if row is None:
        raise UsageError(
            f"There is no memory {id}.",
            code=errors.E_NOT_FOUND,
            hint="hilum memory list shows all.",
        )
    return _memory(row)


def _history(file: sqlite3.Connection, ids: Iterable[int]) -> list[Memory]:
    found: list[Memory] = []
    queue = list(ids)
    while queue:
        query = (
            f"SELECT {_COLUMNS} FROM memories m WHERE m.replaced IN ({_marks(queue)}) ORDER BY m.id"
            " DESC"
        )
        older = [_memory(row) for row in file.execute(query, queue)]
        found += older
        queue = [memory.id for memory in older]
    return found


def _insert(file: sqlite3.Connection, memory: Memory, about: str) -> int:
    row = msgspec.structs.asdict(memory) | {"paths": json.dumps(memory.paths), "id": None}
    names = ", ".join((*_FIELDS, "subject", "words"))
    values = (*row.values(), about, _words(memory.text))
    query = f"INSERT INTO memories ({names}) VALUES ({_marks(values)})"
    id = file.execute(query, values).lastrowid or 0
    _index(file, id, _words(memory.text))
    return id


def _delete(file: sqlite3.Connection, given: Iterable[int]) -> None:
    ids = list(dict.fromkeys(given))  # removing words twice would corrupt the index
    _unindex(file, ids)
    file.executemany("DELETE FROM memories WHERE id = ?", [(id,) for id in ids])


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _words(text: str) -> str:
    return " ".join(tokenize(text))


# --- the index ------------------------------------------------------------------------------------


def _index(file: sqlite3.Connection, id: int, text: str) -> None:
    if is_indexed(file):
        file.execute("INSERT INTO found (rowid, words) VALUES (?, ?)", (id, text))
    else:
        drop_index(file)


def _unindex(file: sqlite3.Connection, ids: Sequence[int]) -> None:
    if not is_indexed(file):
        drop_index(file)
        return
    for id in ids:
        row = file.execute("SELECT words FROM memories WHERE id = ?", (id,)).fetchone()
        if row:
            file.execute(
                "INSERT INTO found (found, rowid, words) VALUES ('delete', ?, ?)",
                (id, row["words"]),
            )


def _purge(file: sqlite3.Connection) -> None:
    """Purge deleted words from the index, because a deletion only marks words as deleted.

    SQLite overwrites the freed space (``secure_delete``).
    """
    if is_indexed(file):
        file.execute("INSERT INTO found (found) VALUES ('optimize')")


def _search_index(
    file: sqlite3.Connection,
    asked: Sequence[str],
    scopes: Sequence[str],
    limit: int,
) -> list[tuple[Memory, float]]:
    query = f"""SELECT {_COLUMNS}, bm25(found) AS rank
        FROM found JOIN memories m ON m.id = found.rowid
        WHERE found MATCH ? AND m.scope IN ({_marks(scopes)}) AND m.replaced = 0
        ORDER BY rank LIMIT ?"""
    # The table is in ``temp``, so that reading does not write to the file.
    file.execute("CREATE VIRTUAL TABLE temp.held USING fts5vocab('main', 'found', 'row')")
    counts: list[tuple[int, str]] = []
    for word in asked:
        row = file.execute("SELECT doc FROM temp.held WHERE term = ?", (word,)).fetchone()
        if row:
            counts.append((row[0], word))
    # Frequent words match thousands of memories but hardly affect their order; ranking all of them
    # would take most of the search time.
    rarest: list[str] = []
    room = MAX_RANKED
    for count, word in sorted(counts):
        if rarest and count > room:
            break
        rarest.append(word)
        room -= count
    if not rarest:
        return []
    # Words are quoted, because NEAR and NOT, for example, are FTS5 operators.
    match = " OR ".join(f'"{word}"' for word in rarest)
    rows = file.execute(query, (match, *scopes, limit))
    return [(_memory(row), -row["rank"]) for row in rows]  # SQLite's BM25 is negative


def _search_texts(
    file: sqlite3.Connection,
    asked: Sequence[str],
    scopes: Sequence[str],
    limit: int,
) -> list[tuple[Memory, float]]:
    """Return the same result as ``_search_index`` by reading every text, without an index."""
    query = f"SELECT id, words FROM memories WHERE scope IN ({_marks(scopes)}) AND replaced = 0"
    words_by_id: dict[int, set[str]] = {}
    counts: Counter[str] = Counter()
    for row in file.execute(query, tuple(scopes)):
        words = set(row["words"].split())
        words_by_id[row["id"]] = words
        counts.update(words.intersection(asked))
    weights = {word: math.log(1 + len(words_by_id) / count) for word, count in counts.items()}
    scores: dict[int, float] = {}
    for id, words in words_by_id.items():
        weight = sum(weights[word] for word in words.intersection(weights))
        if weight:
            scores[id] = weight / (len(words) + 8)  # long texts are more likely to contain any word
    best = sorted(scores, key=lambda id: -scores[id])[:limit]
    return [(_get(file, id), scores[id]) for id in best]
