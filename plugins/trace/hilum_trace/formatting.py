"""Short texts about spans, for every view of a trace. None of them is escaped for a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from hilum.messages import Usage
from hilum_view import format_cost, format_duration

from hilum_trace.spans import PrefixBreak, Span, Wait

_KIND_NAMES = {
    "plugin_model": "model for",
    "queue": "queued",
    "order": "waits for",
    "approval": "waits for approval of",
    "question": "asks",
}
# Kinds whose names describe themselves.
_PLAIN = ("session", "turn", "tool")
_BREAK_TEXTS = {
    "run": "new run",
    "compaction": "compaction",
    "mode": "other mode",
    "model": "other model",
    "provider": "the provider's cache was lost",
}
_WAIT_TEXTS = {
    "model": "first chunk after",
    "retry": "waited to retry",
    "user": "waited for you",
    "order": "waited for other calls",
    "queue": "queued",
}
_MAX_ARGUMENTS = 120
_WORTH_SHOWING = 0.05  # seconds
_CONTAINERS = ("session", "agent", "run")
_WAITED_FOR: dict[Wait, str] = {
    "model": "for first chunks",
    "retry": "to retry",
    "user": "for you",
    "order": "for other calls",
}
# Waits that the span's own line or a line below it shows already.
_SHOWN_BELOW = {
    "approval": ("user",),
    "question": ("user",),
    "queue": ("queue",),
    "run": ("queue",),
    "order": ("order",),
}


def format_seconds(seconds: float) -> str:
    """Return a duration as text, with milliseconds below a second."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    return format_duration(seconds)


def make_title(span: Span) -> str:
    """Return what a span is, for example ``model a/b`` or ``turn 3``."""
    if span.kind in _PLAIN:
        return span.name
    kind = _KIND_NAMES.get(span.kind, span.kind)
    if span.kind == "hook":
        return f"hook {span.name} of {span.facts.get('plugin', '')}"
    return f"{kind} {span.name}"


def describe_usage(usage: Usage) -> str:
    """Return tokens, the cached share and the cost as text; empty if nothing was used."""
    if not usage.total:
        return ""
    cached = ""
    if usage.cached and usage.input:
        cached = f" ({usage.cached / usage.input:.0%} cached)"
    parts = [f"{_format_count(usage.input)} in{cached}", f"{_format_count(usage.output)} out"]
    cost = format_cost(usage)
    if cost:
        parts.append(cost)
    return ", ".join(parts)


def _describe_waits(waits: Mapping[Wait, float]) -> str:
    parts = []
    for wait, name in _WAITED_FOR.items():
        seconds = waits.get(wait, 0.0)
        if seconds >= _WORTH_SHOWING:
            parts.append(f"{format_seconds(seconds)} {name}")
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


def describe_break(found: PrefixBreak) -> str:
    """Return why a prompt does not continue the cached one."""
    text = _BREAK_TEXTS[found.cause]
    if found.changed:
        text += f": {', '.join(found.changed[:4])}"
        if len(found.changed) > 4:
            text += f" and {len(found.changed) - 4} more"
    if found.cached_before:
        text += f" (cached {found.cached_before:,} → {found.cached:,})"
    return text


def describe_details(
    span: Span, usage: Usage, waits: Mapping[Wait, float] | None = None
) -> list[str]:
    """Return the details of a span besides its name and duration.

    Args:
        span: The span.
        usage: The usage to show: that of the span with all its descendants.
        waits: The waits of the span with all its descendants, to show for what contains turns or
            calls.
    """
    details = []
    if span.kind == "tool":
        arguments = str(span.facts.get("arguments", ""))
        if len(arguments) > _MAX_ARGUMENTS:
            arguments = f"{arguments[: _MAX_ARGUMENTS - 1]}…"
        if arguments:
            details.append(arguments)
        ran = span.facts.get("ran")
        # The rest of the time passed before the tool ran, and while its result was checked.
        if ran is not None and span.seconds - ran > _WORTH_SHOWING:
            details.append(f"ran for {format_seconds(ran)}")
    used = describe_usage(usage)
    if used:
        details.append(used)
    if waits is not None and span.kind in _CONTAINERS:
        listed = _describe_waits(waits)
        if listed:
            details.append(f"waited: {listed}")
    hidden = _SHOWN_BELOW.get(span.kind, ())
    for wait, seconds in span.waits.items():
        if seconds >= 0.001 and wait not in hidden:
            details.append(f"{_WAIT_TEXTS[wait]} {format_seconds(seconds)}")
    if span.retries:
        failed = [attempt.error for attempt in span.attempts[:-1]]
        times = "attempt" if len(failed) == 1 else "attempts"
        details.append(f"{len(failed)} failed {times} ({', '.join(dict.fromkeys(failed))})")
    details += [f"cache break: {describe_break(found)}" for found in span.breaks]
    if span.kind == "approval" and "accepted" in span.facts:
        verdict = "approved" if span.facts["accepted"] else "denied"
        details.append(f"{verdict} by {span.facts.get('by', 'user')}")
    if span.error:
        details.append(_describe_error(span))
    return details
