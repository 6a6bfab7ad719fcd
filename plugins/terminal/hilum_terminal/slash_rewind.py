"""``/rewind``: goes back to an earlier prompt.

Nothing is lost. The conversation continues in a copy of the session that ends before the prompt;
the original session keeps everything and can be resumed. Files are restored by an undo, which is
recorded in the original session and can be undone there.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Literal

import attrs
from hilum import (
    BackgroundCommands,
    FileHistory,
    RewindPoint,
    find_rewind_points,
    preview_since,
)
from hilum import rewind as go_back
from hilum.services import RunChanges, UndoPreview
from hilum_view import Card, Prompt, SessionView, first_line

from hilum_terminal.chat_protocol import Chat, Choice
from hilum_terminal.slash_arguments import refuse_arguments
from hilum_terminal.slash_files import (
    count,
    describe_limits,
    list_names,
    say_diffs,
)
from hilum_terminal.slash_rows import format_time
from hilum_terminal.slash_session import read_events, reopen_copy, stop_work

Part = Literal["conversation", "both", "files"]
PREVIEW_CHARACTERS = 2_000
STAYS = (
    "Not undone: what was sent over the network, Git commits and the Git index, files outside this"
    " folder, and processes that commands left running."
)


@attrs.frozen
class FileChoice:
    """The user's choice of how to restore files.

    Attributes:
        preview: The changes that an undo would make.
        merge: Whether to also restore files that others have changed since.
    """

    preview: UndoPreview
    merge: bool


async def rewind(chat: Chat, arguments: str) -> None:
    """Go back to an earlier prompt: the conversation, the files or both."""
    refuse_arguments("rewind", arguments)
    session = chat.session
    points = find_rewind_points(await read_events(session), chat.view.lead)
    if not points:
        chat.say("There is no prompt to go back to yet.", style="dim")
        return
    history = session.plugin(FileHistory)
    point = await _choose_point(chat, points, history)
    if point is None:
        return
    part = await _choose_part(chat, point, history)
    if part is None or not await stop_work(chat, "to go back"):
        return
    files: FileChoice | None = None
    if part != "conversation" and history is not None:
        # The files are read after the work has stopped, because it may have changed more files.
        files = await _choose_files(chat, point, history)
        if files is None:
            chat.say("Nothing was changed.", style="dim")
            return
    await _go_back(chat, point, part, files)


# --- choosing -------------------------------------------------------------------------------------


async def _choose_point(
    chat: Chat, points: Sequence[RewindPoint], history: FileHistory | None
) -> RewindPoint | None:
    """Let the user choose a prompt; return ``None`` if the user cancels."""
    changes: Mapping[str, RunChanges] = {}
    if history is not None:
        changes = await history.summarize_runs([point.run for point in points])
    choices = [Choice(None, "Now", "keep everything")]
    now = time.time()
    for point in reversed(points):
        changed = changes.get(point.run)
        unwatched = history is None and _ran_commands(chat.view, point.run)
        hint = f"{format_time(point.at, now)} · {_describe_changes(changed, unwatched)}"
        label = first_line(point.text) or "(continued)"
        choices.append(Choice(point, label, hint, _describe_point(point, changed)))
    choice = await chat.choose("Go back to before a prompt", choices)
    if choice is None or not isinstance(choice.value, RewindPoint):
        return None
    return choice.value


def _describe_changes(changed: RunChanges | None, unwatched: bool) -> str:
    """Return a short text with the numbers of files and lines that a prompt changed."""
    if changed is None:
        return "unknown changes" if unwatched else "no files"
    facts = []
    if changed.files:
        lines = f"+{changed.added} −{changed.removed}"
        facts.append(f"{count(len(changed.files), 'file')} {lines}")
    if changed.unrecorded:
        facts.append("unknown changes")
    return ", ".join(facts) or "no files"


def _ran_commands(view: SessionView, run: str) -> bool:
    """Return whether a run made calls that may have changed files."""
    return any(
        card.run == run and card.risk in ("write", "execute") and card.began for card in view.cards
    )


def _describe_point(point: RewindPoint, changed: RunChanges | None) -> str:
    """Return the text of a prompt, and the files that its run changed."""
    text = point.text[:PREVIEW_CHARACTERS]
    if changed is None or not changed.files:
        return text
    return f"{text}\n\nChanged: {list_names(changed.files)}"


async def _choose_part(chat: Chat, point: RewindPoint, history: FileHistory | None) -> Part | None:
    """Let the user choose what to restore. An option that changes no files is selected at first."""
    preview = None
    if history is not None:
        preview = await preview_since(history, point.before, merge=False)
    left = _describe_left_behind(chat.view, point.before)
    choices = [Choice("conversation", "Conversation only", f"files stay as they are; {left}")]
    if preview is not None and (preview.diffs or preview.skipped):
        names = list_names([diff.path for diff in preview.diffs])
        hint = f"restores {count(len(preview.diffs), 'file')}"
        choices.append(Choice("both", "Conversation and files", hint, names))
        choices.append(Choice("files", "Files only", f"{hint}; the conversation stays", names))
    choices.append(Choice(None, "Cancel"))
    choice = await chat.choose("Restore", choices)
    if choice is None or choice.value is None:
        return None
    part: Part = choice.value  # type: ignore[assignment]
    return part


def _describe_left_behind(view: SessionView, seq: int) -> str:
    """Return a text with the numbers of prompts and calls after an event."""
    later = [entry for entry in view.entries if entry.seq > seq and entry.agent == view.lead]
    prompts = sum(isinstance(entry, Prompt) for entry in later)
    calls = sum(isinstance(entry, Card) for entry in later)
    return f"{count(prompts, 'prompt')} and {count(calls, 'call')} are left behind"


async def _choose_files(chat: Chat, point: RewindPoint, history: FileHistory) -> FileChoice | None:
    """Show how the files would change, and ask the user how to restore them."""
    skipping = await preview_since(history, point.before, merge=False)
    merging = await preview_since(history, point.before, merge=True)
    if skipping is None or merging is None:
        chat.say("No files have been changed since then.", style="dim")
        return None
    say_diffs(chat, skipping.diffs or merging.diffs, is_planned=True)
    details = "\n".join(filter(None, (describe_limits(skipping), _describe_rest(chat))))
    if not merging.merged:
        question = f"Restore {count(len(skipping.diffs), 'file')}?"
        agreed = bool(skipping.diffs) and await chat.confirm(
            question, yes="Restore", details=details
        )
        return FileChoice(skipping, merge=False) if agreed else None
    chat.say(details, style="warning")
    choices = [Choice(None, "Cancel")]
    if skipping.diffs:
        restored = count(len(skipping.diffs), "file")
        choices.append(
            Choice(
                FileChoice(skipping, merge=False),
                f"Restore {restored}",
                f"skip {list_names(merging.merged)}, changed since by something else",
            )
        )
    choices.append(
        Choice(
            FileChoice(merging, merge=True),
            f"Restore {count(len(merging.diffs), 'file')}",
            f"merge {list_names(merging.merged)}: keep what something else changed since",
        )
    )
    choice = await chat.choose("Some files were changed since by something else", choices)
    if choice is None or not isinstance(choice.value, FileChoice):
        return None
    return choice.value


def _describe_rest(chat: Chat) -> str:
    """Return a text about what no undo restores, including running commands."""
    commands = chat.session.plugin(BackgroundCommands)
    running = [command.title for command in commands.running()] if commands else []
    if running:
        return f"{STAYS}\nStill running: {list_names(running)} (/stop ends them)"
    return STAYS


# --- going back -----------------------------------------------------------------------------------


async def _go_back(chat: Chat, point: RewindPoint, part: Part, files: FileChoice | None) -> None:
    session = chat.session
    copy = await go_back(
        session,
        point.before,
        conversation=part != "files",
        files=files is not None,
        merge=files is not None and files.merge,
    )
    if files is not None:
        _say_restored(chat, files, stays=not copy)
    if copy:
        await reopen_copy(chat, copy, point.text)
        text = (
            "You are back before that prompt. To return to the earlier conversation:"
            f" /resume {session.id}"
        )
        chat.say(text, style="dim")


def _say_restored(chat: Chat, files: FileChoice, *, stays: bool) -> None:
    """Say which files were restored, and how to redo the changes.

    Args:
        chat: The conversation.
        files: The choice of how to restore the files.
        stays: Whether the conversation stays in this session.
    """
    restored = list_names([diff.path for diff in files.preview.diffs])
    # The undo belongs to this session, not to the copy in which the conversation continues.
    back = "/redo" if stays else f"hilum undo undo --session {chat.session.id}"
    chat.say(f"Restored: {restored}. To redo the changes: {back}", style="dim")
    if files.preview.skipped:
        chat.say(f"Skipped: {list_names(list(files.preview.skipped))}", style="warning")
