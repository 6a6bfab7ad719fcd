"""Perform the final check for sessions that were killed while their commands ran.

See ``run_markers``.
"""

from __future__ import annotations

import os
from pathlib import Path

from hilum_guard.file_names import QUARANTINED, printable
from hilum_guard.watching import run_markers
from hilum_guard.watching.folder_scan import MAX_FOLDERS
from hilum_guard.watching.run_markers import RunMarker
from hilum_guard.watching.workspace_watcher import WorkspaceWatcher

_ADVICE = (
    "Check Git's configuration and hooks, and the settings of editors, before you use this folder."
)


def recover(workspace: str, own: RunMarker | None = None) -> list[str]:
    """Make inert the files that killed sessions' commands left in a workspace. Blocks.

    A change that the user made after the kill is indistinguishable from a command's change, and is
    treated the same way: the file is renamed, or the setting removed, but nothing is deleted, and
    the change is reported.

    Args:
        workspace: Root of the workspace, resolved.
        own: The marker of this session for the same workspace, which is left alone.

    Returns:
        A sentence for each entry that was made inert or could not be checked.
    """
    folder = run_markers.folder_of(workspace) if own is None else own.folder
    left_alone = "" if own is None else f"{own.name}{run_markers.OWNER}"
    try:
        names = [name for name in os.listdir(folder) if name.endswith(run_markers.OWNER)]
    except OSError:  # no session was killed in this workspace
        return []
    said: list[str] = []
    for name in sorted(names):
        if name == left_alone:
            continue
        try:
            with run_markers.abandoned(folder, name.removesuffix(run_markers.OWNER)) as marker:
                if marker is not None:
                    said += _look(marker, folder, name.removesuffix(run_markers.OWNER))
        except Exception as error:  # the marker stays, and the next session tries again
            said.append(f"It could not be checked ({type(error).__name__}: {error}). {_ADVICE}")
    # A marker written by a different version of hilum may contain text that cannot be stored in an
    # event.
    return [printable(line) for line in said]


def _look(marker: RunMarker, folder: Path, name: str) -> list[str]:
    """Check the files that the commands of one killed session left."""
    try:
        remembered = run_markers.read(folder, name)
    except (OSError, ValueError) as error:
        return [f"It is not known what existed before its commands ran ({error}). {_ADVICE}"]
    if remembered is None:
        return []
    said = list(remembered.unreported)
    if remembered.running:
        # The check updates the marker: if this session is also killed, the next one learns from the
        # marker what is left to check and to report.
        watch = WorkspaceWatcher(remembered.roots, mark=marker)
        watch.resume(remembered)
        said += watch.check(everywhere=True)
        if watch.truncated:
            said.append(
                f"There are more than {MAX_FOLDERS} folders; some of the deepest were not checked."
                f" {_ADVICE}"
            )
    listed = "\n".join(said)
    for path in remembered.undoing:
        if path not in listed:
            said.append(
                f"hilum was killed while it made {path} inert. If {path}{QUARANTINED} exists, it is"
                " the original."
            )
    return said
