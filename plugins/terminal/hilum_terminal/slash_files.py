"""Commands that show and undo file changes in the open session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast, get_args

from hilum import FileHistory, UsageError, find_history
from hilum.errors import E_BAD_ARGS, E_NOT_FOUND
from hilum.services import FileDiff, HistoryScope, UndoPreview
from hilum_view import Prompt, first_line

from hilum_terminal.chat_protocol import Chat
from hilum_terminal.diff_rows import diff_rows
from hilum_terminal.second_terminal import is_joined
from hilum_terminal.slash_arguments import split_words
from hilum_terminal.styles import Theme
from hilum_terminal.text_width import cut, escape_text

# Maximum number of rows to show from a file's diff.
MAX_DIFF_ROWS = 80
SCOPES = cast("tuple[str, ...]", get_args(HistoryScope))
# Maximum number of files and commands to name in a question.
MAX_NAMED = 10
# What an undo will do to a file, by the kind of change.
PLANNED = {"created": "will recreate", "deleted": "will delete", "changed": "will restore"}


# --- /diff ----------------------------------------------------------------------------------------


async def show_diff(chat: Chat, arguments: str) -> None:
    """Show file changes."""
    words = split_words(arguments)
    if "--list" in words:
        output = await chat.run_hilum(["diff", "--list", "--session", chat.session.id])
        chat.say((output.out or output.err).rstrip(), style="plain" if not output.code else "bad")
        return
    if is_joined(chat.session):
        # Only the process that has the session open has its history in memory, but the command
        # reads it from the disk.
        output = await chat.run_hilum(["diff", "--session", chat.session.id, *words])
        chat.say((output.out or output.err).rstrip(), style="plain" if not output.code else "bad")
        return
    only_summary = "--stat" in words
    scope, name = parse_unit([word for word in words if word != "--stat"], "diff")
    history = find_history(chat.session)
    try:
        diffs = await history.diff(scope, name)
    except UsageError as error:
        # If the user named no unit, a missing change is not an error.
        if words or error.code != E_NOT_FOUND:
            raise
        diffs = []
    if not diffs:
        chat.say("No files were changed.", style="dim")
        return
    if not words:
        await say_prompt(chat, history, diffs)
    if only_summary:
        chat.say("\n".join(describe_diff(diff) for diff in diffs))
    else:
        say_diffs(chat, diffs)


async def say_prompt(chat: Chat, history: FileHistory, diffs: Sequence[FileDiff]) -> None:
    """Show which prompt changed files, unless this is uncertain.

    Args:
        chat: The conversation.
        history: The history of the session's files.
        diffs: The changes by the last run that changed files.
    """
    prompts = [entry for entry in chat.view.entries if isinstance(entry, Prompt) and entry.run]
    changes = await history.summarize_runs([prompt.run for prompt in prompts])
    paths = {diff.path for diff in diffs}
    for prompt in reversed(prompts):
        changed = changes.get(prompt.run)
        if changed is None or not changed.files:
            continue
        # The changes of a later run may have been undone.
        if paths <= set(changed.files) and prompt.text:
            chat.say(f"By the prompt: {first_line(prompt.typed or prompt.text)}", style="dim")
            return


def parse_unit(words: Sequence[str], command: str) -> tuple[HistoryScope, str]:
    """Return the unit that a command's arguments name; the last run by default.

    Args:
        words: The arguments without options.
        command: Name of the command, for errors.

    Raises:
        UsageError: The arguments do not name a unit.
    """
    if not words:
        return "run", ""
    scope, *rest = words
    if scope not in SCOPES:
        # An id alone is a run's id, the kind of id that hilum shows most often.
        scope, rest = "run", list(words)
    if len(rest) > 1 or (rest[:1] and rest[0].startswith("-")):
        raise UsageError(
            f"/{command} takes the kind of unit and its id.",
            code=E_BAD_ARGS,
            hint=f"/{command} call ID. Kinds: {', '.join(SCOPES)}. /diff --list shows the ids.",
        )
    return cast(HistoryScope, scope), rest[0] if rest else ""


def describe_diff(diff: FileDiff, *, is_planned: bool = False) -> str:
    """Return a one-line description of a file change: its kind, path and number of lines.

    Args:
        diff: The change.
        is_planned: Whether an undo that has not happened yet would make the change.
    """
    details = f" (+{diff.added} −{diff.removed})" if diff.diff else ""
    if diff.note:
        details += f" [{diff.note}]"
    what = PLANNED[diff.what] if is_planned else diff.what
    return f"{what} {diff.path}{details}"


def say_diffs(chat: Chat, diffs: Sequence[FileDiff], *, is_planned: bool = False) -> None:
    """Show file changes as colored diffs.

    Args:
        chat: The conversation.
        diffs: The changes.
        is_planned: Whether an undo that has not happened yet would make the changes.
    """

    def make_rows(width: int, theme: Theme) -> list[str]:
        rows = []
        for diff in diffs:
            described = describe_diff(diff, is_planned=is_planned)
            title = cut(escape_text(described), width)
            rows.append(theme.paint(title, "bold"))
            rows += diff_rows(
                diff.diff, width=width, theme=theme, header=False, max_rows=MAX_DIFF_ROWS
            )
        return rows

    chat.say_rows(make_rows)


# --- what /undo, /redo and /rewind share ----------------------------------------------------------


async def confirm_undo(
    chat: Chat, preview: UndoPreview, verb: str, *, only_preview: bool = False
) -> bool:
    """Show what an undo will change, and return whether the user agrees.

    Args:
        chat: The conversation.
        preview: What the undo would do.
        verb: ``Undo`` or ``Redo``.
        only_preview: Whether to show the preview only.
    """
    say_diffs(chat, preview.diffs, is_planned=True)
    if only_preview:
        say_limits(chat, preview)
        return False
    question = f"{verb} these changes in {count(len(preview.diffs), 'file')}?"
    agreed = await chat.confirm(question, yes=verb, details=describe_limits(preview))
    if not agreed:
        chat.say("Nothing was changed.", style="dim")
    return agreed


async def carry_out_undo(chat: Chat, scope: HistoryScope, name: str, preview: UndoPreview) -> None:
    """Undo changes whose preview the user saw, and say how to get them back."""
    history = find_history(chat.session)
    # Files that the preview skips are skipped; the user saw them before agreeing.
    await history.undo(scope, name, keep_going=bool(preview.skipped))
    done = "Redone" if scope == "undo" else "Undone"
    back = "/undo undoes it again" if scope == "undo" else "/redo restores the changes"
    chat.say(f"{done}: {list_names([diff.path for diff in preview.diffs])}. {back}.")


def say_limits(chat: Chat, preview: UndoPreview) -> None:
    """Show what an undo does not restore."""
    limits = describe_limits(preview)
    if limits:
        chat.say(limits, style="warning")


def describe_limits(preview: UndoPreview) -> str:
    """Return lines about the files that an undo merges, skips or does not know."""
    lines = []
    if preview.merged:
        lines.append(f"Changed again later, which will be kept: {list_names(preview.merged)}")
    for path, why in list(preview.skipped.items())[:MAX_NAMED]:
        lines.append(f"Will be skipped: {path}: {why}")
    if len(preview.skipped) > MAX_NAMED:
        lines.append(f"… and {len(preview.skipped) - MAX_NAMED} more will be skipped")
    if preview.unrecorded:
        commands = list_names(preview.unrecorded)
        lines.append(f"Unknown, and will not be undone: the changes of {commands}")
    return "\n".join(lines)


def list_names(names: Sequence[str]) -> str:
    """Return a list of the first names, and the number of the other names."""
    listed = ", ".join(names[:MAX_NAMED])
    more = len(names) - MAX_NAMED
    return f"{listed} and {more} more" if more > 0 else listed


def count(number: int, noun: str) -> str:
    """Return a number with a noun that has a regular plural."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
