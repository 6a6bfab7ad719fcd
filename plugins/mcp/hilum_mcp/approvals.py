"""The user's decisions about servers: approved configurations, and servers enabled or disabled.

The decisions are stored in ``mcp.toml`` next to the user's ``settings.toml``, keyed by the real
path of the project. A project cannot store decisions. An approval applies to one configuration: if
the command, the URL, a variable or the list of tools changes, the server needs a new approval. An
approval also applies only to the current content of the project files that the server executes (see
``executed_files``).
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import hilum_guard
import msgspec
from hilum import UsageError, UserQuestions, config_folder, data_folder
from hilum.settings import ChangeError, change
from trio.to_thread import run_sync as in_thread

from hilum_mcp.executed_files import approval_digest, describe_changes, executed_files
from hilum_mcp.offer import write_cache
from hilum_mcp.paths import DECISIONS_FILE
from hilum_mcp.server_config import ServerConfig
from hilum_mcp.text_cleaning import join_names

if TYPE_CHECKING:
    from hilum import Session

APPROVED = "approved"
SWITCHED = "switched"
USER = "user"
MAX_LISTED = 8
LATER = "Not now"
YES = "Yes, start it"
NEVER = "No, switch it off"
# Values of an editor's variables and headers that are shown: numbers, switches, paths and URLs …
_HARMLESS = re.compile(r"\d{0,9}|true|false|yes|no|on|off|[\w.+-]*:?/.*|[~.]/.*", re.IGNORECASE)
# … and the values of variables that decide which code a program executes.
_DECISIVE = re.compile(
    r"PATH$|LD_|DYLD_|PYTHON|NODE_|NPM_|PERL|RUBY|JAVA_|JDK_|_JAVA|BASH_|ENV$|SHELL|GIT_|UV_|PIP_"
)


@attrs.frozen
class Decisions:
    """The user's decisions about servers, as read from ``mcp.toml``.

    Args:
        approved: Digests of the approved configurations, by project and server name.
        switches: Whether a server is enabled, by project (``user`` for the user's own servers) and
            server name.
    """

    approved: dict[str, dict[str, str]] = attrs.field(factory=dict)
    switches: dict[str, dict[str, bool]] = attrs.field(factory=dict)

    @classmethod
    def load(cls) -> Decisions:
        """Read the user's decisions about servers.

        Raises:
            UsageError: The file cannot be read.
        """
        path = decisions_file()
        # With `exists`, a dangling link would count as "no decisions" and would enable servers that
        # the user has disabled.
        if not os.path.lexists(path):
            return cls()
        import tomllib

        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
            return cls(_read_table(data, APPROVED, str), _read_table(data, SWITCHED, bool))
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(
                f"{path} cannot be read: {error}.", hint="Fix or remove the file."
            ) from None

    def switched(self, root: str, name: str) -> bool | None:
        """Return whether the user enabled or disabled a server, or ``None`` for neither.

        Args:
            root: The project that configures the server; empty for the user's own servers.
            name: The name of the server.
        """
        return self.switches.get(root or USER, {}).get(name)

    def why_not_approved(self, root: str, server: ServerConfig) -> str:
        """Return why a project's server is not approved, or an empty string if it is. Blocks."""
        known = self.approved.get(root, {}).get(server.name)
        hint = f"Review and approve it with {server.prog} approve {server.name}."
        if not known:
            return f"Its configuration is not approved. {hint}"
        # Files are hashed only if there is an approval with which to compare the hashes.
        try:
            files = executed_files(server, root)
        except UsageError as error:
            return str(error)
        if known == approval_digest(server, files):
            return ""
        listed = describe_changes(_read_approved_files(root, server), files)
        if not listed:
            return f"Its configuration has changed since you approved it. {hint}"
        changes = join_names(listed, MAX_LISTED)
        return f"Files that it executes changed since you approved it: {changes}. {hint}"


def _read_table(data: dict[str, Any], name: str, kind: type) -> dict[str, dict[str, Any]]:
    """Return a table from ``mcp.toml``: the user's decisions, by project and server name.

    Raises:
        ValueError: The table is malformed.
    """
    try:
        return msgspec.convert(data.get(name, {}), dict[str, dict[str, kind]])  # type: ignore[valid-type]
    except msgspec.ValidationError:
        raise ValueError(f"[{name}] must have a table for each folder") from None


def decisions_file() -> Path:
    """Return the path of the file that stores the user's decisions about servers."""
    return config_folder() / DECISIONS_FILE


def approve(root: str, server: ServerConfig) -> None:
    """Approve a project's server with the current content of the files that it executes. Blocks.

    Raises:
        UsageError: The approval cannot be stored, or the server executes too many files.
    """
    # The digest, which decides whether the approval is valid, is stored first. If the process dies
    # before the list of files is written, hilum can still detect later changes, but cannot describe
    # them.
    files = executed_files(server, root)
    _store([APPROVED, root, server.name], approval_digest(server, files))
    write_cache(_approved_files_path(root, server), msgspec.json.encode(files))


def _approved_files_path(root: str, server: ServerConfig) -> Path:
    """Return the path of the file that lists the approved files.

    The list of approved files is used only to report changes. The digest in ``mcp.toml`` decides
    whether the approval is valid.
    """
    # The file name is a hash, because the names of folders and servers may be too long for a file
    # name or contain slashes. The NUL byte is an unambiguous separator, because paths cannot
    # contain it.
    name = os.fsencode(f"{root}\0{server.name}")
    digest = hashlib.sha256(name).hexdigest()[:32]
    return data_folder() / "mcp" / "approved" / f"{digest}.json"


def _read_approved_files(root: str, server: ServerConfig) -> dict[str, str]:
    try:
        data = _approved_files_path(root, server).read_bytes()
        return msgspec.json.decode(data, type=dict[str, str])
    except (OSError, msgspec.DecodeError):
        return {}


def revoke(root: str, name: str) -> bool:
    """Revoke an approval, and return whether the server was approved. Blocks."""
    is_approved = name in Decisions.load().approved.get(root, {})
    if is_approved:
        _store([APPROVED, root, name], None)
    return is_approved


def switch(root: str, name: str, enabled: bool | None) -> None:
    """Enable or disable a server, or restore the state that its file specifies. Blocks.

    Args:
        root: The project that configures the server; empty for the user's own servers.
        name: The name of the server.
        enabled: Whether the server is enabled; ``None`` restores the state that its file specifies.
    """
    if enabled is not None or Decisions.load().switched(root, name) is not None:
        _store([SWITCHED, root or USER, name], enabled)


def _store(keys: list[str], value: object) -> None:
    try:
        change(decisions_file(), keys, value)
    except ChangeError as error:
        raise UsageError(str(error), hint="Fix or remove the file.") from None


# --- asking ---------------------------------------------------------------------------------------


async def ask_approval(session: Session, server: ServerConfig, root: str) -> str:
    """Ask the user to approve a server of a trusted project, and store the answer.

    Args:
        session: The session, which must be attended.
        server: The server.
        root: The real path of the project.

    Returns:
        The answer: ``YES`` if the server is now approved, ``NEVER``, ``LATER``, or an empty string
        if the user has not answered.

    Raises:
        UsageError: The answer cannot be stored, or the server executes too many files.
    """
    plan = session.plugin(UserQuestions)
    if plan is None:
        return ""
    question = await in_thread(describe_request, server, root)
    asked = await plan.ask(session.agents["main"], "", question, (LATER, YES, NEVER))
    # Only an explicit refusal is stored. After "Not now" or no answer, the server stays unapproved.
    if asked.answers == (NEVER,):
        await in_thread(switch, root, server.name, False)
        return NEVER
    if asked.answers != (YES,):
        return LATER if asked.answers else ""
    # Only the content that was shown is approved, because a command may have changed the files in
    # the meantime.
    if question != await in_thread(describe_request, server, root):
        return ""
    await in_thread(approve, root, server)
    return YES


def describe_request(server: ServerConfig, root: str = "") -> str:
    """Return everything that an approval would start or contact, as a question to the user."""
    action = "start a program" if server.kind == "stdio" else "contact a URL"
    rows = [f"{server.file} wants to {action} as the MCP server {server.name!r}:"]
    rows += describe_config(server)
    if root:
        rows += _describe_files(server, root)
    return "\n".join([*rows, "Start it?"])


def _describe_files(server: ServerConfig, root: str) -> list[str]:
    """Return rows that list the files that a server executes, and changes to these files."""
    try:
        files = executed_files(server, root)
    except UsageError as error:
        return [f"  executes  {error}"]
    if not files:
        return []
    digest = approval_digest(server, files).partition(":")[2][:12]
    names = join_names([*files], MAX_LISTED)
    rows = [f"  executes  {names} of this project (content {digest})"]
    before = _read_approved_files(root, server)
    if before:
        changes = describe_changes(before, files)[:MAX_LISTED]
        rows += [f"  since you approved it: {change}" for change in changes]
    return rows


def describe_config(server: ServerConfig) -> list[str]:
    """Return the rows of a configuration, hiding values whose names suggest secrets."""
    rows = _describe_program(server) if server.kind == "stdio" else _describe_address(server)
    if server.allowed_tools is not None:
        rows.append(f"  tools     only {', '.join(server.allowed_tools) or 'none'}")
    if server.excluded_tools:
        rows.append(f"  tools     without {', '.join(server.excluded_tools)}")
    return rows


def _describe_program(server: ServerConfig) -> list[str]:
    rows = [f"  runs      {shlex.join((server.command, *server.args))}"]
    if server.cwd:
        rows.append(f"  in        {server.cwd}")
    rows += _describe_values("  variable  {}={}", server.env, is_offered=server.is_offered)
    rows += [f"  given     {name} (from your environment)" for name in server.inherited_env]
    if server.env_file:
        rows.append(f"  variables of the file {server.env_file}")
    return rows


def _describe_address(server: ServerConfig) -> list[str]:
    transport = "SSE" if server.kind == "sse" else "streamable HTTP"
    rows = [f"  reaches   {server.url} ({transport})"]
    rows += _describe_values("  header    {}: {}", server.headers, is_offered=server.is_offered)
    for name, variable in server.headers_from_env.items():
        rows.append(f"  header    {name}: from your variable {variable}")
    return rows + _describe_values("  oauth     {} = {}", server.oauth or {})


def _describe_values(row: str, values: Mapping[str, str], *, is_offered: bool = False) -> list[str]:
    rows = []
    for name, text in values.items():
        rows.append(row.format(name, _show_value(name, text, is_offered=is_offered)))
    return rows


def _show_value(name: str, text: str, *, is_offered: bool) -> str:
    is_secret = hilum_guard.looks_secret(name, text) or name.lower() == "authorization"
    # An editor sends the user's keys themselves, under any name, where a file has references.
    if is_offered and not (_HARMLESS.fullmatch(text) or _DECISIVE.match(name)):
        is_secret = True
    # A reference such as `${TOKEN}` contains no secret, and the user should see which variable the
    # server receives.
    if is_secret and "${" not in text:
        return f"({len(text)} characters not shown)"
    return text
