"""The trace of a session as one web page with a timeline, which opens without a network.

The page contains its library, its style and its data. Its policy runs only the scripts whose digests
it lists and loads nothing, so a text of the session that looks like markup does nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from html import escape
from importlib.resources import files
from typing import Any, get_args

from hilum_trace.formatting import describe_details, describe_usage, format_seconds, make_title
from hilum_trace.spans import Kind, Span, Trace
from hilum_trace.tree import MAX_SLOWEST, describe_unread, find_slowest

_KINDS: tuple[Kind, ...] = get_args(Kind)
# Texts are cut to this number of characters, so that the page of a long session stays small.
_MAX_NAME = 60
_MAX_DETAIL = 160
_LIBRARY = "vendor/vis-timeline/vis-timeline-graph2d"
_FAILED = 1
_OPEN = 2


def make_page(trace: Trace, redact: Callable[[str], str] = str) -> str:
    """Return the page.

    Args:
        trace: The trace.
        redact: Replaces secrets in the texts of the session.
    """
    library = _read(f"{_LIBRARY}.min.js")
    script = _read("view.js")
    style = _read(f"{_LIBRARY}.css") + _read("view.css")
    data = redact(_make_data(trace))
    policy = (
        f"default-src 'none'; script-src {_digest(library)} {_digest(script)};"
        " style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    title = escape(redact(f"Trace of {trace.session or 'a session'}"))
    notes = "".join(
        f'<p class="faint">{escape(redact(line))}</p>' for line in describe_unread(trace)
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<!-- This page contains vis-timeline, which has this license:
{_read("vendor/vis-timeline/LICENSE")}-->
<style>{style}</style></head><body>
<h1>{title}</h1>
<p class="faint">{escape(redact(_describe_session(trace)))}</p>{notes}
<div id="buttons"></div>
<p class="faint">Drag to move; zoom with Ctrl and the mouse wheel.</p>
<div id="timeline"></div>
<p id="hidden"></p>
<section id="details" aria-live="polite"></section>
<h2>Slowest calls, waits and hooks</h2>
<div class="table" tabindex="0"><table><tbody id="slowest"></tbody></table></div>
<h2>Runs</h2>
<div class="table" tabindex="0"><table><tbody id="runs"></tbody></table></div>
<script type="application/json" id="data">{data}</script>
<script>{library}</script>
<script>{script}</script>
</body></html>
"""


def _read(name: str) -> str:
    return files("hilum_trace").joinpath("page_files", name).read_text(encoding="utf-8")


def _digest(script: str) -> str:
    """Return the source expression of a policy that allows this inline script."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _describe_session(trace: Trace) -> str:
    parts = [
        str(trace.root.facts.get("workspace", "")),
        f"{trace.events:,} events",
        format_seconds(trace.seconds(trace.root)),
        describe_usage(trace.totals()[0]),
    ]
    return " · ".join(filter(None, parts))


def _make_data(trace: Trace) -> str:
    """Return the data of the page as JSON that can be part of a page."""
    totals = trace.totals()
    waits = trace.total_waits()
    agents = {"": 0, "main": 0}
    names = ["main"]
    rows = []
    for span in trace.spans:
        if span.agent not in agents:
            agents[span.agent] = len(names)
            names.append(_cut(span.agent, _MAX_NAME))
        details = describe_details(span, totals[span.id], waits[span.id])
        rows.append(_make_row(trace, span, agents[span.agent], details))
    data = {
        "origin": round(trace.root.start * 1000),
        "kinds": _KINDS,
        "agents": names,
        "spans": rows,
        "slowest": [span.id for span in find_slowest(trace, MAX_SLOWEST)],
    }
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    # A text with `</script>` or `<!--` would otherwise end or change the element.
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _make_row(trace: Trace, span: Span, agent: int, details: list[str]) -> list[Any]:
    """Return what view.js reads of a span."""
    flags = 0
    if span.error:
        flags |= _FAILED
    if span.end is None and span.kind != "session":
        flags |= _OPEN
    return [
        _KINDS.index(span.kind),
        _cut(make_title(span), _MAX_NAME),
        -1 if span.parent is None else span.parent,
        round((span.start - trace.root.start) * 1000),
        round(trace.seconds(span) * 1000),
        agent,
        flags,
        [_cut(detail, _MAX_DETAIL) for detail in details],
    ]


def _cut(text: str, limit: int) -> str:
    # Surrogates, which a damaged log may contain, cannot be written to a file.
    text = text.encode(errors="replace").decode()
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
