"""A session as Markdown."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hilum.events import ApprovalAnswered, CallDone, ModelAnswered, RunEnded, RunStarted, Trimmed

from hilum_mcp.serving.client import MODEL

if TYPE_CHECKING:
    from hilum.events import AnyEvent
    from hilum.store import SessionInfo

LONGEST = 2_000_000
RESULT = 20_000


def transcript(info: SessionInfo, events: Sequence[AnyEvent]) -> str:
    """Write what was said and done, turn by turn.

    Results that are very long are cut, and so is the whole, at its beginning.

    Args:
        info: What the store says of the session.
        events: All its events.
    """
    began = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.created))
    title = " ".join((info.title or info.id).split())
    head = (
        f"# {title}\n\n`{info.id}` · {began} · {info.events} events ·"
        f" {info.state.replace('_', ' ')}\n"
    )
    parts = list[str]()
    calls = dict[str, str]()
    for event in events:
        who = "" if event.agent in ("", "main") else f" ({event.agent})"
        match event:
            case RunStarted(text=text):
                parts.append(f"## User{who}\n\n> " + text.replace("\n", "\n> "))
            case ModelAnswered(message=message):
                calls.update({call.id: call.arguments for call in message.calls})
                if message.text.strip() and message.model != MODEL:
                    parts.append(f"## {message.model or 'Model'}{who}\n\n{message.text.strip()}")
            case ApprovalAnswered(accepted=accepted, by=by, reason=reason):
                said = "approved" if accepted else "not approved"
                parts.append(f"*{said} by {by}{': ' + reason if reason else ''}*")
            case CallDone(result=result):
                text = result.text
                if len(text) > RESULT:
                    text = f"{text[:RESULT]}\n… {len(text) - RESULT} characters more"
                named = f"**{result.name}**{who} · {result.code or 'ok'}"
                parts.append(
                    f"{named}\n\n{_fence(calls.pop(result.call_id, ''), 'json')}\n\n{_fence(text)}"
                )
            case Trimmed():
                parts.append("*The conversation was cut here.*")
            case RunEnded(state=state, error=error):
                parts.append(f"*{state.replace('_', ' ')}{': ' + error if error else ''}*")
    body = "\n\n".join(parts)
    if len(body) > LONGEST:
        body = f"… {len(body) - LONGEST} characters before this\n\n{body[-LONGEST:]}"
    return f"{head}\n{body}\n"


def _fence(text: str, language: str = "") -> str:
    """Put text into a block of code that it cannot close."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{language}\n{text}\n{ticks}"
