"""Modules of this package that load on first use: ``lazy.store.IndexStore(…)``.

They import SQLite, HTTP or numpy, which a session without a search does not need.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hilum_semantic_search import database as database
    from hilum_semantic_search import embedding_update as embedding_update
    from hilum_semantic_search import excerpts as excerpts
    from hilum_semantic_search import indexer as indexer
    from hilum_semantic_search import searching as searching
    from hilum_semantic_search import store as store
    from hilum_semantic_search import vectors as vectors


def __getattr__(name: str) -> ModuleType:
    path = f"hilum_semantic_search.{name}"
    try:
        return import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        # Code that inspects modules, such as pluggy, looks up attributes that do not exist.
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
