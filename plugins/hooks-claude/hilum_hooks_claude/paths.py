"""The places of the settings files of Claude Code."""

from __future__ import annotations

import os

from hilum import home_folder

SETTINGS = ".claude/settings.json"
LOCAL_SETTINGS = ".claude/settings.local.json"


def has_settings_file(root: str | os.PathLike[str]) -> bool:
    """Return whether a settings file may exist. Reads no file.

    Args:
        root: The project.
    """
    candidates = (
        os.path.join(home_folder(), SETTINGS),
        os.path.join(root, SETTINGS),
        os.path.join(root, LOCAL_SETTINGS),
    )
    return any(map(os.path.lexists, candidates))
