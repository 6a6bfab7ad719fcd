"""The memories in a file: written, found, changed, forgotten.

Everything here blocks: call it in a thread.
"""

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

from hilum_memory.longterm.file import drop_index, is_indexed, mark, opened, set_mark
from hilum_memory.longterm.memory import Memory, Written
from hilum_memory.longterm.words import STOP, same, subject, words

DAY = 86_400.0
HISTORY_DAYS = 90.0
"""Days for which what was replaced is kept."""
HISTORY = 5
"""How many of those that a memory has replaced, one after the other, are kept."""
ASKED = 60
"""Words of a text that are looked for at most."""
LOOKED_AT = 1_500
"""Memories with one of these words that are ranked at most: the rarest words, which say most, come
first.
"""
_FIELDS = Memory.__struct_fields__
_COLUMNS = ", ".join(f"m.{name}" for name in _FIELDS)


class Memories:
    """The memories of one file.

    Args:
        path: The file, see ``file``.
        most: Memories kept in each scope.
        keep_days: Days after which an unused one that was found after a run is deleted.
        clock: Gives the time.
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
        """Return the memories of scopes, last written first.

        Args:
            scopes: The scopes.
            replaced: Also those whose place another one took.
        """
        with opened(self.path) as file:
            if file is None:
                return []
            return _some(
                file,
                scopes,
                "" if replaced else "AND m.replaced = 0",
                "ORDER BY m.updated DESC, m.id DESC",
            )

    def get(self, id: int) -> Memory:
        """Return one memory.

        Raises:
            UsageError: There is none of that number.
        """
        with opened(self.path) as file:
            return _get(file, id)

    def history(self, id: int) -> list[Memory]:
        """Return what a memory has replaced, last first."""
        with opened(self.path) as file:
            return [] if file is None else _history(file, [id])

    def search(
        self, text: str, scopes: Sequence[str], limit: int = 40
    ) -> list[tuple[Memory, float]]:
        """Find the memories that share words with a text.

        Args:
            text: The text.
            scopes: Where to look.
            limit: How many at most.

        Returns:
            Each with how well it fits (bm25, more is better), best first.
        """
        asked = [word for word in dict.fromkeys(words(text, whole=True)) if word not in STOP][
            :ASKED
        ]
        with opened(self.path) as file:
            if file is None or not asked:
                return []
            return (_ranked if is_indexed(file) else _scanned)(file, asked, scopes, limit)

    def preferences(self, scopes: Sequence[str], limit: int) -> list[Memory]:
        """Return the preferences that were written last."""
        with opened(self.path) as file:
            if file is None:
                return []
            only = "AND m.replaced = 0 AND m.kind = 'preference'"
            return _some(file, scopes, only, f"ORDER BY m.updated DESC LIMIT {int(limit)}")

    def is_off(self, scope: str) -> bool:
        """Return whether the user has switched memory off, here or everywhere."""
        with opened(self.path) as file:
            return file is not None and bool(mark(file, "off") or mark(file, f"off:{scope}"))

    # --- writing ----------------------------------------------------------------------------------

    def add(self, memory: Memory, replaces: Iterable[int] = ()) -> Written:
        """Write a memory, unless it is known: then that one is confirmed.

        One with the same subject is replaced.

        Args:
            memory: The memory; its number and times are given here.
            replaces: Numbers of memories whose place it takes; those of other scopes, and unknown
                ones, are passed over.
        """
        now = self._clock()
        about = subject(memory.text)
        given = sorted(set(replaces))
        with opened(self.path, write=True) as file:
            assert file is not None
            only = f"AND m.replaced = 0 AND (m.subject = ? OR m.id IN ({_marks(given)}))"
            alike = _some(file, [memory.scope], only, "ORDER BY m.id DESC", (about, *given))
            known = next((one for one in alike if same(one.text) == same(memory.text)), None)
            if known:
                file.execute("UPDATE memories SET updated = ? WHERE id = ?", (now, known.id))
                return Written(msgspec.structs.replace(known, updated=now), "same")
            new = msgspec.structs.replace(memory, created=now, updated=now, used=0.0, replaced=0)
            new = msgspec.structs.replace(new, id=_insert(file, new, about))
            for one in alike:
                file.execute("UPDATE memories SET replaced = ? WHERE id = ?", (new.id, one.id))
            self._bound(file, new, now)
            return Written(new, "replaces" if alike else "new", tuple(alike))

    def edit(self, id: int, text: str) -> Memory:
        """Return a memory another text; the old one is gone."""
        with opened(self.path, write=True) as file:
            old = _get(file, id)
            assert file is not None
            _unindex(file, [id])
            new = msgspec.structs.replace(old, text=text, origin="user", updated=self._clock())
            row = (text, "user", new.updated, subject(text), _words(text), id)
            file.execute(
                "UPDATE memories SET text = ?, origin = ?, updated = ?, subject = ?, words = ?"
                " WHERE id = ?",
                row,
            )
            _index(file, id, _words(text))
            _purge(file)
            return new

    def used(self, ids: Sequence[int]) -> None:
        """Note that memories were recalled: what is used is kept."""
        with opened(self.path, write=True) as file:
            assert file is not None
            file.executemany(
                "UPDATE memories SET used = ? WHERE id = ?", [(self._clock(), id) for id in ids]
            )

    def forget(self, ids: Sequence[int]) -> list[Memory]:
        """Delete memories, with what they replaced, so that nothing of them is left in the file.

        Raises:
            UsageError: One of them is not there; then none is deleted.
        """
        with opened(self.path, write=True) as file:
            found = [_get(file, id) for id in dict.fromkeys(ids)]
            assert file is not None
            _delete(
                file,
                [
                    memory.id
                    for memory in (*found, *_history(file, [memory.id for memory in found]))
                ],
            )
            _purge(file)
            return found

    def forget_all(self, scopes: Sequence[str]) -> int:
        """Delete all memories of scopes; gives how many there were that held."""
        with opened(self.path, write=True) as file:
            assert file is not None
            found = _some(file, scopes, "", "")
            _delete(file, [memory.id for memory in found])
            _purge(file)
            return sum(not memory.replaced for memory in found)

    def switch(self, scope: str | None, *, off: bool) -> None:
        """Switch memory off or on in a workspace; with ``None`` everywhere."""
        with opened(self.path, write=True) as file:
            assert file is not None
            set_mark(file, "off" if scope is None else f"off:{scope}", "1" if off else "")

    def _bound(self, file: sqlite3.Connection, new: Memory, now: float) -> None:
        """Delete what is too old, unused, or too much."""
        ask = file.execute
        old = (
            "SELECT id FROM memories WHERE origin = 'run' AND replaced = 0 AND max(updated,"
            " used) < ?"
        )
        gone = {row["id"] for row in ask(old, (now - self._keep_days * DAY,))}
        past = (
            "SELECT m.id FROM memories m LEFT JOIN memories n ON n.id = m.replaced WHERE m.replaced"
            " AND n.created < ?"
        )
        gone |= {row["id"] for row in ask(past, (now - HISTORY_DAYS * DAY,))}
        gone |= {memory.id for memory in _history(file, [new.id])[HISTORY:]}
        held = ask(
            "SELECT count(*) FROM memories WHERE scope = ? AND replaced = 0", (new.scope,)
        ).fetchone()[0]
        if held > self._most:
            least = """SELECT id FROM memories WHERE scope = ? AND replaced = 0 AND id <> ?
                ORDER BY origin <> 'run', max(updated, used) LIMIT ?"""
            gone |= {row["id"] for row in ask(least, (new.scope, new.id, held - self._most))}
        if gone:
            _delete(file, [*gone, *(memory.id for memory in _history(file, gone))])


# --- rows -----------------------------------------------------------------------------------------


def _memory(row: sqlite3.Row) -> Memory:
    data = {name: row[name] for name in _FIELDS}
    return msgspec.convert(data | {"paths": json.loads(row["paths"])}, Memory)


def _some(
    file: sqlite3.Connection,
    scopes: Sequence[str],
    only: str,
    order: str,
    values: Sequence[object] = (),
) -> list[Memory]:
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
    id = (
        file.execute(f"INSERT INTO memories ({names}) VALUES ({_marks(values)})", values).lastrowid
        or 0
    )
    _index(file, id, _words(memory.text))
    return id


def _delete(file: sqlite3.Connection, given: Iterable[int]) -> None:
    ids = list(dict.fromkeys(given))  # words that are taken out of the index twice damage it
    _unindex(file, ids)
    file.executemany("DELETE FROM memories WHERE id = ?", [(id,) for id in ids])


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _words(text: str) -> str:
    return " ".join(words(text))


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
    """Take deleted words out of the index, where a deletion only marks them.

    What becomes free is overwritten.
    """
    if is_indexed(file):
        file.execute("INSERT INTO found (found) VALUES ('optimize')")


def _ranked(
    file: sqlite3.Connection, asked: Sequence[str], scopes: Sequence[str], limit: int
) -> list[tuple[Memory, float]]:
    query = f"""SELECT {_COLUMNS}, bm25(found) AS rank FROM found JOIN memories m ON m.id = found.rowid
        WHERE found MATCH ? AND m.scope IN ({_marks(scopes)}) AND m.replaced = 0 ORDER BY rank LIMIT ?"""
    file.execute("CREATE VIRTUAL TABLE temp.held USING fts5vocab('main', 'found', 'row')")
    counts = [
        (file.execute("SELECT doc FROM temp.held WHERE term = ?", (word,)).fetchone(), word)
        for word in asked
    ]
    rarest = list[str]()
    room = LOOKED_AT
    for count, word in sorted((row[0], word) for row, word in counts if row):
        if rarest and count > room:
            break
        rarest.append(word)
        room -= count
    if not rarest:
        return []
    match = " OR ".join(f'"{word}"' for word in rarest)
    return [(_memory(row), -row["rank"]) for row in file.execute(query, (match, *scopes, limit))]


def _scanned(
    file: sqlite3.Connection, asked: Sequence[str], scopes: Sequence[str], limit: int
) -> list[tuple[Memory, float]]:
    """The same without an index: each text is looked at."""
    query = f"SELECT id, words FROM memories WHERE scope IN ({_marks(scopes)}) AND replaced = 0"
    rows = [(row["id"], set(row["words"].split())) for row in file.execute(query, tuple(scopes))]
    often = Counter(word for _, held in rows for word in held.intersection(asked))
    worth = {word: math.log(1 + len(rows) / count) for word, count in often.items()}
    scores = {
        id: sum(worth[word] for word in held.intersection(worth)) / (len(held) + 8)
        for id, held in rows
    }
    best = sorted((id for id, score in scores.items() if score), key=lambda id: -scores[id])[:limit]
    return [(_get(file, id), scores[id]) for id in best]
