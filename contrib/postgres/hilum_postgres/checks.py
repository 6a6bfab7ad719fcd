"""The database check of ``hilum doctor``."""

from __future__ import annotations

from pathlib import Path

import trio
from hilum import HilumError, open_kernel
from hilum.checks import Check

from hilum_postgres.settings import PostgresSettings


def check_database(folder: Path, online: bool) -> list[Check]:
    """Check whether the database can be used; nothing, if sessions are in the file. Blocks.

    Args:
        folder: The workspace whose settings are used.
        online: Not used, because every command that needs sessions contacts the database.
    """

    async def read_settings() -> PostgresSettings:
        async with open_kernel(["postgres"], workspace=folder) as kernel:
            return kernel.settings(PostgresSettings)

    try:
        settings = trio.run(read_settings)
    except HilumError:  # the settings check reports the error
        return []
    if not settings.url:
        return []
    from hilum_postgres.database import Database  # imports the driver

    try:
        return [Check("ok", "sessions", Database(settings.url).check())]
    except HilumError as error:
        return [Check("fail", "sessions", error.message, error.hint)]
