"""Which servers a session has: who describes them, and whether each may be started."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from hilum import config_folder

from hilum_mcp.server import Server

if TYPE_CHECKING:
    from hilum import Session

State = Literal["on", "off", "unapproved", "broken"]


class Entry(msgspec.Struct, frozen=True):
    """A server, and whether it may be started.

    Args:
        server: As it is described; variables are not filled in.
        state: ``on``; ``off`` by its file or the user; ``unapproved``; ``broken``.
        reason: Why it is not on, a sentence.
    """

    server: Server
    state: State = "on"
    reason: str = ""


def servers(session: Session) -> list[Entry]:
    """Give the servers of a session, those of the user first. Blocks for the time of reading small files."""
    user, project = config_folder() / "mcp.json", Path(session.workspace.root) / ".mcp.json"
    found: dict[str, Entry] = {}
    for file in (user, project):
        if not file.is_file():
            continue
        from hilum_mcp.dialects import read_config

        for server in read_config(file).servers.values():
            found.setdefault(server.name, _entry(server, session, own=file == user))
    return list(found.values())


def _entry(server: Server, session: Session, own: bool) -> Entry:
    if not server.enabled:
        return Entry(server, "off", f"{server.file} has it off.")
    if own:
        return Entry(server)
    from hilum_guard import trusted

    if not trusted(session.workspace.root):
        return Entry(server, "unapproved", "The project is not trusted (hilum trust).")
    return Entry(server, "unapproved", "Its definition is not approved.")
