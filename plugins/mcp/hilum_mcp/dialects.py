"""Every dialect of MCP configuration read into one model.

The clients agree on little but ``command`` and ``args``. The dialect is told from the table's name and the keys, and from the
file only where two clients mean different things by one key (``url`` is SSE for Gemini; ``timeout`` is in other units).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hilum_mcp.parsing import Unreadable, load
from hilum_mcp.server import Config, Input, Kind, Mistake, Server

# The first of these that a file has; a path of keys each.
TABLES = [
    ("mcpServers",), ("mcp_servers",), ("servers",), ("context_servers",), ("mcp", "servers"), ("mcp",), ("extensions",),
]  # fmt: skip
_CHOICES = {"allowed", "excluded", "enabled", "discovery", "serverCommand"}
_STDIO = {"stdio", "local"}
_HTTP = {"http", "streamable-http", "streamablehttp", "streamable_http", "remote"}
_SSE = {"sse"}
_ADDRESSES = ("httpUrl", "serverUrl", "url", "uri", "endpoint")
# Keys that mean something elsewhere and give no right here, with what is said of them.
_IGNORED = {
    "trust": "gives no approval here",
    "autoApprove": "gives no approval here",
    "alwaysAllow": "gives no approval here",
    "auto_approve": "gives no approval here",
}
# Keys that only describe, or that other clients show.
_SILENT = frozenset(
    "description name display_name type transport icon category tags version bundled available_tools note comment _comment"
    " disabledReason gallery dev source metadata $schema id author homepage networkTimeout sandboxEnabled".split()
)
_KNOWN = frozenset(
    "command cmd args env environment envs env_vars env_keys envFile env_file cwd workingDirectory working_directory headers"
    " http_headers env_http_headers bearer_token_env_var oauth auth authorization enabled disabled enabled_tools disabled_tools"
    " includeTools excludeTools tools timeout startup_timeout_sec startup_timeout_ms tool_timeout_sec requestInit".split()
) | {*_ADDRESSES}


def read_config(path: str | Path) -> Config:
    """Read what a file says of MCP servers: the files of Claude, Cursor, VS Code, Gemini, opencode, Codex, Copilot, Windsurf,
    Cline, Roo, Zed, goose and agent-plugins.org.

    Nothing is started, no variable is filled in, and nothing in the file approves anything. A mistake in one server costs no
    other.

    Args:
        path: The file: JSON (with comments), TOML or YAML by the end of its name.

    Returns:
        The servers and what could not be read of them. Bad input never raises.
    """
    file = Path(path)
    try:
        data, odd = load(file)
    except Unreadable as error:
        return Config(file, {}, (Mistake(file, "", str(error), error.line),))
    where, table = _table(data)
    if table is None:
        if data and not where:
            known = ", ".join(".".join(keys) for keys in TABLES)
            odd.append(Mistake(file, "", f"It names no MCP servers: there is none of the tables {known}."))
        elif where:
            odd.append(Mistake(file, where, "It must be a mapping of names to servers."))
        return Config(file, {}, tuple(odd))
    excluded, allowed = _chosen(data)
    servers: dict[str, Server] = {}
    for name, entry in table.items():
        place = f"{where}.{name}".strip(".")
        if (
            where == "extensions"
            and isinstance(entry, dict)
            and str(entry.get("type")) in ("builtin", "platform", "frontend")
        ):
            continue  # goose's own abilities
        try:
            server = _Reader(file, str(name), entry, where == "mcp").server()
        except ValueError as error:
            odd.append(Mistake(file, place, str(error)))
            continue
        if name in excluded or (allowed is not None and name not in allowed):
            server = _off(server)
        servers[str(name)] = server
        odd += [Mistake(file, place, note) for note in server.notes]
    return Config(file, servers, tuple(odd), _inputs(data, file, odd))


def _off(server: Server) -> Server:
    import msgspec

    return msgspec.structs.replace(server, enabled=False)


def _table(data: Mapping[str, Any]) -> tuple[str, Mapping[str, Any] | None]:
    """Find the table of servers: where it stands, and the table, ``None`` where what stands there is none."""
    for keys in TABLES:
        value: Any = data
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is None:
            continue
        where = ".".join(keys)
        if keys == ("extensions",) and not (
            isinstance(value, Mapping) and any(map(_looks_like_a_server, value.values()))
        ):
            continue  # of another kind: VS Code's recommendations, Zed's extensions
        if keys == ("mcp",) and isinstance(value, Mapping) and value and set(value) <= _CHOICES:
            continue  # Gemini's choice among servers that stand elsewhere
        return where, value if isinstance(value, Mapping) else None
    if data and all(map(_looks_like_a_server, data.values())):
        return "", data
    return "", None


def _looks_like_a_server(value: object) -> bool:
    return isinstance(value, Mapping) and any(key in value for key in ("command", "cmd", *_ADDRESSES))


def _chosen(data: Mapping[str, Any]) -> tuple[set[str], set[str] | None]:
    """Gemini's ``mcp.excluded`` and ``mcp.allowed``, Claude Code's ``disabledMcpjsonServers``."""
    table = data.get("mcp")
    table = table if isinstance(table, Mapping) else {}
    excluded = _texts(table.get("excluded")) + _texts(data.get("disabledMcpjsonServers"))
    allowed = table.get("allowed")
    return set(excluded), set(_texts(allowed)) if isinstance(allowed, list) else None


def _texts(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def _inputs(data: Mapping[str, Any], file: Path, odd: list[Mistake]) -> dict[str, Input]:
    found = {}
    given = data.get("inputs")
    for entry in given if isinstance(given, list) else []:
        if isinstance(entry, Mapping) and isinstance(entry.get("id"), str):
            default = entry.get("default")
            found[entry["id"]] = Input(
                entry["id"], str(entry.get("description", "")), bool(entry.get("password")),
                default if isinstance(default, str) else "", tuple(_texts(entry.get("options"))),
            )  # fmt: skip
        else:
            odd.append(Mistake(file, "inputs", "An input must be a mapping with an id."))
    return found


class _Reader:
    """Reads one server. Raises ``ValueError`` for what leaves it unusable; collects the rest as notes."""

    def __init__(self, file: Path, name: str, entry: Any, opencode: bool) -> None:
        if not isinstance(entry, Mapping):
            raise ValueError("A server must be a mapping.")
        if not name.strip():
            raise ValueError("A server needs a name.")
        self.file, self.name, self.entry, self.opencode = file, name, entry, opencode
        self.gemini = file.name == "gemini-extension.json" or file.parent.name == ".gemini"
        self.notes: list[str] = []

    def server(self) -> Server:
        """Read it."""
        for key in self.entry:
            if key in _IGNORED and self.entry[key]:
                self.notes.append(f"{key} {_IGNORED[key]}.")
            elif key not in _KNOWN | _SILENT | _IGNORED.keys():
                self.notes.append(f"The key {key!r} is not known and was left out.")
        words = self._command()
        kind, url = self._kind(bool(words))
        env = self._mapping("env", "environment", "envs")
        headers = self._mapping("headers", "http_headers")
        init: Any = self.entry.get("requestInit")
        inner: Any = init.get("headers") if isinstance(init, Mapping) else None
        if not headers and isinstance(inner, Mapping):
            headers = {str(key): str(value) for key, value in inner.items()}
        names = self._mapping("env_http_headers")
        if token := self._text("bearer_token_env_var"):
            headers = {**headers, "Authorization": f"Bearer ${{{token}}}"}
        only = self._list("includeTools", "enabled_tools", "tools")
        return Server(
            name=self.name,
            kind=kind,
            command=words[0] if kind == "stdio" else "",
            args=tuple(words[1:]) if kind == "stdio" else (),
            env=env,
            env_names=self._list("env_vars", "env_keys") or (),
            env_file=self._text("envFile", "env_file"),
            cwd=self._text("cwd", "workingDirectory", "working_directory"),
            url=url if kind != "stdio" else "",
            headers=headers,
            header_names=names,
            oauth=self._oauth(),
            bare=kind == "http" and "url" in self.entry and not (self.entry.get("type") or self.entry.get("transport")),
            enabled=self._flag("enabled", True) and not self._flag("disabled", False),
            tools=None if only is None or "*" in only else only,
            without=self._list("excludeTools", "disabled_tools") or (),
            start_seconds=self._seconds("startup_timeout_sec") or self._seconds("startup_timeout_ms", 1_000),
            call_seconds=self._seconds("tool_timeout_sec") or self._timeout(),
            file=self.file,
            notes=tuple(self.notes),
        )

    def _command(self) -> list[str]:
        value: Any = self.entry.get("command", self.entry.get("cmd"))
        args: Any = self.entry.get("args")
        if isinstance(value, Mapping):  # Zed before 2025
            value, args = value.get("path"), value.get("args", args)
        if value is None or value == "":
            return []
        if isinstance(args, str):
            try:
                args = shlex.split(args)
                self.notes.append("args is one text; it was split into words as a shell would.")
            except ValueError as error:
                raise ValueError(f"args is a text that cannot be split into words: {error}.") from None
        if args is not None and not isinstance(args, list):
            raise ValueError("args must be a list of texts.")
        if isinstance(value, list):
            words = [*value, *(args or [])]
        elif isinstance(value, str):
            words = [value, *(args or [])]
        else:
            raise ValueError("command must be a text or a list of texts.")
        if not words or not all(isinstance(word, str | int | float) and not isinstance(word, bool) for word in words):
            raise ValueError("command and args must be texts.")
        if isinstance(value, str) and " " in value.strip() and not args and "/" not in value and "\\" not in value:
            self.notes.append("command holds spaces and no args: the first word is taken for the program.")
            words = shlex.split(value)
        return list(map(str, words))

    def _kind(self, program: bool) -> tuple[Kind, str]:
        word = str(self.entry.get("type") or self.entry.get("transport") or "").strip()
        given = {
            key: self.entry[key]
            for key in _ADDRESSES
            if isinstance(self.entry.get(key), str) and self.entry[key].strip()
        }
        key, url = next(iter(given.items()), ("", ""))
        url = url.strip()
        if len(given) > 1:
            self.notes.append(f"It has {len(given)} addresses; {key} is used.")
        low = word.lower()
        if low in ("ws", "websocket"):
            raise ValueError("WebSockets are no transport of MCP; use streamable HTTP.")
        if low and low not in _STDIO | _HTTP | _SSE:
            self.notes.append(f"The type {word!r} is not known; the kind was told from the other keys.")
            low = ""
        if low in _STDIO or (not low and program):
            if not program:
                raise ValueError("It is a program (type stdio or local) and has no command.")
            if url:
                self.notes.append(f"It has a command and {key}; the command is used.")
            return "stdio", ""
        if not url:
            if program:
                raise ValueError(f"It is of type {word} and has a command and no url.")
            raise ValueError("It has neither a command nor a url.")
        if low in _SSE or (not low and key == "url" and self.gemini):
            return "sse", url
        return "http", url

    def _text(self, *keys: str) -> str:
        for key in keys:
            if (value := self.entry.get(key)) is None:
                continue
            if isinstance(value, str):
                return value
            raise ValueError(f"{key} must be a text.")
        return ""

    def _mapping(self, *keys: str) -> dict[str, str]:
        for key in keys:
            value = self.entry.get(key)
            if value is None or value == []:
                continue
            if not isinstance(value, Mapping):
                raise ValueError(f"{key} must be a mapping of names to texts.")
            found = {}
            for name, item in value.items():
                if isinstance(item, bool):
                    found[str(name)] = "true" if item else "false"
                elif isinstance(item, str | int | float):
                    found[str(name)] = str(item)
                elif item is not None:
                    raise ValueError(f"{key}.{name} must be a text.")
            return found
        return {}

    def _list(self, *keys: str) -> tuple[str, ...] | None:
        for key in keys:
            value = self.entry.get(key)
            if isinstance(value, str):
                value = [word.strip() for word in value.split(",") if word.strip()]
            if isinstance(value, list):
                return tuple(str(item.get("name", "")) if isinstance(item, Mapping) else str(item) for item in value)
            if value is not None:
                self.notes.append(f"{key} must be a list; it was left out.")
        return None

    def _flag(self, key: str, default: bool) -> bool:
        value = self.entry.get(key)
        if value is None:
            return default
        word = str(value).strip().lower()
        if word in ("true", "yes", "on", "1"):
            return True
        if word in ("false", "no", "off", "0"):
            return False
        self.notes.append(f"{key} must be true or false; the server is off until it is.")
        return key == "disabled"

    def _seconds(self, key: str, divide: float = 1) -> float | None:
        value = self.entry.get(key)
        if value is None:
            return None
        try:
            seconds = float(value) / divide
        except (TypeError, ValueError):
            seconds = 0.0
        if isinstance(value, bool) or not 0 < seconds < 1e6:
            self.notes.append(f"{key} must be a number above 0; it was left out.")
            return None
        return seconds

    def _timeout(self) -> float | None:
        # Gemini and opencode count milliseconds, Cline, Roo and goose seconds. Nobody waits 1,000 s for a call.
        value = self._seconds("timeout")
        return None if value is None else value / 1_000 if self.gemini or self.opencode or value >= 1_000 else value

    def _oauth(self) -> dict[str, str] | None:
        for key in ("oauth", "auth", "authorization"):
            value = self.entry.get(key)
            if value is None or value is False or isinstance(value, str):
                continue
            if value is True:
                return {}
            if isinstance(value, Mapping):
                names = {"clientid": "client_id", "clientsecret": "client_secret", "scopes": "scope"}
                found = {}
                for name, item in value.items():
                    low = str(name).lower().replace("-", "_")
                    text = " ".join(map(str, item)) if isinstance(item, list) else str(item)
                    found[names.get(low.replace("_", ""), low)] = text
                return found
        return None
