"""Modules of this package that load on first use: ``lazy.budget_texts.refusal(…)``.

Most sessions reach no budget and have no budget of the day, so they need neither SQLite nor texts.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hilum_trace.bill.budgets import budget_command as budget_command
    from hilum_trace.bill.budgets import budget_texts as budget_texts
    from hilum_trace.bill.budgets import day_budget as day_budget


def __getattr__(name: str) -> ModuleType:
    path = f"hilum_trace.bill.budgets.{name}"
    try:
        return import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        # Code that inspects modules, such as pluggy, looks up attributes that do not exist.
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
