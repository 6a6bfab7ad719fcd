"""Keeps sessions in one SQLite file: an append-only event log that survives a crash at any instant.

The plugin gives the kernel its store (``provide_store``). Nothing is opened, and SQLite is not even
imported, before the first session is made, listed or read.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hilum import StoreError, data_folder, hookimpl, section, setting

from hilum_store.store import SqliteStore

if TYPE_CHECKING:
    from hilum import Kernel

__all__ = ["SqliteStore", "StoreSettings", "database_path", "provide_store"]


@section("store")
class StoreSettings:
    """Where sessions are kept, and what they survive. A project cannot set these."""

    path: str = setting(
        "", help="The session file; empty means sessions.db in the data folder.", project=False
    )
    durability: Literal["process", "power"] = setting(
        "process",
        help=(
            "What an event survives once it is written: the death of the process, or also a loss of"
            " power (slower)."
        ),
        project=False,
    )


def database_path(path: str = "") -> Path:
    """Return the absolute path of the session file.

    Args:
        path: The setting ``store.path``: ``~`` is the home folder, and a relative path begins at
            the data folder.

    Raises:
        StoreError: There is no home folder to begin with.
    """
    try:
        return data_folder() / Path(path or "sessions.db").expanduser()
    except RuntimeError:
        raise StoreError(
            "There is no home folder to keep sessions in.", hint="Set HILUM_DATA to a folder."
        ) from None


@hookimpl
async def provide_store(kernel: Kernel) -> SqliteStore:
    """Return the store of the user's sessions. It opens its file at first use."""
    settings = kernel.settings(StoreSettings)
    return SqliteStore(database_path(settings.path), settings.durability)
