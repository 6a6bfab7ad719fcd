"""``/undo`` and ``/redo``: undo file changes, and undo an undo."""

from __future__ import annotations

from hilum import find_history
from hilum.services import HistoryScope

from hilum_terminal.chat_protocol import Chat
from hilum_terminal.slash_arguments import refuse_arguments, split_words
from hilum_terminal.slash_files import (
    carry_out_undo,
    confirm_undo,
    parse_unit,
    say_limits,
    say_prompt,
)
from hilum_terminal.slash_undo_call import undo_chosen_call


async def undo(chat: Chat, arguments: str) -> None:
    """Undo file changes, after a preview."""
    words = split_words(arguments)
    only_preview = "--dry-run" in words or "-n" in words
    words = [word for word in words if word not in ("--dry-run", "-n")]
    scope, name = parse_unit(words, "undo")
    if scope == "call" and not name:
        await undo_chosen_call(chat, only_preview=only_preview)
        return
    if scope == "session":
        scope, name = "since", "0"
    await undo_unit(chat, scope, name, only_preview=only_preview, names_prompt=not words)


async def redo(chat: Chat, arguments: str) -> None:
    """Undo the last undo, after a preview."""
    refuse_arguments("redo", arguments)
    await undo_unit(chat, "undo", "")


async def undo_unit(
    chat: Chat,
    scope: HistoryScope,
    name: str,
    *,
    only_preview: bool = False,
    names_prompt: bool = False,
) -> None:
    """Show what an undo would change, and carry out the undo if the user agrees.

    Args:
        chat: The conversation.
        scope: The kind of unit.
        name: The id of the unit; empty for the last one.
        only_preview: Whether to show the preview only.
        names_prompt: Whether to show which prompt made the changes.
    """
    history = find_history(chat.session)
    preview = await history.preview_undo(scope, name)
    verb = "Redo" if scope == "undo" else "Undo"
    if not preview.diffs:
        chat.say("Nothing would be changed.", style="dim")
        say_limits(chat, preview)
        if preview.skipped and not only_preview:
            # This records that nothing can be restored, and changes no file.
            await history.undo(scope, name, keep_going=True)
            again = "/redo" if scope == "undo" else "/undo"
            chat.say(f"The next {again} goes further back.", style="dim")
        return
    if names_prompt:
        await say_prompt(chat, history, preview.diffs)
    if await confirm_undo(chat, preview, verb, only_preview=only_preview):
        await carry_out_undo(chat, scope, name, preview)
