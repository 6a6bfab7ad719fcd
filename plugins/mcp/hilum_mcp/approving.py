"""What the user decided about servers: definitions of a project that were approved, and servers
that are switched on or off.

It stands in ``mcp.toml`` beside the user's settings, bound to the real path of the project; nothing
of it can stand in a project. An approval holds for one definition: another command, address,
variable or list of tools is another definition. It also holds for the content of the project's
files that the server executes (see ``content``).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from hilum import UsageError, config_folder, data_folder

from hilum_mcp import content
from hilum_mcp.offer import put
from hilum_mcp.places import DECISIONS
from hilum_mcp.server import Server

if TYPE_CHECKING:
    from hilum import Session

    from hilum_mcp.sources import Entry

APPROVED = "approved"
SWITCHED = "switched"
USER = "user"
MAX_LISTED = 8
LATER = "Not now"
YES = "Yes, start it"
NEVER = "No, switch it off"


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
            raise UsageError(
                f"{path} cannot be read: {error}.", hint="Mend or remove it."
            ) from None

    def switched(self, root: str, name: str) -> bool | None:
        """Return whether the user switched a server on or off; ``None`` where neither.

        Args:
            root: The project that describes it; empty where the user does.
            name: Its name.
        """
        return self.switches.get(root or USER, {}).get(name)

    def missing(self, root: str, server: Server) -> str:
        """Return why a definition of a project is not approved; empty where it is."""
        known = self.approved.get(root, {}).get(server.name)
        shows = f"hilum mcp approve {server.name} shows it and asks."
        if not known:
            return f"Its definition is not approved. {shows}"
        try:
            files = content.executed_files(server, root)
        except UsageError as error:
            return str(error)
        if known == content.digest(server, files):
            return ""
        listed = content.changes(_read_files(root, server), files)
        if not listed:
            return f"Its definition changed since you approved it. {shows}"
        more = f" and {len(listed) - MAX_LISTED} more" if len(listed) > MAX_LISTED else ""
        return (
            "What it executes changed since you approved it:"
            f" {', '.join(listed[:MAX_LISTED])}{more}. {shows}"
        )


def _table(data: dict[str, Any], name: str, kind: type) -> dict[str, dict[str, Any]]:
    table = data.get(name, {})
    if not isinstance(table, dict) or not all(
        isinstance(inner, dict) and all(isinstance(value, kind) for value in inner.values())
        for inner in table.values()
    ):
        raise ValueError(f"[{name}] must have a table for each folder")
    return table


def file() -> Path:
    """Return where decisions are kept."""
    return config_folder() / DECISIONS


def approve(root: str, server: Server) -> None:
    """Approve the definition of a project's server, and the files of the project that it executes,
    as they are. Blocks.

    Raises:
        UsageError: It cannot be written down, or it executes too much to be vouched for.
    """
    files = content.executed_files(server, root)
    _change([APPROVED, root, server.name], content.digest(server, files))
    put(_files_file(root, server), msgspec.json.encode(files))


def _files_file(root: str, server: Server) -> Path:
    """Return the file that lists what was approved with a server: only to tell what changed, it
    decides nothing.
    """
    mark = hashlib.sha256(os.fsencode(f"{root}\0{server.name}")).hexdigest()[:32]
    return data_folder() / "mcp" / "approved" / f"{mark}.json"


def _read_files(root: str, server: Server) -> dict[str, str]:
    try:
        return msgspec.json.decode(_files_file(root, server).read_bytes(), type=dict[str, str])
    except (OSError, msgspec.DecodeError):
        return {}


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


# --- asking ---------------------------------------------------------------------------------------


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
    if (
        not waiting
        or plan is None
        or not session.attended
        or not await trio.to_thread.run_sync(trusted, root)
    ):
        return []
    on = []
    for entry in waiting:
        shown = await trio.to_thread.run_sync(described, entry.server, root)
        asked = await plan.ask(session.agents["main"], "", shown, (LATER, YES, NEVER))
        # What is approved is what was shown: a command may have written to the files meanwhile.
        if asked.answers == (YES,) and shown == await trio.to_thread.run_sync(
            described, entry.server, root
        ):
            await trio.to_thread.run_sync(approve, root, entry.server)
            on.append(msgspec.structs.replace(entry, state="on", reason=""))
        elif asked.answers == (NEVER,):
            await trio.to_thread.run_sync(switch, root, entry.server.name, False)
    return on


def described(server: Server, root: str = "") -> str:
    """Return what an approval would start or reach, all of it, for the user to decide."""
    what = "start a program" if server.kind == "stdio" else "reach an address"
    asked = [f"{server.file} wants to {what} as the MCP server {server.name!r}:", *details(server)]
    if root:
        asked += executed_rows(server, root)
    return "\n".join([*asked, "Start it?"])


def executed_rows(server: Server, root: str) -> list[str]:
    """Write which files of the project a server executes, and what changed in them since it was
    approved.
    """
    try:
        files = content.executed_files(server, root)
    except UsageError as error:
        return [f"  executes  {error}"]
    if not files:
        return []
    names = [*files][:MAX_LISTED]
    more = f" and {len(files) - MAX_LISTED} more" if len(files) > MAX_LISTED else ""
    mark = content.digest(server, files)[7:19]
    rows = [f"  executes  {', '.join(names)}{more} of this project (content {mark})"]
    before = _read_files(root, server)
    if before:
        rows += [
            f"  since you approved it: {change}"
            for change in content.changes(before, files)[:MAX_LISTED]
        ]
    return rows


def details(server: Server) -> list[str]:
    """Write a definition, a row a part: all of it but for values that are secret by their name."""
    import shlex

    from hilum_guard import looks_secret

    def value(name: str, text: str) -> str:
        secret = "${" not in text and (looks_secret(name, text) or name.lower() == "authorization")
        if secret:
            return f"({len(text)} characters that are not shown)"
        return text

    rows = []
    if server.kind == "stdio":
        rows.append(f"  runs      {shlex.join((server.command, *server.args))}")
        rows += [f"  in        {server.cwd}"] if server.cwd else []
        rows += [f"  variable  {name}={value(name, text)}" for name, text in server.env.items()]
        rows += [f"  given     {name} (from your environment)" for name in server.env_names]
        rows += [f"  variables of the file {server.env_file}"] if server.env_file else []
    else:
        rows.append(
            f"  reaches   {server.url} ({'SSE' if server.kind == 'sse' else 'streamable HTTP'})"
        )
        rows += [
            f"  header    {name}: {value(name, text)}" for name, text in server.headers.items()
        ]
        rows += [
            f"  header    {name}: from your variable {variable}"
            for name, variable in server.header_names.items()
        ]
        rows += [
            f"  oauth     {name} = {value(name, text)}"
            for name, text in (server.oauth or {}).items()
        ]
    if server.tools is not None:
        rows.append(f"  tools     only {', '.join(server.tools) or 'none'}")
    return rows + ([f"  tools     without {', '.join(server.without)}"] if server.without else [])
