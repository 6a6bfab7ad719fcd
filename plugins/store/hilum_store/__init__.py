"""Stores sessions in one SQLite file: an append-only event log that survives a crash at any time.

The plugin provides the kernel's store. The store opens the file, and imports SQLite, when the first
session is created, listed or read.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hilum import StoreError, data_folder, hookimpl, section, setting

from hilum_store.store import SqliteStore

if TYPE_CHECKING:
    from hilum import Kernel

__all__ = ["SqliteStore", "StoreSettings", "database_path", "provide_store"]


@section("store")
class StoreSettings:
    """Where sessions are stored, and how durably. A project cannot change these settings."""

    path: str = setting(
        "",
        help="The session file; empty means sessions.db in the data folder.",
        project=False,
    )
    durability: Literal["process", "power"] = setting(
        "process",
        help=(
            "What a written event survives: the end of the process, or also a power loss (slower)."
        ),
        project=False,
    )


def database_path(path: str = "") -> Path:
    """Return the absolute path of the session file.

    Args:
        path: The setting ``store.path``: ``~`` is the home folder, and a relative path is relative
            to the data folder.

    Raises:
        StoreError: There is no home folder.
    """
    try:
        return data_folder() / Path(os.path.expanduser(path or "sessions.db"))
    except RuntimeError:
        raise StoreError(
            "Sessions cannot be stored: there is no home folder.",
            hint="Set the environment variable HILUM_DATA to a folder.",
        ) from None


@hookimpl
async def provide_store(kernel: Kernel) -> SqliteStore:
    """Return the store for the user's sessions, which opens its file on first use."""
    settings = kernel.settings(StoreSettings)
    return SqliteStore(database_path(settings.path), settings.durability)
