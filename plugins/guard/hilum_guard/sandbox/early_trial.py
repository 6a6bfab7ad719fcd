"""Try the sandbox before the first command, while a session opens.

If a prompt follows at once in a Git repository, hilum runs ``git status`` for it. The result of the
trial is then known when that command starts.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from hilum_guard.settings import GuardSettings

if TYPE_CHECKING:
    from hilum import Kernel


def expects_command(kernel: Kernel) -> bool:
    """Return whether a command is started in a sandbox as soon as a session is open."""
    if not kernel.expects_prompt or kernel.workspace is None:
        return False
    if kernel.settings(GuardSettings).sandbox == "off":
        return False
    return _is_in_repository(kernel.workspace)


def _is_in_repository(folder: Path) -> bool:
    return any(os.path.lexists(each / ".git") for each in (folder, *folder.parents))


async def try_sandbox() -> None:
    """Try the sandbox in a thread."""
    # If the trial fails, the first command tries again and reports why. If the kernel closes first,
    # the thread ends when the trial does.
    with suppress(OSError):
        await trio.to_thread.run_sync(_import_and_probe, abandon_on_cancel=True)


def _import_and_probe() -> None:
    from hilum_guard.sandbox.sandbox_probe import probe  # blocks for tens of milliseconds

    probe()
