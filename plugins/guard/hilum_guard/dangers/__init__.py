"""Find what is dangerous or notable in a tool call, for the people who approve calls."""
