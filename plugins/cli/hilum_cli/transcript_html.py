"""Formats a session as one HTML page that contains no script and loads no resources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from hilum.events import Event
from hilum_view import (
    Answer,
    AnyEntry,
    Card,
    Notice,
    Outcome,
    Prompt,
    SessionView,
    format_duration,
)

from hilum_cli.rendering import card_title, notice_line
from hilum_cli.terminal import line
from hilum_cli.transcript import (
    describe_outcome,
    describe_session,
    format_answer,
    format_arguments,
    summary,
    walk,
)

if TYPE_CHECKING:
    from hilum.store import SessionInfo

STYLE = """
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif;
  color: #1c1c1c; background: #fff }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .3rem 0;
  font: 14px/1.45 ui-monospace, monospace }
article { margin: 1rem 0 } h2 { font-size: .85rem; margin: 0; color: #666 }
.prompt { border-left: 4px solid #3a7; padding-left: .8rem }
.answer pre { font: inherit } .note { color: #666; font-style: italic }
details { margin: .4rem 0; padding: .2rem .8rem; background: #8881; border-radius: .4rem }
summary { cursor: pointer } .failed summary { color: #b00 }
.added { color: #070 } .removed { color: #b00 }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #151515 } h2, .note { color: #999 }
  .added { color: #7c7 } .removed, .failed summary { color: #f88 } }
"""
# This policy blocks all images and, in case any end up in the page, all scripts.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def render_html(info: SessionInfo, events: Sequence[Event]) -> str:
    """Return a session as an HTML page with its complete text.

    Args:
        info: The session's entry in the store.
        events: All its events.
    """
    return "\n".join(html_parts(info, events)) + "\n"


def html_parts(info: SessionInfo, events: Iterable[Event]) -> Iterator[str]:
    """Yield the lines of ``render_html`` while the events are read."""
    view = SessionView()
    title = escape(line(info.title or info.id, 200))
    head = escape(" · ".join(describe_session(info)))
    yield "<!doctype html>"
    yield '<html><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    yield '<meta name="viewport" content="width=device-width">'
    yield f"<title>{title}</title><style>{STYLE}</style></head><body>"
    yield f'<h1>{title}</h1><p class="note">{head}</p>'
    yield from filter(None, map(_render_entry, walk(view, events)))
    yield f'<p class="note">{escape(summary(view.totals))}</p></body></html>'


def _render_entry(entry: AnyEntry) -> str:
    """Return an entry as HTML; empty for an entry that is not shown."""
    who = "" if entry.agent in ("", "main") else f" (agent {entry.agent})"
    if isinstance(entry, Prompt):
        return "" if entry.retries else _article("prompt", f"User{who}", entry.request)
    if isinstance(entry, Answer):
        text = format_answer(entry)
        return _article("answer", f"{entry.model or 'Model'}{who}", text) if text else ""
    if isinstance(entry, Card):
        return _render_card(entry)
    if isinstance(entry, Outcome):
        return _note(describe_outcome(entry))
    return _render_notice(entry)


def _article(kind: str, title: str, text: str) -> str:
    return f'<article class="{kind}"><h2>{escape(title)}</h2><pre>{escape(text)}</pre></article>'


def _note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def _render_notice(notice: Notice) -> str:
    if notice.about not in ("rejected", "compacted"):
        return ""
    return _note(notice_line(notice))


def _render_card(card: Card) -> str:
    state = "failed" if card.code else "done"
    facts = [card_title(card, 100), card.code or "ok", format_duration(card.seconds)]
    body = f"<pre>{escape(format_arguments(card))}</pre>"
    if card.diff:
        body += f"<pre>{_render_diff(card.diff)}</pre>"
    body += f"<pre>{escape(card.user_text)}</pre>"
    title = escape(" · ".join(facts))
    return f'<details class="{state}"><summary>{title}</summary>{body}</details>'


def _render_diff(diff: str) -> str:
    lines = []
    for text in diff.splitlines():
        shown = escape(text)
        if text.startswith("+") and not text.startswith("+++"):
            shown = f'<span class="added">{shown}</span>'
        elif text.startswith("-") and not text.startswith("---"):
            shown = f'<span class="removed">{shown}</span>'
        lines.append(shown)
    return "\n".join(lines)
