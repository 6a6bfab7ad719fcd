"""Going back to an earlier prompt of a session: the conversation, the files or both.

Nothing is lost. The conversation continues in a copy of the session that ends before the prompt;
the original session keeps everything and can be resumed. Files are restored by an undo, which is
recorded in the original session and can be undone there.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from hilum.errors import E_NOT_FOUND, E_NOT_INSTALLED, HilumError, UsageError
from hilum.events import Event, PromptQueued, RunEnded, RunRetried, RunStarted
from hilum.services import FileHistory, UndoPreview
from hilum.session import Session


@attrs.frozen
class RewindPoint:
    """A prompt that the user can go back to.

    Attributes:
        text: The prompt as the user typed it.
        at: Unix time at which the prompt's run began.
        run: Id of its run.
        before: Number of the last event before the prompt.
    """

    text: str
    at: float
    run: str
    before: int


def find_rewind_points(events: Iterable[Event], agent: str = "main") -> list[RewindPoint]:
    """Return an agent's prompts whose runs have started, oldest first.

    Args:
        events: All events of the session.
        agent: The agent that the user talks to.
    """
    points: list[RewindPoint] = []
    # The number of the last event before each prompt that has not started; 0 if the prompt was
    # queued.
    waiting: dict[str, int] = {}
    # What the user typed, by run, if a plugin replaced the text of the prompt.
    typed: dict[str, str] = {}
    running = ""
    for event in events:
        if event.agent != agent:
            continue
        if isinstance(event, PromptQueued):
            # A prompt that waits for another run comes after the end of that run.
            typed[event.run] = event.typed
            is_behind = bool(running or waiting)
            waiting[event.run] = 0 if is_behind else event.seq - 1
        elif isinstance(event, RunStarted):
            running = event.run
            before = waiting.pop(event.run, 0) or event.seq - 1
            text = typed.pop(event.run, "") or event.text
            if event.repeats is not None:
                # The user typed nothing that could be sent again.
                text = ""
            points.append(RewindPoint(text, event.at, event.run, before))
        elif isinstance(event, RunRetried):
            running = event.run
        elif isinstance(event, RunEnded):
            waiting.pop(event.run, None)
            if event.run == running:
                running = ""
    return points


def find_history(session: Session) -> FileHistory:
    """Return the history of a session's files.

    Raises:
        UsageError: The session records no file changes.
    """
    history = session.plugin(FileHistory)
    if history is None:
        raise UsageError(
            "This session does not record file changes.",
            code=E_NOT_INSTALLED,
            hint="Install hilum-files, or enable the plugin files.",
        )
    return history


async def preview_since(history: FileHistory, seq: int, *, merge: bool) -> UndoPreview | None:
    """Preview an undo of everything after an event; return ``None`` if no file changed.

    Args:
        history: The history of the session's files.
        seq: Number of the event.
        merge: Whether files that others have changed since are restored, too.
    """
    try:
        return await history.preview_undo("since", str(seq), merge=merge)
    except HilumError as error:
        if error.code == E_NOT_FOUND:
            return None
        raise


async def rewind(
    session: Session, before: int, *, conversation: bool, files: bool, merge: bool = False
) -> str:
    """Return the conversation to its state before a prompt.

    If the files cannot be restored, nothing has changed. The caller stops the runs first.

    Args:
        session: The session.
        before: Number of the last event before the prompt, as in ``RewindPoint``.
        conversation: Whether to copy the conversation up to there.
        files: Whether to restore the files.
        merge: Whether files that others have changed since are restored, too.

    Returns:
        Id of the copy in which the conversation continues; empty if it stays in this session.

    Raises:
        HilumError: The copy cannot be written, or the files cannot be restored.
    """
    copy = ""
    if conversation:
        # The copy is written before the files are restored, so that nothing has changed if writing
        # the copy fails.
        copy = await session.kernel.fork(session.id, before, queued=False)
    if files:
        try:
            history = find_history(session)
            await history.undo("since", str(before), keep_going=True, merge=merge)
        except HilumError:
            if copy:
                await session.kernel.store.delete(copy)
            raise
    return copy
