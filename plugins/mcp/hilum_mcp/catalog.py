"""Finds all servers of a workspace: who configures each server, and whether it may be started.

The user's own file comes first, then the project's files for each client. A project's server is off
until the user trusts the project and has approved this exact configuration. The user's
configuration files for other clients are not read; ``hilum mcp add --from`` can import servers from
such files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs
from hilum.trust import explain_distrust, is_trusted

from hilum_mcp import lazy
from hilum_mcp.offer import load_offer
from hilum_mcp.paths import (
    CLAUDE_SETTINGS,
    PROJECT_FILE,
    PROJECT_FILES,
    SHARED_FILES,
    user_file,
)
from hilum_mcp.server_config import (
    OFFERED,
    ConfigInput,
    ConfigMistake,
    Level,
    ServerConfig,
)
from hilum_mcp.session_cache import ServerSummary
from hilum_mcp.tool_names import make_prefixes, name_tools

if TYPE_CHECKING:
    from hilum_mcp.approvals import Decisions
    from hilum_mcp.server_config import ConfigFile

# Far more servers than anyone configures; bounds the work that a repository can cause.
MAX_SERVERS = 100

State = Literal["on", "off", "unapproved", "broken"]
Scope = Literal["user", "project"]


@attrs.frozen
class CatalogEntry:
    """A server in the catalog, with its state.

    Args:
        server: The server's configuration; variables are not expanded.
        state: ``on``; ``off`` (disabled by its file or by the user); ``unapproved`` (a project's
            server without an approval); ``broken`` (cannot be started).
        reason: Why the state is not ``on``, and how to enable the server, in one or two sentences.
        scope: Who configures the server.
    """

    server: ServerConfig
    state: State = "on"
    reason: str = ""
    scope: Scope = "user"


@attrs.frozen
class ServerCatalog:
    """All servers of a workspace.

    Args:
        entries: The entries, one per server name, the user's own first.
        mistakes: The parts of files that could not be read or were ignored.
        inputs: The inputs that servers use, by file and id.
        trusted: Whether the user trusts the project; ``None`` if it configures no servers.
    """

    entries: tuple[CatalogEntry, ...] = ()
    mistakes: tuple[ConfigMistake, ...] = ()
    inputs: dict[str, dict[str, ConfigInput]] = attrs.field(factory=dict)
    trusted: bool | None = None

    @property
    def errors(self) -> tuple[ConfigMistake, ...]:
        """The mistakes that must be corrected."""
        return tuple(mistake for mistake in self.mistakes if mistake.level == "error")

    @property
    def warnings(self) -> tuple[ConfigMistake, ...]:
        """The valid but ineffective parts of files."""
        return tuple(mistake for mistake in self.mistakes if mistake.level == "warning")

    def get(self, name: str) -> CatalogEntry | None:
        """Return the entry with the given name."""
        return next((entry for entry in self.entries if entry.server.name == name), None)


def summarize_all(entries: Iterable[CatalogEntry]) -> list[ServerSummary]:
    """Return the data that a session needs about its servers.

    Blocks.
    """
    entries = list(entries)
    prefixes = make_prefixes(entry.server for entry in entries if entry.state == "on")
    return [summarize(entry, prefixes.get(entry.server.name, "")) for entry in entries]


def summarize(entry: CatalogEntry, prefix: str) -> ServerSummary:
    """Return the data that a session needs about a server.

    Blocks.

    Args:
        entry: The server.
        prefix: The prefix for the server's tool names.
    """
    server = entry.server
    offer = load_offer(server.digest) if entry.state == "on" else None
    return ServerSummary(
        name=server.name,
        digest=server.digest,
        prefix=prefix,
        state=entry.state,
        reason=entry.reason,
        start_seconds=server.start_seconds,
        call_seconds=server.call_seconds,
        offer=offer,
        names=name_tools(server, prefix, offer) if offer else {},
        is_local=server.is_local,
        from_project=entry.scope == "project",
        prog=server.prog,
    )


def load_catalog(
    workspace: Path | None, offered: Mapping[str, Mapping[str, Any]] | None = None
) -> ServerCatalog:
    """Find all servers. Blocks.

    Args:
        workspace: The project; ``None`` if there is none.
        offered: The servers that the user's editor offers (see ``hilum.OfferedServers``).
    """
    own = user_file()
    files = [own] if os.path.lexists(own) else []
    files += find_project_files(workspace)
    if not files and not offered:
        return ServerCatalog()
    loader = _CatalogLoader(os.path.realpath(workspace) if workspace else "")
    for file in files:
        loader.add_file(file, is_own=file == own)
    for name, entry in (offered or {}).items():
        loader.add_offered(name, entry)
    return ServerCatalog(
        tuple(loader.found.values()),
        tuple(loader.mistakes),
        loader.inputs,
        loader.trusted,
    )


class _CatalogLoader:
    """A loader that reads configuration files one after another and collects their servers.

    Args:
        root: The real path of the project; empty if there is none.

    Attributes:
        found: The servers by name.
        mistakes: As in ``ServerCatalog``.
        inputs: As in ``ServerCatalog``.
        trusted: As in ``ServerCatalog``.
    """

    def __init__(self, root: str) -> None:
        self.found: dict[str, CatalogEntry] = {}
        self.mistakes: list[ConfigMistake] = []
        self.inputs: dict[str, dict[str, ConfigInput]] = {}
        self.trusted: bool | None = None
        self._root = root
        self._decisions: Decisions = lazy.approvals.Decisions.load()
        self._disabled_by_claude = _disabled_by_claude(Path(root)) if root else {}

    def add_file(self, file: Path, *, is_own: bool) -> None:
        """Read a file and add its servers."""
        # A repository could otherwise make hilum read any of the user's files and quote their
        # content in messages.
        if not is_own and not _is_inside(file, self._root):
            reason = "It is a link to a target outside the project, and was left out."
            self.mistakes.append(ConfigMistake(file, "", reason))
            return
        config = lazy.config_reader.read_config(file)
        if not is_own and config.servers and self.trusted is None:
            self.trusted = is_trusted(self._root)
        is_shared = not is_own and os.path.relpath(file.absolute(), self._root) in SHARED_FILES
        self.mistakes += _mistakes(config, is_shared=is_shared)
        self.inputs[str(file)] = config.inputs
        for server in config.servers.values():
            self._add_server(self._judge(server, "" if is_own else self._root))

    def add_offered(self, name: str, entry: Mapping[str, Any]) -> None:
        """Add a server that the editor offers, under the same conditions as the project's."""
        if self.trusted is None:
            self.trusted = is_trusted(self._root)
        try:
            server = lazy.entries.EntryReader(OFFERED, name, entry).read()
        except lazy.entries.InvalidServerError as error:
            for finding in error.findings:
                self.mistakes.append(ConfigMistake(OFFERED, name, str(finding), server=name))
            return
        self._add_server(self._judge(server, self._root))

    def _add_server(self, entry: CatalogEntry) -> None:
        server = entry.server
        first = self.found.get(server.name)
        if first is None and len(self.found) >= MAX_SERVERS:
            self._leave_out(server, f"there are more than {MAX_SERVERS} servers", "error")
        elif first is None:
            self.found[server.name] = entry
        # Many projects repeat one configuration for several clients, which is not worth a warning.
        elif first.server.digest != server.digest:
            self._leave_out(server, f"{first.server.file} has a server with this name", "warning")

    def _leave_out(self, server: ServerConfig, why: str, level: Level) -> None:
        reason = f"It was left out: {why}."
        self.mistakes.append(
            ConfigMistake(server.file, server.name, reason, level=level, server=server.name)
        )

    def _judge(self, server: ServerConfig, root: str) -> CatalogEntry:
        """Return the entry of a server.

        Args:
            server: The server.
            root: The project that configures the server; empty for the user's own servers.
        """
        scope: Scope = "project" if root else "user"
        # This check comes first: the user need not approve a server that would not start anyway.
        why_off = self._why_off(server, root)
        if why_off:
            return CatalogEntry(server, "off", why_off, scope)
        if root and not self.trusted:
            return CatalogEntry(server, "unapproved", explain_distrust(root), scope)
        if root:
            why = self._decisions.why_not_approved(root, server)
            if why:
                return CatalogEntry(server, "unapproved", why, scope)
        return CatalogEntry(server, scope=scope)

    def _why_off(self, server: ServerConfig, root: str) -> str:
        """Return why a server is off, or an empty string. The user's decision overrides files."""
        switch = self._decisions.switched(root, server.name)
        hint = f"Switch it on with {server.prog} enable {server.name}."
        if switch is False:
            return f"You switched it off. {hint}"
        if switch:
            return ""
        # Claude Code's setting `disabledMcpjsonServers` applies to `.mcp.json` only.
        settings = self._disabled_by_claude.get(server.name)
        if root and settings and server.file.name == ".mcp.json":
            return f"{settings} switches it off."
        if not server.enabled:
            return f"{server.file} switches it off. {hint}"
        return ""


def find_project_files(workspace: Path | None) -> list[Path]:
    """Return the existing files in which a project may configure servers.

    In the user's home folder, the files of other clients belong to the user rather than to a
    project.
    """
    if workspace is None:
        return []
    names: tuple[str, ...] = (*PROJECT_FILES, *SHARED_FILES)
    if os.path.realpath(workspace) == os.path.realpath(os.path.expanduser("~")):
        names = (PROJECT_FILE, ".mcp.json")
    return [workspace / name for name in names if os.path.lexists(f"{workspace}/{name}")]


def _is_inside(file: Path, root: str) -> bool:
    return Path(os.path.realpath(file)).is_relative_to(root)


def _mistakes(config: ConfigFile, *, is_shared: bool) -> list[ConfigMistake]:
    """Return the mistakes in a file.

    It is not a mistake if a file with general settings configures no servers.
    """
    no_table = lazy.config_reader.NO_TABLE
    return [
        mistake
        for mistake in config.mistakes
        if not (is_shared and mistake.reason.startswith(no_table))
    ]


def _disabled_by_claude(root: Path) -> dict[str, str]:
    """Return the servers in ``.mcp.json`` that Claude Code's project settings disable, by file.

    Claude Code's settings cannot enable a server.
    """
    disabled: dict[str, str] = {}
    for name in CLAUDE_SETTINGS:
        path = root / name
        if not path.is_file() or not _is_inside(path, str(root)):
            continue
        try:
            names = lazy.file_formats.load_file(path).data.get("disabledMcpjsonServers")
        except lazy.file_formats.UnreadableFile:
            continue  # the guard reports an unreadable file
        if isinstance(names, list):
            disabled |= {str(name): str(path) for name in names}
    return disabled
