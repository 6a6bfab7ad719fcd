"""Runs the linters and type checkers that a project uses and has installed.

Checkers run on request and after edits. hilum neither installs checkers nor runs checkers that the
project does not use. In a folder that the user does not trust, hilum runs no checker that executes
the project's code.
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

    from hilum_lint.diagnostics import Diagnostic, format_diagnostics

__all__ = [
    "CheckerSettings",
    "Diagnostic",
    "Lint",
    "LintSettings",
    "format_diagnostics",
    "open_session",
]

# ``check_answer`` may wait until the last edits are checked.
gates = ("check_answer",)


def __getattr__(name: str) -> Any:
    """Return a public name from ``hilum_lint.diagnostics``, which is imported at first use."""
    if name in ("Diagnostic", "format_diagnostics"):
        from hilum_lint import diagnostics

        return getattr(diagnostics, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@hookimpl
async def open_session(session: Session) -> AsyncIterator[Lint]:
    """Yield the session plugin, whose background checks end with the session."""
    settings = session.settings(LintSettings)
    # The first edit needs it.
    session.import_later("hilum_lint.lint_runner")
    async with trio.open_nursery() as nursery:
        yield Lint(session, nursery, settings)
        nursery.cancel_scope.cancel()
