"""Reads a server from a configuration file in any client's dialect as a ``ServerConfig``.

Clients share few keys besides ``command`` and ``args``. An entry is read in three steps: keys with
the same meaning get one name, the values are structured strictly (``ServerEntry``), and
client-specific meanings, such as the transport and the unit of time, are resolved.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NewType

import attrs
from cattrs import BaseValidationError, ClassValidationError, Converter, ForbiddenExtraKeysError
from hilum.errors import similar_names

from hilum_mcp.file_formats import kind_of
from hilum_mcp.server_config import Kind, Level, ServerConfig

# Maximum number of characters in a value that a message quotes.
MAX_SHOWN_VALUE = 60
# Maximum number of known keys to list in a message about an unknown key.
MAX_KNOWN_KEYS = 12
# The names of transports in messages; other programs use more names for them.
SHOWN_TYPES = ("stdio", "http", "sse")
STDIO_TYPES = {"stdio", "local"}
HTTP_TYPES = {"http", "streamable-http", "streamablehttp", "streamable_http", "remote"}
SSE_TYPES = {"sse"}
WEBSOCKET_TYPES = {"ws", "websocket"}
ADDRESSES = ("httpUrl", "serverUrl", "url", "uri", "endpoint")

# Keys with the same meaning: the name that `ServerEntry` uses, then all names, with the preferred
# name first.
SAME_KEYS: dict[str, tuple[str, ...]] = {
    "type": ("type", "transport", "transportType"),
    "command": ("command", "cmd"),
    "url": ADDRESSES,
    "env": ("env", "environment", "envs"),
    "env_vars": ("env_vars", "env_keys"),
    "envFile": ("envFile", "env_file"),
    "cwd": ("cwd", "workingDirectory", "working_directory"),
    "headers": ("headers", "http_headers"),
    "oauth": ("oauth", "auth", "authorization"),
    "enabled_tools": ("enabled_tools", "enabledTools"),
    "disabled_tools": ("disabled_tools", "disabledTools"),
}
PROGRAM_KEYS = frozenset(
    "args env environment envs env_vars env_keys envFile env_file cwd workingDirectory"
    " working_directory".split()
)
ADDRESS_KEYS = frozenset(
    "headers http_headers env_http_headers bearer_token_env_var requestInit oauth auth"
    " authorization scopes".split()
)
# Keys that describe a server, or that only affect another client's window, log or gallery.
DESCRIPTIVE_KEYS = frozenset(
    "description name title display_name displayName icon icons category tags version bundled note"
    " notes comment _comment disabledReason gallery dev source metadata $schema id author homepage"
    " repository".split()
)
# Keys that approve tools or servers in other clients. In hilum, only the user approves.
_APPROVAL_KEYS = (
    "trust",
    "autoApprove",
    "auto_approve",
    "alwaysAllow",
    "always_allow",
    "approval_mode",
    "default_tools_approval_mode",
)
_EMPTY: tuple[Any, ...] = (None, "", [], {})
# Fallback for a switch: the value that turns the server off.
OFF = object()
_WITH_NUL = "a text with NUL characters"
_WITHOUT_NUL = "a text without NUL characters"
# Cline, Roo, Zed and goose use seconds.
_FILES_IN_SECONDS = ("cline_mcp_settings.json", "mcp_settings.json")
_TABLES_IN_SECONDS = ("extensions", "context_servers")
_OAUTH_NAMES = {
    "clientid": "client_id",
    "clientsecret": "client_secret",
    "scopes": "scope",
    "clientmetadataurl": "client_metadata_url",
    "assumepkce": "assume_pkce",
}


class Finding(NamedTuple):
    """A mistake in a server's configuration, or a setting that has no effect.

    Attributes:
        keys: The path of keys below the server, as in the file; empty for the server itself.
        reason: A sentence that names the value found and the value expected.
        level: As in ``ConfigMistake``.
    """

    keys: tuple[str, ...]
    reason: str
    level: Level = "error"

    def __str__(self) -> str:
        return f"{'.'.join(self.keys)}: {self.reason}" if self.keys else self.reason


class InvalidServerError(Exception):
    """A server cannot be used.

    Args:
        reason: The reason, in one sentence.
        keys: The path of keys from the server to the invalid value.
        level: As in ``ConfigMistake``.
        findings: Other findings in the server's configuration.
    """

    def __init__(
        self,
        reason: str,
        *keys: str,
        level: Level = "error",
        findings: Iterable[Finding] = (),
    ) -> None:
        super().__init__(reason)
        own = [Finding(keys, reason, level)] if reason else []
        self.findings = (*own, *findings)


class MismatchError(ValueError):
    """A value is not of the expected type.

    Args:
        expected: The expected kind of value, with an article.
        found: The value, or only its kind if the value may be secret.
        where: The keys below the key of the value, such as a variable's name.
        fallback: The replacement for the value, if the server can be used without it.
        result: What happened to the invalid value, for the message.
    """

    def __init__(
        self,
        expected: str,
        found: str,
        *where: str,
        fallback: Any = attrs.NOTHING,
        result: str = "it was left out",
    ) -> None:
        super().__init__(expected)
        self.expected = expected
        self.found = found
        self.where = where
        self.fallback = fallback
        self.result = result

    def describe(self) -> str:
        """Return one sentence that describes the mismatch."""
        sentence = f"found {self.found}, expected {self.expected}"
        if self.fallback is attrs.NOTHING:
            return f"{sentence}."
        return f"{sentence}; {self.result}."


def written(value: object) -> str:
    """Return a value as shortened JSON, or only the kind of a list or mapping, to hide secrets."""
    if isinstance(value, list | dict):
        return kind_of(value)
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_SHOWN_VALUE else f"{text[:MAX_SHOWN_VALUE]}…"


# --- step 2: values with strict types -------------------------------------------------------------

Text = NewType("Text", str)
Words = NewType("Words", list[str])
Arguments = NewType("Arguments", object)
Variables = NewType("Variables", dict[str, str])
Headers = NewType("Headers", dict[str, str])
Names = NewType("Names", list[str])
Switch = NewType("Switch", bool)
Seconds = NewType("Seconds", float)
OAuth = NewType("OAuth", object)
RequestInit = NewType("RequestInit", dict[str, str])


# `__eq__` and `__repr__` are not generated, because generating them would take half of the import
# time.
@attrs.define(kw_only=True, eq=False, repr=False)
class ServerEntry:
    """The supported keys of a server, each under one name."""

    command: Words | None = None
    args: Arguments | None = None
    env: Variables = attrs.field(factory=lambda: Variables({}))
    env_vars: Names | None = None
    env_file: Text | None = attrs.field(default=None, alias="envFile")
    cwd: Text | None = None
    url: Text | None = None
    headers: Headers = attrs.field(factory=lambda: Headers({}))
    env_http_headers: Headers = attrs.field(factory=lambda: Headers({}))
    bearer_token_env_var: Text | None = None
    request_init: RequestInit = attrs.field(factory=lambda: RequestInit({}), alias="requestInit")
    oauth: OAuth | None = None
    scopes: Names | None = None
    enabled: Switch = Switch(True)
    disabled: Switch = Switch(False)
    include_tools: Names | None = attrs.field(default=None, alias="includeTools")
    enabled_tools: Names | None = None
    tools: Names | None = None
    available_tools: Names | None = None
    exclude_tools: Names | None = attrs.field(default=None, alias="excludeTools")
    disabled_tools: Names | None = None
    startup_timeout_sec: Seconds | None = None
    startup_timeout_ms: Seconds | None = None
    tool_timeout_sec: Seconds | None = None
    timeout: Seconds | None = None


def _structure_text(value: Any, _: Any) -> str:
    if not isinstance(value, str):
        raise MismatchError("a text", written(value))
    # No program can be started with a NUL in its arguments or variables.
    if "\0" in value:
        raise MismatchError(_WITHOUT_NUL, _WITH_NUL)
    return value


def _structure_words(value: Any, _: Any) -> list[str]:
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list):
        raise MismatchError("a text or a list of texts", written(value))
    for number, word in enumerate(words):
        if not _is_scalar(word):
            raise MismatchError("a text", written(word), f"[{number}]")
        if "\0" in str(word):
            raise MismatchError(_WITHOUT_NUL, _WITH_NUL, f"[{number}]")
    return [str(word) for word in words]


def _structure_arguments(value: Any, _: Any) -> str | list[str]:
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise MismatchError("a list of texts", written(value))
    return _structure_words(value, _)


def _structure_headers(value: Any, _: Any) -> dict[str, str]:
    return _structure_mapping(value, "\0")


def _structure_variables(value: Any, _: Any) -> dict[str, str]:
    return _structure_mapping(value, "\0=")


def _structure_mapping(value: Any, forbidden: str) -> dict[str, str]:
    """Return a mapping of names to texts; reject names that contain a forbidden character.

    Error messages contain no values, because variables and headers are often secret.
    """
    # Some programs write an empty mapping as a list.
    if value == []:
        return {}
    if not isinstance(value, Mapping):
        raise MismatchError("a mapping of names to texts", kind_of(value))
    texts: dict[str, str] = {}
    mismatches: list[MismatchError] = []
    for key, item in value.items():
        name = str(key)
        # Programs expect the notation of JSON, `true`, where `str` returns `True`.
        text = str(item).lower() if isinstance(item, bool) else str(item)
        if not isinstance(item, str | int | float):
            mismatches.append(MismatchError("a text", kind_of(item), name))
        elif not name or not set(forbidden).isdisjoint(name):
            expected = "a name without NUL characters and without ="
            mismatches.append(MismatchError(expected, f"the name {written(name)}", name))
        elif "\0" in text:
            mismatches.append(MismatchError(_WITHOUT_NUL, _WITH_NUL, name))
        texts[name] = text
    if mismatches:
        raise ExceptionGroup("values", mismatches)
    return texts


def _structure_names(value: Any, _: Any) -> list[str]:
    if isinstance(value, str):
        return [word.strip() for word in value.split(",") if word.strip()]
    if not isinstance(value, list):
        raise MismatchError("a list of texts", written(value), fallback=None)
    names = [item.get("name") if isinstance(item, Mapping) else item for item in value]
    texts = [str(name) for name in names if _is_scalar(name)]
    if len(texts) < len(names):
        wrong = next(item for item, name in zip(value, names, strict=True) if not _is_scalar(name))
        result = f"{len(names) - len(texts)} of its entries were left out"
        raise MismatchError("a list of texts", written(wrong), fallback=texts, result=result)
    return texts


def _structure_switch(value: Any, _: Any) -> bool:
    word = str(value).strip().lower()
    if word in ("true", "yes", "on", "1"):
        return True
    if word in ("false", "no", "off", "0"):
        return False
    # Starting a server that the user wanted to disable would be worse than not starting one.
    result = "the server is off until this is corrected"
    raise MismatchError("true or false", written(value), fallback=OFF, result=result)


def _structure_seconds(value: Any, _: Any) -> float:
    try:
        # `float(True)` would be 1.
        seconds = 0.0 if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        seconds = 0.0
    # Also rejects NaN and infinity, which Python's JSON parser accepts.
    if not 0 < seconds < 1e11:
        raise MismatchError("a number above 0", written(value), fallback=None)
    return seconds


def _structure_oauth(value: Any, _: Any) -> dict[str, str] | bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, Mapping):
        return _oauth_options(value)
    word = str(value).lower()
    if word not in ("none", "oauth"):
        # A string may be a token that was meant for a header.
        found = kind_of(value) if isinstance(value, str) else written(value)
        raise MismatchError("true, false or a mapping", found, fallback=None)
    return word == "oauth"


def _structure_request_init(value: Any, _: Any) -> dict[str, str]:
    headers = value.get("headers") if isinstance(value, Mapping) else None
    if not isinstance(headers, Mapping):
        found = "no headers" if isinstance(value, Mapping) else kind_of(value)
        raise MismatchError("a mapping with headers", found, fallback=None)
    return {str(key): str(text) for key, text in headers.items()}


def _is_scalar(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _oauth_options(value: Mapping[Any, Any]) -> dict[str, str]:
    """Return OAuth options under uniform names, because clients spell the names differently."""
    options = {}
    for key, item in value.items():
        if item is None:
            continue
        lower = str(key).lower().replace("-", "_")
        text = " ".join(map(str, item)) if isinstance(item, list) else str(item)
        options[_OAUTH_NAMES.get(lower.replace("_", ""), lower)] = text
    return options


def _make_converter() -> Converter:
    converter = Converter(forbid_extra_keys=True, use_alias=True)
    hooks = {
        Text: _structure_text,
        Words: _structure_words,
        Arguments: _structure_arguments,
        Variables: _structure_variables,
        Headers: _structure_headers,
        Names: _structure_names,
        Switch: _structure_switch,
        Seconds: _structure_seconds,
        OAuth: _structure_oauth,
        RequestInit: _structure_request_init,
    }
    for kind, hook in hooks.items():
        converter.register_structure_hook(kind, hook)
    return converter


_CONVERTER = _make_converter()
_KEYS = {field.name: field.alias or field.name for field in attrs.fields(ServerEntry)}
# All keys that hilum uses, the preferred spelling first.
KNOWN_KEYS = tuple(
    dict.fromkeys(
        ["type", *_KEYS.values(), *SAME_KEYS, *(key for keys in SAME_KEYS.values() for key in keys)]
    )
)


def is_comment(key: str) -> bool:
    """Return whether a key serves as a comment in JSON, which has no comment syntax."""
    return key.startswith(("_", "$", "#", "//", "x-"))


def explain_unknown_key(key: str, known: Sequence[str]) -> str:
    """Return a message about an unknown key that names a similar key or the known keys."""
    similar = similar_names(key, known, 1)
    if similar:
        return f"unknown key. Did you mean {similar[0]}?"
    return f"unknown key. Known: {', '.join(known[:MAX_KNOWN_KEYS])} …"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


# --- steps 1 and 3: the dialects ------------------------------------------------------------------


class EntryReader:
    """A reader for the entry of one server.

    Args:
        file: The file that contains the entry; for some clients, only its path identifies the
            dialect.
        name: The key of the entry.
        entry: The value of the entry.
        table: The path of keys to the table that contains the entry.
        is_strict: Whether an unknown key is a mistake. Other programs may define more keys in their
            own files.

    Raises:
        InvalidServerError: The entry is not a mapping, or has no name.
    """

    def __init__(
        self, file: Path, name: str, entry: Any, table: str = "", *, is_strict: bool = False
    ) -> None:
        if not isinstance(entry, Mapping):
            raise InvalidServerError(f"found {written(entry)}, expected a mapping with a server.")
        if not name.strip():
            raise InvalidServerError("A server needs a name.")
        self.is_strict = is_strict
        self.file = file
        self.name = name
        self.table = table
        self.is_gemini = file.name == "gemini-extension.json" or file.parent.name == ".gemini"
        self.findings: list[Finding] = []
        self._written: dict[str, str] = {}
        self._values = self._rename(_flatten(entry))

    def read(self) -> ServerConfig:
        """Read the server.

        Raises:
            InvalidServerError: The server cannot be used. The error contains all mistakes in the
                entry.
        """
        unusable: list[Finding] = []
        kind: Kind | None = None
        try:
            kind = self._choose_kind()
        except InvalidServerError as error:
            # The other keys are checked anyway, so that all mistakes are reported at once.
            unusable += error.findings
        if kind is not None:
            self._drop_keys_of_other_kind(kind)
        self._drop_approvals()
        self._drop_empty_variables()
        entry, mismatches = self._structure()
        unusable += mismatches
        if kind is None or unusable:
            raise InvalidServerError("", findings=[*unusable, *self.findings])
        try:
            return self._make_server(kind, entry)
        except InvalidServerError as error:
            findings = [*error.findings, *self.findings]
            raise InvalidServerError("", findings=findings) from None

    def _make_server(self, kind: Kind, entry: ServerEntry) -> ServerConfig:
        """Return the server that an entry describes.

        Raises:
            InvalidServerError: The server cannot be used.
        """
        allowed, excluded = self._select_tools(entry)
        options = self._read_program(entry) if kind == "stdio" else self._read_address(entry)
        return ServerConfig(
            name=self.name,
            kind=kind,
            **options,
            enabled=entry.enabled and not entry.disabled,
            allowed_tools=allowed,
            excluded_tools=excluded,
            start_seconds=self._read_start_limit(entry),
            call_seconds=self._read_call_limit(entry),
            file=self.file,
            notes=tuple(map(str, self.findings)),
        )

    def _warn(self, reason: str, *keys: str, level: Level = "warning") -> None:
        """Add a finding that does not prevent the server from being used."""
        self.findings.append(Finding(keys, reason, level))

    def _rename(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the entry with every key renamed to the common name for its meaning."""
        values = dict(entry)
        for name, keys in SAME_KEYS.items():
            given = [key for key in keys if values.get(key) not in (None, "")]
            found = {key: values.pop(key) for key in keys if key in values}
            if not given:
                continue
            first = given[0]
            self._written[name] = first
            values[name] = found[first]
            for other in given[1:]:
                if found[other] != found[first]:
                    self._warn(f"It has {first} and {other}; {first} is used.")
        return values

    # --- the transport ----------------------------------------------------------------------------

    def _choose_kind(self) -> Kind:
        given = self._values.pop("type", "")
        word = given.strip() if isinstance(given, str) else str(given)
        self._stated = word.lower()
        self._has_command = self._values.get("command") not in (None, "")
        self._has_url = bool(str(self._values.get("url", "")).strip())
        if self._stated in WEBSOCKET_TYPES:
            raise InvalidServerError(
                "WebSockets are not an MCP transport; use streamable HTTP.", self._key("type")
            )
        if word and self._stated not in STDIO_TYPES | HTTP_TYPES | SSE_TYPES:
            self._ignore_type(given)
        if self._stated in STDIO_TYPES or (not self._stated and self._has_command):
            return self._choose_program()
        return self._choose_address(word)

    def _ignore_type(self, given: object) -> None:
        reason = f"found {written(given)}, expected one of {', '.join(SHOWN_TYPES)}"
        if self._has_command or self._has_url:
            reason += "; the transport follows from the other keys"
        similar = similar_names(str(given).strip(), SHOWN_TYPES, 1)
        hint = f" Did you mean {similar[0]}?" if similar else ""
        self._warn(f"{reason}.{hint}", self._key("type"), level="error")
        self._stated = ""

    def _choose_program(self) -> Kind:
        if not self._has_command:
            raise InvalidServerError(
                "Its type is a program (stdio or local), but it has no command."
                f"{self._suggest('command')}"
            )
        if self._has_url:
            self._warn(f"It has a command and {self._key('url')}; the command is used.")
        self._values.pop("url", None)
        return "stdio"

    def _choose_address(self, word: str) -> Kind:
        if not self._has_url:
            if self._has_command:
                raise InvalidServerError(
                    f"Its type is {word}, but it has a command and no url.{self._suggest('url')}"
                )
            hint = self._suggest("command") or self._suggest("url")
            raise InvalidServerError(f"It has neither a command nor a url.{hint}")
        if self._has_command:
            url = self._key("url")
            self._warn(f"It has a command and {url}; because of its type {word}, {url} is used.")
        self._values.pop("command", None)
        # In a Gemini file `url` is an SSE URL, and `httpUrl` is streamable HTTP.
        is_gemini_sse = self.is_gemini and self._key("url") == "url"
        if self._stated in SSE_TYPES or (not self._stated and is_gemini_sse):
            return "sse"
        return "http"

    def _suggest(self, name: str) -> str:
        """Return a sentence about an unknown key that may be a misspelling of a required key.

        In a strict file, the unknown key itself is reported as a mistake.
        """
        if self.is_strict:
            return ""
        for key in self._values:
            if key not in KNOWN_KEYS and name in similar_names(key, KNOWN_KEYS, 1):
                return f" Did you mean {name} instead of {key!r}?"
        return ""

    # --- keys without an effect -------------------------------------------------------------------

    def _key(self, name: str) -> str:
        """Return the key as it is written in the file."""
        return self._written.get(name, name)

    def _drop_keys_of_other_kind(self, kind: Kind) -> None:
        other, what = PROGRAM_KEYS, "a URL"
        if kind == "stdio":
            other, what = ADDRESS_KEYS, "a program"
        for name in [name for name in self._values if name in other]:
            if self._values.pop(name) not in _EMPTY:
                self._warn(f"This key has no effect for {what} and was left out.", self._key(name))

    def _drop_approvals(self) -> None:
        keys = [key for key in _APPROVAL_KEYS if key in self._values]
        if isinstance(self._values.get("tools"), Mapping):  # Codex: approval modes by tool
            keys.append("tools")
        for key in keys:
            if self._values.pop(key):
                self._warn(f"{key} approves nothing in hilum.")

    def _drop_empty_variables(self) -> None:
        for name in ("env", "headers", "env_http_headers"):
            value = self._values.get(name)
            if not isinstance(value, Mapping):
                continue
            for variable in [key for key, item in value.items() if item is None]:
                self._warn("It has no value and was left out.", self._key(name), str(variable))
            self._values[name] = {key: item for key, item in value.items() if item is not None}

    # --- values -----------------------------------------------------------------------------------

    def _structure(self) -> tuple[ServerEntry, list[Finding]]:
        """Return the entry with checked types, and the mistakes that make the server unusable.

        An invalid value that the server does not need is omitted and reported. The remaining values
        are then structured again.
        """
        for key in [key for key in self._values if key in DESCRIPTIVE_KEYS]:
            del self._values[key]
        known = _KEYS.values()
        values = {
            # Unknown keys with empty values have no effect, so they are not reported.
            key: value
            for key, value in self._values.items()
            if value is not None and (key in known or value not in _EMPTY)
        }
        try:
            return _CONVERTER.structure(values, ServerEntry), []
        except ClassValidationError as group:
            unusable = list(self._repair(group, values))
        return _CONVERTER.structure(values, ServerEntry), unusable

    def _repair(self, group: ClassValidationError, values: dict[str, Any]) -> Iterator[Finding]:
        """Remove invalid values, and yield the mistakes that make the server unusable."""
        located, others = group.group_exceptions()
        for error in others:
            if isinstance(error, ForbiddenExtraKeysError):
                # Keys are reported in the order of the file: a set has no order, and messages must
                # be the same each time.
                for key in sorted(error.extra_fields, key=list(values).index):
                    del values[key]
                    if not is_comment(key):
                        level: Level = "error" if self.is_strict else "info"
                        self._warn(explain_unknown_key(key, KNOWN_KEYS), key, level=level)
        for error, note in located:
            key = _KEYS[note.name]
            values.pop(key)
            for mismatch in _mismatches(error):
                finding = Finding((self._key(key), *mismatch.where), mismatch.describe())
                if mismatch.fallback is attrs.NOTHING:
                    yield finding
                    continue
                self.findings.append(finding)
                if mismatch.fallback is OFF:
                    # `enabled` and `disabled` have opposite meanings.
                    values[key] = key == "disabled"
                elif mismatch.fallback is not None:
                    values[key] = mismatch.fallback

    def _read_program(self, entry: ServerEntry) -> dict[str, Any]:
        command = list(entry.command or ())
        args = self._split_arguments(entry.args)
        if len(command) == 1 and not args and self._is_command_line(command[0]):
            key = self._key("command")
            command = self._split(
                key,
                command[0],
                "It contains spaces but there are no args: the first word is used as the program.",
            )
        words = [*command, *args]
        if not words or not words[0].strip():
            raise InvalidServerError("It contains no program.", self._key("command"))
        return {
            "command": words[0],
            "args": tuple(words[1:]),
            "env": entry.env,
            "inherited_env": tuple(entry.env_vars or ()),
            "env_file": entry.env_file or "",
            "cwd": entry.cwd or "",
        }

    def _is_command_line(self, text: str) -> bool:
        """Return whether a command looks like a whole command line rather than a path."""
        if not isinstance(self._values.get("command"), str):
            return False
        # A path may contain spaces, as in `C:\Program Files`.
        return " " in text.strip() and "/" not in text and "\\" not in text

    def _split_arguments(self, args: object) -> list[str]:
        if isinstance(args, str):
            return self._split(
                "args", args, "It is a single string; it was split into words as in a shell."
            )
        return list(args) if isinstance(args, list) else []

    def _split(self, key: str, text: str, note: str) -> list[str]:
        try:
            words = shlex.split(text)
        except ValueError as error:
            shown = text[:80]
            raise InvalidServerError(
                f"{shown!r} cannot be split into words: {error}.", key
            ) from None
        if any("\0" in word for word in words):
            raise InvalidServerError("It must not contain NUL characters.", key)
        self._warn(note, key)
        return words

    def _read_address(self, entry: ServerEntry) -> dict[str, Any]:
        url = (entry.url or "").strip()
        scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):/", url)
        if scheme and scheme[1].lower() not in ("http", "https", "ws", "wss"):
            raise InvalidServerError(
                f"Its URL begins with {scheme[1][:20]}:; only http and https are supported.",
                self._key("url"),
            )
        headers = {**entry.request_init, **entry.headers}
        if entry.bearer_token_env_var:
            # The header refers to the variable, so that the secret is read only when the server
            # starts.
            headers["Authorization"] = f"Bearer ${{{entry.bearer_token_env_var}}}"
        oauth: object = entry.oauth
        options = dict(oauth) if isinstance(oauth, dict) else None
        if entry.scopes is not None:
            options = {"scope": " ".join(entry.scopes), **(options or {})}
        # opencode's `remote` covers both transports.
        is_stated = self._stated in SSE_TYPES | HTTP_TYPES - {"remote"}
        return {
            "url": url,
            "headers": headers,
            "headers_from_env": entry.env_http_headers,
            "oauth": options,
            "login_allowed": oauth is not False,
            "kind_guessed": not (is_stated or self.is_gemini or self._key("url") == "httpUrl"),
        }

    def _select_tools(self, entry: ServerEntry) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
        """Return the allowed tools (``None`` if all are allowed) and the excluded ones.

        If a client has several lists of allowed tools, a tool must be in each of them.
        """
        # goose: an empty list of available tools means all.
        available = entry.available_tools or None
        given = (entry.include_tools, entry.enabled_tools, entry.tools, available)
        # In Copilot's files, `*` means all tools.
        lists = [names for names in given if names is not None and "*" not in names]
        excluded = [*(entry.exclude_tools or ()), *(entry.disabled_tools or ())]
        if not lists:
            return None, _unique(excluded)
        first, *others = lists
        common = set(first).intersection(*others)
        allowed = _unique(name for name in first if name in common)
        return allowed, _unique(excluded)

    def _read_start_limit(self, entry: ServerEntry) -> float | None:
        if entry.startup_timeout_sec is not None:
            return entry.startup_timeout_sec
        if entry.startup_timeout_ms is not None:
            return entry.startup_timeout_ms / 1_000
        return None

    def _read_call_limit(self, entry: ServerEntry) -> float | None:
        timeout = None if entry.timeout is None else self._in_seconds(entry.timeout)
        if entry.tool_timeout_sec is None:
            return timeout
        if timeout is not None:
            self._warn("It has timeout and tool_timeout_sec; tool_timeout_sec is used.")
        return entry.tool_timeout_sec

    def _in_seconds(self, timeout: float) -> float:
        """Return a ``timeout`` in seconds.

        Gemini and opencode use milliseconds. For unknown clients, values of 1,000 or more are
        assumed to be milliseconds.
        """
        counts_seconds = (
            self.file.name in _FILES_IN_SECONDS
            or self.file.parent.name == ".roo"
            or self.table in _TABLES_IN_SECONDS
        )
        counts_milliseconds = self.is_gemini or self.table == "mcp" or timeout >= 1_000
        if counts_seconds or not counts_milliseconds:
            return timeout
        seconds = timeout / 1_000
        if seconds < 1:
            self._warn(f"It is {seconds:g} s: this file uses milliseconds.", "timeout")
        return seconds


def _flatten(entry: Mapping[Any, Any]) -> dict[str, Any]:
    """Flatten an entry with Zed's old nested ``command`` or a mapping as ``transport``."""
    values = {str(key): value for key, value in entry.items()}
    command = values.get("command")
    if isinstance(command, Mapping):  # format of Zed before 2025
        inner = {key: value for key, value in command.items() if key != "path"}
        values = {**values, "command": command.get("path"), **inner}
    transport = values.get("transport")
    if isinstance(transport, Mapping):
        del values["transport"]
        values = {**transport, **values}
    return values


def _mismatches(error: BaseException) -> Iterator[MismatchError]:
    if isinstance(error, BaseExceptionGroup | BaseValidationError):
        for inner in error.exceptions:
            yield from _mismatches(inner)
    elif isinstance(error, MismatchError):
        yield error
    else:
        raise error


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
