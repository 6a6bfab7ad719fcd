"""Replays whole sessions: from a store, from recordings in a project's tests, from the corpus."""
