"""MCP servers for the agent, and hilum as an MCP server."""

from hilum_mcp.dialects import read_config
from hilum_mcp.server import Config, Input, Mistake, Server
from hilum_mcp.serving.settings import McpServerSettings

__all__ = ["Config", "Input", "McpServerSettings", "Mistake", "Server", "read_config"]
