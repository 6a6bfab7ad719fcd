"""Errors about settings files, and suggestions for unknown names."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hilum.errors import MAX_NAMES, similar_names


class ChangeError(Exception):
    """A settings file cannot be changed safely, so it was not changed.

    Args:
        path: The file.
        reason: The reason why the file cannot be changed.
    """

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path} cannot be changed safely: {reason}.")


def explain_invalid_toml(error: Exception) -> str:
    """Return why a text is not valid TOML."""
    # tomllib passes on a ValueError from int(), whose message is about a limit in Python.
    if "integer string conversion" in str(error):
        return "a number is too long"
    return str(error)


def near(name: str, known: Iterable[str]) -> str:
    """Return a sentence with the known names similar to an unknown one, or with all names."""
    names = sorted(known)
    found = similar_names(name, names)
    if found:
        return f"Did you mean {' or '.join(found)}?"
    if not names:
        return ""
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return f"Known: {', '.join(names[:MAX_NAMES])}{more}."
