"""Every dialect of MCP configuration read into one model.

The clients agree on little but ``command`` and ``args``. The dialect is told from the table's name
and the keys, and from the file only where two clients mean different things by one key (``url`` is
SSE for Gemini; ``timeout`` is in other units).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from hilum_mcp.parsing import Unreadable, load
from hilum_mcp.reading import ADDRESSES, Reader
from hilum_mcp.server import Config, Input, Mistake, Server

# The first of these that a file has; a path of keys each.
TABLES = [
    ("mcpServers",),
    ("mcp_servers",),
    ("servers",),
    ("context_servers",),
    ("mcp", "servers"),
    ("mcp",),
    ("extensions",),
    ("mcp.servers",),
    ("amp.mcpServers",),
    ("augment.advanced", "mcpServers"),
]
NO_TABLE = "It names no MCP servers"
_CHOICES = {
    "allowed",
    "excluded",
    "enabled",
    "discovery",
    "serverCommand",
    "access",
    "gallery",
    "inputs",
    "assistant",
}
_GOOSE = ("builtin", "platform", "frontend")


def read_config(path: str | Path) -> Config:
    """Read what a file says of MCP servers: the files of Claude, Cursor, VS Code, Gemini, opencode,
    Codex, Copilot, Windsurf, Cline, Roo, Zed, goose and agent-plugins.org. Blocks.

    Nothing is started, no variable is filled in, and nothing in the file approves anything. A
    mistake in one server costs no other.

    Args:
        path: The file: JSON (with comments), TOML or YAML by the end of its name.

    Returns:
        The servers and what could not be read of them. Bad input never raises.
    """
    file = Path(path)
    try:
        loaded = load(file)
    except Unreadable as error:
        return Config(file, {}, (Mistake(file, "", str(error), error.line),))
    data = loaded.data
    odd = loaded.odd

    def tell(reason: str, *keys: str) -> None:
        odd.append(Mistake(file, ".".join(keys), reason, loaded.line(keys) if keys else 0))

    keys, table = _table(data)
    if keys is None:
        if _looks_like_a_server(data):
            tell(
                f'{NO_TABLE}, but describes one without a name: {{"mcpServers": {{"NAME": …}}}}'
                " goes around it."
            )
        elif data:
            known = ", ".join(".".join(each) for each in TABLES)
            tell(f"{NO_TABLE}: there is none of the tables {known}.")
        return Config(file, {}, tuple(odd))
    if isinstance(table, list):  # Continue
        table = _named(table, lambda reason: tell(reason, *keys))
    if not isinstance(table, Mapping):
        tell("It must be a mapping of names to servers.", *keys)
        return Config(file, {}, tuple(odd), table=".".join(keys))
    for other in _others(data, keys):
        tell(
            f"It was left out: the servers of {'.'.join(keys) or 'the file itself'} are read, and"
            " of one table only.",
            *other,
        )
    choose = _Choice(data, tell)
    servers: dict[str, Server] = {}
    for name, entry in table.items():
        try:
            if (
                keys == ("extensions",)
                and isinstance(entry, Mapping)
                and str(entry.get("type")) in _GOOSE
            ):
                raise ValueError(
                    "It is one of goose's own abilities, no server that others can start."
                )
            server = choose(Reader(file, str(name), entry, ".".join(keys)).server())
        except ValueError as error:
            tell(str(error), *keys, str(name))
            continue
        servers[str(name)] = server
        for note in server.notes:
            tell(note, *keys, str(name))
    choose.check(servers)
    inputs = _inputs(data, tell)
    return Config(file, servers, tuple(odd), inputs, ".".join(keys))


def _table(data: Mapping[str, Any]) -> tuple[tuple[str, ...] | None, Any]:
    """Find the table of servers: the keys that lead to it (none: the file itself), and what stands
    there.
    """
    for keys in TABLES:
        value = _at(data, keys)
        if value is not None and not _of_another_kind(keys, value):
            return keys, value
    bare = {key: value for key, value in data.items() if not key.startswith("$")}
    if bare and all(map(_looks_like_a_server, bare.values())):
        return (), bare
    return None, None


def _named(table: list[Any], tell: Callable[[str], None]) -> dict[str, Any]:
    """Create a mapping of a list of servers that have their names inside."""
    found: dict[str, Any] = {}
    for number, entry in enumerate(table, 1):
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if isinstance(name, str) and name not in found:
            found[name] = entry
        else:
            tell(f"Entry {number} was left out: it must be a mapping with a name of its own.")
    return found


def _at(data: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data


def _of_another_kind(keys: tuple[str, ...], value: Any) -> bool:
    """Return whether a table is none of servers: VS Code's recommended or Zed's installed
    extensions, Gemini's choice of servers.
    """
    if keys == ("extensions",):
        return not (
            isinstance(value, Mapping)
            and any(_looks_like_a_server(each) or _of_goose(each) for each in value.values())
        )
    return (
        keys == ("mcp",) and isinstance(value, Mapping) and bool(value) and set(value) <= _CHOICES
    )


def _of_goose(value: object) -> bool:
    return isinstance(value, Mapping) and "type" in value and "enabled" in value


def _others(data: Mapping[str, Any], chosen: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the other tables of a file that hold servers."""
    found = []
    for keys in TABLES:
        value = _at(data, keys)
        if (
            keys != chosen
            and chosen[:1] != keys
            and isinstance(value, Mapping)
            and any(map(_looks_like_a_server, value.values()))
        ):
            found.append(keys)
    return found


def _looks_like_a_server(value: object) -> bool:
    return isinstance(value, Mapping) and any(
        key in value for key in ("command", "cmd", *ADDRESSES)
    )


class _Choice:
    """Which servers a file lets be on beside their own keys: Gemini's ``mcp.allowed`` and
    ``mcp.excluded`` and their elders, Claude Code's ``disabledMcpjsonServers``.
    """

    def __init__(self, data: Mapping[str, Any], tell: Any) -> None:
        self.lists: dict[tuple[str, ...], list[str]] = {}
        for keys in (
            ("mcp", "excluded"),
            ("excludeMCPServers",),
            ("disabledMcpjsonServers",),
            ("mcp", "allowed"),
            ("allowMCPServers",),
        ):
            value = _at(data, keys)
            if isinstance(value, list):
                self.lists[keys] = [str(item) for item in value]
            elif value is not None and (keys[0] != "mcp" or not isinstance(value, Mapping)):
                tell("It must be a list of names of servers; it was left out.", *keys)
        self.tell = tell

    def __call__(self, server: Server) -> Server:
        for keys, names in self.lists.items():
            allow = keys[-1].startswith("allow")
            if (server.name in names) != allow:
                note = f"{'.'.join(keys)} has it off."
                return msgspec.structs.replace(server, enabled=False, notes=(*server.notes, note))
        return server

    def check(self, servers: Mapping[str, Server]) -> None:
        """Tell of names that are no server's."""
        for keys, names in self.lists.items():
            if servers and (missing := [name for name in names if name not in servers]):
                self.tell(
                    f"There is no server {', '.join(map(repr, missing[:5]))} in this file.", *keys
                )


def _inputs(data: Mapping[str, Any], tell: Any) -> dict[str, Input]:
    found = {}
    for keys in (("inputs",), ("mcp", "inputs")):
        given = _at(data, keys)
        if given is not None and not isinstance(given, list):
            tell("It must be a list of mappings with an id; it was left out.", *keys)
        for entry in given if isinstance(given, list) else []:
            if not isinstance(entry, Mapping) or not isinstance(entry.get("id"), str):
                tell("An input must be a mapping with an id; it was left out.", *keys)
                continue
            if entry.get("type") == "command":
                tell(
                    f"The input {entry['id'][:80]!r} is a command of VS Code; you are asked for it"
                    " instead.",
                    *keys,
                )
            options = entry.get("options")
            if isinstance(options, list):
                values = [
                    each.get("value") if isinstance(each, Mapping) else each
                    for each in options or ()
                ]
            else:
                values = []
            default = entry.get("default")
            found[entry["id"]] = Input(
                entry["id"],
                str(entry.get("description", "")),
                entry.get("password") is True,
                str(default) if isinstance(default, str | int | float) else "",
                tuple(map(str, values)),
            )
    return found
