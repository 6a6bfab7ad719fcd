"""Asks checkers that are already running, so that a check takes milliseconds.

Two kinds keep running: the syntax check, a process of this plugin, and the checkers that another
plugin runs as language servers (``hilum.WarmCheckers``). If one of them does not answer, the
checker runs as a process of its own, as without this module.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import trio
from hilum import WarmCheckers, WarmFinding

from hilum_lint.checkers import SYNTAX
from hilum_lint.diagnostics import SEVERITIES, Diagnostic, to_one_line
from hilum_lint.parsers import python_severity
from hilum_lint.syntax_worker import SyntaxWorker

if TYPE_CHECKING:
    from hilum import Session

    from hilum_lint.project import CheckerUse


@attrs.define(eq=False)
class WarmRunner:
    """The running checkers of a session.

    Args:
        session: The session.
        nursery: The nursery for the syntax check's process, which ends with the session.
    """

    session: Session
    nursery: trio.Nursery
    _syntax: SyntaxWorker = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._syntax = SyntaxWorker(self.session, self.nursery)

    def is_warm(self, use: CheckerUse) -> bool:
        """Return whether a checker runs and can be asked now."""
        if not use.program:
            return False
        if use.checker.name == SYNTAX:
            return self._syntax.is_ready
        service = self.session.plugin(WarmCheckers)
        return service is not None and service.is_warm(use.checker.name, use.program, use.folder)

    async def warm_up(self, use: CheckerUse) -> None:
        """Start a checker in the background, if it can keep running."""
        if not use.program:
            return
        if use.checker.name == SYNTAX:
            self._syntax.start()
            return
        service = self.session.plugin(WarmCheckers)
        if service is not None:
            await service.warm_up(use.checker.name, use.program, use.folder)

    async def wait_warm(self, use: CheckerUse, seconds: float) -> bool | None:
        """Start a checker, and return whether it can be asked in time.

        The result is ``None`` if the checker cannot keep running.
        """
        service = self.session.plugin(WarmCheckers)
        if service is None or not use.program:
            return None
        await service.warm_up(use.checker.name, use.program, use.folder)
        return await service.wait_warm(use.checker.name, use.program, use.folder, seconds)

    async def check(
        self, use: CheckerUse, path: Path, text: str, seconds: float
    ) -> tuple[Diagnostic, ...] | None:
        """Return the diagnostics of a text; ``None`` if the checker did not answer in time.

        Args:
            use: The checker and its folder.
            path: The file.
            text: The text to check, whatever the file contains.
            seconds: Time limit.
        """
        if use.checker.name == SYNTAX:
            found = await self._syntax.check(path, text, seconds)
        else:
            service = self.session.plugin(WarmCheckers)
            if service is None:
                return None
            name = use.checker.name
            found = await service.find_diagnostics(
                name, use.program, use.folder, path, text, seconds
            )
        if found is None:
            return None
        shown = to_one_line(self.session.workspace.relative(path))
        return tuple(dict.fromkeys(_make_diagnostic(use, shown, each) for each in found))


def _make_diagnostic(use: CheckerUse, path: str, found: WarmFinding) -> Diagnostic:
    name = use.checker.name
    message = found.message
    code = to_one_line(found.code, 60)
    severity = found.severity if found.severity in SEVERITIES else "error"
    if name == "ruff":
        # The same as when ruff runs for one check: its server knows only warnings.
        code = code or "invalid-syntax"
        severity = python_severity(code)
        # The server adds the title of the fix in a line of its own.
        message = message.partition("\nhelp: ")[0]
    return Diagnostic(path, found.line, found.column, severity, code, to_one_line(message), name)
