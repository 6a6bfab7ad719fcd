"""Loads another sub-command, whichever distribution provides it."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from hilum.discovery import entry_points


def load_command(name: str) -> Callable[[list[str]], int] | None:
    """Return the function of another sub-command of ``hilum``; ``None`` if it is not installed.

    A command can so hand over to another one, such as ``run``, without depending on its package.
    """
    point = entry_points("hilum.commands").get(name)
    if point is None:
        return None
    return cast("Callable[[list[str]], int]", point.load())
