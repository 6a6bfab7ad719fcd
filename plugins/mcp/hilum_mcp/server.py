"""One MCP server as somebody described it: data, and what of it an approval is bound to."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import msgspec

Kind = Literal["stdio", "http", "sse"]

MOST_NAME = 30


class Server(msgspec.Struct, frozen=True):
    """An MCP server, as a file describes it: variables in its texts are not filled in yet (see
    ``expansion``).

    Args:
        name: What its file calls it.
        kind: ``stdio`` for a program, ``http`` for streamable HTTP, ``sse`` for HTTP of the first
            era.
        command: The program.
        args: Its arguments.
        env: Variables for the program.
        env_names: Variables that it is given from the environment of hilum, by name.
        env_file: A file of variables; empty for none.
        cwd: The folder it runs in; empty for the workspace.
        url: Where it is reached.
        headers: Headers of each request.
        header_names: Headers whose values are variables of the environment: header to variable.
        oauth: Settings for OAuth (``client_id``, ``client_secret``, ``scope``); ``None`` when
            nothing is said of it.
        login: Whether the user may log in at it by OAuth; the file can say no.
        bare: Whether the file gave an address and not which kind of HTTP: where streamable HTTP is
            refused, SSE is tried.
        enabled: Whether the file has it on.
        tools: The only tools that it may offer; ``None`` for all.
        without: Tools that it may not offer.
        start_seconds: How long a start may take; ``None`` for the usual.
        call_seconds: How long a call may take; ``None`` for the usual.
        file: The file that describes it.
        notes: What in its description is odd, ignored or missing, a sentence each.
    """

    name: str
    kind: Kind
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    env_names: tuple[str, ...] = ()
    env_file: str = ""
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    header_names: dict[str, str] = {}
    oauth: dict[str, str] | None = None
    login: bool = True
    bare: bool = False
    enabled: bool = True
    tools: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    start_seconds: float | None = None
    call_seconds: float | None = None
    file: Path = Path()
    notes: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """What an approval is bound to: what is started or reached, with what, and which tools it
        may offer.
        """
        parts = (
            self.name,
            self.kind,
            self.command,
            self.args,
            sorted(self.env.items()),
            sorted(self.env_names),
            self.env_file,
            self.cwd,
            self.url,
            sorted(self.headers.items()),
            sorted(self.header_names.items()),
            sorted((self.oauth or {}).items()),
            self.login,
            self.bare,
            self.tools,
            self.without,
        )
        return "sha256:" + hashlib.sha256(msgspec.json.encode(parts)).hexdigest()

    @property
    def prefix(self) -> str:
        """What the names of its tools begin with: model providers allow letters, digits, ``_`` and
        ``-`` only.
        """
        name = re.sub(r"[^A-Za-z0-9_-]+", "_", self.name).strip("_") or "server"
        return re.sub(r"__+", "_", name)[:MOST_NAME]

    @property
    def local(self) -> bool:
        """Whether it runs on this machine, as far as its description tells: then its tools may
        change files here.
        """
        if self.kind == "stdio" or "${" in self.url:
            return True
        try:
            host = urlsplit(self.url).hostname or ""
        except ValueError:
            return True
        return (
            host in ("", "::1")
            or host.endswith("localhost")
            or re.fullmatch(r"127\.[\d.]+|0\.0\.0\.0", host) is not None
        )

    def shown(self) -> str:
        """What is started or reached, on one line."""
        if self.kind == "stdio":
            return " ".join((self.command, *self.args))
        return self.url

    def offers(self, tool: str) -> bool:
        """Return whether the description lets a tool be used."""
        return tool not in self.without and (self.tools is None or tool in self.tools)


class Mistake(msgspec.Struct, frozen=True):
    """What could not be read, or was read otherwise than it is written.

    Args:
        file: The file.
        where: The keys that lead to it, joined by dots; empty for the whole file.
        reason: What is wrong, one sentence.
        line: The line, where it is known.
    """

    file: Path
    where: str
    reason: str
    line: int = 0

    def __str__(self) -> str:
        line = f":{self.line}" if self.line else ""
        return f"{self.file}{line}: {f'{self.where}: ' if self.where else ''}{self.reason}"


class Config(msgspec.Struct, frozen=True):
    """What a file says of MCP servers.

    Args:
        file: The file.
        servers: The servers by name, also those that are off.
        mistakes: What could not be read. A mistake in one server costs no other.
        inputs: Values that its servers ask the user for, by id: what to ask, and whether it is
            secret.
        table: The keys that lead to its table of servers, joined by dots; ``None`` where it has
            none.
    """

    file: Path
    servers: dict[str, Server] = {}
    mistakes: tuple[Mistake, ...] = ()
    inputs: dict[str, Input] = {}
    table: str | None = None


class Input(msgspec.Struct, frozen=True):
    """A value that the user is asked for: ``${input:ID}``.

    Args:
        id: What it is called in the file.
        description: What the user is asked.
        secret: Whether it may not be shown.
        default: What it is when the user says nothing.
        options: What it may be; empty for anything.
    """

    id: str
    description: str = ""
    secret: bool = False
    default: str = ""
    options: tuple[str, ...] = ()
