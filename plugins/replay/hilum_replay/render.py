"""Renders answers as server-sent events in each vendor's stream format.

Each function yields the events of one answer as bytes; joined, they form the body of the response.
``number`` is part of the ids, so that the same exchange always has the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import msgspec
from hilum.errors import ModelError
from hilum.messages import AssistantMessage, Text, Thinking, ToolCall, Usage

from hilum_replay.model import split_text

_encode = msgspec.json.Encoder().encode
# A constant replaces the clock, so that the same exchange always has the same bytes.
CREATED = 1_700_000_000


def format_data(value: Any) -> bytes:
    """Return one event without a name."""
    return b"data: %b\n\n" % _encode(value)


def format_event(name: str, **fields: Any) -> bytes:
    """Return one event with a name, which its data repeats as the type."""
    return b"event: %b\n%b" % (name.encode(), format_data({"type": name, **fields}))


# --- OpenAI chat completions ----------------------------------------------------------------------


_CHAT_STOPS = {
    "end": "stop",
    "calls": "tool_calls",
    "length": "length",
    "refusal": "content_filter",
}


def render_chat(
    message: AssistantMessage, usage: Usage, model: str, number: int
) -> Iterator[bytes]:
    """Yield chunks of a chat completion, with the usage in the last one, then ``[DONE]``."""
    envelope = {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": model,
    }

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return format_data({**envelope, "choices": [choice]})

    # The role is sent once, in a separate chunk.
    yield chunk({"role": "assistant", "content": ""})
    calls = count()
    for part in message.parts:
        if isinstance(part, Text):
            deltas: Iterator[dict[str, Any]] = (
                {"content": piece} for piece in split_text(part.text)
            )
        elif isinstance(part, Thinking):
            deltas = _chat_thinking(part)
        else:
            deltas = _chat_call(part, next(calls))
        yield from map(chunk, deltas)
    yield chunk({}, _CHAT_STOPS[message.stop])
    # With `stream_options.include_usage`, the usage is sent in a last chunk without choices.
    last = {**envelope, "choices": [], "usage": _chat_usage(usage)}
    yield format_data(last)
    yield b"data: [DONE]\n\n"


def render_chat_whole(message: AssistantMessage, usage: Usage, model: str, number: int) -> bytes:
    """Return a chat completion for a request without streaming."""
    calls = []
    for part in message.calls:
        function = {"name": part.name, "arguments": part.arguments}
        calls.append({"id": part.id, "type": "function", "function": function})
    content: dict[str, Any] = {"role": "assistant", "content": message.text or None}
    thinking = "".join(part.text for part in message.parts if isinstance(part, Thinking))
    if thinking:
        content["reasoning_content"] = thinking
    if calls:
        content["tool_calls"] = calls
    choice = {"index": 0, "message": content, "finish_reason": _CHAT_STOPS[message.stop]}
    completion = {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": CREATED,
        "model": model,
        "choices": [choice],
        "usage": _chat_usage(usage),
    }
    return _encode(completion)


def _chat_thinking(part: Thinking) -> Iterator[dict[str, Any]]:
    """Yield reasoning under its original name, with details in the first piece."""
    details = part.vendor.get("reasoning_details")
    field = part.vendor.get("field") or ("reasoning" if details else "reasoning_content")
    extra = {"reasoning_details": details} if details else {}
    for piece in split_text(part.text) or [""]:
        yield {field: piece, **extra}
        extra = {}


def _chat_call(part: ToolCall, index: int) -> Iterator[dict[str, Any]]:
    """Yield a call: its id and name in the first piece, then only its index."""
    first, *rest = split_text(part.arguments) or [""]
    start: dict[str, Any] = {
        "index": index,
        "id": part.id,
        "type": "function",
        "function": {"name": part.name, "arguments": first},
    }
    # Gemini's OpenAI-compatible server sends thought signatures in `extra_content`.
    extra = part.vendor.get("extra_content")
    if extra:
        start["extra_content"] = extra
    yield {"tool_calls": [start]}
    for piece in rest:
        further = {"index": index, "function": {"arguments": piece}}
        yield {"tool_calls": [further]}


def _chat_usage(usage: Usage) -> dict[str, Any]:
    table: dict[str, Any] = {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
        "prompt_tokens_details": _cache_counts(usage),
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
    if usage.cost is not None:
        table["cost"] = usage.cost
    return table


def _cache_counts(usage: Usage) -> dict[str, int]:
    return {"cached_tokens": usage.cached, "cache_write_tokens": usage.cache_write}


# --- OpenAI responses -----------------------------------------------------------------------------


def render_responses(
    message: AssistantMessage, usage: Usage, model: str, number: int
) -> Iterator[bytes]:
    """Yield events of a response: items begin, grow and end, then ``response.completed``."""
    sequence = count()

    def event(name: str, **fields: Any) -> bytes:
        return format_event(name, sequence_number=next(sequence), **fields)

    reply: dict[str, Any] = {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": CREATED,
        "model": model,
    }
    begun = {
        **reply,
        "status": "in_progress",
        "output": [],
        "usage": None,
    }
    yield event("response.created", response=begun)
    yield event("response.in_progress", response=begun)
    output: list[dict[str, Any]] = []
    phase = ""
    for part in message.parts:
        if isinstance(part, Thinking) and part.vendor.get("phase") and not part.text:
            # Gateways store the phase of a message in an empty reasoning part before its text.
            phase = part.vendor["phase"]
            continue
        # Real ids also have these prefixes.
        name = f"{number}_{len(output)}"
        if isinstance(part, Text):
            is_refusal = message.stop == "refusal"
            steps = _text_steps(part, f"msg_{name}", is_refusal, phase)
            phase = ""
        elif isinstance(part, ToolCall):
            steps = _call_steps(part, f"fc_{name}")
        else:
            steps = _reasoning_steps(part, f"rs_{name}")
        index = len(output)
        for step, fields in steps:
            yield event(f"response.{step}", output_index=index, **fields)
        output.append(steps[-1][1]["item"])
    end: dict[str, Any] = {**reply, "status": "completed"}
    if message.stop == "length":
        end["status"] = "incomplete"
        end["incomplete_details"] = {"reason": "max_output_tokens"}
    end |= {"output": output, "usage": _responses_usage(usage)}
    yield event(f"response.{end['status']}", response=end)


_Steps = list[tuple[str, dict[str, Any]]]
"""The events of an item, of which the last contains the complete item."""


def _frame(start: dict[str, Any], steps: _Steps, item: dict[str, Any]) -> _Steps:
    """Return the steps of an item, surrounded by its first and last event."""
    framed: _Steps = [("output_item.added", {"item": start})]
    for name, fields in steps:
        framed.append((name, {"item_id": item["id"], **fields}))
    framed.append(("output_item.done", {"item": item}))
    return framed


def _text_steps(part: Text, id: str, refused: bool, phase: str) -> _Steps:
    content: dict[str, Any] = {"type": "output_text", "text": part.text, "annotations": []}
    if refused:
        content = {"type": "refusal", "refusal": part.text}
    kind = content["type"]
    field = "refusal" if refused else "text"
    item: dict[str, Any] = {
        "id": id,
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [content],
    }
    if phase:
        item["phase"] = phase
    place = {"content_index": 0}
    steps: _Steps = [("content_part.added", {**place, "part": {**content, field: ""}})]
    for piece in split_text(part.text):
        steps.append((f"{kind}.delta", {**place, "delta": piece}))
    steps.append((f"{kind}.done", {**place, field: part.text}))
    steps.append(("content_part.done", {**place, "part": content}))
    return _frame({**item, "status": "in_progress", "content": []}, steps, item)


def _reasoning_steps(part: Thinking, id: str) -> _Steps:
    """Return a summary, or the vendor's original item if the cassette contains it."""
    summary = {"type": "summary_text", "text": part.text}
    item: dict[str, Any] = {
        "id": id,
        "type": "reasoning",
        "summary": [summary] if part.text else [],
    }
    # The vendor's own item contains the encrypted reasoning and its id.
    item |= part.vendor.get("item", {})
    steps: _Steps = []
    if part.text:
        place = {"summary_index": 0}
        empty = {"type": "summary_text", "text": ""}
        steps.append(("reasoning_summary_part.added", {**place, "part": empty}))
        for piece in split_text(part.text):
            steps.append(("reasoning_summary_text.delta", {**place, "delta": piece}))
        steps.append(("reasoning_summary_text.done", {**place, "text": part.text}))
        steps.append(("reasoning_summary_part.done", {**place, "part": summary}))
    # An item begins without its encrypted content.
    start = {"id": item["id"], "type": "reasoning", "summary": []}
    return _frame(start, steps, item)


def _call_steps(part: ToolCall, id: str) -> _Steps:
    item = {
        "id": id,
        "type": "function_call",
        "call_id": part.id,
        "name": part.name,
    }
    steps: _Steps = []
    for piece in split_text(part.arguments):
        steps.append(("function_call_arguments.delta", {"delta": piece}))
    steps.append(("function_call_arguments.done", {"arguments": part.arguments}))
    start = {**item, "status": "in_progress", "arguments": ""}
    end = {**item, "status": "completed", "arguments": part.arguments}
    return _frame(start, steps, end)


def _responses_usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input,
        "input_tokens_details": _cache_counts(usage),
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total,
    }


# --- Anthropic messages ---------------------------------------------------------------------------


_ANTHROPIC_STOPS = {
    "end": "end_turn",
    "calls": "tool_use",
    "length": "max_tokens",
    "refusal": "refusal",
}


def render_anthropic(
    message: AssistantMessage, usage: Usage, model: str, number: int
) -> Iterator[bytes]:
    """Yield events of a message: blocks start, grow and stop, then ``message_stop``."""
    counts = {
        # The API counts only uncached tokens.
        "input_tokens": max(0, usage.input - usage.cached - usage.cache_write),
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cached,
        # At this point, the API has counted only the first token.
        "output_tokens": 1,
    }
    begun: dict[str, Any] = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": counts,
    }
    yield format_event("message_start", message=begun)
    # The API may send pings at any point in the stream, so readers must skip them.
    yield format_event("ping")
    for index, part in enumerate(message.parts):
        block, deltas = _block(part)
        yield format_event("content_block_start", index=index, content_block=block)
        for delta in deltas:
            yield format_event("content_block_delta", index=index, delta=delta)
        yield format_event("content_block_stop", index=index)
    delta = {"stop_reason": _ANTHROPIC_STOPS[message.stop], "stop_sequence": None}
    # The final counts replace those of the first event.
    final = {
        "output_tokens": usage.output,
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
    }
    yield format_event("message_delta", delta=delta, usage=final)
    yield format_event("message_stop")


def _block(part: Text | Thinking | ToolCall) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the start of a block and its deltas."""
    if isinstance(part, Text):
        texts = [{"type": "text_delta", "text": piece} for piece in split_text(part.text)]
        return {"type": "text", "text": ""}, texts
    if isinstance(part, ToolCall):
        pieces = split_text(part.arguments) or [""]
        # At the start, the input is always empty; the deltas together form its JSON.
        start = {
            "type": "tool_use",
            "id": part.id,
            "name": part.name,
            "input": {},
        }
        return start, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    redacted = part.vendor.get("redacted")
    if redacted:
        return {"type": "redacted_thinking", "data": redacted}, []
    deltas = [{"type": "thinking_delta", "thinking": piece} for piece in split_text(part.text)]
    # The signature is in the last delta of its block.
    signature = part.vendor.get("signature")
    if signature:
        deltas.append({"type": "signature_delta", "signature": signature})
    return {"type": "thinking", "thinking": "", "signature": ""}, deltas


# --- Gemini ---------------------------------------------------------------------------------------


# Gemini has no separate finish reason for calls.
_GEMINI_STOPS = {
    "end": "STOP",
    "calls": "STOP",
    "length": "MAX_TOKENS",
    "refusal": "SAFETY",
}


def render_gemini(
    message: AssistantMessage, usage: Usage, model: str, number: int
) -> Iterator[bytes]:
    """Yield chunks of generated content with whole calls; the last chunk has the finish reason."""
    envelope = {
        "usageMetadata": {
            "promptTokenCount": usage.input,
            "cachedContentTokenCount": usage.cached,
            # Thoughts are counted separately.
            "candidatesTokenCount": usage.output - usage.reasoning,
            "thoughtsTokenCount": usage.reasoning,
            "totalTokenCount": usage.total,
        },
        "modelVersion": model,
        "responseId": f"resp-{number}",
    }

    def chunk(part: dict[str, Any], **reason: str) -> bytes:
        content = {"role": "model", "parts": [part]}
        candidate: dict[str, Any] = {"content": content, "index": 0, **reason}
        return format_data({"candidates": [candidate], **envelope})

    for part in message.parts:
        yield from map(chunk, _gemini_parts(part))
    yield chunk({"text": ""}, finishReason=_GEMINI_STOPS[message.stop])


def _gemini_parts(part: Text | Thinking | ToolCall) -> Iterator[dict[str, Any]]:
    signature: dict[str, Any] = {}
    if not isinstance(part, Text) and part.vendor.get("thoughtSignature"):
        signature["thoughtSignature"] = part.vendor["thoughtSignature"]
    if isinstance(part, ToolCall):
        # The arguments are inserted unchanged, so that broken ones break the event, as
        # `bad_arguments` intends.
        arguments = msgspec.Raw(part.arguments.encode() or b"{}")
        call = {"id": part.id, "name": part.name, "args": arguments}
        yield {"functionCall": call, **signature}
        return
    thought = {"thought": True} if isinstance(part, Thinking) else {}
    for piece in split_text(part.text):
        yield {"text": piece, **thought}
    # The signature of a thought may be in a part without text.
    if signature:
        yield {"text": "", **signature}


# --- all formats ----------------------------------------------------------------------------------

_Renderer = Callable[[AssistantMessage, Usage, str, int], Iterator[bytes]]
_RENDERERS: dict[str, _Renderer] = {
    "chat": render_chat,
    "responses": render_responses,
    "anthropic": render_anthropic,
    "gemini": render_gemini,
}


def render(
    api: str, message: AssistantMessage, usage: Usage, model: str, number: int, checked: bool = True
) -> list[bytes]:
    """Return the events of an answer in a format.

    Args:
        api: ``chat``, ``responses``, ``anthropic`` or ``gemini``.
        message: The answer.
        usage: Its tokens.
        model: The model's name, as in the request.
        number: Part of the ids.
        checked: Whether to reject answers that the format cannot express, instead of sending a
            broken one.

    Raises:
        ModelError: Gemini sends arguments as JSON objects, but the answer's arguments are not an
            object.
    """
    if api == "gemini" and checked:
        _check_arguments(message)
    return list(_RENDERERS[api](message, usage, model, number))


def _check_arguments(message: AssistantMessage) -> None:
    for call in message.calls:
        try:
            msgspec.json.decode(call.arguments or "{}", type=dict[str, msgspec.Raw])
        except msgspec.DecodeError:
            message_text = (
                f"The arguments of the call {call.id} are not a JSON object, which Gemini's format"
                " cannot express."
            )
            hint = "Serve it in another format."
            raise ModelError(message_text, kind="request", status=400, hint=hint) from None
