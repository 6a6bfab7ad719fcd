"""Runs commands: output bounded and streamed, nothing left running."""
