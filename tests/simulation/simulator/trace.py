"""A log as a reader understands it: one line an event."""

from __future__ import annotations

from collections.abc import Sequence

from hilum import events as ev

QUIET = (ev.StateChanged,)
WIDTH = 150


def lines(events: Sequence[ev.AnyEvent]) -> list[str]:
    """Describe events, one line each; changes of state are left out."""
    began = events[0].at if events else 0.0
    found = []
    for event in events:
        if isinstance(event, QUIET):
            continue
        who = event.agent if event.agent != "main" else ""
        found.append(f"{event.seq:5} {event.at - began:9.3f} {who:14} {_short(_describe(event))}")
    return found


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= WIDTH else f"{text[:WIDTH]} …"


def _describe(event: ev.AnyEvent) -> str:
    name = type(event).__name__
    match event:
        case ev.RunStarted(text=text) | ev.PromptQueued(text=text):
            return f"{name} {event.run}: {text}"
        case ev.ModelStarted(attempt=attempt, turn=turn):
            return f"{name} turn {turn}, attempt {attempt}, about {event.estimate} tokens"
        case ev.ModelFailed():
            return f"{name} {event.kind}: {event.message} → {event.action} {event.wait:g}"
        case ev.ModelAnswered(message=message):
            calls = ", ".join(
                f"{call.name}#{call.id}({call.arguments[:60]})" for call in message.calls
            )
            return f"{name} {message.stop}: {message.text[:50]!r} {calls}"
        case ev.CallStarted(call=call):
            return f"{name} {call.name}#{call.id} {call.arguments[:80]}"
        case ev.CallDone(result=result):
            return (
                f"{name} {result.name}#{result.call_id} {result.code or 'ok'}: {result.text[:100]}"
            )
        case ev.ApprovalAsked():
            return f"{name} {event.id} {event.call.name}#{event.call.id}: {event.reason}"
        case ev.ApprovalAnswered():
            return f"{name} {event.id} {'yes' if event.accepted else 'no'} by {event.by}, {event.remember}"
        case ev.RoundEnded():
            return f"{name} {'objected ' if event.objected else ''}{' | '.join(event.notes)}"
        case ev.Compacted():
            cut = f"upto {event.upto}, {len(event.thinned)} thinned, before {event.before}"
            return f"{name} {event.cause}: {cut}: {event.summary}"
        case ev.RunEnded():
            return f"{name} {event.run} {event.state} {event.code} {event.error} {event.text[:60]!r} {event.left}"
        case ev.PluginFault():
            return f"{name} {event.plugin}, {event.hook}: {event.error}{' (off)' if event.switched_off else ''}"
        case ev.PluginEvent():
            return f"{name} {event.name} {event.data}"
        case ev.AgentStarted():
            return f"{name} {event.agent} of {event.parent}"
        case ev.PromptFrozen():
            return f"{name} {event.cause}: {len(event.layers)} layers, {len(event.tools)} tools"
        case ev.SessionOpened():
            return name
    return repr(event)
