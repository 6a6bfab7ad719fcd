"""Carries out either all steps of an undo or none."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
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
                if step.before is not None and not keeps_kind(step):
                    self._remove(step, step.before, kept)
            for step in ordered:
                if step.after is not None and step.path not in (self._changed or ()):
                    self._create(step, step.after)
        finally:
            try:
                self._lock_folders()
            finally:
                self._held.close()
        return tuple(kept)

    # --- what somebody has changed ----------------------------------------------------------------

    @contextmanager
    def _open(
        self, path: str, node: Node | None, target: Node | None = None
    ) -> Iterator[Place | None]:
        """Open the folder of a path that is as the plan assumed, so that changing it loses nothing.

        The place is ``None`` if it is not, and such paths are collected.

        Args:
            path: The path.
            node: What the plan assumed.
            target: What is created at the path; missing folders are created, too.

        Raises:
            ToolError: ``E_STALE`` if the path is not as the plan assumed.
        """
        name = unspell_path(path)
        with ExitStack() as stack:
            place: Place | None = None
            try:
                place = stack.enter_context(self._held.open(name, make=target is not None))
                if not _is_at(place, node) and not _is_folder_already(place, node, target):
                    place = None
            except ToolError as error:
                is_changed = error.code == errors.E_FILE_NOT_FOUND or (
                    error.code == errors.E_STALE and self._changed is not None
                )
                if not is_changed:
                    raise
            if place is None:
                self._note_changed(path)
            yield place

    def _note_changed(self, path: str) -> None:
        if self._changed is None:
            name = show(unspell_path(path))
            raise ToolError(f"{name} was changed while it ran", code=errors.E_STALE)
        self._changed.append(path)

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

    def _remove(self, step: Change, node: Node, kept: list[str]) -> None:
        """Remove the entry at a step's path.

        Args:
            step: The step.
            node: The entry's node.
            kept: A list to which the path is added if nothing takes the place of a folder and other
                files are in it, so that it is kept.
        """
        with self._open(step.path, node) as place:
            if place is None:
                return
            if node.kind != "folder":
                os.unlink(place.name, dir_fd=place.folder)
            else:
                try:
                    os.rmdir(place.name, dir_fd=place.folder)
                except OSError:
                    if step.after is not None:
                        raise
                    kept.append(step.path)
                    return
        self._note_done(Change(step.path, node, None))

    def _create(self, step: Change, node: Node) -> None:
        """Create or change the entry at a step's path.

        Args:
            step: The step.
            node: The new node.
        """
        before = step.before if keeps_kind(step) else None
        data = b""
        has_new_content = node.kind != "folder" and (before is None or before.hash != node.hash)
        if has_new_content:
            data = self._read_kept(step.path, node)
        with self._open(step.path, before, node) as place:
            if place is None:
                return
            if node.kind == "folder":
                if before is None and not stat.S_ISDIR(_mode_at(place)):
                    os.mkdir(place.name, dir_fd=place.folder)
                # The folder gets its own mode when its content is complete.
                chmod_at(place, node.mode | 0o700)
                self._modes[unspell_path(step.path)] = node.mode
            elif not has_new_content:
                chmod_at(place, node.mode)
            elif node.kind == "link":
                _create_link(place, os.fsdecode(data), is_new=before is None)
            else:
                replace_at(place, unspell_path(step.path), data, mode=node.mode)
        self._note_done(Change(step.path, before, node))

    def _read_kept(self, path: str, node: Node) -> bytes:
        data = self._store.get(node.hash)
        if data is None:
            name = show(unspell_path(path))
            raise ToolError(f"The content of {name} is no longer kept.", code=errors.E_NOT_FOUND)
        return data


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


def _is_folder_already(place: Place, node: Node | None, target: Node | None) -> bool:
    """Return whether a folder that is to be created exists, so that it need not be created."""
    if node is not None or target is None or target.kind != "folder":
        return False
    return stat.S_ISDIR(_mode_at(place))


def _mode_at(place: Place) -> int:
    """Return the kind and permissions of the entry at a location, or 0 if there is none."""
    status = find_status(place)
    return status.st_mode if status else 0
