"""The file history of a session that another process has open.

The owner reads and changes its history, and sends the outcome as data. ``JoinedHistory`` is the
service with which a joined session asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeVar

import msgspec

from hilum.errors import E_BUSY, E_TOO_LARGE, StoreError, UsageError
from hilum.services import (
    CallChanges,
    FileDiff,
    FileHistory,
    HistoryScope,
    RunChanges,
    UndoPreview,
)
from hilum.sharing.messages import (
    MAX_MESSAGE,
    DiffFiles,
    HistoryOperation,
    ListChangingCalls,
    PreviewUndo,
    SummarizeRuns,
    Undo,
)

if TYPE_CHECKING:
    from hilum.sharing.joined_session import JoinedSession

T = TypeVar("T")
MAX_OUTCOME = MAX_MESSAGE - 100_000
"""Maximum size of an outcome in bytes; the rest of a message fits into the difference."""


class SentDiff(msgspec.Struct, frozen=True):
    """The changes to one file. Implements ``FileDiff``."""

    path: str
    what: Literal["created", "deleted", "changed"]
    diff: str
    note: str
    added: int
    removed: int


class SentPreview(msgspec.Struct, frozen=True):
    """What an undo would do. Implements ``UndoPreview``."""

    diffs: tuple[SentDiff, ...]
    merged: tuple[str, ...]
    skipped: dict[str, str]
    unrecorded: tuple[str, ...]


class SentRunChanges(msgspec.Struct, frozen=True):
    """The files that a run changed. Implements ``RunChanges``."""

    files: tuple[str, ...]
    added: int
    removed: int
    unrecorded: int


class SentCallChanges(msgspec.Struct, frozen=True):
    """The changes by one call. Implements ``CallChanges``."""

    name: str
    call: str
    agent: str
    run: str
    tool: str
    what: str
    at: float
    files: tuple[str, ...]
    added: int
    removed: int


# --- the owner --------------------------------------------------------------------------------------


async def perform_on_history(history: FileHistory, operation: HistoryOperation) -> msgspec.Raw:
    """Carry out what a joined session asks of the owner's history, and return the outcome as JSON.

    Raises:
        HilumError: The history refuses it, or the outcome does not fit into a message.
    """
    outcome: object = None
    match operation:
        case DiffFiles(scope, name):
            outcome = _copy_diffs(await history.diff(scope, name))
        case PreviewUndo(scope, name, merge):
            outcome = _copy_preview(await history.preview_undo(scope, name, merge=merge))
        case Undo(scope, name, keep_going, merge):
            await history.undo(scope, name, keep_going=keep_going, merge=merge)
        case SummarizeRuns(runs):
            changes = await history.summarize_runs(runs)
            outcome = {run: _copy_run(each) for run, each in changes.items()}
        case ListChangingCalls(limit):
            calls = await history.list_calls(limit)
            outcome = [_copy_call(each) for each in calls]
    data = msgspec.json.encode(outcome)
    if len(data) > MAX_OUTCOME:
        raise UsageError(
            "The changes are too large to be shown in another terminal.",
            code=E_TOO_LARGE,
            hint="Look at them in the terminal that has the session open.",
        )
    return msgspec.Raw(data)


def _copy_diffs(diffs: Iterable[FileDiff]) -> tuple[SentDiff, ...]:
    return tuple(
        SentDiff(each.path, each.what, each.diff, each.note, each.added, each.removed)
        for each in diffs
    )


def _copy_preview(preview: UndoPreview) -> SentPreview:
    return SentPreview(
        diffs=_copy_diffs(preview.diffs),
        merged=tuple(preview.merged),
        skipped=dict(preview.skipped),
        unrecorded=tuple(preview.unrecorded),
    )


def _copy_run(changes: RunChanges) -> SentRunChanges:
    return SentRunChanges(tuple(changes.files), changes.added, changes.removed, changes.unrecorded)


def _copy_call(changes: CallChanges) -> SentCallChanges:
    return SentCallChanges(
        name=changes.name,
        call=changes.call,
        agent=changes.agent,
        run=changes.run,
        tool=changes.tool,
        what=changes.what,
        at=changes.at,
        files=tuple(changes.files),
        added=changes.added,
        removed=changes.removed,
    )


# --- the joined session -----------------------------------------------------------------------------


class JoinedHistory:
    """The history of the owner's files. Implements ``FileHistory``."""

    def __init__(self, session: JoinedSession) -> None:
        self._session = session

    async def diff(self, scope: HistoryScope = "run", name: str = "") -> Sequence[FileDiff]:
        """Return the changes in a part of the history that are still in effect."""
        return await self._ask(DiffFiles(scope, name), tuple[SentDiff, ...])

    async def preview_undo(
        self, scope: HistoryScope = "run", name: str = "", *, merge: bool = True
    ) -> UndoPreview:
        """Return what ``undo`` would do."""
        return await self._ask(PreviewUndo(scope, name, merge), SentPreview)

    async def undo(
        self,
        scope: HistoryScope = "run",
        name: str = "",
        *,
        keep_going: bool = False,
        merge: bool = True,
    ) -> object:
        """Undo a part of the history."""
        return await self._ask(Undo(scope, name, keep_going, merge), type(None))

    async def summarize_runs(self, runs: Sequence[str]) -> Mapping[str, RunChanges]:
        """Return what each of several runs changed."""
        return await self._ask(SummarizeRuns(tuple(runs)), dict[str, SentRunChanges])

    async def list_calls(self, limit: int = 50) -> Sequence[CallChanges]:
        """Return the last calls whose changes are still in effect, newest first."""
        return await self._ask(ListChangingCalls(limit), tuple[SentCallChanges, ...])

    async def _ask(self, operation: HistoryOperation, kind: type[T]) -> T:
        """Request an operation from the owner, and return the outcome.

        Raises:
            HilumError: The owner refuses it, has left, or sent something else.
        """
        reply = await self._session.request(operation)
        try:
            return msgspec.json.decode(reply.data, type=kind)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise StoreError(
                f"The terminal that has the session open sent something unreadable: {error}.",
                code=E_BUSY,
                hint="Use the same version of hilum in both terminals.",
            ) from None


if TYPE_CHECKING:

    def _conforms(session: JoinedSession) -> FileHistory:
        return JoinedHistory(session)
