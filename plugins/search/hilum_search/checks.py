"""The checks that the search plugin adds to ``hilum doctor``."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hilum.checks import Check

from hilum_search.ripgrep import INSTALL_RIPGREP, find_ripgrep


def check_ripgrep(folder: Path, online: bool) -> list[Check]:
    """Check whether ripgrep is installed and starts. Blocks.

    Args:
        folder: Not used; ripgrep is the same for all workspaces.
        online: Not used; the check makes no network requests.
    """
    program = find_ripgrep()
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        found = "E_NOT_INSTALLED: ripgrep (rg) was not found or does not start"
        missing = "search_files and glob_search are not available"
        return [Check("warn", "search", f"{found}: {missing}", INSTALL_RIPGREP)]
    return [Check("ok", "search", f"{done.stdout.splitlines()[0]}, {program}")]
