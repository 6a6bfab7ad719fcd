"""Reads the whole content of a search index, for comparisons."""

from typing import Any

from hilum_semantic_search.store import IndexStore


def dump(store: IndexStore) -> Any:
    """Return everything in an index that does not depend on its history.

    The full-text index must be consistent; otherwise, ``DamagedIndex`` is raised.
    """
    with store.folder.open() as connection:
        connection.execute("INSERT INTO words (words) VALUES ('integrity-check')")
        rows = connection.execute(
            """SELECT path, skipped, first, last, kind, symbol, digest FROM files
            LEFT JOIN chunks ON chunks.file = files.id ORDER BY path, first, last"""
        ).fetchall()
        connection.execute(
            "CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab('main', 'words', 'col')"
        )
        words = connection.execute("SELECT * FROM vocabulary ORDER BY term, col").fetchall()
    return rows, words
