"""Carries out either all steps of an undo or none."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from hilum import HilumError, Place, ToolError, Workspace, errors

from hilum_files.journal.content_store import ContentStore
from hilum_files.journal.records import Change, keeps_kind, unspell_path
from hilum_files.journal.tree_entries import Node
from hilum_files.journal.undo_plan import find_all_parents
from hilum_files.paths import chmod_unless_link, find_status, replace_at
from hilum_files.text import show

# Linux alone has O_PATH, which needs no permission to list the folder.
_STEP = (
    getattr(os, "O_PATH", 0)
    | getattr(os, "O_DIRECTORY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
)


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
    held = _HeldFolder(workspace)
    # A command may have made a folder read-only.
    modes = _unlock_folders(workspace.root, steps)
    ordered = sorted(steps, key=lambda step: unspell_path(step.path))
    try:
        for step in reversed(ordered):
            if step.before and not keeps_kind(step):
                name = unspell_path(step.path)
                if not _remove(held, name, step.before, is_final=step.after is None):
                    kept.append(step.path)
                    continue
                done.append(Change(step.path, step.before, None))
        for step in ordered:
            if step.after is None:
                continue
            name = unspell_path(step.path)
            before = step.before if keeps_kind(step) else None
            _create(workspace, held, store, name, before, step.after)
            done.append(Change(step.path, before, step.after))
            if step.after.kind == "folder":
                modes[workspace.root / name] = step.after.mode
    finally:
        held.close()
        # The deepest folders come first: an outer one may become inaccessible.
        for folder, mode in sorted(modes.items(), key=lambda each: str(each[0]), reverse=True):
            with suppress(FileNotFoundError, NotADirectoryError):
                chmod_unless_link(folder, mode)
    return tuple(kept)


def _unlock_folders(root: Path, steps: Sequence[Change]) -> dict[Path, int]:
    """Make the folders of the steps writable for the user, and return their former modes."""
    names = map(unspell_path, (step.path for step in steps))
    folders = find_all_parents(name for name in names if not os.path.isabs(name))
    modes: dict[Path, int] = {}
    links: set[str] = set()
    # The outermost folders come first, because those inside an inaccessible one cannot be examined.
    for name in sorted(folders):
        # What is below a link is not changed; it may be outside the workspace.
        if name.rpartition("/")[0] in links:
            links.add(name)
            continue
        folder = root / name
        with suppress(FileNotFoundError, NotADirectoryError):
            status = os.lstat(folder)
            mode = stat.S_IMODE(status.st_mode)
            if stat.S_ISLNK(status.st_mode):
                links.add(name)
            if stat.S_ISDIR(status.st_mode) and mode & 0o700 != 0o700:
                chmod_unless_link(folder, mode | 0o700)
                modes[folder] = mode
    return modes


class _HeldFolder:
    """Opens the folders of planned paths, each from the one before if that is possible.

    A program that the agent started may have created a link in the path after the plan was made.
    Therefore, no links are followed, not even within the workspace. To open each folder from the
    root would take quadratic time for folders that are nested a thousand times.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._descriptor: int | None = None
        # The names of the folders below the root that lead to the held one.
        self._parts: list[str] = []

    def close(self) -> None:
        """Close the held folder."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    @contextmanager
    def open(self, name: str, *, make: bool = False) -> Iterator[Place]:
        """Hold the folder of a path open for the duration of the ``with`` block.

        Args:
            name: The path.
            make: Whether to create missing folders.
        """
        path = self._workspace.root / name
        if self._move(name):
            try:
                yield Place(self._descriptor, os.path.basename(name), path)
            except OSError as error:
                error.filename = name
                raise
            return
        self.close()
        with self._workspace.at(path, make=make, follow=False) as place:
            if place.path != path:
                raise ToolError(
                    f"A parent folder of {show(name)} is now a link.", code=errors.E_STALE
                )
            if place.folder is not None and not os.path.isabs(name):
                self._descriptor = os.dup(place.folder)
                self._parts = name.split("/")[:-1]
            yield place

    def _move(self, name: str) -> bool:
        """Hold the folder of a path instead; return whether it is certain that no link leads there."""
        if self._descriptor is None or os.path.isabs(name):
            return False
        parts = name.split("/")[:-1]
        common = 0
        for part, held_part in zip(parts, self._parts, strict=False):
            if part != held_part:
                break
            common += 1
        try:
            for part in ("..",) * (len(self._parts) - common) + tuple(parts[common:]):
                above = self._descriptor
                self._descriptor = os.open(part, _STEP, dir_fd=above)
                os.close(above)
            self._parts = parts
            # Linux tells where an open folder is now, without links; other systems do not.
            found = os.readlink(f"/proc/self/fd/{self._descriptor}")
        except OSError:
            return False
        return found == str(self._workspace.root.joinpath(*parts))


def _remove(held: _HeldFolder, name: str, node: Node, *, is_final: bool) -> bool:
    """Remove an entry; return whether it is gone.

    Args:
        held: Opens the entry's folder.
        name: The entry's path.
        node: The entry's node.
        is_final: Whether nothing takes the entry's place. Then a folder with other files is kept.
    """
    with held.open(name) as place:
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
    workspace: Workspace,
    held: _HeldFolder,
    store: ContentStore,
    name: str,
    before: Node | None,
    node: Node,
) -> None:
    path = workspace.root / name
    if node.kind == "folder":
        with held.open(name, make=True) as place:
            if not stat.S_ISDIR(_mode_at(place)):
                os.mkdir(place.name, dir_fd=place.folder)
            # The folder gets its own mode when its content is complete.
            chmod_unless_link(path, node.mode | 0o700)
        return
    if before is not None and before.hash == node.hash:
        with held.open(name):
            chmod_unless_link(path, node.mode)
        return
    data = store.get(node.hash)
    if data is None:
        raise ToolError(f"The content of {show(name)} is no longer kept.", code=errors.E_NOT_FOUND)
    with held.open(name, make=True) as place:
        if node.kind == "link":
            with suppress(FileNotFoundError):
                os.unlink(place.name, dir_fd=place.folder)
            # The target of an existing link cannot be changed, so the link was removed first.
            os.symlink(os.fsdecode(data), place.name, dir_fd=place.folder)
            return
        if stat.S_ISLNK(_mode_at(place)):
            raise ToolError(f"{show(name)} is now a link.", code=errors.E_STALE)
        replace_at(place, path, data, mode=node.mode)


def _mode_at(place: Place) -> int:
    """Return the kind and permissions of the entry at a location, or 0 if there is none."""
    status = find_status(place)
    return status.st_mode if status else 0
