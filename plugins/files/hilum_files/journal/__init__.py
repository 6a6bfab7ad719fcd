"""Tracks what agents have seen and changed, so that changes can be checked, shown and undone."""
