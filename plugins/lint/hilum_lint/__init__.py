"""Diagnostics of the linters and type checkers that a project uses and has installed: on request,
and after an edit.

Nothing is installed, nothing is run that the project does not use, and nothing of the project's own
code is run in a folder that is not trusted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import trio
from hilum import hookimpl

from hilum_lint.lint import Lint
from hilum_lint.settings import CheckerSettings, LintSettings

if TYPE_CHECKING:
    from hilum import Session

    from hilum_lint.diagnostics import Diagnostic, listed

__all__ = ["CheckerSettings", "Diagnostic", "Lint", "LintSettings", "listed", "open_session"]


def __getattr__(name: str) -> Any:
    """Return what is public in ``hilum_lint.diagnostics``, which is loaded with the first look."""
    if name in ("Diagnostic", "listed"):
        from hilum_lint import diagnostics

        return getattr(diagnostics, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@hookimpl
async def open_session(session: Session) -> AsyncIterator[Lint]:
    """Live as long as the session: what checks in the background is a task in here, and ends when
    it is left.
    """
    settings = session.settings(LintSettings)
    async with trio.open_nursery() as nursery:
        yield Lint(session, nursery, settings)
        nursery.cancel_scope.cancel()
