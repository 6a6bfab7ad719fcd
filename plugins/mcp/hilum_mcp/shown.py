"""Servers for the terminal and as data."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from hilum_mcp.server import Server
from hilum_mcp.sources import Catalog, Entry

Row = tuple[str, str, str, tuple[str, ...]]
MOST = 90
_STATES = {"unapproved": "NOT APPROVED", "broken": "BROKEN"}


def plain(server: Server, text: str) -> str:
    """Take out of a text about a server what its description names as a secret, and what looks like
    one.

    Not for what the user is to approve: behind what is taken out something else could stand.
    """
    import re
    from urllib.parse import urlsplit

    from hilum_guard import Redactor

    named = {**server.env, **server.headers, **(server.oauth or {})}
    named |= {
        before.lstrip("-"): word for before, word in pairwise(server.args) if before.startswith("-")
    }
    try:
        query = urlsplit(server.url).query
    except ValueError:
        query = server.url.partition("?")[2]
    if query:  # which of its values is a key, the server alone knows
        text = text.replace(query, re.sub(r"=(?![^&]*\$\{)[^&]+", "=…", query))
    bearer = {
        name: value for name, value in server.headers.items() if name.lower() == "authorization"
    }
    literal = (
        {name: value for name, value in each.items() if "${" not in value}
        for each in (named, bearer)
    )
    return Redactor(*literal)(text)


def rows(catalog: Catalog, live: Mapping[str, Row], prog: str) -> Iterator[str]:
    """Write all servers, a row or two each, and what is wrong with their files."""
    if not catalog.entries:
        yield (
            f"There are no MCP servers. {prog} add NAME -- COMMAND … adds one; {prog} add --from"
            " FILE imports some."
        )
    width = max((len(each.server.name) for each in catalog.entries), default=0)
    for each in catalog.entries:
        row = live.get(each.server.name)
        if row and each.state == "on":
            state = row[1]
        else:
            state = _STATES.get(each.state, each.state)
        what = plain(each.server, each.server.shown())
        what = what if len(what) <= MOST else f"{what[: MOST - 1]}…"
        tools = f", {len(row[3])} tools" if row and row[3] else ""
        yield (
            f"{each.server.name:{width}}  {state:12}  {each.server.kind:5}  {what} "
            f" ({home(each.server.file)}{tools})"
        )
        why = each.reason or (row[2] if row else "")
        if why:
            yield f"{'':{width}}  {why}"
    for complaint in catalog.complaints:
        yield f"⚠ {complaint}"


def data(entry: Entry, row: Row | None = None) -> dict[str, Any]:
    """Return a server as data.

    Values of variables and headers are left out, for they may be secret.
    """
    server = entry.server
    found: dict[str, Any] = {
        "name": server.name,
        "state": row[1] if row and entry.state == "on" else entry.state,
        "reason": entry.reason or (row[2] if row else ""),
        "scope": entry.scope,
        "kind": server.kind,
        "file": str(server.file),
        "digest": server.digest,
        "notes": list(server.notes),
    }
    if server.kind == "stdio":
        found |= {
            "command": server.command,
            "args": [plain(server, word) for word in server.args],
            "env": sorted({*server.env, *server.env_names}),
        }
    else:
        found |= {
            "url": plain(server, server.url),
            "headers": sorted({*server.headers, *server.header_names}),
        }
    return found | ({"tools": list(row[3])} if row else {})


def home(path: Path) -> str:
    """Write a path with ``~``."""
    text = str(path)
    root = str(Path.home())
    if text.startswith(root + os.sep):
        return "~" + text[len(root) :]
    return text
