"""A session as text for people: turn by turn, on a terminal or as Markdown."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hilum.events import ApprovalAnswered, Event, ModelAnswered, RunEnded, RunStarted, Trimmed

from hilum_cli.faces import ending, happening
from hilum_cli.progress import CallView, Progress, duration, money, parsed, tokens
from hilum_cli.terminal import line
from hilum_cli.totals import Totals, total

if TYPE_CHECKING:
    from hilum.store import SessionInfo


def _head(info: SessionInfo) -> list[str]:
    began = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.created))
    parts = [info.id, info.workspace, began, f"{info.events} events", info.state.replace("_", " ")]
    if info.forked:
        return [*parts, f"forked from {info.forked}"]
    return parts


def _walk(events: Sequence[Event]) -> Iterator[tuple[Event, CallView | None]]:
    progress = Progress()
    for event in events:
        yield event, progress.apply(event)


def transcript(info: SessionInfo, events: Sequence[Event], *, full: bool = False) -> str:
    """Write a session for a terminal; the caller neutralises it.

    Args:
        info: What the store says of it.
        events: All its events.
        full: Whether arguments and results of tool calls are unfolded.
    """
    parts = [(info.title or "(no title)") + "\n" + " · ".join(_head(info))]
    for event, call in _walk(events):
        who = f"[{event.agent}] " if event.agent not in ("", "main") else ""
        if isinstance(event, RunStarted):
            parts.append(f"{who}> " + event.text.replace("\n", "\n> "))
        elif isinstance(event, ModelAnswered) and event.message.text.strip():
            parts.append(who + event.message.text.strip())
        elif isinstance(event, RunEnded):
            parts.append(who + f"── {_ended(event)}")
        elif call is not None and call.done:
            parts.append(who + (_unfolded(call) if full else _folded(call)))
        elif text := happening(event):
            parts.append(who + text)
    parts.append(summary(total(events)))
    return "\n\n".join(parts)


def summary(totals: Totals) -> str:
    """Return what a whole session has used, on one line."""
    runs = "1 run" if totals.runs == 1 else f"{totals.runs} runs"
    cost = money(totals.usage.cost) if totals.usage.cost is not None else ""
    facts = ["The whole session", runs, tokens(totals.usage) or "no tokens", cost]
    return " · ".join(fact for fact in facts if fact)


def _ended(event: RunEnded) -> str:
    if event.state == "completed":
        said = "completed"
    else:
        said = ending(event).replace("\n", " ")
    cost = money(event.usage.cost) if event.usage.cost is not None else ""
    facts = [
        "1 turn" if event.turns == 1 else f"{event.turns} turns",
        duration(event.seconds),
        tokens(event.usage),
        cost,
    ]
    return " · ".join([said, *(fact for fact in facts if fact)])


def _folded(call: CallView) -> str:
    first = call.summary(100)
    return f"{call.mark} {call.title(100)} ({duration(call.seconds)})" + (
        f"\n    {first}" if first else ""
    )


def _unfolded(call: CallView) -> str:
    data = parsed(call.call.arguments)
    if isinstance(data, dict):
        shown = json.dumps(data, ensure_ascii=False, indent=2)
    else:
        shown = str(data)
    text = f"{call.mark} {call.call.name} ({duration(call.seconds)})\n{shown}\n{call.text}".rstrip()
    return text.replace("\n", "\n    ")


def markdown(info: SessionInfo, events: Sequence[Event]) -> str:
    """Write a session as Markdown, nothing left out that was said.

    Results of tools are folded, and stay code.
    """
    parts = [
        f"# {line(info.title or info.id, 200)}",
        " · ".join(f"`{part}`" for part in _head(info)),
    ]
    for event, call in _walk(events):
        who = "" if event.agent in ("", "main") else f" (agent {event.agent})"
        if isinstance(event, RunStarted):
            parts.append(f"## User{who}\n\n" + _quote(event.text))
        elif isinstance(event, ModelAnswered) and event.message.text.strip():
            parts.append(
                f"## {event.message.model or 'Model'}{who}\n\n{event.message.text.strip()}"
            )
        elif call is not None and call.done:
            parts.append(_details(call))
        elif isinstance(event, RunEnded):
            parts.append(f"*{_ended(event)}*")
        elif isinstance(event, ApprovalAnswered | Trimmed) and (text := happening(event)):
            parts.append(f"*{text}*")
    parts.append(f"*{summary(total(events))}*")
    return "\n\n".join(parts) + "\n"


def _quote(text: str) -> str:
    return "> " + text.replace("\n", "\n> ")


def _details(call: CallView) -> str:
    data = parsed(call.call.arguments)
    if isinstance(data, dict):
        shown = json.dumps(data, ensure_ascii=False, indent=2)
    else:
        shown = str(data)
    state = call.code or "ok"
    summary = f"<summary>{call.call.name} · {state} · {duration(call.seconds)}</summary>"
    return f"<details>{summary}\n\n{_fence(shown, 'json')}\n\n{_fence(call.text)}\n\n</details>"


def _fence(text: str, language: str = "") -> str:
    """Put text into a code block that it cannot close."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{language}\n{text}\n{ticks}"
