"""MCP servers for the agent, and hilum as an MCP server."""
