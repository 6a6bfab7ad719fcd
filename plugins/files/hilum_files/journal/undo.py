"""Undo: first a plan, then the work.

What others changed since is merged or left alone, and an undo can be undone.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from hilum import HilumError, ToolError, Workspace, errors

from hilum_files.journal.guard import KEEP_LIMIT
from hilum_files.journal.objects import Objects
from hilum_files.journal.records import Change, Ledger, Record, unspell
from hilum_files.journal.sessions import Noted, SharedChanges
from hilum_files.journal.tree import Node, node_at
from hilum_files.places import replace
from hilum_files.text import show

if TYPE_CHECKING:
    from hilum import Place

MERGE_BYTES = 2_000_000


@attrs.frozen
class Plan:
    """What an undo would do.

    Attributes:
        steps: The paths that change, with what is there now and what will be.
        merged: Paths (spelled) where later changes by others stay, merged with the undo.
        conflicts: Paths (spelled) that cannot be put back, and why.
        left: Paths of folders that are not kept, and stay as they are.
        undoes: The records that are undone, each with its paths.
    """

    steps: tuple[Change, ...] = ()
    merged: tuple[str, ...] = ()
    conflicts: dict[str, str] = attrs.field(factory=dict)
    left: tuple[str, ...] = ()
    undoes: dict[str, tuple[str, ...]] = attrs.field(factory=dict)


class Conflict(Exception):
    """A path cannot be put back."""


def make_plan(
    workspace: Workspace,
    objects: Objects,
    ledger: Ledger,
    records: Sequence[Record],
    shared: SharedChanges,
) -> Plan:
    """Plan to undo records. What is there now is kept first, so that the undo can be undone.

    Args:
        workspace: Where.
        objects: The contents.
        ledger: What the log says of the session.
        records: Oldest first, with the changes to undo.
        shared: What other sessions changed.

    Raises:
        StoreError: What is there now cannot be kept.
    """
    by_path: dict[str, list[Change]] = {}
    for record in records:
        for change in record.changes:
            by_path.setdefault(change.path, []).append(change)
    composed = ledger.compose(records)
    steps: list[Change] = []
    merged: list[str] = []
    conflicts: dict[str, str] = {}
    left: list[str] = []
    unchanged: set[str] = set()
    for path, changes in sorted(by_path.items()):
        if any(
            node is not None and node.kind == "skipped"
            for c in changes
            for node in (c.before, c.after)
        ):
            left.append(path)
            continue
        try:
            now = _look(workspace, objects, unspell(path))
            others = shared.of_others(
                path, [r.id for r in records if any(c.path == path for c in r.changes)]
            )
            _check_others(changes, others)
        except Conflict as conflict:
            conflicts[path] = str(conflict)
            continue
        try:
            target, was_merged = _take_back(objects, now, composed[path], changes)
        except Conflict as conflict:
            conflicts[path] = f"{conflict}{_by_sessions(others)}"
            continue
        if was_merged:
            merged.append(path)
        if target != now:
            steps.append(Change(path, now, target))
        elif not ledger.is_last(path, records):
            # Later changes took it back already. It stays a link in the chain of changes, so that
            # these can be undone.
            unchanged.add(path)
    done = by_path.keys() - conflicts.keys() - unchanged
    undoes = {r.id: tuple(c.path for c in r.changes if c.path in done) for r in records}
    unique = tuple(path for path in merged if not _is_folder(by_path[path]))
    return Plan(
        tuple(steps),
        unique,
        conflicts,
        tuple(left),
        {name: paths for name, paths in undoes.items() if paths},
    )


def _check_others(changes: Sequence[Change], others: Sequence[Noted]) -> None:
    """Check that no other session claims one of the changes.

    Raises:
        Conflict: Another session left the same content: whose it is cannot be told.
    """
    contents = [change.after for change in changes]
    claims = [noted for noted in others if noted.change.after in contents]
    if claims:
        raise Conflict(f"the same was changed{_by_sessions(claims)}")


def _by_sessions(others: Sequence[Noted]) -> str:
    """Return which other sessions changed something, as words; empty for none."""
    names = list(dict.fromkeys(noted.session for noted in others))
    if not names:
        return ""
    return f" by session{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _take_back(
    objects: Objects, now: Node | None, composed: Sequence[Change], changes: Sequence[Change]
) -> tuple[Node | None, bool]:
    """Return what is at a path without its changes, and whether that was merged with changes by
    others.

    Args:
        objects: The contents.
        now: What is there.
        composed: The changes, joined where the log allows it.
        changes: The same changes one by one, for where the joined ones cannot be taken back.

    Raises:
        Conflict: It cannot be put back.
    """
    try:
        return _take_back_each(objects, now, composed)
    except Conflict as conflict:
        try:
            return _take_back_each(objects, now, changes)
        except Conflict:
            raise conflict from None


def _take_back_each(
    objects: Objects, now: Node | None, changes: Sequence[Change]
) -> tuple[Node | None, bool]:
    target = now
    merged = False
    for change in reversed(changes):
        if any(node is not None and not node.kept for node in (change.before, change.after)):
            raise Conflict("its content was not kept: it was too large or could not be read")
        if change.before == change.after:
            continue
        if target not in (change.after, change.before):
            merged = True
        target = _without(objects, target, change)
    if target is not None and target.hash and objects.get(target.hash) is None:
        raise Conflict("its content is not kept any more")
    return target, merged


def _is_folder(changes: Iterable[Change]) -> bool:
    return all(
        node is None or node.kind == "folder"
        for change in changes
        for node in (change.before, change.after)
    )


def _look(workspace: Workspace, objects: Objects, name: str) -> Node | None:
    path = workspace.root / name
    try:
        if workspace.resolve(path, follow=False) != path:
            raise Conflict("a folder on the way to it is a link now")
        status = os.lstat(path)
        if stat.S_ISREG(status.st_mode) and status.st_size > KEEP_LIMIT:
            raise Conflict(f"it is larger than {KEEP_LIMIT:,} bytes now, too large to be kept")
        return _read(path, status, objects)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ToolError:
        raise Conflict("a folder on the way to it is a link now") from None
    except OSError as error:
        raise Conflict(f"it cannot be read: {error.strerror}") from None


def _read(path: Path, status: os.stat_result, objects: Objects) -> Node | None:
    try:
        return node_at(path, lambda data: objects.put([data])[0])
    except PermissionError:  # the user's own file, that may not be read: for a moment it may
        mode = stat.S_IMODE(status.st_mode)
        if not stat.S_ISREG(status.st_mode) or mode & 0o400:
            raise
        _chmod(path, mode | 0o400)
        try:
            node = node_at(path, lambda data: objects.put([data])[0])
        finally:
            _chmod(path, mode)
        return node and Node("file", mode, node.hash)


def _without(objects: Objects, now: Node | None, change: Change) -> Node | None:
    """Return what is at a path without a change: what was there before it, with what others did
    since.
    """
    before = change.before
    after = change.after
    if now in (before, after):
        return before
    if now is None:
        if before is None:
            return None
        raise Conflict("it was deleted since")
    if (
        now.kind == "folder"
        and (after is None or after.kind == "folder")
        and (before is None or before.kind == "folder")
    ):
        return before and Node(
            "folder", _pick(now.mode, after.mode if after else before.mode, before.mode)
        )
    if before is None or after is None:
        raise Conflict("it was changed since" if before is None else "there is something else now")
    if {now.kind, before.kind, after.kind} != {"file"}:
        raise Conflict("it is something else now")
    mode = _pick(now.mode, after.mode, before.mode)
    return Node("file", mode, _merge(objects, now.hash, after.hash, before.hash))


def _pick(now: int, after: int, before: int) -> int:
    if now == after:
        return before
    if after == before or now == before:
        return now
    raise Conflict("its permissions were changed since")


def _merge(objects: Objects, now: str, after: str, before: str) -> str:
    """Merge three contents: from ``after``, one way to ``now`` and one back to ``before``."""
    if now in (after, before):
        return before
    if after == before:
        return now
    texts = [objects.get(name) for name in (after, now, before)]
    found = [text for text in texts if text is not None]
    if len(found) < 3:
        raise Conflict("it was changed since, and a content needed to merge is not kept any more")
    if any(b"\0" in text[:8192] or len(text) > MERGE_BYTES for text in found):
        raise Conflict("it was changed since, and is no text that could be merged")
    from merge3 import Merge3  # only where something is to be merged

    base, ours, theirs = (text.splitlines(keepends=True) for text in found)
    groups = list(Merge3(base, ours, theirs).merge_groups())
    if any(group[0] == "conflict" for group in groups):
        raise Conflict("it was changed since, in the same lines")
    return objects.put([b"".join(line for group in groups for line in group[1])])[0]


# --- the work -------------------------------------------------------------------------------------


def carry_out(workspace: Workspace, objects: Objects, steps: Sequence[Change]) -> None:
    """Do all steps or none.

    Raises:
        HilumError: One failed; those before it were taken back (the message says so if that failed
            too).
    """
    done: list[Change] = []
    try:
        _do(workspace, objects, steps, done)
    except (OSError, HilumError) as error:
        if isinstance(error, HilumError):
            told = error.message
        else:
            told = f"{error.strerror or error}"
        where = getattr(error, "filename", "") or ""
        what = f"The undo failed{where and f' at {show(str(where))}'}: {told}."
        try:
            _do(workspace, objects, [Change(c.path, c.after, c.before) for c in done], [])
        except (OSError, HilumError) as second:
            raise ToolError(
                f"{what} Taking back its beginning failed too: {second}.",
                hint="hilum undo goes on.",
            ) from error
        raise ToolError(
            f"{what} Everything is as it was before it.", hint="Make it possible, then undo again."
        ) from error


def _do(
    workspace: Workspace, objects: Objects, steps: Sequence[Change], done: list[Change]
) -> None:
    """Do steps in an order that works: away with what is in the way, deepest first.

    Then make, outermost first.
    """
    root = workspace.root
    modes = _unlock(root, steps)
    ordered = sorted(steps, key=lambda step: unspell(step.path))
    try:
        for step in reversed(ordered):
            if step.before and (step.after is None or step.after.kind != step.before.kind):
                _remove(workspace, unspell(step.path), step.before, final=step.after is None)
                done.append(Change(step.path, step.before, None))
        for step in ordered:
            if step.after is not None:
                same = step.before is not None and step.before.kind == step.after.kind
                _make(
                    workspace,
                    objects,
                    unspell(step.path),
                    step.before if same else None,
                    step.after,
                )
                done.append(Change(step.path, step.before if same else None, step.after))
                if step.after.kind == "folder":
                    modes[root / unspell(step.path)] = step.after.mode
    finally:
        for folder, mode in sorted(modes.items(), reverse=True):
            with suppress(FileNotFoundError, NotADirectoryError):
                _chmod(folder, mode)


def _chmod(path: Path, mode: int) -> None:
    if not path.is_symlink():
        path.chmod(mode)


def _unlock(root: Path, steps: Sequence[Change]) -> dict[Path, int]:
    """Let the user write in the folders where something is to be done; gives the modes they had."""
    modes: dict[Path, int] = {}
    for folder in sorted(
        {
            parent
            for step in steps
            for parent in (root / unspell(step.path)).parents
            if parent != root
        }
    ):
        with suppress(FileNotFoundError, NotADirectoryError):
            status = os.lstat(folder)
            mode = stat.S_IMODE(status.st_mode)
            if (
                folder.is_relative_to(root)
                and stat.S_ISDIR(status.st_mode)
                and mode & 0o700 != 0o700
            ):
                _chmod(folder, mode | 0o700)
                modes[folder] = mode
    return modes


@contextmanager
def _exactly(workspace: Workspace, name: str, *, make: bool = False) -> Iterator[Place]:
    """Hold open the folder of a path that was planned.

    A program of the agent's may go on running and put a link in the way after the plan was made: no
    link is followed, to outside of the workspace or to another place in it.
    """
    path = workspace.root / name
    with workspace.at(path, make=make, follow=False) as place:
        if place.path != path:
            raise ToolError(
                f"A folder on the way to {show(name)} is a link now.", code=errors.E_STALE
            )
        yield place


def _remove(workspace: Workspace, name: str, node: Node, *, final: bool) -> None:
    with _exactly(workspace, name) as place:
        if node.kind != "folder":
            os.unlink(place.name, dir_fd=place.folder)
            return
        try:
            os.rmdir(place.name, dir_fd=place.folder)
        except OSError:
            if not final:
                raise  # else something of others is in it


def _make(
    workspace: Workspace, objects: Objects, name: str, before: Node | None, node: Node
) -> None:
    path = workspace.root / name
    if node.kind == "folder":
        with _exactly(workspace, name, make=True) as place:
            if not stat.S_ISDIR(_mode_at(place)):
                os.mkdir(place.name, dir_fd=place.folder)
            _chmod(path, node.mode | 0o700)  # its own mode when everything is in it
        return
    if before is not None and before.hash == node.hash:
        with _exactly(workspace, name):
            _chmod(path, node.mode)
        return
    data = objects.get(node.hash)
    if data is None:
        raise ToolError(
            f"The content of {show(name)} is not kept any more.", code=errors.E_NOT_FOUND
        )
    with _exactly(workspace, name, make=True) as place:
        if node.kind == "link":
            with suppress(FileNotFoundError):
                os.unlink(place.name, dir_fd=place.folder)
            os.symlink(os.fsdecode(data), place.name, dir_fd=place.folder)
            return
        if stat.S_ISLNK(_mode_at(place)):
            raise ToolError(f"{show(name)} is a link now.", code=errors.E_STALE)
        replace(workspace, path, data, mode=node.mode)


def _mode_at(place: Place) -> int:
    """Return the kind and permissions of what is at a place; 0 for nothing."""
    try:
        return os.stat(place.name, dir_fd=place.folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return 0


def undone(plan: Plan, name: str, what: str) -> Record:
    """Return the record of an undo."""
    return Record(id=name, changes=plan.steps, tool="undo", what=what, undoes=plan.undoes)
