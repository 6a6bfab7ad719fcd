"""Logging in at MCP servers."""
