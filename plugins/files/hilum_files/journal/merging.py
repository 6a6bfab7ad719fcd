"""Merges three versions of content that several sessions, programs or people changed."""

from __future__ import annotations

from hilum_files.journal.content_store import ContentStore
from hilum_files.journal.records import Change
from hilum_files.journal.tree_entries import Node

MAX_MERGE_BYTES = 2_000_000
# Like Git, which searches only the first 8,000 bytes of a file for a null byte.
_BINARY_CHECK_BYTES = 8192


class Conflict(Exception):
    """Raised if a path cannot be restored; the message is the reason."""


def revert(store: ContentStore, now: Node | None, change: Change) -> Node | None:
    """Return the state of a path without one change, but with the changes that others made later.

    Raises:
        Conflict: Others changed the same lines.
    """
    return reapply(store, now, change.after, change.before)


def reapply(
    store: ContentStore,
    now: Node | None,
    base: Node | None,
    goal: Node | None,
    *,
    force: bool = False,
) -> Node | None:
    """Return the result of applying a change to a different base than the original one.

    Args:
        store: The store of contents.
        now: The current state of the path.
        base: The state when the change was made.
        goal: The state that the change originally produced.
        force: Whether the change wins if it affects the same lines as the difference between
            ``base`` and ``now``.

    Raises:
        Conflict: Both differences affect the same lines, or one of the contents is not text.
    """
    # The path was not changed otherwise, or the change has already been applied.
    if now in (goal, base):
        return goal
    if base == goal:
        return now
    try:
        return _merge_nodes(store, now, base, goal, force=force)
    except Conflict:
        if force:
            return goal
        raise


def _merge_nodes(
    store: ContentStore, now: Node | None, base: Node | None, goal: Node | None, *, force: bool
) -> Node | None:
    if now is None:
        raise Conflict("it has since been deleted")
    kinds = {node.kind for node in (now, base, goal) if node is not None}
    if kinds == {"folder"}:
        return _merge_folders(now, base, goal)
    if goal is None:
        raise Conflict("it has since changed")
    if base is None:
        raise Conflict("something else is there now")
    # Links cannot be merged, because a link has only one target.
    if kinds != {"file"}:
        raise Conflict("it is something else now")
    mode = _merge_modes(now.mode, base.mode, goal.mode)
    content = _merge_contents(store, now.hash, base.hash, goal.hash, force=force)
    return Node("file", mode, content)


def _merge_folders(now: Node, base: Node | None, goal: Node | None) -> Node | None:
    if goal is None:
        return None
    old_mode = base.mode if base else goal.mode
    return Node("folder", _merge_modes(now.mode, old_mode, goal.mode))


def _merge_modes(now: int, base: int, goal: int) -> int:
    if now == base:
        return goal
    if base == goal or now == goal:
        return now
    raise Conflict("its permissions have since changed")


def _merge_contents(store: ContentStore, now: str, base: str, goal: str, *, force: bool) -> str:
    """Merge two changes to ``base``, one to ``now`` and one to ``goal``; all are content hashes."""
    if now in (base, goal):
        return goal
    if base == goal:
        return now
    texts: list[list[bytes]] = []
    for name in (base, now, goal):
        data = store.get(name)
        if data is None:
            raise Conflict("it has since changed, and content needed for a merge is no longer kept")
        if b"\0" in data[:_BINARY_CHECK_BYTES] or len(data) > MAX_MERGE_BYTES:
            raise Conflict("it has since changed, and is not text that can be merged")
        texts.append(data.splitlines(keepends=True))
    return store.put([_merge_lines(*texts, force=force)])[0]


def _merge_lines(base: list[bytes], now: list[bytes], goal: list[bytes], *, force: bool) -> bytes:
    from merge3 import Merge3  # imported only for a merge

    lines: list[bytes] = []
    for group in Merge3(base, now, goal).merge_groups():
        if group[0] != "conflict":
            lines += group[1]
        elif force:
            lines += group[3]  # the lines of ``goal``
        else:
            raise Conflict("it has since changed in the same lines")
    return b"".join(lines)
