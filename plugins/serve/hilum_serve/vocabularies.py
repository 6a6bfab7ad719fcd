"""The vocabularies of event streams: kernel events as they are, or under the names of others.

``002`` has the names of desktop agents (``agent:tool-call`` …), ``003`` those of chat servers
(``tool_call``, ``final_answer`` …). Both are renamings: one fact is one event, in the same order,
with the sequence number of the kernel's event. What a vocabulary has no name for is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import msgspec
from hilum import events as ev
from hilum.messages import ToolCall

Vocabulary = Literal["events", "view", "002", "003"]
VOCABULARIES: tuple[Vocabulary, ...] = get_args(Vocabulary)
Facts = list[dict[str, Any]]
POLICY_EVENTS = {"rules.policy_check": "policy_check", "rules.policy_reload": "policy_reload"}


def parse_arguments(text: str) -> Any:
    """Return the arguments of a call as data; as text if they are not JSON."""
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return text


def rename_for_desktop(event: ev.Event) -> Facts:
    """Return an event in the vocabulary ``002``."""
    return _rename(event, _DESKTOP)


def rename_for_chat(event: ev.Event) -> Facts:
    """Return an event in the vocabulary ``003``."""
    return _rename(event, _CHAT)


def rename_delta_for_desktop(delta: ev.Delta, at: int) -> dict[str, Any] | None:
    """Return a piece of output in the vocabulary ``002``."""
    base = {"seq": delta.seq, "agent_id": delta.agent, "offset": at}
    if delta.kind == "text":
        return {"type": "agent:stream-content", **base, "content": delta.text}
    if delta.kind == "arguments":
        return {
            "type": "agent:tool-call",
            **base,
            "toolCallId": delta.call_id,
            "tool": delta.tool,
            "state": "streaming",
            "argsDelta": delta.text,
        }
    if delta.kind == "output":
        chunk = {"toolCallId": delta.call_id, "chunk": delta.text, "chunk_type": "tool_call"}
        return {"type": "agent:output", **base, **chunk}
    return {"type": "thinking", **base, "content": delta.text}


def rename_delta_for_chat(delta: ev.Delta, at: int) -> dict[str, Any] | None:
    """Return a piece of output in the vocabulary ``003``, which streams only thoughts and text."""
    names = {"thinking": "thinking", "text": "answer_delta"}
    if delta.kind not in names:
        return None
    return {
        "event": names[delta.kind],
        "seq": delta.seq,
        "agent": delta.agent,
        "offset": at,
        "content": delta.text,
    }


def _rename(event: ev.Event, table: dict[type[ev.Event], Callable[[Any], Facts]]) -> Facts:
    rename = table.get(type(event))
    if rename is None:
        return []
    facts = rename(event)
    for fact in facts:
        fact["seq"] = event.seq
    return facts


# --- 002 ------------------------------------------------------------------------------------------


def _call_facts(call: ToolCall, state: str, agent: str) -> dict[str, Any]:
    return {
        "type": "agent:tool-call",
        "agent_id": agent,
        "toolCallId": call.id,
        "tool": call.name,
        "args": parse_arguments(call.arguments),
        "state": state,
    }


def _desktop_state(event: ev.StateChanged) -> Facts:
    return [
        {
            "type": "agent:status",
            "agent_id": event.agent,
            "status": event.state,
            "previous": event.previous,
        }
    ]


def _desktop_answer(event: ev.ModelAnswered) -> Facts:
    content = {
        "type": "agent:stream-content",
        "agent_id": event.agent,
        "fullContent": event.message.text,
    }
    calls = [_call_facts(call, "pending", event.agent) for call in event.message.calls]
    return [content, *calls]


def _desktop_started(event: ev.CallStarted) -> Facts:
    return [_call_facts(event.call, "executing", event.agent)]


def _desktop_asked(event: ev.ApprovalAsked) -> Facts:
    return [
        {
            "type": "agent:approval-required",
            "agent_id": event.agent,
            "approvalId": event.id,
            "toolCallId": event.call.id,
            "tool": event.call.name,
            "args": parse_arguments(event.call.arguments),
            "risk": event.risk,
            "reason": event.reason,
        }
    ]


def _desktop_answered(event: ev.ApprovalAnswered) -> Facts:
    answer = "accept" if event.accepted else "reject"
    return [{"type": "agent:approve", "approvalId": event.id, "decision": answer, "by": event.by}]


def _desktop_done(event: ev.CallDone) -> Facts:
    result = event.result
    base = {
        "agent_id": event.agent,
        "toolCallId": result.call_id,
        "tool": result.name,
        "duration": event.seconds,
    }
    if result.code:
        return [{"type": "agent:tool-error", **base, "code": result.code, "error": result.text}]
    return [{"type": "agent:tool-completed", **base, "result": result.text}]


def _desktop_ended(event: ev.RunEnded) -> Facts:
    return [
        {
            "type": "agent:complete",
            "agent_id": event.agent,
            "runId": event.run,
            "status": event.state,
            "text": event.text,
            "code": event.code,
            "error": event.error,
        }
    ]


def _log(event: ev.Event, level: str, message: str) -> Facts:
    return [
        {
            "type": "agent:log",
            "agent_id": event.agent,
            "level": level,
            "message": message,
            "timestamp": event.at,
        }
    ]


def _desktop_prompt(event: ev.RunStarted) -> Facts:
    start = {
        "type": "agent:start",
        "agent_id": event.agent,
        "runId": event.run,
        "userMessage": event.text,
    }
    return [{**start, "modelId": event.model, "mode": event.mode}]


def _plugin_fact(event: ev.PluginEvent, key: str) -> Facts:
    name = POLICY_EVENTS.get(event.name, event.name)
    if name in POLICY_EVENTS.values():
        return [{key: name, **event.data}]
    say = event.data.get("say")
    if key == "type" and isinstance(say, str):
        return _log(event, "info", say)
    return []


_DESKTOP: dict[type[ev.Event], Callable[[Any], Facts]] = {
    ev.RunStarted: _desktop_prompt,
    ev.StateChanged: _desktop_state,
    ev.ModelAnswered: _desktop_answer,
    ev.CallStarted: _desktop_started,
    ev.ApprovalAsked: _desktop_asked,
    ev.ApprovalAnswered: _desktop_answered,
    ev.CallDone: _desktop_done,
    ev.RunEnded: _desktop_ended,
    ev.ModelFailed: lambda event: _log(event, "warning", f"{event.code}: {event.message}"),
    ev.ErrorRaised: lambda event: _log(event, "error", f"{event.code}: {event.message}"),
    ev.UserNeeded: lambda event: _log(event, "warning", event.message),
    ev.PluginFault: lambda event: _log(event, "warning", f"{event.plugin}: {event.error}"),
    ev.PluginEvent: lambda event: _plugin_fact(event, "type"),
}

# --- 003 ------------------------------------------------------------------------------------------


def _chat_thinking(event: ev.ModelStarted) -> Facts:
    return [{"event": "thinking", "agent": event.agent, "turn": event.turn, "model": event.model}]


def _chat_call(event: ev.CallStarted) -> Facts:
    return [
        {
            "event": "tool_call",
            "agent": event.agent,
            "id": event.call.id,
            "tool": event.call.name,
            "args": parse_arguments(event.call.arguments),
        }
    ]


def _chat_asked(event: ev.ApprovalAsked) -> Facts:
    call = {"id": event.call.id, "tool": event.call.name}
    args = parse_arguments(event.call.arguments)
    return [{"event": "approval_required", "approval": event.id, **call, "args": args}]


def _chat_result(event: ev.CallDone) -> Facts:
    result = event.result
    key = "error" if result.code else "result"
    return [
        {
            "event": "tool_result",
            "agent": event.agent,
            "id": result.call_id,
            "tool": result.name,
            key: result.text,
            "duration": event.seconds,
        }
    ]


def _chat_ended(event: ev.RunEnded) -> Facts:
    content = event.text or event.commentary
    return [
        {
            "event": "final_answer",
            "agent": event.agent,
            "content": content,
            "state": event.state,
            "error": event.error,
        }
    ]


_CHAT: dict[type[ev.Event], Callable[[Any], Facts]] = {
    ev.ModelStarted: _chat_thinking,
    ev.CallStarted: _chat_call,
    ev.ApprovalAsked: _chat_asked,
    ev.CallDone: _chat_result,
    ev.RunEnded: _chat_ended,
    ev.PluginEvent: lambda event: _plugin_fact(event, "event"),
}
