"""Decides whether checkers may run the project's code; no other module decides this."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from hilum.trust import is_trusted

from hilum_lint.settings import LintSettings

if TYPE_CHECKING:
    from hilum import Session


def may_run_code(session: Session) -> bool:
    """Return whether checkers may run code from the session's folders. Blocks.

    The project's code includes programs, plugins, configuration and build scripts. The user allows
    this with ``hilum trust``, or for a folder and all folders below it with the setting
    ``lint.trusted``. Call this function before each check, so that a change of trust takes effect
    immediately.
    """
    # The settings may change while a session is open, so they are read again for each check.
    given = [os.path.expanduser(folder) for folder in session.settings(LintSettings).trusted]
    folders = [Path(os.path.realpath(folder)) for folder in given if os.path.isabs(folder)]
    for root in session.workspace.roots:
        is_below_trusted = any(root.is_relative_to(folder) for folder in folders)
        if not is_below_trusted and not is_trusted(root):
            return False
    return True
