"""Modules of this package that load on first use: ``lazy.recall.recall_memories(…)``.

Sessions of users without memories need none of these modules, which import SQLite, regular
expressions and the types for a model's answer. Importing these modules takes 3 ms
(``tests/benchmarks/start.py``).
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hilum_memory.longterm import learning as learning
    from hilum_memory.longterm import memories as memories
    from hilum_memory.longterm import recall as recall
    from hilum_memory.longterm import tokenizer as tokenizer
    from hilum_memory.longterm import user_text as user_text
    from hilum_memory.longterm import validation as validation


def __getattr__(name: str) -> ModuleType:
    path = f"hilum_memory.longterm.{name}"
    try:
        return import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        # Code that inspects modules, such as pluggy, looks up attributes that do not exist.
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
