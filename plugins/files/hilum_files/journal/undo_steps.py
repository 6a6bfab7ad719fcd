"""Carries out either all steps of an undo or none."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from secrets import token_hex

import attrs
from hilum import HilumError, Place, ToolError, Workspace, errors

from hilum_files.journal.content_store import ContentStore, hash_content
from hilum_files.journal.held_folder import HeldFolder
from hilum_files.journal.records import Change, keeps_kind, unspell_path
from hilum_files.journal.tree_entries import Node
from hilum_files.journal.undo_plan import find_all_parents
from hilum_files.paths import chmod_at, find_status, open_unreadable, replace_at
from hilum_files.text import show


def carry_out(
    workspace: Workspace, store: ContentStore, steps: Sequence[Change]
) -> tuple[str, ...]:
    """Carry out either all steps or none.

    Returns:
        The paths of the folders that were not deleted, because other files are in them.

    Raises:
        HilumError: A step failed; ``E_STALE`` if somebody has changed its path since the plan was
            made. The completed steps were reverted, or the message states which could not be.
    """
    done: list[Change] = []
    try:
        return _Steps(workspace, store, steps, done.append).carry_out()
    except (OSError, HilumError) as error:
        problem = _describe_failure(error)
        code = errors.E_FAILED
        if isinstance(error, HilumError) and error.code == errors.E_STALE:
            code = error.code
        # Only the completed steps are reverted: other paths may have changed in the meantime.
        taken_back = [Change(step.path, step.after, step.before) for step in done]
        changed: list[str] = []
        try:
            _Steps(workspace, store, taken_back, lambda _: None, changed).carry_out()
        except (OSError, HilumError) as second:
            raise ToolError(
                f"{problem} Reverting the completed steps also failed: {second}.",
                code=code,
                hint="Run hilum undo again to continue.",
            ) from error
        if changed:
            raise ToolError(
                f"{problem} All other files are as they were before the undo, except those that"
                f" were changed while it ran: {', '.join(map(show, changed))}.",
                code=code,
                hint="Look at these files, then undo again.",
            ) from error
        if code == errors.E_STALE:
            raise ToolError(
                f"{problem} All other files are as they were before the undo.",
                code=code,
                hint="Undo again.",
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


@attrs.define(eq=False)
class _Steps:
    """Carries out steps in a safe order.

    Args:
        workspace: The workspace.
        store: The store of contents.
        steps: The steps.
        note_done: A function that is called with each completed part of a step.
        changed: A list to which the paths are added that are left as they are, because somebody has
            changed them; by default, this is an error.
    """

    _workspace: Workspace
    _store: ContentStore
    _steps: Sequence[Change]
    _note_done: Callable[[Change], object]
    _changed: list[str] | None = None
    _held: HeldFolder = attrs.field(init=False)
    # The modes that folders get when the steps in them are completed.
    _modes: dict[str, int] = attrs.field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        self._held = HeldFolder(self._workspace)

    def carry_out(self) -> tuple[str, ...]:
        """Carry out the steps.

        First, entries that are in the way are removed, deepest first. Then, new content is created,
        outermost first.

        Returns:
            The paths of the folders that were not deleted, because other files are in them.
        """
        kept: list[str] = []
        ordered = sorted(self._steps, key=lambda step: unspell_path(step.path))
        try:
            # A command may have made a folder read-only.
            self._unlock_folders()
            for step in reversed(ordered):
                if step.before is None or keeps_kind(step):
                    continue
                if not self._is_current(step.path, step.before):
                    continue
                if self._remove(step.path, step.before, is_final=step.after is None):
                    self._note_done(Change(step.path, step.before, None))
                else:
                    kept.append(step.path)
            for step in ordered:
                if step.after is None or step.path in (self._changed or ()):
                    continue
                before = step.before if keeps_kind(step) else None
                if not self._is_current(step.path, before, step.after):
                    continue
                self._create(unspell_path(step.path), before, step.after)
                self._note_done(Change(step.path, before, step.after))
        finally:
            try:
                self._lock_folders()
            finally:
                self._held.close()
        return tuple(kept)

    # --- what somebody has changed ----------------------------------------------------------------

    def _is_current(self, path: str, node: Node | None, target: Node | None = None) -> bool:
        """Return whether a path is as the plan assumed, so that nothing is lost by changing it.

        Args:
            path: The path.
            node: What the plan assumed.
            target: What the path is changed to. A folder that is to be created may exist already.

        Raises:
            ToolError: ``E_STALE`` if it is not, unless such paths are collected.
        """
        name = unspell_path(path)
        try:
            with self._held.open(name) as place:
                is_current = _is_at(place, node)
                if not is_current and node is None and target and target.kind == "folder":
                    is_current = stat.S_ISDIR(_mode_at(place))
        except ToolError as error:
            if error.code == errors.E_FILE_NOT_FOUND:  # the folders above it do not exist
                is_current = node is None
            elif error.code == errors.E_STALE and self._changed is not None:
                is_current = False
            else:
                raise
        if is_current:
            return True
        if self._changed is None:
            raise ToolError(f"{show(name)} was changed while it ran", code=errors.E_STALE)
        self._changed.append(path)
        return False

    # --- folders ----------------------------------------------------------------------------------

    def _unlock_folders(self) -> None:
        """Make the folders of the steps writable for the user, and note their former modes."""
        names = map(unspell_path, (step.path for step in self._steps))
        folders = find_all_parents(name for name in names if not os.path.isabs(name))
        # What is below a link is not changed; it may be outside the workspace. The set also contains
        # what is not there.
        others: set[str] = set()
        # The outermost folders come first, because those inside an inaccessible one cannot be
        # examined.
        for name in sorted(folders):
            if name.rpartition("/")[0] in others:
                others.add(name)
                continue
            with self._held.open(name) as place:
                kind_and_mode = _mode_at(place)
                mode = stat.S_IMODE(kind_and_mode)
                if not stat.S_ISDIR(kind_and_mode):
                    others.add(name)
                elif mode & 0o700 != 0o700:
                    chmod_at(place, mode | 0o700)
                    self._modes[name] = mode

    def _lock_folders(self) -> None:
        """Set the modes that the folders of the steps are to have."""
        # The deepest folders come first: an outer one may become inaccessible.
        for name, mode in sorted(self._modes.items(), reverse=True):
            with suppress(ToolError), self._held.open(name) as place:
                if stat.S_ISDIR(_mode_at(place)):
                    chmod_at(place, mode)

    # --- steps ------------------------------------------------------------------------------------

    def _remove(self, path: str, node: Node, *, is_final: bool) -> bool:
        """Remove an entry; return whether it is gone.

        Args:
            path: The entry's path.
            node: The entry's node.
            is_final: Whether nothing takes the entry's place. Then a folder with other files is
                kept.
        """
        with self._held.open(unspell_path(path)) as place:
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

    def _create(self, name: str, before: Node | None, node: Node) -> None:
        if node.kind == "folder":
            with self._held.open(name, make=True) as place:
                if not stat.S_ISDIR(_mode_at(place)):
                    os.mkdir(place.name, dir_fd=place.folder)
                # The folder gets its own mode when its content is complete.
                chmod_at(place, node.mode | 0o700)
            self._modes[name] = node.mode
            return
        if before is not None and before.hash == node.hash:
            with self._held.open(name) as place:
                chmod_at(place, node.mode)
            return
        data = self._store.get(node.hash)
        if data is None:
            raise ToolError(
                f"The content of {show(name)} is no longer kept.", code=errors.E_NOT_FOUND
            )
        with self._held.open(name, make=True) as place:
            if node.kind == "link":
                _create_link(place, os.fsdecode(data), is_new=before is None)
                return
            if stat.S_ISLNK(_mode_at(place)):
                raise ToolError(f"{show(name)} is now a link.", code=errors.E_STALE)
            replace_at(place, self._workspace.root / name, data, mode=node.mode)


def _create_link(place: Place, target: str, *, is_new: bool) -> None:
    """Create a link, or replace a link in one step: its target cannot be changed."""
    if is_new:
        os.symlink(target, place.name, dir_fd=place.folder)
        return
    folder = os.path.dirname(place.name)
    temporary = os.path.join(folder, f".hilum-{token_hex(8)}.tmp")
    os.symlink(target, temporary, dir_fd=place.folder)
    try:
        os.replace(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=place.folder)
        raise


def _is_at(place: Place, node: Node | None) -> bool:
    """Return whether the entry at a location has the kind and the content of a node.

    Its mode does not matter, because an undo changes modes itself.
    """
    status = find_status(place)
    if status is None or node is None:
        return status is None and node is None
    if node.kind == "folder":
        return stat.S_ISDIR(status.st_mode)
    if node.kind == "link":
        if not stat.S_ISLNK(status.st_mode):
            return False
        target = os.readlink(place.name, dir_fd=place.folder)
        return hash_content(os.fsencode(target)) == node.hash
    if not stat.S_ISREG(status.st_mode):
        return node.hash == f"?special {status.st_ino}"
    with open_unreadable(place) as file:
        return hash_content(file.read()) == node.hash


def _mode_at(place: Place) -> int:
    """Return the kind and permissions of the entry at a location, or 0 if there is none."""
    status = find_status(place)
    return status.st_mode if status else 0
