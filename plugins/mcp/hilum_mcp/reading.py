"""One server of a file into the model: what each client writes, told from the keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hilum_mcp.server import Kind, Server

STDIO = {"stdio", "local"}
HTTP = {"http", "streamable-http", "streamablehttp", "streamable_http", "remote"}
SSE = {"sse"}
ADDRESSES = ("httpUrl", "serverUrl", "url", "uri", "endpoint")
# They mean an approval elsewhere and none here; `tools` only where it is a mapping (Codex).
_NO_APPROVAL = (
    "trust",
    "autoApprove",
    "auto_approve",
    "alwaysAllow",
    "always_allow",
    "approval_mode",
    "default_tools_approval_mode",
)
# Keys that describe a server, or are of another client's own window, log and gallery.
DESCRIBING = frozenset(
    "description name title display_name displayName icon icons category tags version bundled note"
    " notes comment _comment disabledReason gallery dev source metadata $schema id author homepage"
    " repository".split()
)
_SECONDS = ("cline_mcp_settings.json", "mcp_settings.json")  # Cline and Roo
_SHORT = 1.0


class Reader:
    """Reads one server.

    Raises ``ValueError`` for what leaves it unusable; collects the rest as notes.

    Args:
        file: The file it stands in.
        name: What it is called there.
        entry: What stands there.
        table: The table it stands in.
    """

    def __init__(self, file: Path, name: str, entry: Any, table: str = "") -> None:
        if not isinstance(entry, Mapping):
            raise ValueError("A server must be a mapping.")
        if not name.strip():
            raise ValueError("A server needs a name.")
        self.file = file
        self.name = name
        self.entry = dict(entry)
        self.table = table
        self.gemini = file.name == "gemini-extension.json" or file.parent.name == ".gemini"
        self.notes: list[str] = []
        self.used: set[str] = set()

    def server(self) -> Server:
        """Read it."""
        self._nested()
        enabled = self._flag("enabled", True) and not self._flag("disabled", False)
        words = self._command()
        kind, url = self._kind(bool(words))
        tools, without = self._tools()
        start, call = self._times()
        if kind != "stdio":
            self.used.discard("args")
        more = self._program(words) if kind == "stdio" else self._remote(url)
        self._rest(kind)
        return Server(
            name=self.name,
            kind=kind,
            **more,
            enabled=enabled,
            tools=tools,
            without=without,
            start_seconds=start,
            call_seconds=call,
            file=self.file,
            notes=tuple(self.notes),
        )

    # --- what is started or reached ---------------------------------------------------------------

    def _nested(self) -> None:
        """Take apart what stands in a mapping of its own: Zed's old ``command``, and a
        ``transport`` that is a mapping.
        """
        command = self.entry.get("command")
        transport = self.entry.get("transport")
        if isinstance(command, Mapping):  # Zed before 2025
            inner = {
                "command": command.get("path"),
                **{key: command[key] for key in command if key != "path"},
            }
            self.entry = {**self.entry, **inner}
        if isinstance(transport, Mapping):
            del self.entry["transport"]
            self.entry = {**transport, **self.entry}

    def _command(self) -> list[str]:
        key, value = self._first("command", "cmd")
        if value is None or value == "":
            return []
        self.used.add("args")
        args: Any = self.entry.get("args")
        if isinstance(args, str):
            args = self._split(args, "args is one text; it was split into words as a shell would.")
        if args is not None and not isinstance(args, list):
            raise ValueError("args must be a list of texts.")
        if not isinstance(value, str | list):
            raise ValueError(f"{key} must be a text or a list of texts.")
        words = [*(value if isinstance(value, list) else [value]), *(args or [])]
        if not all(
            isinstance(word, str | int | float) and not isinstance(word, bool) for word in words
        ):
            raise ValueError(f"{key} and args must be texts.")
        if (
            isinstance(value, str)
            and " " in value.strip()
            and not args
            and "/" not in value
            and "\\" not in value
        ):
            words = self._split(
                value,
                f"{key} holds spaces and no args follow: the first word is taken for the program.",
            )
        words = list(map(str, words))
        if any("\0" in word for word in words):
            raise ValueError(f"{key} and args may hold no NUL.")
        if not words or not words[0].strip():
            raise ValueError(f"{key} names no program.")
        return words

    def _split(self, text: str, note: str) -> list[str]:
        import shlex

        try:
            words = shlex.split(text)
        except ValueError as error:
            raise ValueError(f"{text[:80]!r} cannot be split into words: {error}.") from None
        self.notes.append(note)
        return words

    def _kind(self, program: bool) -> tuple[Kind, str]:
        _, given = self._first("type", "transport", "transportType")
        word = given.strip() if isinstance(given, str) else ""
        if given is not None and not isinstance(given, str):
            self.notes.append("type must be a text; the kind was told from the other keys.")
        key, url = self._first(*ADDRESSES)
        if url is not None and not isinstance(url, str):
            raise ValueError(f"{key} must be a text.")
        url = (url or "").strip()
        scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):/", url)
        if scheme and scheme[1].lower() not in ("http", "https", "ws", "wss"):
            raise ValueError(
                f"Its address begins with {scheme[1][:20]}:; servers are reached by http and https."
            )
        low = word.lower()
        if low in ("ws", "websocket"):
            raise ValueError("WebSockets are no transport of MCP; use streamable HTTP.")
        if low and low not in STDIO | HTTP | SSE:
            if not program and not url:
                raise ValueError(
                    f"It is of type {word[:40]!r}, which is none of MCP's, and has neither a"
                    " command nor a url."
                )
            self.notes.append(
                f"The type {word[:40]!r} is not known; the kind was told from the other keys."
            )
            low = ""
        if low in STDIO or (not low and program):
            if not program:
                raise ValueError("It is a program (type stdio or local) and has no command.")
            if url:
                self.notes.append(f"It has a command and {key}; the command is used.")
            return "stdio", ""
        if not url:
            if program:
                raise ValueError(f"It is of type {word} and has a command and no url.")
            raise ValueError("It has neither a command nor a url.")
        if program:
            self.notes.append(
                f"It has a command and {key}; by its type {word} the address is used."
            )
        if low in SSE or (not low and key == "url" and self.gemini):
            return "sse", url
        return "http", url

    def _program(self, words: list[str]) -> dict[str, Any]:
        return {
            "command": words[0],
            "args": tuple(words[1:]),
            "env": self._mapping("env", "environment", "envs"),
            "env_names": self._names("env_vars", "env_keys"),
            "env_file": self._text("envFile", "env_file"),
            "cwd": self._text("cwd", "workingDirectory", "working_directory"),
        }

    def _remote(self, url: str) -> dict[str, Any]:
        headers = self._mapping("headers", "http_headers")
        init = self.entry.get("requestInit")
        if isinstance(init, Mapping) and isinstance(init.get("headers"), Mapping):
            self.used.add("requestInit")
            headers = {
                **{str(key): str(value) for key, value in init["headers"].items()},
                **headers,
            }
        token = self._text("bearer_token_env_var")
        if token:
            headers = {**headers, "Authorization": f"Bearer ${{{token}}}"}
        oauth, login = self._oauth()
        low = str(self._first("type", "transport", "transportType")[1] or "").strip().lower()
        return {
            "url": url,
            "headers": headers,
            "header_names": self._mapping("env_http_headers"),
            "oauth": oauth,
            "login": login,
            "bare": (
                low not in STDIO | SSE | HTTP - {"remote"}
                and not (self.gemini or "httpUrl" in self.entry)
            ),
        }

    # --- what limits it ---------------------------------------------------------------------------

    def _tools(self) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
        """Return the only tools that it may offer, and those that it may not.

        Where there are several lists, all hold.
        """
        if isinstance(self.entry.get("tools"), Mapping):
            self._no_approval("tools")
        only: set[str] | None = None
        order: list[str] = []
        for key in ("includeTools", "enabled_tools", "enabledTools", "tools", "available_tools"):
            names = self._list(key)
            if names is None or "*" in names or (key == "available_tools" and not names):
                continue
            only = set(names) if only is None else only & set(names)
            order += names
        if only is None:
            allowed = None
        else:
            allowed = tuple(name for name in dict.fromkeys(order) if name in only)
        without = [
            name
            for key in ("excludeTools", "disabled_tools", "disabledTools")
            for name in self._list(key) or ()
        ]
        return allowed, tuple(dict.fromkeys(without))

    def _times(self) -> tuple[float | None, float | None]:
        start = self._seconds("startup_timeout_sec") or self._seconds("startup_timeout_ms", 1_000)
        call = self._seconds("tool_timeout_sec")
        whole = self._timeout()
        if call is not None and whole is not None:
            self.notes.append("It has timeout and tool_timeout_sec; tool_timeout_sec is used.")
        return start, whole if call is None else call

    def _timeout(self) -> float | None:
        # Gemini and opencode count milliseconds, Cline, Roo, Zed and goose seconds; of others
        # nobody means 1,000 s or more.
        value = self._seconds("timeout")
        if value is None:
            return None
        counts = (
            self.file.name in _SECONDS
            or self.file.parent.name == ".roo"
            or self.table in ("extensions", "context_servers")
        )
        if not counts and (self.gemini or self.table == "mcp" or value >= 1_000):
            value /= 1_000
            if value < _SHORT:
                self.notes.append(f"timeout is {value:g} s: milliseconds are counted here.")
        return value

    def _oauth(self) -> tuple[dict[str, str] | None, bool]:
        found: dict[str, str] | None = None
        login = True
        for key in ("oauth", "auth", "authorization"):
            value = self.entry.get(key)
            if value is None:
                continue
            if isinstance(value, bool) or str(value).lower() in ("none", "oauth"):
                self.used.add(key)
                login = login and value is not False and str(value).lower() != "none"
            elif isinstance(value, Mapping):
                self.used.add(key)
                found = {**_oauth(value), **(found or {})}
        scopes = self.entry.get("scopes")
        if isinstance(scopes, list | str):
            self.used.add("scopes")
            found = {**_oauth({"scope": scopes}), **(found or {})}
        return found, login

    # --- values -----------------------------------------------------------------------------------

    def _first(self, *keys: str) -> tuple[str, Any]:
        """Return the first of some keys that has a value.

        The others are told, as they mean the same.
        """
        given = [key for key in keys if self.entry.get(key) not in (None, "")]
        self.used.update(given[:1])
        for other in given[1:]:
            self.used.add(other)
            if self.entry[other] != self.entry[given[0]]:
                self.notes.append(f"It has {given[0]} and {other}; {given[0]} is used.")
        if given:
            return (given[0], self.entry[given[0]])
        return (keys[0], None)

    def _text(self, *keys: str) -> str:
        key, value = self._first(*keys)
        if value is None:
            return ""
        if isinstance(value, str) and "\0" not in value:
            return value
        raise ValueError(f"{key} must be a text.")

    def _mapping(self, *keys: str) -> dict[str, str]:
        key, value = self._first(*keys)
        if value is None or value == []:
            return {}
        if not isinstance(value, Mapping):
            raise ValueError(f"{key} must be a mapping of names to texts.")
        found = {}
        for name, item in value.items():
            if item is None:
                self.notes.append(f"{key}.{name} has no value and was left out.")
                continue
            text = ("true" if item else "false") if isinstance(item, bool) else item
            if not isinstance(text, str | int | float):
                raise ValueError(f"{key}.{name} must be a text.")
            if (
                not str(name)
                or "\0" in f"{name}{text}"
                or (key.startswith("env") and "=" in str(name))
            ):
                raise ValueError(
                    f"{key}.{name} cannot be passed on: it holds NUL, or = in its name."
                )
            found[str(name)] = str(text)
        return found

    def _names(self, *keys: str) -> tuple[str, ...]:
        return tuple(name for key in keys for name in self._list(key) or ())

    def _list(self, key: str) -> tuple[str, ...] | None:
        value = self.entry.get(key)
        if value is None or key in self.used:
            return None
        self.used.add(key)
        if isinstance(value, str):
            value = [word.strip() for word in value.split(",") if word.strip()]
        if not isinstance(value, list):
            self.notes.append(f"{key} must be a list; it was left out.")
            return None
        named = [item.get("name") if isinstance(item, Mapping) else item for item in value]
        odd = [
            item
            for item in named
            if not isinstance(item, str | int | float) or isinstance(item, bool)
        ]
        if odd:
            self.notes.append(
                f"{key} must be a list of texts; {len(odd)} of its entries were left out."
            )
        return tuple(
            str(item)
            for item in named
            if isinstance(item, str | int | float) and not isinstance(item, bool)
        )

    def _flag(self, key: str, default: bool) -> bool:
        value = self.entry.get(key)
        if value is None:
            return default
        self.used.add(key)
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
        self.used.add(key)
        try:
            seconds = 0.0 if isinstance(value, bool) else float(value) / divide
        except (TypeError, ValueError, OverflowError):
            seconds = 0.0
        if not 0 < seconds < 1e8:
            self.notes.append(f"{key} must be a number above 0; it was left out.")
            return None
        return seconds

    # --- what is left -----------------------------------------------------------------------------

    def _no_approval(self, key: str) -> None:
        self.used.add(key)
        if self.entry[key]:
            self.notes.append(f"{key} gives no approval here.")

    def _rest(self, kind: Kind) -> None:
        """Say of each key that changed nothing that it did not."""
        for key in self.entry:
            if key in _NO_APPROVAL:
                self._no_approval(key)
            elif (
                key not in self.used
                and key not in DESCRIBING
                and self.entry[key] not in (None, "", [], {})
            ):
                known = key in _OF["stdio"] if kind != "stdio" else key in _OF["http"]
                if known:
                    what = f"means nothing for {'a program' if kind == 'stdio' else 'an address'}"
                else:
                    what = "is not known"
                self.notes.append(f"The key {str(key)[:80]!r} {what} and was left out.")


_OF = {
    "stdio": frozenset(
        "args env environment envs env_vars env_keys envFile env_file cwd workingDirectory"
        " working_directory".split()
    ),
    "http": frozenset(
        "headers http_headers env_http_headers bearer_token_env_var requestInit oauth auth"
        " authorization scopes".split()
    ),
}


def _oauth(value: Mapping[Any, Any]) -> dict[str, str]:
    """Read settings of OAuth, whose names clients write in every way."""
    names = {
        "clientid": "client_id",
        "clientsecret": "client_secret",
        "scopes": "scope",
        "clientmetadataurl": "client_metadata_url",
        "assumepkce": "assume_pkce",
    }
    found = {}
    for name, item in value.items():
        low = str(name).lower().replace("-", "_")
        text = " ".join(map(str, item)) if isinstance(item, list) else str(item)
        if item is not None:
            found[names.get(low.replace("_", ""), low)] = text
    return found
