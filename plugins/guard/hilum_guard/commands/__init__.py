"""Judges command lines. The Bash reader loads with the first one."""

from __future__ import annotations

import sys
from pathlib import Path

from hilum_guard.commands.verdicts import CommandVerdict


def judge_command(text: str, *, workspace: Path, folder: Path | None = None) -> CommandVerdict:
    """Judge a Bash command line by reading it, without running anything.

    It never raises: a text that cannot be parsed needs approval.

    Args:
        text: The command line.
        workspace: Root of the workspace.
        folder: The folder that the command starts in; the workspace by default.
    """
    if sys.platform == "win32":
        return CommandVerdict("ask", "PowerShell commands are not parsed.", complete=False)
    # The grammar takes some 30 ms to load, which a session without commands saves.
    from hilum_guard.commands.bash_judge import judge

    return judge(text, workspace, folder)
