"""Carries out either all steps of an undo or none."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hilum import HilumError, ToolError, Workspace, errors

from hilum_files.journal.content_store import ContentStore
from hilum_files.journal.records import Change, keeps_kind, unspell_path
from hilum_files.journal.tree import Node
from hilum_files.paths import chmod_unless_link, find_status, replace_file
from hilum_files.text import show

if TYPE_CHECKING:
    from hilum import Place


def carry_out(
    workspace: Workspace, store: ContentStore, steps: Sequence[Change]
) -> tuple[str, ...]:
    """Carry out either all steps or none.

    Returns:
        The paths of the folders that were not deleted, because other files are in them.

    Raises:
        HilumError: A step failed. The completed steps were reverted, or the message states that
            reverting failed as well.
    """
    done: list[Change] = []
    try:
        return _apply(workspace, store, steps, done)
    except (OSError, HilumError) as error:
        problem = _describe_failure(error)
        # Only the completed steps are reverted: other paths may have changed in the meantime.
        taken_back = [Change(step.path, step.after, step.before) for step in done]
        try:
            _apply(workspace, store, taken_back, [])
        except (OSError, HilumError) as second:
            raise ToolError(
                f"{problem} Reverting the completed steps also failed: {second}.",
                hint="Run hilum undo again to continue.",
            ) from error
        raise ToolError(
            f"{problem} All files are as they were before the undo.",
            hint="Fix the cause, then undo again.",
        ) from error


def _describe_failure(error: OSError | HilumError) -> str:
    if isinstance(error, HilumError):
        return errors.end_once(f"The undo failed: {error.message}.")
    where = f" at {show(str(error.filename))}" if error.filename else ""
    return f"The undo failed{where}: {error.strerror or error}."


def _apply(
    workspace: Workspace, store: ContentStore, steps: Sequence[Change], done: list[Change]
) -> tuple[str, ...]:
    """Carry out steps in a safe order, and add each to ``done``.

    First, entries that are in the way are removed, deepest first. Then, new content is created,
    outermost first.

    Returns:
        As ``carry_out``.
    """
    kept: list[str] = []
    # A command may have made a folder read-only.
    modes = _unlock_folders(workspace.root, steps)
    ordered = sorted(steps, key=lambda step: unspell_path(step.path))
    try:
        for step in reversed(ordered):
            if step.before and not keeps_kind(step):
                name = unspell_path(step.path)
                if not _remove(workspace, name, step.before, is_final=step.after is None):
                    kept.append(step.path)
                    continue
                done.append(Change(step.path, step.before, None))
        for step in ordered:
            if step.after is None:
                continue
            name = unspell_path(step.path)
            before = step.before if keeps_kind(step) else None
            _create(workspace, store, name, before, step.after)
            done.append(Change(step.path, before, step.after))
            if step.after.kind == "folder":
                modes[workspace.root / name] = step.after.mode
    finally:
        # The deepest folders come first: an outer one may become inaccessible.
        for folder, mode in sorted(modes.items(), reverse=True):
            with suppress(FileNotFoundError, NotADirectoryError):
                chmod_unless_link(folder, mode)
    return tuple(kept)


def _unlock_folders(root: Path, steps: Sequence[Change]) -> dict[Path, int]:
    """Make the folders of the steps writable for the user, and return their former modes."""
    folders: set[Path] = set()
    for step in steps:
        for parent in (root / unspell_path(step.path)).parents:
            if parent != root and parent.is_relative_to(root):
                folders.add(parent)
    modes: dict[Path, int] = {}
    links: set[Path] = set()
    # The outermost folders come first, because those inside an inaccessible one cannot be examined.
    for folder in sorted(folders):
        # What is below a link is not changed; it may be outside the workspace.
        if not links.isdisjoint(folder.parents):
            continue
        with suppress(FileNotFoundError, NotADirectoryError):
            status = os.lstat(folder)
            mode = stat.S_IMODE(status.st_mode)
            if stat.S_ISLNK(status.st_mode):
                links.add(folder)
            if stat.S_ISDIR(status.st_mode) and mode & 0o700 != 0o700:
                chmod_unless_link(folder, mode | 0o700)
                modes[folder] = mode
    return modes


@contextmanager
def _open_exactly(workspace: Workspace, name: str, *, make: bool = False) -> Iterator[Place]:
    """Open the folder of a planned path for the duration of the ``with`` block.

    A program that the agent started may have created a link in the path after the plan was made.
    Therefore, no links are followed, not even within the workspace.
    """
    path = workspace.root / name
    with workspace.at(path, make=make, follow=False) as place:
        if place.path != path:
            raise ToolError(f"A parent folder of {show(name)} is now a link.", code=errors.E_STALE)
        yield place


def _remove(workspace: Workspace, name: str, node: Node, *, is_final: bool) -> bool:
    """Remove an entry; return whether it is gone.

    Args:
        workspace: The workspace.
        name: The entry's path.
        node: The entry's node.
        is_final: Whether nothing takes the entry's place. Then a folder with other files is kept.
    """
    with _open_exactly(workspace, name) as place:
        if node.kind != "folder":
            os.unlink(place.name, dir_fd=place.folder)
            return True
        try:
            os.rmdir(place.name, dir_fd=place.folder)
        except OSError:
            if not is_final:
                raise
            return False
        return True


def _create(
    workspace: Workspace, store: ContentStore, name: str, before: Node | None, node: Node
) -> None:
    path = workspace.root / name
    if node.kind == "folder":
        with _open_exactly(workspace, name, make=True) as place:
            if not stat.S_ISDIR(_mode_at(place)):
                os.mkdir(place.name, dir_fd=place.folder)
            # The folder gets its own mode when its content is complete.
            chmod_unless_link(path, node.mode | 0o700)
        return
    if before is not None and before.hash == node.hash:
        with _open_exactly(workspace, name):
            chmod_unless_link(path, node.mode)
        return
    data = store.get(node.hash)
    if data is None:
        raise ToolError(f"The content of {show(name)} is no longer kept.", code=errors.E_NOT_FOUND)
    with _open_exactly(workspace, name, make=True) as place:
        if node.kind == "link":
            with suppress(FileNotFoundError):
                os.unlink(place.name, dir_fd=place.folder)
            # The target of an existing link cannot be changed, so the link was removed first.
            os.symlink(os.fsdecode(data), place.name, dir_fd=place.folder)
            return
        if stat.S_ISLNK(_mode_at(place)):
            raise ToolError(f"{show(name)} is now a link.", code=errors.E_STALE)
        replace_file(workspace, path, data, mode=node.mode)


def _mode_at(place: Place) -> int:
    """Return the kind and permissions of the entry at a location, or 0 if there is none."""
    status = find_status(place)
    return status.st_mode if status else 0
