"""Formats a session as readable text, turn by turn, for a terminal or as Markdown."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from hilum.command import make_code_block
from hilum.events import Event
from hilum_view import (
    Answer,
    AnyEntry,
    Card,
    Notice,
    Outcome,
    Prompt,
    SessionView,
    Totals,
    describe_end,
    format_cost,
    format_duration,
    format_tokens,
    parse_arguments,
)

from hilum_cli.rendering import card_mark, card_summary, card_title, notice_line
from hilum_cli.terminal import line

if TYPE_CHECKING:
    from hilum.store import SessionInfo

# What Markdown or HTML would take for markup on one line. An underscore within a word is none.
_MARKUP = re.compile(r"[\\`*\[\]<>&#|~$]|(?<![^\W_])_|_(?![^\W_])")


def describe_session(info: SessionInfo) -> list[str]:
    """Return the facts about a session that are shown above its transcript."""
    began = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.created))
    parts = [info.id, info.workspace, began, f"{info.events} events", info.state.replace("_", " ")]
    if info.forked:
        return [*parts, f"forked from {info.forked}"]
    return parts


def walk(view: SessionView, events: Iterable[Event]) -> Iterator[AnyEntry]:
    """Yield entries as they complete: prompts, answers, calls, notices and ends of runs."""
    for event in events:
        changes = view.apply(event)
        for entry in changes.entries:
            # An entry changes several times; it is shown once, in its final state.
            if isinstance(entry, Card) and (entry is not changes.card or not entry.ended):
                continue
            if isinstance(entry, Answer) and entry.state not in ("done", "cut_off"):
                continue
            yield entry


def transcript(info: SessionInfo, events: Sequence[Event], *, full: bool = False) -> str:
    """Format a session as text for a terminal; the caller must escape the text.

    Args:
        info: The session's entry in the store.
        events: All its events.
        full: Whether to show the arguments and results of tool calls in full.
    """
    view = SessionView()
    parts = [(info.title or "(no title)") + "\n" + " · ".join(describe_session(info))]
    for entry in walk(view, events):
        text = _as_text(entry, full=full)
        if text:
            who = f"[{entry.agent}] " if entry.agent not in ("", "main") else ""
            parts.append(who + text)
    parts.append(summary(view.totals))
    return "\n\n".join(parts)


def _as_text(entry: AnyEntry, *, full: bool) -> str:
    if isinstance(entry, Prompt):
        return "" if entry.retries else _quote(entry.request)
    if isinstance(entry, Answer):
        return format_answer(entry)
    if isinstance(entry, Outcome):
        return f"── {describe_outcome(entry)}"
    if isinstance(entry, Card):
        return _unfolded(entry) if full else _folded(entry)
    return notice_line(entry)


def format_answer(answer: Answer) -> str:
    """Return the text of an answer, and whether its end is missing."""
    end = "\n(cut off here)" if answer.state == "cut_off" else ""
    return str(answer.text).strip() + end


def summary(totals: Totals) -> str:
    """Return the total usage of a session on one line."""
    runs = "1 run" if totals.runs == 1 else f"{totals.runs} runs"
    used = format_tokens(totals.usage) or "no tokens"
    return _joined("The whole session", runs, used, format_cost(totals.usage))


def _joined(*facts: str) -> str:
    return " · ".join(fact for fact in facts if fact)


def describe_outcome(outcome: Outcome) -> str:
    """Return how a run ended, with its turns, duration, tokens and cost, on one line."""
    end = outcome.end
    turns = "1 turn" if end.turns == 1 else f"{end.turns} turns"
    return _joined(
        describe_end(end).replace("\n", " "),
        turns,
        format_duration(end.seconds),
        format_tokens(end.usage),
        format_cost(end.usage),
    )


def _folded(card: Card) -> str:
    head = f"{card_mark(card)} {card_title(card, 100)} ({format_duration(card.seconds)})"
    first = card_summary(card, 100)
    return f"{head}\n    {first}" if first else head


def _unfolded(card: Card) -> str:
    head = f"{card_mark(card)} {card.call.name} ({format_duration(card.seconds)})"
    text = f"{head}\n{format_arguments(card)}\n{card.user_text}".rstrip()
    return text.replace("\n", "\n    ")


def format_arguments(card: Card) -> str:
    """Return the arguments of a call as JSON; as the model wrote them if they are not JSON."""
    arguments = parse_arguments(card.call.arguments)
    if arguments is None:
        return card.call.arguments
    return json.dumps(arguments, ensure_ascii=False, indent=2)


def markdown(info: SessionInfo, events: Sequence[Event]) -> str:
    """Format a session as Markdown, with its complete text.

    Tool results are collapsed and remain code blocks.
    """
    return "\n\n".join(markdown_parts(info, events)) + "\n"


def markdown_parts(info: SessionInfo, events: Iterable[Event]) -> Iterator[str]:
    """Yield the paragraphs of ``markdown`` while the events are read."""
    view = SessionView()
    yield f"# {_escape(line(info.title or info.id, 200))}"
    yield " · ".join(f"`{part}`" for part in describe_session(info))
    yield from filter(None, map(_as_markdown, walk(view, events)))
    yield f"*{summary(view.totals)}*"


def _as_markdown(entry: AnyEntry) -> str:
    who = "" if entry.agent in ("", "main") else f" (agent {_escape(entry.agent)})"
    if isinstance(entry, Prompt):
        return "" if entry.retries else f"## User{who}\n\n" + _quote(entry.request)
    if isinstance(entry, Answer):
        text = format_answer(entry)
        return f"## {_escape(entry.model or 'Model')}{who}\n\n{text}" if text else ""
    if isinstance(entry, Card):
        return _details(entry)
    if isinstance(entry, Outcome):
        return f"*{describe_outcome(entry)}*"
    return _as_remark(entry)


def _as_remark(notice: Notice) -> str:
    if notice.about not in ("rejected", "compacted"):
        return ""
    return f"*{notice_line(notice)}*"


def _escape(text: str) -> str:
    """Return plain text as Markdown that shows it, on one line."""
    return _MARKUP.sub(r"\\\g<0>", text)


def _quote(text: str) -> str:
    return "> " + text.replace("\n", "\n> ")


def _details(card: Card) -> str:
    facts = f"{card.call.name} · {card.code or 'ok'} · {format_duration(card.seconds)}"
    arguments = make_code_block(format_arguments(card), "json")
    body = f"{arguments}\n\n{make_code_block(card.user_text)}"
    return f"<details><summary>{escape(facts)}</summary>\n\n{body}\n\n</details>"
