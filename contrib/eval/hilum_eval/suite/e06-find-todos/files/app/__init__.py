"""A small blog."""
