"""The system prompt: meta, mode, tool use and recovery layers, and the four modes."""
