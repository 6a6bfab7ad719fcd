"""Traces for other programs: as JSON, and as a profile for speedscope."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hilum.messages import Usage

from hilum_trace.formatting import make_title
from hilum_trace.spans import Span, Trace, Wait

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def make_json(trace: Trace) -> str:
    """Return the trace as JSON text in ASCII, which no terminal interprets."""
    totals = trace.totals()
    waits = trace.total_waits()
    data = {
        "session": trace.session,
        "events": trace.events,
        "unknown": trace.unknown,
        "damaged": trace.damaged,
        "spans": [_describe(trace, span, totals[span.id], waits[span.id]) for span in trace.spans],
    }
    # JSON does not escape DEL.
    return json.dumps(data, indent=1).replace("\x7f", "\\u007f")


def _describe(trace: Trace, span: Span, total: Usage, waits: dict[Wait, float]) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(span)
    data["seconds"] = round(trace.seconds(span), 6)
    data["cached_share"] = span.cached_share
    data["total"] = msgspec.to_builtins(total)
    data["total_waits"] = waits
    return data


def make_speedscope(trace: Trace) -> str:
    """Return the trace in the file format of speedscope, version 1.

    There is a profile for the session and one for each sub-agent. Calls that ran in parallel to
    others are in further profiles, because the spans of a profile must be nested.
    """
    frames: dict[str, int] = {}
    profiles = []
    for name, spans in _split_lanes(trace):
        events = [_convert(event, frames) for event in _nest(trace, spans)]
        end = max(event["at"] for event in events)
        profile = {"type": "evented", "name": name, "unit": "seconds", "startValue": 0}
        profiles.append({**profile, "endValue": end, "events": events})
    data = {
        "$schema": _SCHEMA,
        "name": f"hilum session {trace.session}",
        "exporter": "hilum-trace",
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": name} for name in frames]},
        "profiles": profiles,
    }
    return json.dumps(data)


_Event = tuple[str, str, float]
"""``O`` or ``C``, the name of the frame, and the seconds since the session began."""


def _convert(event: _Event, frames: dict[str, int]) -> dict[str, Any]:
    kind, name, at = event
    return {"type": kind, "frame": frames.setdefault(name, len(frames)), "at": at}


def _split_lanes(trace: Trace) -> list[tuple[str, list[Span]]]:
    """Return the names and spans of the profiles.

    A span that overlaps with an earlier sibling begins a profile or continues one that is free.
    """
    children = trace.children()
    lanes: list[tuple[str, list[Span]]] = []
    # When the last span of each additional profile ends.
    ends: list[float] = []
    # Begin with the session and continue with the spans that do not fit into its profile.
    waiting = [(trace.root, "session")]
    while waiting:
        top, name = waiting.pop(0)
        lane: list[Span] = []
        if name == "parallel calls":
            lane, number = _find_lane(lanes, ends, trace, top)
            name = f"parallel calls {number}"
        if not lane:
            lanes.append((name, lane))
        stack = [top]
        while stack:
            span = stack.pop()
            lane.append(span)
            fitting = []
            end = span.start
            for child in children[span.id]:
                if child.kind == "agent":
                    waiting.append((child, f"agent {child.name}"))
                elif child.start < end:
                    waiting.append((child, "parallel calls"))
                else:
                    fitting.append(child)
                    end = child.start + trace.seconds(child)
            stack += reversed(fitting)
    return lanes


def _find_lane(
    lanes: list[tuple[str, list[Span]]], ends: list[float], trace: Trace, top: Span
) -> tuple[list[Span], int]:
    """Return the first additional profile that is free when a span begins, and its number."""
    end = top.start + trace.seconds(top)
    for number, known in enumerate(ends, 1):
        if known <= top.start:
            ends[number - 1] = end
            wanted = f"parallel calls {number}"
            return next(spans for name, spans in lanes if name == wanted), number
    ends.append(end)
    return [], len(ends)


def _nest(trace: Trace, spans: list[Span]) -> list[_Event]:
    """Return the beginnings and ends of spans, each span within the one that it is part of."""
    origin = trace.root.start
    events: list[_Event] = []
    open_spans: list[tuple[Span, float]] = []
    now = 0.0

    def close() -> None:
        nonlocal now
        span, end = open_spans.pop()
        now = max(now, end)
        events.append(("C", make_title(span), round(now, 6)))

    for span in spans:
        while open_spans and open_spans[-1][0].id != span.parent:
            close()
        start = max(span.start - origin, now)
        end = max(span.start + trace.seconds(span) - origin, start)
        if open_spans:
            # A clock that was set back must not make a span leave the one around it.
            start = min(start, max(open_spans[-1][1], now))
            end = max(min(end, open_spans[-1][1]), start)
        now = start
        events.append(("O", make_title(span), round(now, 6)))
        open_spans.append((span, end))
    while open_spans:
        close()
    return events
