"""Names of servers' tools as models see them: ``server__tool``, letters, digits, ``_`` and ``-``,
64 at most, each once.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from hilum_mcp.offer import Offer
from hilum_mcp.server import Server

MOST = 64


def prefixes(servers: Iterable[Server]) -> dict[str, str]:
    """Return the first part of the names of each server's tools, by the server's name: no two are
    the same.
    """
    taken = set[str]()
    return {server.name: _free(server.prefix, taken, MOST // 2) for server in servers}


def prefix_of(server: Server, taken: Iterable[str]) -> str:
    """Return the first part of the names of a server's tools, where others are taken."""
    return _free(server.prefix, set(taken), MOST // 2)


def tool_names(prefix: str, tools: Iterable[str]) -> dict[str, str]:
    """Return what the tools of a server are called, by the server's own names.

    Whose name can stand as it is, keeps it.
    """
    plain = {tool: re.sub(r"[^A-Za-z0-9_-]", "_", tool) or "tool" for tool in tools}
    taken = set[str]()
    found = dict[str, str]()
    for tool, name in sorted(plain.items(), key=lambda item: item[0] != item[1]):
        found[tool] = _free(f"{prefix}__{name}", taken, MOST, tool)
    return found


def names_of(server: Server, prefix: str, offer: Offer) -> dict[str, str]:
    """Return what the tools are called that a server offers and its description lets be used, by
    the server's own names.
    """
    return tool_names(prefix, (tool.name for tool in offer.tools if server.offers(tool.name)))


def _free(name: str, taken: set[str], most: int, whole: str = "") -> str:
    """Take a name that is short enough and not taken.

    What is cut or changed gets a mark that is the same each time.
    """
    if len(name) <= most and name not in taken:
        taken.add(name)
        return name
    for turn in range(1000):
        mark = hashlib.sha256(f"{whole or name}{turn or ''}".encode()).hexdigest()[:6]
        shorter = f"{name[: most - 7]}_{mark}"
        if shorter not in taken:
            taken.add(shorter)
            return shorter
    raise AssertionError("a thousand tools of one name")
