"""Images from a description."""
