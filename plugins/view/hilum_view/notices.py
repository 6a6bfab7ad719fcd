"""Creates the texts of notices from events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from hilum import events as ev
from hilum.errors import describe_fault

from hilum_view.entries import Level, NoticeKind
from hilum_view.formatting import changed_files, first_line

# Maximum length, in characters, of a plugin's note to the user.
MAX_SAID = 4_000
# Maximum number of files that a notice names.
MAX_NAMED = 8
COMPACTION_CAUSES = {
    "window": "to fit the model's window",
    "model": "to fit the window of another model",
    "too_long": "because the provider found it too long",
    "asked": "as you asked",
}

# What each approval policy does with calls that have effects.
POLICY_MEANINGS = {
    "ask_first": "asks before calls that change something, except those that rules allow",
    "auto": "runs calls without asking, except those for which rules require approval",
    "readonly": "denies all calls that do more than read",
}


class NoticeText(NamedTuple):
    """The text of a notice, without its position in the session."""

    about: NoticeKind
    text: str
    code: str = ""
    hint: str = ""
    level: Level = "warning"


def make_notice_text(event: ev.Event) -> NoticeText | None:
    """Return the notice for an event, or ``None`` if it needs no notice, like most events."""
    format_event = _FORMATTERS.get(type(event))
    if format_event is None:
        return None
    return format_event(event)


def describe_retry(event: ev.ModelFailed) -> str:
    """Return what hilum does about a failed model call; empty if it does nothing."""
    if event.action == "retry":
        return f"again in {event.wait:g} s"
    if event.action == "fallback":
        return f"continuing with {event.next}"
    return ""


def _approval_answered(event: ev.ApprovalAnswered) -> NoticeText | None:
    if event.accepted:
        return None
    return NoticeText("rejected", f"rejected: {first_line(event.reason or 'no reason given', 100)}")


def _model_failed(event: ev.ModelFailed) -> NoticeText | None:
    if event.action == "give_up":  # the end of the run reports this error
        return None
    text = first_line(event.message, 200)
    follows = describe_retry(event)
    if follows:
        text = f"{text}; {follows}"
    about: NoticeKind = "fallback" if event.action == "fallback" else "retry"
    return NoticeText(about, text, event.code, event.hint)


def _plugin_failed(event: ev.PluginFault) -> NoticeText:
    text = describe_fault(event.plugin, event.hook, first_line(event.error, 160))
    if event.switched_off and event.hook != "load":  # a plugin that was not loaded has no effect
        text += "; it is switched off"
    return NoticeText("plugin_failed", text)


def _user_needed(event: ev.UserNeeded) -> NoticeText:
    return NoticeText("user_needed", first_line(event.message, 200), event.code)


def _error(event: ev.ErrorRaised) -> NoticeText:
    return NoticeText("error", first_line(event.message, 200), event.code, event.hint)


def _compacted(event: ev.Compacted) -> NoticeText:
    if not event.upto and not event.thinned:
        return NoticeText("compacted", "the conversation could not be compacted", level="info")
    what = "older messages were replaced by a summary"
    if not event.upto:
        what = "old tool results were shortened"
    why = COMPACTION_CAUSES[event.cause]
    return NoticeText("compacted", f"{what} {why} (about {event.before:,} tokens before)")


def _session_changed(event: ev.SessionChanged) -> NoticeText | None:
    named = {"mode": event.mode, "model": event.model, "approval policy": event.approve}
    changed = [f"{name}: {value}" for name, value in named.items() if value is not None]
    if not changed:
        return None
    text = ", ".join(changed)
    meaning = POLICY_MEANINGS.get(event.approve or "", "")
    if meaning:
        text = f"{text} ({meaning})"
    return NoticeText("settings", text, level="info")


def _plugin_event(event: ev.PluginEvent) -> NoticeText | None:
    said = event.data.get("say")
    if isinstance(said, str):
        return NoticeText("said", said[:MAX_SAID], level="info")
    # Other file changes are shown with the calls that made them.
    if event.name == "files.changed" and event.data.get("tool") == "undo":
        return NoticeText("undo", _describe_undo(event.data), level="info")
    return None


def _describe_undo(data: dict[str, Any]) -> str:
    """Return which files an undo restored."""
    what = data.get("what")
    # The undo of an undo is a redo.
    is_redo = isinstance(what, str) and what.startswith("undo undo")
    done = "redone" if is_redo else "undone"
    paths = changed_files(data)
    # A folder that was created for a file is restored with it.
    parents = {path.rpartition("/")[0] for path in paths}
    names = [first_line(path, 100) for path in paths if path not in parents]
    if not names:
        return f"{done}: {first_line(what, 200)}" if isinstance(what, str) and what else done
    listed = ", ".join(names[:MAX_NAMED])
    more = len(names) - MAX_NAMED
    return f"{done}: {listed} and {more} more" if more > 0 else f"{done}: {listed}"


_FORMATTERS: dict[type[ev.Event], Callable[[Any], NoticeText | None]] = {
    ev.ApprovalAnswered: _approval_answered,
    ev.ModelFailed: _model_failed,
    ev.PluginFault: _plugin_failed,
    ev.UserNeeded: _user_needed,
    ev.ErrorRaised: _error,
    ev.Compacted: _compacted,
    ev.SessionChanged: _session_changed,
    ev.PluginEvent: _plugin_event,
}
