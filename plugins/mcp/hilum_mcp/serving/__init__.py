"""Runs hilum as an MCP server that offers tools, agents, skills and sessions to other clients."""
