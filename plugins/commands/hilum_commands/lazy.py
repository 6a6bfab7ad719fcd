"""Loads modules of this package at first use: ``lazy.catalog.CommandCatalog(…)``.

Most sessions type no custom command, and the classes of these modules take several milliseconds to
create.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hilum_commands import catalog as catalog
    from hilum_commands import expansion as expansion
    from hilum_commands import restrictions as restrictions


def __getattr__(name: str) -> ModuleType:
    path = f"hilum_commands.{name}"
    try:
        return import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        # pluggy and other code that inspects modules look up attributes that no module has.
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
