"""The check of configuration files for ``hilum doctor``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hilum import HilumError
from hilum.checks import Check

from hilum_mcp import lazy, paths

SUBJECT = "MCP servers"


def check_servers(folder: Path, online: bool) -> Iterator[Check]:
    """Check the files that configure servers; no server is started. Blocks.

    Args:
        folder: The workspace whose files are checked.
        online: Unused, because the check needs no network access.
    """
    if not paths.has_config_file(folder):
        return
    try:
        catalog = lazy.catalog.load_catalog(folder)
    except HilumError as error:
        yield Check("fail", SUBJECT, error.message, error.hint)
        return
    for mistake in catalog.errors:
        yield Check("fail", SUBJECT, str(mistake), "Correct the file.")
    if not catalog.errors:
        yield Check("ok", SUBJECT, f"{len(catalog.entries)} configured, no mistakes")
