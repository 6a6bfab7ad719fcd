"""Which servers there are: who describes them, and whether each may be started.

The user's own file comes first, then the files of a project, of every client. What a project
describes is off until the user trusts the project and has approved the very definition. The user's
files of other clients are read only to import from them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from hilum import config_folder

from hilum_mcp.naming import names_of, prefixes
from hilum_mcp.offer import known
from hilum_mcp.places import CHOICES, FILE, OWN, PROJECT, SHARED
from hilum_mcp.quick import Brief
from hilum_mcp.server import Input, Server

if TYPE_CHECKING:
    from hilum_mcp.approving import Decisions
    from hilum_mcp.server import Config

MOST_SERVERS = 100

State = Literal["on", "off", "unapproved", "broken"]
Scope = Literal["user", "project"]


class Entry(msgspec.Struct, frozen=True):
    """A server, and whether it may be started.

    Args:
        server: As it is described; variables are not filled in.
        state: ``on``; ``off`` by its file or the user; ``unapproved``, for a project describes it;
            ``broken``.
        reason: Why it is not on, a sentence or two with what to do.
        scope: Who describes it.
    """

    server: Server
    state: State = "on"
    reason: str = ""
    scope: Scope = "user"


class Catalog(msgspec.Struct, frozen=True):
    """All servers of a workspace.

    Args:
        entries: One for each name, those of the user first.
        complaints: What could not be read or was left out, each with its file.
        inputs: What servers ask the user for, by file and id.
        trusts: Whether the user trusts the project; ``None`` where it describes no servers.
    """

    entries: tuple[Entry, ...] = ()
    complaints: tuple[str, ...] = ()
    inputs: dict[str, dict[str, Input]] = {}
    trusts: bool | None = None

    def get(self, name: str) -> Entry | None:
        """Return the entry of a name."""
        return next((entry for entry in self.entries if entry.server.name == name), None)


def briefs(entries: Iterable[Entry]) -> list[Brief]:
    """Return what a session has to know of its servers to begin.

    Blocks for the time of reading small files.
    """
    entries = list(entries)
    names = prefixes(entry.server for entry in entries if entry.state == "on")
    return [brief(entry, names.get(entry.server.name, "")) for entry in entries]


def brief(entry: Entry, prefix: str) -> Brief:
    """Return what a session has to know of a server to begin.

    Blocks for the time of reading a small file.

    Args:
        entry: The server.
        prefix: What the names of its tools begin with.
    """
    server = entry.server
    offer = known(server.digest) if entry.state == "on" else None
    names = names_of(server, prefix, offer) if offer else {}
    return Brief(
        server.name,
        server.digest,
        prefix,
        entry.state,
        entry.reason,
        server.start_seconds,
        server.call_seconds,
        offer,
        names,
        server.local,
    )


def user_file() -> Path:
    """Return the file in which the user describes servers."""
    return config_folder() / FILE


def look(workspace: Path | None) -> Catalog:
    """Find all servers. Blocks. With no file of servers it only asks the disk for a few names.

    Args:
        workspace: The project; ``None`` for none.
    """
    files = [(user_file(), True)] * os.path.lexists(user_file())
    files += [(file, False) for file in project_files(workspace)]
    if not files:
        return Catalog()
    from hilum_mcp.approving import Decisions
    from hilum_mcp.dialects import read_config

    root = os.path.realpath(workspace) if workspace else ""
    decisions = Decisions.load()
    found: dict[str, Entry] = {}
    complaints: list[str] = []
    inputs: dict[str, dict[str, Input]] = {}
    trusts: bool | None = None
    off = _switched_off_by_claude(Path(root)) if root else {}
    for file, own in files:
        if not own and not _inside(file, root):
            complaints.append(
                f"{file}: It is a link that leads out of the project, and was left out."
            )
            continue
        config = read_config(file)
        if not own and config.servers and trusts is None:
            trusts = _trusted(root)
        complaints += _complaints(config, shared=not own and _name(file, root) in SHARED)
        inputs[str(file)] = config.inputs
        for server in config.servers.values():
            entry = _judge(server, decisions, root if not own else "", bool(trusts), off)
            if len(found) >= MOST_SERVERS and server.name not in found:
                complaints.append(
                    f"{file}: {server.name}: It was left out: there are more than {MOST_SERVERS}"
                    " servers."
                )
            elif (
                first := found.setdefault(server.name, entry)
            ) is not entry and first.server.digest != server.digest:
                complaints.append(
                    f"{file}: {server.name}: It was left out: {first.server.file} has a server of"
                    " that name."
                )
    return Catalog(tuple(found.values()), tuple(complaints), inputs, trusts)


def project_files(workspace: Path | None) -> list[Path]:
    """Return the files in which a project describes servers.

    In the user's home the files of other clients are no project's.
    """
    if workspace is None:
        return []
    names: tuple[str, ...] = (*PROJECT, *SHARED)
    if os.path.realpath(workspace) == os.path.realpath(os.path.expanduser("~")):
        names = (OWN, ".mcp.json")
    return [workspace / name for name in names if os.path.lexists(f"{workspace}/{name}")]


def _name(file: Path, root: str) -> str:
    if file.is_absolute():
        return os.path.relpath(file, root)
    return str(file)


def _inside(file: Path, root: str) -> bool:
    return Path(os.path.realpath(file)).is_relative_to(root)


def _complaints(config: Config, *, shared: bool) -> list[str]:
    """Return what is wrong with a file.

    That a file of settings has nothing to say of servers is nothing wrong.
    """
    from hilum_mcp.dialects import NO_TABLE

    return [
        str(mistake)
        for mistake in config.mistakes
        if not (shared and mistake.reason.startswith(NO_TABLE))
    ]


def _judge(
    server: Server, decisions: Decisions, root: str, trusts: bool, off: dict[str, str]
) -> Entry:
    """Say of a server whether it may be started.

    Args:
        server: The server.
        decisions: What the user decided before.
        root: The project that describes it; empty where the user does.
        trusts: Whether the user trusts the project.
        off: What Claude Code's settings in the project switch off: name to file.
    """
    scope: Scope = "project" if root else "user"
    switch = decisions.switched(root, server.name)
    if switch is False:
        return Entry(
            server, "off", f"You have it off. hilum mcp enable {server.name} switches it on.", scope
        )
    if root and server.file.name == ".mcp.json" and server.name in off and switch is None:
        return Entry(server, "off", f"{off[server.name]} has it off.", scope)
    if not server.enabled and switch is None:
        return Entry(
            server,
            "off",
            f"{server.file} has it off. hilum mcp enable {server.name} switches it on.",
            scope,
        )
    if root and not trusts:
        from hilum_guard import distrust

        return Entry(server, "unapproved", distrust(root), scope)
    if root and (why := decisions.missing(root, server)):
        return Entry(server, "unapproved", why, scope)
    return Entry(server, scope=scope)


def _switched_off_by_claude(root: Path) -> dict[str, str]:
    """Return the servers of ``.mcp.json`` that Claude Code's settings in the project switch off.

    They can switch on none.
    """
    from hilum_mcp.parsing import Unreadable, load

    found: dict[str, str] = {}
    for name in CHOICES:
        path = root / name
        if path.is_file() and _inside(path, str(root)):
            try:
                names = load(path).data.get("disabledMcpjsonServers")
            except Unreadable:
                continue  # the guard tells of these files
            found |= dict.fromkeys(map(str, names if isinstance(names, list) else ()), str(path))
    return found


def _trusted(root: str) -> bool:
    from hilum_guard import trusted

    return trusted(root)
