"""Computes the state of a path without some changes, from the changes that all sessions recorded.

If the commands of two sessions overlap, both record what either of them changed. One session's
records alone then have gaps, which look like changes by others. The records of all sessions together
have none: they show the states of the path one after another, and for each step from one state to
the next, which calls may have made it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import attrs

from hilum_files.journal.content_store import ContentStore
from hilum_files.journal.merging import Conflict, reapply
from hilum_files.journal.replay import NOT_KEPT
from hilum_files.journal.shared_changes import Key, RecordedChange
from hilum_files.journal.tree_entries import Node


class _Step(NamedTuple):
    """The difference between two successive states.

    Attributes:
        base: The earlier state.
        goal: The later state.
        makers: The changes that include this step; empty if no session recorded it.
    """

    base: Node | None
    goal: Node | None
    makers: tuple[RecordedChange, ...] = ()


class _StepConflict(Conflict):
    """Raised if a step cannot be kept.

    Args:
        reason: As in ``Conflict``.
        makers: The changes that include the step.
    """

    def __init__(self, reason: str, makers: tuple[RecordedChange, ...]) -> None:
        super().__init__(reason)
        self.makers = makers


class _Point(NamedTuple):
    """The beginning or the end of a call.

    Attributes:
        time: Unix time in seconds.
        number: The position of the call's change in the history.
        is_end: Whether the call ends.
        state: The state of the path then.
    """

    time: float
    number: int
    is_end: bool
    state: Node | None


class JointUndo(NamedTuple):
    """What is left of a path if changes of other sessions are undone, too.

    Attributes:
        state: The state of the path.
        merged: Whether later changes were merged into it.
        taken: The changes of other sessions that are left out where they follow the undone ones.
    """

    state: Node | None
    merged: bool
    taken: tuple[Key, ...]


@attrs.frozen
class JointHistory:
    """The changes of all sessions at a path.

    Args:
        session: Id of the session whose changes are undone.
        changes: The changes, in the order in which they were recorded.
    """

    session: str
    changes: Sequence[RecordedChange]
    # The changes, each from the time at which its first state was there to the time of its last.
    _changes: list[RecordedChange] = attrs.field(init=False)

    @_changes.default
    def _find_times(self) -> list[RecordedChange]:
        return [_find_time(change, self.changes) for change in self.changes]

    @property
    def others(self) -> tuple[str, ...]:
        """The other sessions, in the order in which they recorded changes."""
        sessions = dict.fromkeys(change.session for change in self.changes)
        return tuple(session for session in sessions if session != self.session)

    def overlaps(self, records: Collection[str]) -> bool:
        """Return whether a call of another session ran at the same time as one of the records."""
        own = [
            each for each in self.changes if each.session == self.session and each.record in records
        ]
        others = [each for each in self.changes if each.session != self.session]
        return any(
            one.began <= other.at and other.began <= one.at for one in own for other in others
        )

    def replay_without(
        self, store: ContentStore, now: Node | None, records: Collection[str]
    ) -> tuple[Node | None, bool]:
        """Return the state of the path without some records of this session.

        A step that several calls may have made is left out if one of these calls is undone.

        Args:
            store: The store of contents.
            now: The current state of the path.
            records: Ids of the records.

        Returns:
            The state, and whether later changes were merged into it.

        Raises:
            Conflict: A step that is kept affects the same lines as one that is left out.
        """
        kept = self._select_kept(self._list_steps(now), records)
        return self._replay(store, kept)

    def replay_without_others(
        self, store: ContentStore, now: Node | None, records: Collection[str]
    ) -> JointUndo:
        """Return the state of the path without some records, and without others that conflict.

        Args:
            store: As in ``replay_without``.
            now: As in ``replay_without``.
            records: As in ``replay_without``.

        Raises:
            Conflict: Something else affects the same lines.
        """
        others: set[Key] = set()
        steps = self._list_steps(now)
        while True:
            kept = self._select_kept(steps, records, others)
            try:
                state, merged = self._replay(store, kept)
            except _StepConflict as conflict:
                added = {each.key for each in conflict.makers if each.session != self.session}
                if added <= others:
                    raise
                others |= added
                continue
            return JointUndo(state, merged, tuple(sorted(others)))

    def _select_kept(
        self, steps: Sequence[_Step], records: Collection[str], others: Collection[Key] = ()
    ) -> list[_Step]:
        """Return the steps that stay.

        Args:
            steps: All steps; the first one stays if its states are equal.
            records: The records of this session that are undone.
            others: The changes of other sessions that are left out where they follow one of these
                records. What a call of this session may have made stays until that is undone.
        """
        kept = [_Step(steps[0].base, steps[0].base)]
        # The sessions of which something is left out.
        undoing: set[str] = set()
        has_begun = False
        for step in steps:
            own = [each for each in step.makers if each.session == self.session]
            is_selected = any(each.record in records for each in own)
            undone = {each.session for each in step.makers if each.undone and not each.taken}
            if is_selected or undone:
                has_begun |= is_selected
                undoing |= undone
                continue
            # An undo takes the changes of others only where they follow what it undoes.
            follows = any(undoing - {each.session} for each in step.makers)
            if follows and step.makers and all(each.taken for each in step.makers):
                continue
            if own or not has_begun or not any(each.key in others for each in step.makers):
                kept.append(step)
        return kept

    def _replay(self, store: ContentStore, kept: Sequence[_Step]) -> tuple[Node | None, bool]:
        """Return the state after the steps that stay, and whether later changes were merged."""
        content = kept[0].base
        merged = False
        for step in _join_steps(kept):
            if not all(node.kept for node in (step.base, step.goal) if node is not None):
                raise Conflict(NOT_KEPT)
            if content not in (step.base, step.goal):
                merged = True
            try:
                content = reapply(store, content, step.base, step.goal)
            except Conflict as conflict:
                raise _StepConflict(str(conflict), step.makers) from None
        return content, merged

    def _list_points(self) -> list[_Point]:
        """Return the beginnings and ends of all changes, each with the state then, in order."""
        points: list[_Point] = []
        for number, change in enumerate(self._changes):
            points.append(_Point(change.began, number, False, change.before))
            points.append(_Point(change.at, number, True, change.after))
        return sorted(points, key=lambda point: point[:3])

    def _list_steps(self, now: Node | None) -> list[_Step]:
        """Return the differences between successive states, up to the current one."""
        steps: list[_Step] = []
        running: set[int] = set()
        points = self._list_points()
        last = points[0].state
        for point in points:
            if point.state != last:
                steps.append(_Step(last, point.state, tuple(self._find_makers(running))))
            last = point.state
            if point.is_end:
                running.discard(point.number)
            else:
                running.add(point.number)
        # The last step is empty if nobody changed the path since.
        steps.append(_Step(last, now))
        return steps

    def _find_makers(self, running: Collection[int]) -> Iterator[RecordedChange]:
        """Yield the changes of running calls that include what happens now.

        A call of another session that began and ended during a longer call made its change alone:
        the longer call has subtracted it.
        """
        changes = [self._changes[number] for number in sorted(running)]
        for change in changes:
            if not any(_is_within(other, change) for other in changes):
                yield change


def _find_time(change: RecordedChange, changes: Sequence[RecordedChange]) -> RecordedChange:
    """Return a change with the time that is left after other sessions' changes were subtracted."""
    began = change.began
    at = change.at
    subtracted = [other for other in changes if _is_within(other, change)]
    for other in subtracted:
        if other.after == change.before:
            began = other.at
    for other in reversed(subtracted):
        if other.before == change.after and other.began >= began:
            at = other.began
    return change._replace(began=began, at=at)


def _is_within(inner: RecordedChange, outer: RecordedChange) -> bool:
    """Return whether a call ran entirely during a longer one of another session."""
    if inner.session == outer.session:
        return False
    return outer.began <= inner.began and inner.at < outer.at


def _join_steps(steps: Sequence[_Step]) -> list[_Step]:
    """Join successive steps if each starts from the result of the previous one."""
    joined: list[_Step] = []
    for step in steps:
        if joined and joined[-1].goal == step.base:
            joined[-1] = _Step(joined[-1].base, step.goal, joined[-1].makers + step.makers)
        else:
            joined.append(step)
    return joined
