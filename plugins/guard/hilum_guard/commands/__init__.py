"""Parse and judge command lines without running them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from hilum.shared_reads import read_once

from hilum_guard.command_paths import find_temporary
from hilum_guard.commands.verdicts import CommandVerdict


def judge_command(
    text: str, *, workspace: Path, folder: Path | None = None, extra_roots: Sequence[Path] = ()
) -> CommandVerdict:
    """Judge a Bash command line by parsing it without running anything.

    This function never raises: a command line that cannot be parsed needs approval.

    Args:
        text: The command line.
        workspace: Root of the workspace.
        folder: The command's initial working folder; the workspace by default.
        extra_roots: Further folders that belong to the workspace.
    """
    if sys.platform == "win32":
        return CommandVerdict("ask", "PowerShell commands are not parsed.", complete=False)
    # Loading the grammar takes about 30 ms, which a session without commands saves.
    from hilum_guard.commands.bash_judge import judge

    # Several gates judge the same command line, which may load hundreds of files.
    key = ("judge_command", text, workspace, folder, tuple(extra_roots), find_temporary())
    return read_once(key, lambda: judge(text, workspace, folder, extra_roots))
