"""What the user decided about servers: definitions of a project that were approved, and servers that are switched on or off.

It stands in ``mcp.toml`` beside the user's settings, bound to the real path of the project; nothing of it can stand in a
project. An approval holds for one definition: another command, address, variable or list of tools is another definition.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from hilum import UsageError, config_folder

from hilum_mcp.places import DECISIONS
from hilum_mcp.server import Server

if TYPE_CHECKING:
    from hilum import Session

    from hilum_mcp.sources import Entry

APPROVED, SWITCHED, USER = "approved", "switched", "user"
LATER, YES, NEVER = "Not now", "Yes, start it", "No, switch it off"


class Decisions(msgspec.Struct, frozen=True):
    """The user's decisions as they were when they were read.

    Args:
        approved: Digests by project and name.
        switches: Whether a server is on, by project (``user`` for the user's own) and name.
    """

    approved: dict[str, dict[str, str]] = {}
    switches: dict[str, dict[str, bool]] = {}

    @classmethod
    def load(cls) -> Decisions:
        """Read them.

        Raises:
            UsageError: The file cannot be read.
        """
        path = file()
        if not os.path.lexists(path):
            return cls()
        import tomllib

        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
            return cls(_table(data, APPROVED, str), _table(data, SWITCHED, bool))
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(f"{path} cannot be read: {error}.", hint="Mend or remove it.") from None

    def switched(self, root: str, name: str) -> bool | None:
        """Whether the user switched a server on or off; ``None`` where neither.

        Args:
            root: The project that describes it; empty where the user does.
            name: Its name.
        """
        return self.switches.get(root or USER, {}).get(name)

    def missing(self, root: str, server: Server) -> str:
        """Say why a definition of a project is not approved; empty where it is."""
        known = self.approved.get(root, {}).get(server.name)
        if known == server.digest:
            return ""
        what = "Its definition changed since you approved it" if known else "Its definition is not approved"
        return f"{what}. hilum mcp approve {server.name} shows it and asks."


def _table(data: dict[str, Any], name: str, kind: type) -> dict[str, dict[str, Any]]:
    table = data.get(name, {})
    if not isinstance(table, dict) or not all(
        isinstance(inner, dict) and all(isinstance(value, kind) for value in inner.values()) for inner in table.values()
    ):
        raise ValueError(f"[{name}] must have a table for each folder")
    return table


def file() -> Path:
    """Give where decisions are kept."""
    return config_folder() / DECISIONS


def approve(root: str, server: Server) -> None:
    """Approve the definition of a project's server as it is. Blocks.

    Raises:
        UsageError: It cannot be written down.
    """
    _change([APPROVED, root, server.name], server.digest)


def revoke(root: str, name: str) -> bool:
    """Take an approval back; gives whether there was one. Blocks."""
    there = name in Decisions.load().approved.get(root, {})
    if there:
        _change([APPROVED, root, name], None)
    return there


def switch(root: str, name: str, on: bool | None) -> None:
    """Switch a server on or off, or leave it to its file again. Blocks.

    Args:
        root: The project that describes it; empty where the user does.
        name: Its name.
        on: Whether it is on; ``None`` leaves it to its file.
    """
    if on is not None or Decisions.load().switched(root, name) is not None:
        _change([SWITCHED, root or USER, name], on)


def _change(keys: list[str], value: object) -> None:
    from hilum_settings import ChangeError, change

    try:
        change(file(), keys, value)
    except ChangeError as error:
        raise UsageError(str(error), hint="Mend or remove the file.") from None


# --- asking -------------------------------------------------------------------------------------------------------------


async def ask(session: Session, entries: Iterable[Entry]) -> list[Entry]:
    """Ask the user about the definitions of a trusted project that are not approved yet, each once.

    Args:
        session: Where somebody may be asked; where nobody can be, nothing is.
        entries: Its servers.

    Returns:
        Those that are on now.
    """
    import trio
    from hilum_guard import trusted
    from hilum_plan import Plan

    root = await trio.to_thread.run_sync(os.path.realpath, session.workspace.root)
    waiting = [entry for entry in entries if entry.state == "unapproved"]
    plan = session.half(Plan)
    if not waiting or plan is None or session.kind == "headless" or not await trio.to_thread.run_sync(trusted, root):
        return []
    on = []
    for entry in waiting:
        asked = await plan.ask(session.agents["main"], "", described(entry.server), (LATER, YES, NEVER))
        if asked.answers == (YES,):
            await trio.to_thread.run_sync(approve, root, entry.server)
            on.append(msgspec.structs.replace(entry, state="on", reason=""))
        elif asked.answers == (NEVER,):
            await trio.to_thread.run_sync(switch, root, entry.server.name, False)
    return on


def described(server: Server) -> str:
    """Say what an approval would start or reach, all of it, for the user to decide."""
    what = "start a program" if server.kind == "stdio" else "reach an address"
    return "\n".join(
        [f"{server.file} wants to {what} as the MCP server {server.name!r}:", *details(server), "Start it?"]
    )


def details(server: Server) -> list[str]:
    """Write a definition, a row a part: all of it but for values that are secret by their name."""
    import shlex

    from hilum_guard import looks_secret

    def value(name: str, text: str) -> str:
        secret = "${" not in text and (looks_secret(name, text) or name.lower() == "authorization")
        return f"({len(text)} characters that are not shown)" if secret else text

    rows = []
    if server.kind == "stdio":
        rows.append(f"  runs      {shlex.join((server.command, *server.args))}")
        rows += [f"  in        {server.cwd}"] if server.cwd else []
        rows += [f"  variable  {name}={value(name, text)}" for name, text in server.env.items()]
        rows += [f"  given     {name} (from your environment)" for name in server.env_names]
        rows += [f"  variables of the file {server.env_file}"] if server.env_file else []
    else:
        rows.append(f"  reaches   {server.url} ({'SSE' if server.kind == 'sse' else 'streamable HTTP'})")
        rows += [f"  header    {name}: {value(name, text)}" for name, text in server.headers.items()]
        rows += [f"  header    {name}: from your variable {variable}" for name, variable in server.header_names.items()]
        rows += [f"  oauth     {name} = {value(name, text)}" for name, text in (server.oauth or {}).items()]
    if server.tools is not None:
        rows.append(f"  tools     only {', '.join(server.tools) or 'none'}")
    return rows + ([f"  tools     without {', '.join(server.without)}"] if server.without else [])
