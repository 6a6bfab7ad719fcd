"""Aligns columns of text."""

__version__ = "1.2.0"


def align(rows):
    """Return rows of two texts as aligned lines."""
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
