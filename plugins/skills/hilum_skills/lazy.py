"""Loads modules of this package at first use: ``lazy.git.GitClient(…)``.

A session whose repositories have been fetched does not need the Git client, and valid files do not
need the strict checker, which imports cattrs. Importing these modules takes 17 ms
(``tests/benchmarks/start.py``).
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hilum_skills import clones as clones
    from hilum_skills import fetcher as fetcher
    from hilum_skills import git as git
    from hilum_skills import selection as selection
    from hilum_skills import session_skills as session_skills
    from hilum_skills import specification as specification
    from hilum_skills import structure as structure


def __getattr__(name: str) -> ModuleType:
    path = f"hilum_skills.{name}"
    try:
        return import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        # pluggy and other code that inspects modules look up attributes that no module has.
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
