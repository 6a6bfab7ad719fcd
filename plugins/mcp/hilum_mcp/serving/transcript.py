"""Renders a session as Markdown."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hilum.command import make_code_block
from hilum.events import ApprovalAnswered, CallDone, Compacted, ModelAnswered, RunEnded, RunStarted

from hilum_mcp.serving.client_model import MODEL

if TYPE_CHECKING:
    from hilum import AssistantMessage
    from hilum.events import AnyEvent
    from hilum.store import SessionInfo

MAX_TRANSCRIPT = 2_000_000
MAX_RESULT = 20_000


def make_transcript(info: SessionInfo, events: Sequence[AnyEvent]) -> str:
    """Return the transcript of a session, turn by turn.

    Very long results are truncated. A very long transcript is shortened at the beginning.

    Args:
        info: The session's metadata from the store.
        events: All events of the session.
    """
    began = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.created))
    title = " ".join((info.title or info.id).split())
    state = _words(info.state)
    head = f"# {title}\n\n`{info.id}` · {began} · {info.events} events · {state}\n"
    arguments: dict[str, str] = {}
    parts = [_format_event(event, arguments) for event in events]
    body = "\n\n".join(filter(None, parts))
    if len(body) > MAX_TRANSCRIPT:
        left_out = len(body) - MAX_TRANSCRIPT
        body = f"… {left_out} earlier characters\n\n{body[-MAX_TRANSCRIPT:]}"
    return f"{head}\n{body}\n"


def _format_answer(message: AssistantMessage, agent: str) -> str:
    text = message.text.strip()
    if not text or message.model == MODEL:
        return ""
    return f"## {message.model or 'Model'}{agent}\n\n{text}"


def _format_event(event: AnyEvent, arguments: dict[str, str]) -> str:
    """Return an event as Markdown; empty for an event that is not shown.

    Args:
        event: The event.
        arguments: The arguments of the calls that have no result yet, by call ID. The mapping is
            updated.
    """
    agent = "" if event.agent in ("", "main") else f" ({event.agent})"
    match event:
        case RunStarted(text=text, message=message, repeats=repeats):
            if repeats is not None:
                arguments[repeats.call.id] = repeats.call.arguments
            quoted = (message.request or text).replace("\n", "\n> ")
            return f"## User{agent}\n\n> {quoted}"
        case ModelAnswered(message=message):
            arguments.update((call.id, call.arguments) for call in message.calls)
            return _format_answer(message, agent)
        case ApprovalAnswered():
            return _format_approval(event)
        case CallDone(result=result):
            return _format_call(event, arguments.pop(result.call_id, ""), agent)
        case Compacted():
            return "*The conversation was compacted here.*"
        case RunEnded(state=state, error=error):
            ending = f": {error}" if error else ""
            return f"*{_words(state)}{ending}*"
    return ""


def _format_approval(event: ApprovalAnswered) -> str:
    answer = "approved" if event.accepted else "not approved"
    reason = f": {event.reason}" if event.reason else ""
    return f"*{answer} by {event.by}{reason}*"


def _format_call(event: CallDone, arguments: str, agent: str) -> str:
    result = event.result
    text = result.text
    if len(text) > MAX_RESULT:
        left_out = len(text) - MAX_RESULT
        text = f"{text[:MAX_RESULT]}\n… {left_out} more characters"
    title = f"**{result.name}**{agent} · {result.code or 'ok'}"
    return f"{title}\n\n{make_code_block(arguments, 'json')}\n\n{make_code_block(text)}"


def _words(state: str) -> str:
    return state.replace("_", " ")
