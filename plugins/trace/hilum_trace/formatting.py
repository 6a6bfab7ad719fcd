"""Short texts about spans, for every view of a trace. None of them is escaped for a terminal."""

from __future__ import annotations

import os
from collections.abc import Mapping

from hilum.messages import Usage
from hilum_view import format_cost, format_duration

from hilum_trace.languages import ENGLISH, Language
from hilum_trace.spans import Kind, PartChange, PrefixBreak, Span, Wait

_TITLES: dict[Kind, str] = {
    "agent": "agent {name}",
    "run": "run {name}",
    "model": "model {name}",
    "plugin_model": "model for {name}",
    "compaction": "compaction {name}",
    "queue": "queued {name}",
    "order": "waits for {name}",
    "approval": "waits for approval of {name}",
    "question": "asks {name}",
}
# Names that hilum has written, and no model or user.
_OWN_NAMES = ("other calls", "continued run")
_BREAK_TEXTS = {
    "run": "new run",
    "compaction": "compaction",
    "mode": "other mode",
    "model": "other model",
    "provider": "the provider's cache was lost",
}
_CHANGE_TEXTS: dict[PartChange, str] = {
    "added": "{name} added",
    "removed": "{name} removed",
    "changed": "{name} changed",
}
_WAIT_TEXTS: dict[Wait, str] = {
    "model": "first chunk after {time}",
    "retry": "waited to retry {time}",
    "user": "waited for you {time}",
    "order": "waited for other calls {time}",
    "queue": "queued {time}",
    "down": "interrupted for {time}",
}
_MAX_ARGUMENTS = 120
_WORTH_SHOWING = 0.05  # seconds
_CONTAINERS = ("session", "agent", "run")
_WAITED_FOR: dict[Wait, str] = {
    "model": "{time} for first chunks",
    "retry": "{time} to retry",
    "user": "{time} for you",
    "order": "{time} for other calls",
}
# Waits that the span's own line or a line below it shows already.
_SHOWN_BELOW = {
    "approval": ("user",),
    "question": ("user",),
    "queue": ("queue",),
    "run": ("queue",),
    "order": ("order",),
}


def explain_no_sessions(folder: str) -> str:
    """Return a sentence for a folder without sessions, which may not exist."""
    if not os.path.isdir(folder):
        return f"The folder {folder} does not exist."
    return f"There are no sessions in {folder}."


def format_seconds(seconds: float) -> str:
    """Return a duration as text, with milliseconds below a second."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    return format_duration(seconds)


def make_title(span: Span, t: Language = ENGLISH) -> str:
    """Return what a span is, for example ``model a/b`` or ``turn 3``.

    Args:
        span: The span.
        t: The language.
    """
    if span.kind == "turn":
        turn = span.facts.get("turn")
        return t("turn") if turn is None else t("turn {turn}", turn=turn)
    if span.kind == "hook":
        return t("hook {name} of {plugin}", name=span.name, plugin=span.facts.get("plugin", ""))
    template = _TITLES.get(span.kind)
    if template is None:
        return span.name
    name = t(span.name) if span.name in _OWN_NAMES else span.name
    return t(template, name=name)


def describe_usage(usage: Usage, t: Language = ENGLISH) -> str:
    """Return tokens, the cached share and the cost as text; empty if nothing was used."""
    if not usage.total:
        return ""
    count = _format_count(usage.input)
    if usage.cached and usage.input:
        share = f"{usage.cached / usage.input:.0%}"
        parts = [t("{count} in ({share} cached)", count=count, share=share)]
    else:
        parts = [t("{count} in", count=count)]
    parts.append(t("{count} out", count=_format_count(usage.output)))
    cost = format_cost(usage)
    if cost:
        parts.append(cost)
    return ", ".join(parts)


def _describe_waits(waits: Mapping[Wait, float], t: Language) -> str:
    parts = []
    for wait, text in _WAITED_FOR.items():
        seconds = waits.get(wait, 0.0)
        if seconds >= _WORTH_SHOWING:
            parts.append(t(text, time=format_seconds(seconds)))
    return ", ".join(parts)


def _describe_error(span: Span) -> str:
    if not span.message:
        return span.error
    # The texts of results begin with their codes.
    if span.message.startswith(span.error):
        return span.message
    return f"{span.error}: {span.message}"


def _format_count(number: int) -> str:
    if number >= 999_950:
        return f"{number / 1_000_000:.1f}M"
    if number >= 1000:
        return f"{number / 1000:.1f}k"
    return str(number)


def describe_break(found: PrefixBreak, t: Language = ENGLISH) -> str:
    """Return why a prompt does not continue the cached one."""
    text = t(_BREAK_TEXTS[found.cause])
    if found.changed:
        parts = [
            t(_CHANGE_TEXTS[change], name=name) for name, change in [*found.changed.items()][:4]
        ]
        changed = ", ".join(parts)
        if len(found.changed) > 4:
            changed = t("{names} and {count} more", names=changed, count=len(found.changed) - 4)
        text = t("{why}: {changed}", why=text, changed=changed)
    if found.cached_before:
        before = f"{found.cached_before:,}"
        after = f"{found.cached:,}"
        text = t("{why} (cached {before} → {after})", why=text, before=before, after=after)
    return text


def describe_details(
    span: Span,
    usage: Usage,
    waits: Mapping[Wait, float] | None = None,
    t: Language = ENGLISH,
) -> list[str]:
    """Return the details of a span besides its name and duration.

    Args:
        span: The span.
        usage: The usage to show: that of the span with all its descendants.
        waits: The waits of the span with all its descendants, to show for what contains turns or
            calls.
        t: The language.
    """
    details = []
    if span.kind == "tool":
        details += _describe_call(span, t)
    used = describe_usage(usage, t)
    if used:
        details.append(used)
    if waits is not None and span.kind in _CONTAINERS:
        listed = _describe_waits(waits, t)
        if listed:
            details.append(t("waited: {waits}", waits=listed))
    hidden = _SHOWN_BELOW.get(span.kind, ())
    for wait, seconds in span.waits.items():
        if seconds >= 0.001 and wait not in hidden:
            details.append(t(_WAIT_TEXTS[wait], time=format_seconds(seconds)))
    if span.retries:
        details.append(_describe_attempts(span, t))
    details += [t("cache break: {why}", why=describe_break(found, t)) for found in span.breaks]
    if span.kind == "hook":
        if span.facts.get("cancelled"):
            details.append(t("cancelled"))
        if span.parent == 0:
            details.append(t("outside of runs"))
    if span.kind == "approval" and "accepted" in span.facts:
        text = "approved by {who}" if span.facts["accepted"] else "denied by {who}"
        details.append(t(text, who=span.facts.get("by", "user")))
    if span.error:
        details.append(_describe_error(span))
    return details


def _describe_call(span: Span, t: Language) -> list[str]:
    details = []
    arguments = str(span.facts.get("arguments", ""))
    if len(arguments) > _MAX_ARGUMENTS:
        arguments = f"{arguments[: _MAX_ARGUMENTS - 1]}…"
    if arguments:
        details.append(arguments)
    ran = span.facts.get("ran")
    # The rest of the time passed before the tool ran, and while its result was checked.
    if ran is not None and span.seconds - ran > _WORTH_SHOWING:
        details.append(t("ran for {time}", time=format_seconds(ran)))
    return details


def _describe_attempts(span: Span, t: Language) -> str:
    failed = [attempt.error for attempt in span.attempts[:-1]]
    codes = ", ".join(dict.fromkeys(failed))
    if len(failed) == 1:
        return t("1 failed attempt ({codes})", codes=codes)
    return t("{count} failed attempts ({codes})", count=len(failed), codes=codes)
