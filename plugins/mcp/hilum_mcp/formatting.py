"""Formats servers as text for the terminal and as data."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hilum import make_redactor
from hilum.command import escape_line

from hilum_mcp.catalog import CatalogEntry, ServerCatalog
from hilum_mcp.server_config import ServerConfig
from hilum_mcp.session_servers import ServerStatus

MAX_TARGET = 90
_STATES = {"unapproved": "NOT APPROVED", "broken": "BROKEN"}


def redact(server: ServerConfig, text: str) -> str:
    """Return a text without the secrets in a server's configuration.

    Do not use this function for text that the user approves, because the redaction could hide a
    dangerous part.
    """
    values = {**server.env, **server.headers, **(server.oauth or {})}
    # The word after an option may be its value, as in `--api-key SECRET`.
    for option, word in pairwise(server.args):
        if option.startswith("-"):
            values[option.lstrip("-")] = word
    # Only the server knows which values in the query are keys, so all of them are omitted.
    query = _query_of(server.url)
    if query:
        text = text.replace(query, re.sub(r"=(?![^&]*\$\{)[^&]+", "=…", query))
    secrets = {name: value for name, value in values.items() if "${" not in value}
    authorization: dict[str, str] = {}
    for name, value in server.headers.items():
        if name.lower() == "authorization" and "${" not in value:
            authorization[name] = value
    redact_text = make_redactor(secrets, authorization)
    return redact_text(text)


def _query_of(url: str) -> str:
    try:
        return urlsplit(url).query
    except ValueError:
        # The URL is invalid, but is displayed anyway.
        return url.partition("?")[2]


def format_catalog(
    catalog: ServerCatalog,
    statuses: Mapping[str, ServerStatus],
    command: str,
) -> Iterator[str]:
    """Yield one or two rows for each server, followed by the warnings about files.

    Args:
        catalog: The servers.
        statuses: The servers that run in the session, by name.
        command: The command to use in hints, such as ``hilum mcp``.
    """
    if not catalog.entries:
        yield (
            f"No MCP servers are configured. Add one with {command} add NAME -- COMMAND …, or"
            f" import servers with {command} add --from FILE."
        )
    names = [escape_line(entry.server.name) for entry in catalog.entries]
    width = max(map(len, names), default=0)
    for entry in catalog.entries:
        yield from _format_entry(entry, statuses.get(entry.server.name), width)
    for warning in catalog.warnings:
        yield f"⚠ {escape_line(str(warning))}"


def _format_entry(entry: CatalogEntry, status: ServerStatus | None, width: int) -> Iterator[str]:
    server = entry.server
    state = status.state if status and entry.state == "on" else entry.state
    state = _STATES.get(state, state)
    target = escape_line(redact(server, server.target))
    if len(target) > MAX_TARGET:
        target = f"{target[: MAX_TARGET - 1]}…"
    tools = ""
    if status and status.tools:
        tools = f", {len(status.tools)} tool{'s' if len(status.tools) > 1 else ''}"
    place = f"({escape_line(shorten_home(server.file))}{tools})"
    yield f"{escape_line(server.name):{width}}  {state:12}  {server.kind:5}  {target}  {place}"
    reason = entry.reason or (status.error if status else "")
    if reason:
        yield f"{'':{width}}  {reason}"


def encode_entry(entry: CatalogEntry, status: ServerStatus | None = None) -> dict[str, Any]:
    """Return a server as data, without the values of variables and headers, which may be secret."""
    server = entry.server
    data: dict[str, Any] = {
        "name": server.name,
        "state": status.state if status and entry.state == "on" else entry.state,
        "reason": entry.reason or (status.error if status else ""),
        "scope": entry.scope,
        "kind": server.kind,
        "file": str(server.file),
        "digest": server.digest,
        "notes": list(server.notes),
    }
    if server.kind == "stdio":
        data["command"] = server.command
        data["args"] = [redact(server, word) for word in server.args]
        data["env"] = sorted({*server.env, *server.inherited_env})
    else:
        data["url"] = redact(server, server.url)
        data["headers"] = sorted({*server.headers, *server.headers_from_env})
    if status:
        data["tools"] = list(status.tools)
    return data


def shorten_home(path: Path) -> str:
    """Return a path with ``~`` in place of the home folder."""
    text = str(path)
    home = str(Path.home())
    if text.startswith(home + os.sep):
        return "~" + text[len(home) :]
    return text
