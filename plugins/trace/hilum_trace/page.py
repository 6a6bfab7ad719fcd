"""The trace of a session as one web page with a timeline, which opens without a network.

The page contains its library, its style and its data. Its policy runs only the scripts whose digests
it lists and loads nothing, so a text of the session that looks like markup does nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape
from importlib.resources import files
from typing import Any, get_args

from hilum_trace.formatting import describe_details, describe_usage, format_seconds, make_title
from hilum_trace.languages import (
    CHINESE,
    ENGLISH,
    START,
    TEXTS,
    Language,
    NumberedLanguage,
    cut_text,
    replace_marks,
)
from hilum_trace.redaction import change_texts
from hilum_trace.spans import Kind, Span, Trace
from hilum_trace.tree import MAX_SLOWEST, describe_unread, find_slowest

_KINDS: tuple[Kind, ...] = get_args(Kind)
# Texts are cut to this number of characters, so that the page of a long session stays small.
_MAX_NAME = 60
_MAX_DETAIL = 160
_MAX_LINE = 1_000
_LIBRARY = "vendor/vis-timeline/vis-timeline-graph2d"
_FAILED = 1
_OPEN = 2


def make_page(trace: Trace) -> str:
    """Return the page of a trace, from which secrets were already removed.

    The marks of ``NumberedLanguage`` are replaced in the texts of the trace.
    """
    change_texts(trace, replace_marks)
    library = _read(f"{_LIBRARY}.min.js")
    script = _read("view.js")
    style = _read(f"{_LIBRARY}.css") + _read("view.css")
    data = _make_data(trace)
    policy = (
        f"default-src 'none'; script-src {_digest(library)} {_digest(script)};"
        " style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    head = _make_head(trace, ENGLISH)
    title = escape(head[0])
    lines = "".join(f'<p class="faint">{escape(line)}</p>' for line in head[1:])
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<!-- This page contains vis-timeline, which has this license:
{_read("vendor/vis-timeline/LICENSE")}-->
<style>{style}</style></head><body>
<div id="head"><h1>{title}</h1>{lines}</div>
<div id="buttons"></div>
<p class="faint" data-text="Drag to move; zoom with Ctrl and the mouse wheel."></p>
<div id="timeline"></div>
<p id="hidden"></p>
<section id="details" aria-live="polite"></section>
<h2 data-text="Slowest calls, waits and hooks"></h2>
<div class="table" tabindex="0"><table><tbody id="slowest"></tbody></table></div>
<h2 data-text="Runs"></h2>
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


def _make_head(trace: Trace, t: Language) -> list[str]:
    """Return the title of the page and the lines below it."""
    parts = [
        str(trace.root.facts.get("workspace", "")),
        t("{count} events", count=f"{trace.events:,}"),
        format_seconds(trace.seconds(trace.root)),
        describe_usage(trace.totals()[0], t),
    ]
    title = t("Trace of {session}", session=trace.session or t("a session"))
    lines = [title, " · ".join(filter(None, parts)), *describe_unread(trace, t)]
    return [cut_text(line, _MAX_LINE) for line in lines]


def _make_data(trace: Trace) -> str:
    """Return the data of the page as JSON that can be part of a page."""
    totals = trace.totals()
    waits = trace.total_waits()
    title_language = NumberedLanguage(_MAX_NAME)
    detail_language = NumberedLanguage(_MAX_DETAIL)
    agents = {"": 0, "main": 0}
    names = ["main"]
    titles = {span.agent: span.name for span in trace.spans if span.kind == "agent"}
    rows: list[list[Any]] = []
    for span in trace.spans:
        if span.agent not in agents:
            agents[span.agent] = len(names)
            names.append(cut_text(titles.get(span.agent, span.agent), _MAX_NAME))
        title = make_title(span, title_language)
        details = describe_details(span, totals[span.id], waits[span.id], detail_language)
        texts = [_cut(title, _MAX_NAME)]
        texts += [_cut(detail, _MAX_DETAIL) for detail in details]
        rows.append([*_make_numbers(trace, span, agents[span.agent]), texts])
    data = {
        "origin": round(trace.root.start * 1000),
        "kinds": _KINDS,
        "agents": names,
        "spans": rows,
        "slowest": [span.id for span in find_slowest(trace, MAX_SLOWEST)],
        "texts": {"en": [*TEXTS], "zh": [*TEXTS.values()]},
        "head": {"en": _make_head(trace, ENGLISH), "zh": _make_head(trace, CHINESE)},
    }
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    # A text with `</script>` or `<!--` would otherwise end or change the element.
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _make_numbers(trace: Trace, span: Span, agent: int) -> list[int]:
    """Return the numbers that view.js reads of a span."""
    # The end is rounded and not the length, so that a turn ends where the next one begins.
    start = round((span.start - trace.root.start) * 1000)
    end = round((span.start + trace.seconds(span) - trace.root.start) * 1000)
    flags = 0
    if span.error:
        flags |= _FAILED
    if span.end is None and span.kind != "session":
        flags |= _OPEN
    return [
        _KINDS.index(span.kind),
        -1 if span.parent is None else span.parent,
        start,
        end - start,
        agent,
        flags,
    ]


def _cut(text: str, limit: int) -> str:
    """Return a text of the session that is not too long; numbered texts have been cut already."""
    return text if START in text else cut_text(text, limit)
