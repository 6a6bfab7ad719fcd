"""Does the last look for sessions that were killed while their commands ran. See ``marks``."""

from __future__ import annotations

import os
from pathlib import Path

from hilum_guard import marks
from hilum_guard.names import printable
from hilum_guard.watching import MAX_FOLDERS, Watch

_ADVICE = (
    "Look at Git's configuration and hooks, and at the settings of editors, before you use this"
    " folder."
)


def recover(workspace: str) -> list[str]:
    """Make inert what commands of killed sessions left in a workspace. Blocks.

    What the user changed after the kill cannot be told from what a command changed. It is treated
    as a command's: renamed or taken out, never deleted, and named.

    Args:
        workspace: Root of the workspace, resolved.

    Returns:
        A sentence for each thing that was made inert or could not be looked at.
    """
    folder = marks.folder_of(workspace)
    try:
        names = [name for name in os.listdir(folder) if name.endswith(marks.OWNER)]
    except OSError:  # there is none: nothing was killed in this workspace
        return []
    said: list[str] = []
    for name in sorted(names):
        try:
            with marks.abandoned(folder, name.removesuffix(marks.OWNER)) as dead:
                if dead:
                    said += _look(folder, name.removesuffix(marks.OWNER))
        except Exception as error:  # the mark stays, so that the next session tries again
            said.append(f"It could not be looked at ({type(error).__name__}: {error}). {_ADVICE}")
    # What another version of hilum has written in a mark may not be text that an event can hold.
    return [printable(line) for line in said]


def _look(folder: Path, name: str) -> list[str]:
    """Look at what the commands of one killed session left."""
    try:
        remembered = marks.read(folder, name)
    except (OSError, ValueError) as error:
        return [f"What was there before its commands ran is not known ({error}). {_ADVICE}"]
    if remembered is None:
        return []
    said = list(remembered.untold)
    if remembered.running:
        watch = Watch(remembered.roots)
        watch.resume(remembered)
        said += watch.check(everywhere=True)
        if watch.truncated:
            said.append(
                f"More than {MAX_FOLDERS} folders are here; those deepest were not all looked at."
                f" {_ADVICE}"
            )
    return said
