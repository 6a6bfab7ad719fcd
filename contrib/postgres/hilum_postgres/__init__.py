"""Stores sessions in PostgreSQL. Off unless the user sets a URL; then it replaces the session file.

The driver is imported when the first session is created, listed or read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hilum import hookimpl

from hilum_postgres.settings import PostgresSettings
from hilum_postgres.store import PostgresStore

if TYPE_CHECKING:
    from hilum import Kernel

__all__ = ["PostgresSettings", "PostgresStore", "provide_store"]


# tryfirst: the session file is the store of those who chose no other.
@hookimpl(tryfirst=True)
async def provide_store(kernel: Kernel) -> PostgresStore | None:
    """Return the store, which connects on first use; ``None`` if no URL is set."""
    settings = kernel.settings(PostgresSettings)
    if not settings.url:
        return None
    return PostgresStore(settings.url, settings.outage_timeout)
