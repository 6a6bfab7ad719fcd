"""Loading of another sub-command, whichever distribution provides it."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from hilum.discovery import entry_points


def load_command(name: str, group: str = "hilum.commands") -> Callable[[list[str]], int] | None:
    """Return the function of another sub-command of ``hilum``; ``None`` if it is not installed.

    One command can thus run another, such as ``run``, without depending on the other's package.

    Args:
        name: The name of the command.
        group: The group of entry points that contains it; a command may have a group for commands
            below its own.
    """
    point = entry_points(group).get(name)
    if point is None:
        return None
    return cast("Callable[[list[str]], int]", point.load())
