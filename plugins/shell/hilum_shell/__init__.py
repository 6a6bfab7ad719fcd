"""Runs shell commands, and keeps long ones in the background as services.

Output is limited and streamed, and no process is left running. The model receives the exit code
first, then standard output, then standard error under its own heading. Faces receive both streams
as they arrive, with terminal escapes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import trio
from hilum import hookimpl

from hilum_shell.output import strip_escapes
from hilum_shell.services import PrintedOutput, Services
from hilum_shell.settings import ShellSettings
from hilum_shell.shell import Shell

if TYPE_CHECKING:
    from hilum import Session

__all__ = ["PrintedOutput", "Services", "Shell", "ShellSettings", "open_session", "strip_escapes"]


@hookimpl
async def open_session(session: Session) -> AsyncIterator[Shell]:
    """Create the session plugin, whose commands end with the session."""
    settings = session.settings(ShellSettings)
    async with trio.open_nursery() as nursery:
        yield Shell(session, nursery, settings)
        nursery.cancel_scope.cancel()
