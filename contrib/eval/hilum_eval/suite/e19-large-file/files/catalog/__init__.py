"""The catalog of a shop."""
