"""Tests of logging in to MCP servers."""
