"""MCP servers for the agent, and hilum as an MCP server."""

from hilum_mcp.dialects import read_config
from hilum_mcp.server import Config, Input, Mistake, Server

__all__ = ["Config", "Input", "Mistake", "Server", "read_config"]
