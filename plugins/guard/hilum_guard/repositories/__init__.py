"""Examine Git metadata: what Git executes because of it, and which settings make reading unsafe."""
