"""The configuration of one MCP server, and the digest to which an approval is bound."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import attrs
import msgspec

Kind = Literal["stdio", "http", "sse"]
Level = Literal["error", "warning", "info"]

MAX_PREFIX = 30
# Stands for the file of a server that no file configures, in questions and messages.
OFFERED = Path("Your editor")


@attrs.frozen
class ServerConfig:
    """An MCP server as configured in a file.

    Variables in the configuration are not expanded yet (see ``expansion``).

    Args:
        name: The name in the file.
        kind: ``stdio`` for a program, ``http`` for streamable HTTP, ``sse`` for the older HTTP
            transport with server-sent events.
        command: The program.
        args: Arguments of the program.
        env: Environment variables for the program.
        inherited_env: Names of variables that the program gets from hilum's own environment.
        env_file: A file of environment variables; empty for none.
        cwd: The working directory of the program; empty for the workspace.
        url: The URL of the server.
        headers: The headers of each request.
        headers_from_env: Headers whose values come from environment variables, as a mapping from
            header to variable.
        oauth: OAuth options (``client_id``, ``client_secret``, ``scope``); ``None`` if the file
            has none.
        login_allowed: Whether OAuth login is allowed; the file can disable it.
        kind_guessed: Whether the file specifies a URL without a transport. In that case, SSE is
            tried if the server rejects streamable HTTP.
        enabled: Whether the file enables the server.
        allowed_tools: The tools that the server is allowed to offer; ``None`` for all.
        excluded_tools: Tools that the server is not allowed to offer.
        start_seconds: Time limit for a start, in seconds; ``None`` for the default.
        call_seconds: Time limit for a call, in seconds; ``None`` for the default.
        file: The file that contains this configuration.
        notes: Notes about the parts of the configuration that hilum ignores or changes, one
            sentence each.
    """

    name: str
    kind: Kind
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = attrs.field(factory=dict)
    inherited_env: tuple[str, ...] = ()
    env_file: str = ""
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = attrs.field(factory=dict)
    headers_from_env: dict[str, str] = attrs.field(factory=dict)
    oauth: dict[str, str] | None = None
    login_allowed: bool = True
    kind_guessed: bool = False
    enabled: bool = True
    allowed_tools: tuple[str, ...] | None = None
    excluded_tools: tuple[str, ...] = ()
    start_seconds: float | None = None
    call_seconds: float | None = None
    file: Path = Path()
    notes: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """The hash of the parts of the configuration that an approval covers.

        The hashed parts determine which program is started or which URL is contacted, and which
        tools are offered. Time limits and descriptions may change without a new approval.
        """
        parts = (
            self.name,
            self.kind,
            self.command,
            self.args,
            sorted(self.env.items()),
            sorted(self.inherited_env),
            self.env_file,
            self.cwd,
            self.url,
            sorted(self.headers.items()),
            sorted(self.headers_from_env.items()),
            sorted((self.oauth or {}).items()),
            self.login_allowed,
            self.kind_guessed,
            self.allowed_tools,
            self.excluded_tools,
        )
        return "sha256:" + hashlib.sha256(msgspec.json.encode(parts)).hexdigest()

    @property
    def prefix(self) -> str:
        """The preferred prefix of the server's tool names.

        Model providers allow only letters, digits, ``_`` and ``-``.
        """
        name = re.sub(r"[^A-Za-z0-9_-]+", "_", self.name).strip("_") or "server"
        # Two underscores separate the prefix from the name of a tool.
        return re.sub(r"__+", "_", name)[:MAX_PREFIX]

    @property
    def is_offered(self) -> bool:
        """Whether the user's editor gives the server to the session, so that no file has it."""
        return self.file == OFFERED

    @property
    def prog(self) -> str:
        """The command whose actions apply to the server, for hints to the user."""
        # Another process does not know the servers of an editor's session.
        return "/mcp" if self.is_offered else "hilum mcp"

    @property
    def is_local(self) -> bool:
        """Whether the server runs on this machine, so that its tools may change files here."""
        # A variable may expand to a URL on this machine.
        if self.kind == "stdio" or "${" in self.url:
            return True
        try:
            host = urlsplit(self.url).hostname or ""
        except ValueError:
            return True
        # RFC 6761, section 6.3: names that end in `.localhost` also resolve to this machine.
        if host in ("", "::1") or host.endswith("localhost"):
            return True
        return re.fullmatch(r"127\.[\d.]+|0\.0\.0\.0", host) is not None

    @property
    def target(self) -> str:
        """The command line or the URL, on one line."""
        if self.kind == "stdio":
            return " ".join((self.command, *self.args))
        return self.url

    def offers(self, tool: str) -> bool:
        """Return whether the configuration allows a tool."""
        if tool in self.excluded_tools:
            return False
        return self.allowed_tools is None or tool in self.allowed_tools


@attrs.frozen
class ConfigMistake:
    """A part of a configuration file that could not be read, or that has no effect.

    Args:
        file: The file.
        where: The path of keys, joined by dots; empty for the whole file.
        reason: The mistake, in one sentence.
        line: The line number; 0 if unknown.
        level: ``error`` for a mistake that must be corrected; ``warning`` for a valid part that
            has no effect in hilum; ``info`` for a key that only other programs may know.
        server: The name of the server with the mistake; empty if the mistake is not in a server.
    """

    file: Path
    where: str
    reason: str
    line: int = 0
    level: Level = "error"
    server: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else f"{self.file}"
        if self.where:
            return f"{place}: {self.where}: {self.reason}"
        return f"{place}: {self.reason}"


@attrs.frozen
class ConfigInput:
    """A value that hilum asks the user for: ``${input:ID}``.

    Args:
        id: The identifier in the file.
        description: The question.
        secret: Whether the value is hidden while it is typed.
        default: The value to use for an empty answer.
        options: The allowed values; empty for any.
    """

    id: str
    description: str = ""
    secret: bool = False
    default: str = ""
    options: tuple[str, ...] = ()


@attrs.frozen
class ConfigFile:
    """The servers in one configuration file.

    Args:
        file: The file.
        servers: The servers by name, disabled ones included.
        mistakes: The parts that could not be read. A mistake in one server does not affect the
            other servers.
        inputs: The inputs that the servers use, by id.
        table: The path of keys to the table of servers, joined by dots; ``None`` without a table.
    """

    file: Path
    servers: dict[str, ServerConfig] = attrs.field(factory=dict)
    mistakes: tuple[ConfigMistake, ...] = ()
    inputs: dict[str, ConfigInput] = attrs.field(factory=dict)
    table: str | None = None
