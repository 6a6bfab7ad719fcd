"""The MCP servers that the editor gives to a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from hilum_acp.json_rpc import INVALID_PARAMS, RpcError


def can_use_servers() -> bool:
    """Return whether the package that runs MCP servers is installed."""
    return find_spec("hilum_mcp") is not None


class EditorServers:
    """The servers of one session. Implements ``hilum.OfferedServers``.

    Args:
        servers: The servers by name, each as in a file with ``mcpServers``.
    """

    def __init__(self, servers: Mapping[str, Mapping[str, Any]]) -> None:
        self._servers = dict(servers)

    def offered_mcp_servers(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the servers."""
        return self._servers


def read_servers(given: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Convert servers of the protocol to the entries of a file with ``mcpServers``.

    Raises:
        RpcError: A server is malformed.
    """
    servers: dict[str, dict[str, Any]] = {}
    for server in given:
        name = server.get("name")
        if not isinstance(name, str) or not name.strip():
            raise RpcError(INVALID_PARAMS, "An MCP server has no name.")
        kind = server.get("type", "stdio")
        if kind == "stdio":
            servers[name] = {
                "command": server.get("command", ""),
                "args": server.get("args") or [],
                "env": _read_pairs(name, server.get("env")),
            }
        elif kind in ("http", "sse"):
            servers[name] = {
                "type": kind,
                "url": server.get("url", ""),
                "headers": _read_pairs(name, server.get("headers")),
            }
        else:
            raise RpcError(INVALID_PARAMS, f"hilum knows no MCP servers of type {kind!r}.")
    return servers


def _read_pairs(server: str, given: object) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for pair in given if isinstance(given, list) else []:
        name = pair.get("name") if isinstance(pair, dict) else None
        value = pair.get("value") if isinstance(pair, dict) else None
        if not isinstance(name, str) or not isinstance(value, str):
            problem = f"The MCP server {server!r} has a variable or header without name or value."
            raise RpcError(INVALID_PARAMS, problem)
        pairs[name] = value
    return pairs
