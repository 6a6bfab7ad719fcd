"""Reads MCP server configuration files in every supported dialect.

The dialect is recognized by the name of the table and by its keys. The file name matters only if
clients use the same key with different meanings: ``url`` is an SSE URL for Gemini, and the unit of
``timeout`` depends on the client.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs

from hilum_mcp.entries import (
    ADDRESSES,
    DESCRIPTIVE_KEYS,
    EntryReader,
    Finding,
    InvalidServerError,
    explain_unknown_key,
    is_comment,
    written,
)
from hilum_mcp.file_formats import LoadedFile, UnreadableFile, load_file
from hilum_mcp.paths import PROJECT_FILE, user_file
from hilum_mcp.server_config import ConfigFile, ConfigInput, ConfigMistake, Level, ServerConfig

Keys = tuple[str, ...]
Report = Callable[..., None]

# Only the first of these tables that exists in a file is read. Each entry is a path of keys.
# In this order: Claude, Cursor and most others; Codex; VS Code; Zed; VS Code's settings; opencode;
# goose; keys with dots in the settings of VS Code, Amp and Augment.
TABLES: list[Keys] = [
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
NO_TABLE = "It configures no MCP servers"
# Keys of a table `mcp` that configures MCP itself rather than servers.
_MCP_OPTIONS = {
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
_GOOSE_BUILT_IN = ("builtin", "platform", "frontend")
# Keys of lists of server names: Gemini's current and older key, then Claude Code's.
_SELECTIONS: tuple[Keys, ...] = (
    ("mcp", "excluded"),
    ("excludeMCPServers",),
    ("disabledMcpjsonServers",),
    ("mcp", "allowed"),
    ("allowMCPServers",),
)


# Top-level keys of hilum's own files and of `.mcp.json`; mcpServers is the usual table.
TOP_KEYS = tuple(
    dict.fromkeys(["mcpServers", "inputs", *(keys[0] for keys in (*TABLES, *_SELECTIONS))])
)


def _is_strict(file: Path) -> bool:
    """Return whether an unknown key in a file is a mistake.

    hilum's own files and ``.mcp.json`` contain only servers. Other files belong to programs that
    may define more keys.
    """
    if file.name == ".mcp.json" or file.absolute() == user_file():
        return True
    return os.fspath(file).endswith(f"/{PROJECT_FILE}")


def read_config(path: str | Path) -> ConfigFile:
    """Read the MCP servers in a configuration file of any client. Blocks.

    The file formats of Claude, Cursor, VS Code, Gemini, opencode, Codex, Copilot, Windsurf, Cline,
    Roo, Zed, goose and agent-plugins.org are supported. Nothing is started, no variable is
    expanded, and nothing in the file approves anything. A mistake in one server does not affect the
    others.

    Args:
        path: The file. The file's suffix determines the format: JSON (with comments), TOML or YAML.

    Returns:
        The servers and all mistakes. Invalid input never raises an exception.
    """
    file = Path(path)
    try:
        loaded = load_file(file)
    except UnreadableFile as error:
        return ConfigFile(file, {}, (ConfigMistake(file, "", str(error), error.line),))
    return _ConfigReader(file, loaded).read()


class _ConfigReader:
    """A reader for the servers in one file.

    Args:
        file: The path of the file.
        loaded: The content of the file.
    """

    def __init__(self, file: Path, loaded: LoadedFile) -> None:
        self.file = file
        self.data = loaded.data
        self.mistakes = loaded.mistakes
        self.find_line = loaded.find_line
        self.is_strict = _is_strict(file)

    def report(self, reason: str, *keys: str, level: Level = "error", server: str = "") -> None:
        """Record a mistake at a path of keys."""
        line = self.find_line(keys) if keys else 0
        where = ".".join(keys)
        self.mistakes.append(ConfigMistake(self.file, where, reason, line, level, server))

    def read(self) -> ConfigFile:
        """Read the file."""
        keys, table = _find_table(self.data)
        if keys is None:
            self._report_missing_table()
            return ConfigFile(self.file, {}, tuple(self.mistakes))
        name = ".".join(keys)
        if isinstance(table, list):  # Continue, Augment
            table = self._by_name(table, keys)
        if not isinstance(table, Mapping):
            self.report(f"found {written(table)}, expected a mapping of names to servers.", *keys)
            return ConfigFile(self.file, {}, tuple(self.mistakes), table=name)
        for other in _other_tables(self.data, keys):
            self.report(
                f"It was left out: only one table is read, {name or 'the file itself'}.",
                *other,
                level="warning",
            )
        if keys and self.is_strict:
            self._report_unknown_keys()
        selection = _Selection(self.data, self.report)
        servers = self._read_servers(table, keys, selection)
        selection.check_names(servers)
        inputs = _read_inputs(self.data, self.report)
        return ConfigFile(self.file, servers, tuple(self.mistakes), inputs, name)

    def _report_unknown_keys(self) -> bool:
        """Report unknown top-level keys, and return whether there are any."""
        known = DESCRIPTIVE_KEYS.union(TOP_KEYS)
        names = [key for key in self.data if key not in known and not is_comment(key)]
        for name in names:
            self.report(explain_unknown_key(name, TOP_KEYS), name)
        return bool(names)

    def _report_missing_table(self) -> None:
        if _looks_like_server(self.data):
            self.report(
                f"{NO_TABLE}, but describes one without a name. Put"
                ' {"mcpServers": {"NAME": …}} around it.'
            )
        elif self.is_strict and self._report_unknown_keys():
            return
        elif self.data:
            known = ", ".join(".".join(keys) for keys in TABLES)
            self.report(f"{NO_TABLE}: it has none of the tables {known}.")

    def _by_name(self, table: list[Any], keys: Keys) -> dict[str, Any]:
        """Convert a list of servers, each with its name, to a mapping from names to servers."""
        named: dict[str, Any] = {}
        for number, entry in enumerate(table, 1):
            name = entry.get("name") if isinstance(entry, Mapping) else None
            if isinstance(name, str) and name not in named:
                named[name] = entry
            else:
                self.report(
                    f"Entry {number} was left out: it must be a mapping with a unique name.", *keys
                )
        return named

    def _read_servers(
        self,
        table: Mapping[Any, Any],
        keys: Keys,
        selection: _Selection,
    ) -> dict[str, ServerConfig]:
        servers: dict[str, ServerConfig] = {}
        for key, entry in table.items():
            name = str(key)
            try:
                if keys == ("extensions",) and _is_built_into_goose(entry):
                    raise InvalidServerError(
                        "It is built into goose; other programs cannot start it.", level="warning"
                    )
                reader = EntryReader(
                    self.file, name, entry, ".".join(keys), is_strict=self.is_strict
                )
                server = reader.read()
            except InvalidServerError as error:
                self._report_findings(error.findings, (*keys, name))
                continue
            self._report_findings(reader.findings, (*keys, name))
            servers[name] = selection.apply(server)
            for note in servers[name].notes[len(server.notes) :]:
                self.report(note, *keys, name, level="warning", server=name)
        return servers

    def _report_findings(self, findings: Iterable[Finding], keys: Keys) -> None:
        for finding in findings:
            place = (*keys, *finding.keys)
            self.report(finding.reason, *place, level=finding.level, server=keys[-1])


def _find_table(data: Mapping[str, Any]) -> tuple[Keys | None, Any]:
    """Return the path and the value of the table of servers.

    The path is empty if the whole file is the table, and ``None`` if there is no table.
    """
    for keys in TABLES:
        value = _value_at(data, keys)
        if value is not None and not _has_other_purpose(keys, value):
            return keys, value
    # `$schema` is for editors.
    bare = {key: value for key, value in data.items() if not key.startswith("$")}
    # All values must look like servers, so that other JSON files are not mistaken for a table of
    # servers.
    if bare and all(map(_looks_like_server, bare.values())):
        return (), bare
    return None, None


def _value_at(data: Any, keys: Keys) -> Any:
    for key in keys:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data


def _has_other_purpose(keys: Keys, value: Any) -> bool:
    """Return whether a table contains no servers.

    Examples of such tables are VS Code's recommended extensions, Zed's installed extensions, and
    Gemini's selection of servers.
    """
    if keys == ("extensions",):
        return not isinstance(value, Mapping) or not any(
            _looks_like_server(each) or _is_goose_extension(each) for each in value.values()
        )
    if keys != ("mcp",) or not isinstance(value, Mapping) or not value:
        return False
    return set(value) <= _MCP_OPTIONS


def _is_goose_extension(value: object) -> bool:
    return isinstance(value, Mapping) and "type" in value and "enabled" in value


def _is_built_into_goose(value: object) -> bool:
    return isinstance(value, Mapping) and str(value.get("type")) in _GOOSE_BUILT_IN


def _other_tables(data: Mapping[str, Any], chosen: Keys) -> Iterable[Keys]:
    """Yield the other tables in a file that contain servers."""
    for keys in TABLES:
        value = _value_at(data, keys)
        # If `mcp.servers` was chosen, `mcp` contains that table and is not another table of
        # servers.
        if keys == chosen or chosen[:1] == keys or not isinstance(value, Mapping):
            continue
        if any(map(_looks_like_server, value.values())):
            yield keys


def _looks_like_server(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    return any(key in value for key in ("command", "cmd", *ADDRESSES))


class _Selection:
    """The lists in a file that enable or disable servers in the same file by name.

    Args:
        data: The content of the file.
        report: A function to call with each mistake.
    """

    def __init__(self, data: Mapping[str, Any], report: Report) -> None:
        self._report = report
        self._lists: dict[Keys, list[str]] = {}
        for keys in _SELECTIONS:
            value = _value_at(data, keys)
            if isinstance(value, list):
                self._lists[keys] = [str(item) for item in value]
            # In opencode's table `mcp`, a server may have the name `allowed` or `excluded`.
            elif value is not None and not (keys[0] == "mcp" and isinstance(value, Mapping)):
                report("It must be a list of server names; it was left out.", *keys)

    def apply(self, server: ServerConfig) -> ServerConfig:
        """Return the server, or a disabled copy if a list disables it."""
        for keys, names in self._lists.items():
            is_allow_list = keys[-1].startswith("allow")
            if (server.name in names) != is_allow_list:
                note = f"{'.'.join(keys)} disables it."
                return attrs.evolve(server, enabled=False, notes=(*server.notes, note))
        return server

    def check_names(self, servers: Mapping[str, ServerConfig]) -> None:
        """Report the names in these lists that match no server."""
        for keys, names in self._lists.items():
            missing = [repr(name) for name in names if name not in servers]
            if servers and missing:
                self._report(
                    f"There is no server {', '.join(missing[:5])} in this file.",
                    *keys,
                    level="warning",
                )


def _read_inputs(data: Mapping[str, Any], report: Report) -> dict[str, ConfigInput]:
    """Return VS Code's inputs by id, from the top level of the file or from ``mcp``."""
    inputs = {}
    for keys in (("inputs",), ("mcp", "inputs")):
        entries = _value_at(data, keys)
        if entries is None:
            continue
        if not isinstance(entries, list):
            report("It must be a list of mappings with an id; it was left out.", *keys)
            continue
        for entry in entries:
            if not isinstance(entry, Mapping) or not isinstance(entry.get("id"), str):
                report("An input must be a mapping with an id; it was left out.", *keys)
                continue
            inputs[entry["id"]] = _read_input(entry)
            # The value is the ID of one of VS Code's own commands, which no other program can run.
            if entry.get("type") == "command":
                shown = entry["id"][:80]
                report(
                    f"VS Code runs a command for {shown!r}; hilum asks you instead.",
                    *keys,
                    level="warning",
                )
    return inputs


def _read_input(entry: Mapping[str, Any]) -> ConfigInput:
    default = entry.get("default")
    options = entry.get("options")
    values = []
    for option in options if isinstance(options, list) else ():
        values.append(option.get("value") if isinstance(option, Mapping) else option)
    return ConfigInput(
        entry["id"],
        str(entry.get("description", "")),
        entry.get("password") is True,
        str(default) if isinstance(default, str | int | float) else "",
        tuple(map(str, values)),
    )
