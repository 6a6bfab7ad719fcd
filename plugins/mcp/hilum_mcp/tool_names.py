"""Creates the model's names for servers' tools: ``server__tool``.

A name is unique and consists of at most 64 letters, digits, ``_`` and ``-``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from hilum_mcp.offer import Offer
from hilum_mcp.server_config import ServerConfig

# The limit of OpenAI's API.
MAX_NAME = 64
MAX_PREFIX = MAX_NAME // 2
# Length of the suffix that makes a shortened name unique: ``_`` and a hash.
MARK = 7


def make_prefixes(servers: Iterable[ServerConfig]) -> dict[str, str]:
    """Return a unique prefix for the tool names of each server, by the server's name."""
    taken = set[str]()
    return {server.name: _take_name(server.prefix, taken, MAX_PREFIX) for server in servers}


def make_prefix(server: ServerConfig, taken: Iterable[str]) -> str:
    """Return an unused prefix for the tool names of a server."""
    return _take_name(server.prefix, set(taken), MAX_PREFIX)


def make_tool_names(prefix: str, tools: Iterable[str]) -> dict[str, str]:
    """Return the model's name for each tool, by the server's name for it.

    A tool keeps its name if it is valid.
    """
    valid = {tool: re.sub(r"[^A-Za-z0-9_-]", "_", tool) or "tool" for tool in tools}
    taken = set[str]()
    names = dict[str, str]()
    # Valid names are assigned first, so that no changed name conflicts with a valid name.
    in_order = sorted(valid.items(), key=lambda item: item[0] != item[1])
    for tool, name in in_order:
        names[tool] = _take_name(f"{prefix}__{name}", taken, MAX_NAME, tool)
    return names


def name_tools(server: ServerConfig, prefix: str, offer: Offer) -> dict[str, str]:
    """Return the model's names for the offered tools that the configuration allows."""
    allowed = (tool.name for tool in offer.tools if server.offers(tool.name))
    return make_tool_names(prefix, allowed)


def _take_name(name: str, taken: set[str], longest: int, original: str = "") -> str:
    """Return a valid name that is not yet taken, and mark it as taken.

    A truncated or changed name ends with a deterministic hash.
    """
    if len(name) <= longest and name not in taken:
        taken.add(name)
        return name
    for attempt in range(1000):
        text = f"{original or name}{attempt or ''}"
        digest = hashlib.sha256(text.encode()).hexdigest()[: MARK - 1]
        shorter = f"{name[: longest - MARK]}_{digest}"
        if shorter not in taken:
            taken.add(shorter)
            return shorter
    raise AssertionError("1,000 names have the same hash")
