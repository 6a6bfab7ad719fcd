"""Reads and writes the index of a workspace."""

from __future__ import annotations

import sqlite3
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from hilum_semantic_search.database import IndexFolder, get_mark, set_mark, writing
from hilum_semantic_search.query import make_expression, quote

# How much a word counts in the path, in the symbol and in the text of a chunk.
WEIGHTS = (1.0, 3.0, 1.0)
_COMPRESSION = 1  # the fastest; more would save a tenth of the file


class ReadChunk(msgspec.Struct, frozen=True, array_like=True):
    """A chunk as the reading process sends it (see ``reader.chunking.IndexedChunk``)."""

    first: int
    last: int
    kind: str
    symbol: str
    digest: str
    names: str
    words: str


class ReadFile(msgspec.Struct, frozen=True):
    """A file as the reading process sends it.

    Attributes:
        names: The words of the path.
        chunks: The chunks.
        skipped: Why the file has no chunks; empty if it was read.
    """

    names: str = ""
    chunks: list[ReadChunk] = []
    skipped: str = ""


class FileUpdate(NamedTuple):
    """A file that was read, with the state in which the listing found it."""

    path: bytes
    state: str
    file: ReadFile


class Found(NamedTuple):
    """A chunk that matches a query.

    Attributes:
        path: The file.
        first: Number of the first line, when it was indexed.
        last: Number of the last line.
        kind: See ``reader.chunk.Chunk``.
        symbol: See ``reader.chunk.Chunk``.
        digest: The hash of symbol and lines.
        score: How well the chunk matches; higher is better.
    """

    path: bytes
    first: int
    last: int
    kind: str
    symbol: str
    digest: bytes
    score: float


class WordCounts(NamedTuple):
    """How often the words of a question occur.

    Attributes:
        chunks: Number of chunks in the index.
        words: Number of chunks that contain each word.
    """

    chunks: int
    words: dict[str, int]


class IndexStatus(NamedTuple):
    """What an index contains.

    Attributes:
        files: Number of files with chunks.
        skipped: Number of files without, by reason.
        chunks: Number of chunks.
        vectors: Number of chunks with an embedding.
        embedding: The model that computed them; empty if there are none.
        updated: Unix time of the last complete update; 0 if there was none.
        size: Size of the database in bytes.
    """

    files: int
    skipped: dict[str, int]
    chunks: int
    vectors: int
    embedding: str
    updated: float
    size: int


_Words = list[tuple[int, str, str]]


class IndexStore:
    """The stored index of one workspace. All methods block.

    Each method raises ``DamagedIndex`` or ``StoreError`` as ``IndexFolder.open`` does.

    Args:
        folder: The folder with the database.
    """

    def __init__(self, folder: IndexFolder) -> None:
        self.folder = folder

    def read_states(self) -> dict[bytes, str]:
        """Return the state in which each file was indexed, by path."""
        with self.folder.open() as connection:
            return dict(connection.execute("SELECT path, state FROM files"))

    def write(self, updates: Iterable[FileUpdate], removed: Iterable[bytes] = ()) -> None:
        """Replace and remove files in one transaction."""
        with self.folder.open() as connection, writing(connection):
            for path in removed:
                _remove(connection, path)
            for update in updates:
                _remove(connection, update.path)
                _add(connection, update)

    def set_updated(self) -> None:
        """Record that the index is complete now."""
        with self.folder.open() as connection, writing(connection):
            set_mark(connection, "updated", str(time.time()))

    def match(
        self, words: Sequence[str], limit: int, below: bytes = b""
    ) -> tuple[list[Found], WordCounts]:
        """Return the chunks that contain the words, those that match best first.

        Args:
            words: The words of a question.
            limit: Maximum number of chunks.
            below: Path of a folder or file; empty for all.
        """
        with self.folder.open() as connection:
            total = connection.execute("SELECT count(*) FROM chunks").fetchone()[0]
            query = "SELECT count(*) FROM words WHERE words MATCH ?"
            counts = {
                word: connection.execute(query, (quote(word),)).fetchone()[0] for word in words
            }
            expression = make_expression(counts)
            found = _match(connection, expression, limit, below) if expression else []
        return found, WordCounts(total, counts)

    def find_by_digest(
        self, scores: Mapping[bytes, float], limit: int, below: bytes = b""
    ) -> list[Found]:
        """Return the chunks with given hashes, best first, each with the given score."""
        query = f"{_SELECT} WHERE chunks.digest = ?"
        found = list[Found]()
        with self.folder.open() as connection:
            for digest, score in sorted(scores.items(), key=lambda item: -item[1]):
                for row in connection.execute(query, (digest,)):
                    if _is_below(row[0], below):
                        found.append(Found._make((*row, score)))
                if len(found) >= limit:
                    break
        return found[:limit]

    def read_status(self) -> IndexStatus:
        """Return what the index contains."""
        with self.folder.open() as connection:
            reasons = dict(
                connection.execute("SELECT skipped, count(*) FROM files GROUP BY skipped")
            )
            files = reasons.pop("", 0)
            chunks = connection.execute("SELECT count(*) FROM chunks").fetchone()[0]
            vectors = connection.execute(
                "SELECT count(*) FROM chunks JOIN vectors USING (digest)"
            ).fetchone()[0]
            embedding = get_mark(connection, "embedding")
            updated = float(get_mark(connection, "updated") or 0)
        size = self.folder.database.stat().st_size
        return IndexStatus(files, reasons, chunks, vectors, embedding, updated, size)

    # --- embeddings -------------------------------------------------------------------------------

    def use_embedding(self, name: str) -> bool:
        """Remove all vectors unless the named model computed them; return whether it did not."""
        with self.folder.open() as connection:
            if get_mark(connection, "embedding") == name:
                return False
            with writing(connection):
                had_any = connection.execute("SELECT 1 FROM vectors LIMIT 1").fetchone()
                connection.execute("DELETE FROM vectors")
                set_mark(connection, "embedding", name)
                _count_change(connection)
            return had_any is not None

    def list_without_vector(self, limit: int) -> list[Found]:
        """Return chunks that have no vector yet."""
        query = f"""{_SELECT} LEFT JOIN vectors USING (digest)
            WHERE vectors.digest IS NULL GROUP BY chunks.digest LIMIT ?"""
        with self.folder.open() as connection:
            return [Found._make((*row, 0.0)) for row in connection.execute(query, (limit,))]

    def add_vectors(self, name: str, vectors: Mapping[bytes, bytes]) -> bool:
        """Store vectors, unless another model is used now; return whether they were stored."""
        with self.folder.open() as connection, writing(connection):
            if get_mark(connection, "embedding") != name:
                return False
            rows = vectors.items()
            connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
            _count_change(connection)
            return True

    def prune_vectors(self) -> None:
        """Remove the vectors of chunks that no longer exist."""
        with self.folder.open() as connection, writing(connection):
            gone = connection.execute(
                "DELETE FROM vectors WHERE digest NOT IN (SELECT digest FROM chunks)"
            )
            if gone.rowcount:
                _count_change(connection)

    def read_vectors(self, known: str) -> tuple[str, list[tuple[bytes, bytes]]] | None:
        """Return all vectors with their hashes, and a name of this set of vectors.

        Args:
            known: The name of the set that the caller has; if it is current, the result is None.
        """
        with self.folder.open() as connection:
            name = f"{get_mark(connection, 'embedding')} {get_mark(connection, 'vectors')}"
            if name == known:
                return None
            return name, connection.execute("SELECT digest, vector FROM vectors").fetchall()


_SELECT = """SELECT files.path, chunks.first, chunks.last, chunks.kind, chunks.symbol, chunks.digest
    FROM chunks JOIN files ON files.id = chunks.file"""


def _match(
    connection: sqlite3.Connection, expression: str, limit: int, below: bytes
) -> list[Found]:
    ranked = "SELECT rowid, bm25(words, ?, ?, ?) AS rank FROM words WHERE words MATCH ?"
    if not below:
        # Only the best rows are joined to their files.
        rows = connection.execute(
            f"""WITH best AS ({ranked} ORDER BY rank LIMIT ?)
                {_SELECT.replace("chunks.digest", "chunks.digest, -best.rank")}
                JOIN best ON best.rowid = chunks.id ORDER BY best.rank, chunks.id""",
            (*WEIGHTS, expression, limit),
        )
    else:
        rows = connection.execute(
            f"""WITH matching AS ({ranked})
                {_SELECT.replace("chunks.digest", "chunks.digest, -matching.rank")}
                JOIN matching ON matching.rowid = chunks.id
                WHERE files.path = ? OR substr(files.path, 1, ?) = ?
                ORDER BY matching.rank, chunks.id LIMIT ?""",
            (*WEIGHTS, expression, below, len(below) + 1, below + b"/", limit),
        )
    return [Found(*row) for row in rows]


def _is_below(path: bytes, folder: bytes) -> bool:
    return not folder or path == folder or path.startswith(folder + b"/")


def _count_change(connection: sqlite3.Connection) -> None:
    count = int(get_mark(connection, "vectors") or 0)
    set_mark(connection, "vectors", str(count + 1))


def _remove(connection: sqlite3.Connection, path: bytes) -> None:
    row = connection.execute("SELECT id, words FROM files WHERE path = ?", (path,)).fetchone()
    if row is None:
        return
    file, packed = row
    names, chunks = _decode_words(zlib.decompress(packed))
    removal = "INSERT INTO words (words, rowid, path, symbol, text) VALUES ('delete', ?, ?, ?, ?)"
    connection.executemany(removal, [(id, names, symbol, text) for id, symbol, text in chunks])
    connection.execute("DELETE FROM chunks WHERE file = ?", (file,))
    connection.execute("DELETE FROM files WHERE id = ?", (file,))


def _add(connection: sqlite3.Connection, update: FileUpdate) -> None:
    file = connection.execute(
        "INSERT INTO files (path, state, skipped, words) VALUES (?, ?, ?, x'')",
        (update.path, update.state, update.file.skipped),
    ).lastrowid
    words: _Words = []
    for chunk in update.file.chunks:
        row = connection.execute(
            "INSERT INTO chunks (file, first, last, kind, symbol, digest) VALUES (?, ?, ?, ?, ?, ?)",
            (
                file,
                chunk.first,
                chunk.last,
                chunk.kind,
                chunk.symbol,
                bytes.fromhex(chunk.digest),
            ),
        ).lastrowid
        assert row is not None
        words.append((row, chunk.names, chunk.words))
    names = update.file.names
    connection.executemany(
        "INSERT INTO words (rowid, path, symbol, text) VALUES (?, ?, ?, ?)",
        [(row, names, symbol, text) for row, symbol, text in words],
    )
    packed = zlib.compress(msgspec.msgpack.encode((names, words)), _COMPRESSION)
    connection.execute("UPDATE files SET words = ? WHERE id = ?", (packed, file))


_decode_words = msgspec.msgpack.Decoder(tuple[str, _Words]).decode
