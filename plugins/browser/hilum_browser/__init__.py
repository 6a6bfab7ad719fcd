"""A real browser for the agent."""
