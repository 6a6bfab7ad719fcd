"""``/undo call``: lists the calls that changed files, and undoes one of them."""

from __future__ import annotations

import time
from collections.abc import Mapping

import attrs
from hilum import FileHistory, find_history
from hilum.services import CallChanges, UndoPreview
from hilum_view import Prompt, SessionView, first_line

from hilum_terminal.chat_protocol import Chat, Choice
from hilum_terminal.slash_files import (
    carry_out_undo,
    confirm_undo,
    describe_diff,
    describe_limits,
    list_names,
    say_limits,
)
from hilum_terminal.slash_rows import format_time

# Maximum number of calls to list. Each of them is planned, so that conflicts are known beforehand.
MAX_CALLS = 50
# Maximum number of characters of a prompt next to a call.
MAX_PROMPT = 40


@attrs.frozen
class CallToUndo:
    """A call that can be undone.

    Attributes:
        changes: What the call changed.
        preview: What undoing the call would do.
        prompt: The first line of the prompt that caused the call; empty if it is unknown.
    """

    changes: CallChanges
    preview: UndoPreview
    prompt: str


async def undo_chosen_call(chat: Chat, *, only_preview: bool) -> None:
    """Let the user choose a call, and undo that call only.

    A call that can be undone completely is undone at once, because the list showed what would
    change. Otherwise, hilum names the conflicts and asks.

    Args:
        chat: The conversation.
        only_preview: Whether to show what would change without changing it.
    """
    history = find_history(chat.session)
    chosen = await _choose_call(chat, history)
    if chosen is None:
        return
    name = chosen.changes.name
    # The files may have changed while the list was open.
    preview = await history.preview_undo("call", name)
    has_changed = preview != chosen.preview
    if not preview.diffs:
        chat.say("Nothing would be changed.", style="dim")
        say_limits(chat, preview)
        return
    was_shown = chat.has_keys and not has_changed
    is_complete = not preview.skipped and not preview.merged
    if only_preview or not was_shown or not is_complete:
        agreed = await confirm_undo(chat, preview, "Undo", only_preview=only_preview)
        if not agreed:
            return
    await carry_out_undo(chat, "call", name, preview)


async def _choose_call(chat: Chat, history: FileHistory) -> CallToUndo | None:
    """Return the call that the user chose; None if there is none or if the user pressed Esc."""
    calls = await history.list_calls(MAX_CALLS)
    prompts = _list_prompts(chat.view)
    now = time.time()
    choices = []
    for changes in calls:
        preview = await history.preview_undo("call", changes.name)
        call = CallToUndo(changes, preview, prompts.get(changes.run, ""))
        label = f"{changes.tool} {list_names(changes.files)}"
        choices.append(Choice(call, label, _describe_call(call, now), _describe_undo(call)))
    choice = await chat.choose(
        "Undo one call", choices, empty="No call of this conversation changed files."
    )
    if choice is None or not isinstance(choice.value, CallToUndo):
        return None
    return choice.value


def _list_prompts(view: SessionView) -> Mapping[str, str]:
    """Return the first line of each run's prompt."""
    prompts: dict[str, str] = {}
    for entry in view.entries:
        if isinstance(entry, Prompt) and entry.run and entry.text:
            prompts.setdefault(entry.run, first_line(entry.typed or entry.text))
    return prompts


def _describe_call(call: CallToUndo, now: float) -> str:
    """Return the lines, the time, the obstacles and the prompt of a call, for one row."""
    changes = call.changes
    # Conflicts come first, because a narrow row is cut at its end.
    facts = [f"+{changes.added} −{changes.removed}", format_time(changes.at, now)]
    if call.preview.skipped:
        facts.insert(0, "conflicts" if call.preview.diffs else "cannot be undone")
    elif call.preview.merged:
        facts.insert(0, "merged with later changes")
    if call.prompt:
        prompt = call.prompt
        facts.append(prompt if len(prompt) <= MAX_PROMPT else f"{prompt[: MAX_PROMPT - 1]}…")
    return " · ".join(facts)


def _describe_undo(call: CallToUndo) -> str:
    """Return what undoing a call will change, and what it will not restore."""
    preview = call.preview
    lines = []
    if call.prompt:
        lines.append(f"Prompt: {call.prompt}")
    if call.changes.what:
        lines.append(f"Call {call.changes.call}: {call.changes.what}")
    limits = describe_limits(preview)
    if limits:
        lines.append(limits)
    if not preview.diffs:
        lines.append("Undoing this call will change nothing.")
    lines += [describe_diff(diff, is_planned=True) for diff in preview.diffs]
    lines += [diff.diff for diff in preview.diffs if diff.diff]
    return "\n".join(lines)
