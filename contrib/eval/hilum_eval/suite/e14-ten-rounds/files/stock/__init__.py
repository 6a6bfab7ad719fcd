"""The stock of a shop."""
