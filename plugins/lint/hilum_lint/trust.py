"""Whether code of the project may run: the one place that decides it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from hilum_lint.settings import LintSettings

if TYPE_CHECKING:
    from hilum import Session


def is_trusted(session: Session) -> bool:
    """Return whether checkers may run what stands in the session's folders: their programs,
    plugins, configuration, build scripts.

    The user has said so with ``hilum trust``, or for all folders below one with a setting. It is
    asked before each look, so that a changed answer holds at once. Blocks.
    """
    from hilum_guard import trusted  # with the first look

    given = [os.path.expanduser(folder) for folder in session.settings(LintSettings).trusted]
    folders = [Path(os.path.realpath(folder)) for folder in given if os.path.isabs(folder)]
    return all(
        any(root.is_relative_to(f) for f in folders) or trusted(root)
        for root in session.workspace.roots
    )
