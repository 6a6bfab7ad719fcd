"""Runs commands: output bounded and streamed, nothing left running.

Long ones in the background, where they can be read.

The model reads the exit code first, then standard output, then standard error under a heading of
its own. Faces get both as they come, with their escapes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import trio
from hilum import hookimpl

from hilum_shell.output import clean
from hilum_shell.services import Printed, Services
from hilum_shell.settings import ShellSettings
from hilum_shell.shell import Shell

if TYPE_CHECKING:
    from hilum import Session

__all__ = ["Printed", "Services", "Shell", "ShellSettings", "clean", "open_session"]


@hookimpl
async def open_session(session: Session) -> AsyncIterator[Shell]:
    """Live as long as the session: every command is a task in here, and ends when it is left."""
    settings = session.settings(ShellSettings)
    async with trio.open_nursery() as nursery:
        yield Shell(session, nursery, settings)
        nursery.cancel_scope.cancel()
