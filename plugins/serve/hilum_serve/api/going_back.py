"""Operations that undo: undo and redo of file changes, and going back to an earlier prompt.

Each change has a preview. The previews and the changes are those of the terminal's ``/undo``,
``/redo`` and ``/rewind``.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from hilum import (
    BackgroundCommands,
    RewindPoint,
    UsageError,
    find_history,
    find_rewind_points,
    preview_since,
    rewind,
)
from hilum.errors import E_BAD_ARGS, E_NOT_FOUND, E_UNKNOWN
from hilum.events import AnyEvent
from hilum.services import UndoPreview

from hilum_serve.api.shared_types import Seq, refuse_shared, refuse_while_working
from hilum_serve.hub import HostedSession
from hilum_serve.operations import Call, operation
from hilum_serve.problems import Problem
from hilum_serve.seen import deciding_alone
from hilum_serve.shown_files import DiffFacts, describe_diffs


class PreviewFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What an undo changes.

    Attributes:
        diffs: The files that change, from their current to their new content.
        merged: Files that others have changed since, whose changes are kept.
        skipped: Files that are not restored, each with the reason.
        unrecorded: Commands whose changes are unknown and not undone.
        still_running: Background commands that may change files meanwhile.
    """

    diffs: list[DiffFacts]
    merged: list[str]
    skipped: dict[str, str]
    unrecorded: list[str]
    still_running: list[str]


class UndoRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A part of the session's file history.

    Attributes:
        scope: The kind of part. ``session`` is everything; ``since`` is everything after an event;
            ``undo`` is an undo, which is thereby redone.
        name: Id of the call, turn, run or undo, or the number of the event; empty for the latest
            part that changed something.
        merge: Whether files that others have changed since are restored, too, keeping the changes
            of the others.
    """

    scope: Literal["call", "turn", "run", "session", "since", "undo"] = "run"
    name: Annotated[str, msgspec.Meta(max_length=300)] = ""
    merge: bool = True


class RewindChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt that one can go back to.

    Attributes:
        to: Number of the last event before the prompt.
        text: The prompt.
        at: Unix time at which its run began.
        run: Id of its run.
        files: The files that its run changed.
        added: Number of lines that it added.
        removed: Number of lines that it removed.
        unrecorded: Number of commands whose changes are unknown.
    """

    to: int
    text: str
    at: float
    run: str
    files: list[str]
    added: int
    removed: int
    unrecorded: int


class RewindChoices(msgspec.Struct, frozen=True):
    """The prompts that one can go back to, oldest first."""

    points: list[RewindChoice]


class RewindPreviewRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Where to go back.

    Attributes:
        to: Number of the last event before a prompt, as in ``GET …/rewind``.
        merge: As in ``UndoRequest``.
    """

    to: Seq
    merge: bool = False


class RewindRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Where to go back, and what to restore.

    Attributes:
        to: Number of the last event before a prompt, as in ``GET …/rewind``.
        conversation: Whether to continue the conversation in a copy that ends there.
        files: Whether to restore the files.
        merge: As in ``UndoRequest``.
    """

    to: Seq
    conversation: bool
    files: bool
    merge: bool = False


class Rewound(msgspec.Struct, frozen=True):
    """The outcome of going back.

    Attributes:
        session: Id of the session in which the conversation continues; the same one if only files
            were restored.
        text: The prompt, to be edited and sent again; empty if the conversation stays.
    """

    session: str
    text: str


async def _describe_preview(hosted: HostedSession, preview: UndoPreview | None) -> PreviewFacts:
    commands = hosted.session.plugin(BackgroundCommands)
    running = [command.title for command in commands.running()] if commands else []
    if preview is None:
        return PreviewFacts(diffs=[], merged=[], skipped={}, unrecorded=[], still_running=running)
    return PreviewFacts(
        diffs=await describe_diffs(hosted.session, preview.diffs),
        merged=list(preview.merged),
        skipped=dict(preview.skipped),
        unrecorded=list(preview.unrecorded),
        still_running=running,
    )


def _files_changed_at(call: Call[Any, Any]) -> int:
    """Return the sequence number of the last change of files."""
    return call.hosted.view.files_seq


def _changed_at(call: Call[Any, Any]) -> int:
    """Return the sequence number of the last change of files or of the conversation."""
    view = call.hosted.view
    newest = view.entries[-1].seq if view.entries else 0
    return max(view.files_seq, newest)


def read_part(scope: str, name: str) -> tuple[Any, str]:
    """Return the scope and the name of a part of the history, as ``FileHistory`` takes them.

    Raises:
        Problem: The name is not the number of an event (404).
    """
    if scope == "session" or (scope == "since" and not name):
        return "since", "0"
    if scope == "since" and not (name.isascii() and name.isdigit() and len(name) < 16):
        raise Problem(
            404, E_NOT_FOUND, "There is no such event.", "The name is the number of an event."
        )
    return scope, name


# --- undo and redo ----------------------------------------------------------------------------------


@operation(
    "POST",
    "/api/sessions/{session}/undo/preview",
    rights="prompt",
    body=UndoRequest,
    returns=PreviewFacts,
)
async def preview_undo(call: Call[None, UndoRequest]) -> PreviewFacts:
    """Show what an undo of file changes would do."""
    scope, name = read_part(call.body.scope, call.body.name)
    history = find_history(call.hosted.session)
    preview = await history.preview_undo(scope, name, merge=call.body.merge)
    return await _describe_preview(call.hosted, preview)


@operation(
    "POST",
    "/api/sessions/{session}/undo",
    rights="approve",
    body=UndoRequest,
    returns=PreviewFacts,
    decides=_files_changed_at,
)
async def undo(call: Call[None, UndoRequest]) -> PreviewFacts:
    """Undo file changes; what was undone is returned."""
    return await _undo(call, *read_part(call.body.scope, call.body.name), merge=call.body.merge)


@operation(
    "POST",
    "/api/sessions/{session}/redo/preview",
    rights="prompt",
    returns=PreviewFacts,
)
async def preview_redo(call: Call[None, None]) -> PreviewFacts:
    """Show what undoing the last undo would do."""
    preview = await find_history(call.hosted.session).preview_undo("undo", "")
    return await _describe_preview(call.hosted, preview)


@operation(
    "POST",
    "/api/sessions/{session}/redo",
    rights="approve",
    returns=PreviewFacts,
    decides=_files_changed_at,
)
async def redo(call: Call[None, None]) -> PreviewFacts:
    """Undo the last undo; what changed is returned."""
    return await _undo(call, "undo", "", merge=True)


async def _undo(call: Call[Any, Any], scope: Any, name: str, *, merge: bool) -> PreviewFacts:
    hosted = call.hosted
    history = find_history(hosted.session)
    async with deciding_alone(call, _files_changed_at):
        preview = await history.preview_undo(scope, name, merge=merge)
        # Files that the preview skips are skipped; the user saw them before agreeing.
        await history.undo(scope, name, keep_going=bool(preview.skipped), merge=merge)
    return await _describe_preview(hosted, preview)


# --- going back to a prompt -------------------------------------------------------------------------


async def _find_points(hosted: HostedSession) -> list[RewindPoint]:
    """Return the prompts of the main agent that one can go back to."""
    events: list[AnyEvent] = []
    store = hosted.session.kernel.store
    # A long log is read in many pages, each in a thread, and other requests are handled meanwhile.
    while page := await store.read(hosted.id, events[-1].seq if events else 0):
        events += page
    return find_rewind_points(events)


async def _find_point(hosted: HostedSession, to: int) -> RewindPoint:
    for point in await _find_points(hosted):
        if point.before == to:
            return point
    raise Problem(
        404, E_UNKNOWN, f"No prompt follows event {to}.", "GET …/rewind lists the prompts."
    )


@operation("GET", "/api/sessions/{session}/rewind", rights="watch", returns=RewindChoices)
async def list_rewind_points(call: Call[None, None]) -> RewindChoices:
    """List the prompts that one can go back to."""
    hosted = call.hosted
    points = await _find_points(hosted)
    changes = {}
    try:
        history = find_history(hosted.session)
        changes = dict(await history.summarize_runs([point.run for point in points]))
    except UsageError:
        pass  # without a history, only the conversation can go back
    choices = []
    for point in points:
        changed = changes.get(point.run)
        choices.append(
            RewindChoice(
                to=point.before,
                text=point.text,
                at=point.at,
                run=point.run,
                files=list(changed.files) if changed else [],
                added=changed.added if changed else 0,
                removed=changed.removed if changed else 0,
                unrecorded=changed.unrecorded if changed else 0,
            )
        )
    return RewindChoices(choices)


@operation(
    "POST",
    "/api/sessions/{session}/rewind/preview",
    rights="prompt",
    body=RewindPreviewRequest,
    returns=PreviewFacts,
)
async def preview_rewind(call: Call[None, RewindPreviewRequest]) -> PreviewFacts:
    """Show which files going back to a prompt would restore."""
    hosted = call.hosted
    point = await _find_point(hosted, call.body.to)
    history = find_history(hosted.session)
    preview = await preview_since(history, point.before, merge=call.body.merge)
    return await _describe_preview(hosted, preview)


@operation(
    "POST",
    "/api/sessions/{session}/rewind",
    rights="approve",
    body=RewindRequest,
    returns=Rewound,
    decides=_changed_at,
)
async def rewind_session(call: Call[None, RewindRequest]) -> Rewound:
    """Go back to before a prompt: the conversation, the files or both. Nothing is lost."""
    hosted = call.hosted
    wanted = call.body
    async with deciding_alone(call, _changed_at):
        refuse_while_working(hosted.session, "it cannot go back")
        point = await _find_point(hosted, wanted.to)
        if not (wanted.conversation or wanted.files):
            raise Problem(400, E_BAD_ARGS, "Choose the conversation, the files or both.")
        if wanted.conversation:
            refuse_shared(hosted, "Go back there, or restore only the files here.")
        if wanted.files:
            history = find_history(hosted.session)
            if await preview_since(history, point.before, merge=wanted.merge) is None:
                raise Problem(404, E_NOT_FOUND, "No files have been changed since then.")
        copy = await rewind(
            hosted.session,
            point.before,
            conversation=wanted.conversation,
            files=wanted.files,
            merge=wanted.merge,
        )
    return Rewound(copy or hosted.id, point.text if copy else "")
