"""Loads modules of this package on first use: ``lazy.approvals.judge_hooks(…)``.

Most sessions have no hooks. They import neither the sandbox nor the readers of files.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hilum_hooks_claude import approvals as approvals
    from hilum_hooks_claude import call_hooks as call_hooks
    from hilum_hooks_claude import dispatch as dispatch
    from hilum_hooks_claude import listing as listing
    from hilum_hooks_claude import matching as matching
    from hilum_hooks_claude import runner as runner
    from hilum_hooks_claude import session_hooks as session_hooks
    from hilum_hooks_claude import settings_files as settings_files
    from hilum_hooks_claude import transcripts as transcripts


def __getattr__(name: str) -> ModuleType:
    path = f"hilum_hooks_claude.{name}"
    try:
        return import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        # Code that inspects modules, such as pluggy, looks for attributes that no module has.
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
